"""Jobs that write snapshots beside the batches, and the fair scheduler."""

from pyspark import TaskContext

from nearcast.spark.runner import SparkRunner


def write_tables(_):
    return TaskContext.get().getLocalProperty("spark.scheduler.pool")


def find_pool(_):
    return TaskContext.get().getLocalProperty("spark.scheduler.pool")


def test_snapshots_have_a_pool_of_the_fair_scheduler(spark):
    """A batch that begins after them gets slots all the same; the pool of the thread comes back."""
    assert "FAIR" == spark.sparkContext.getConf().get("spark.scheduler.mode")
    runner = SparkRunner(spark)
    assert [None] == runner.map(find_pool, [1])
    assert ["nearcast snapshots"] == runner.map(write_tables, [1])
    assert [None] == runner.map(find_pool, [1])
