"""Jobs say what they do, and for which batch: Spark's UI and listeners show it."""

from typing import NamedTuple

from nearcast.spark.runner import SparkRunner, described


class Files(NamedTuple):
    batch: int


class Payload(NamedTuple):
    files: Files


def step_batch(payload):
    return payload.files.batch


def look_around(payload):
    return payload


def descriptions(spark):
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = [jobs.apply(at).description() for at in range(jobs.size())]
    return [each.get() for each in found if each.isDefined()]


def test_a_job_is_described_by_its_task_and_batch(spark):
    spark.sparkContext.setJobDescription("before")
    try:
        assert [12] == SparkRunner(spark).map(step_batch, [Payload(Files(12))])
        assert [3] == SparkRunner(spark).map(look_around, [3])
        assert "before" == spark.sparkContext.getLocalProperty("spark.job.description")
    finally:
        spark.sparkContext.setJobDescription(None)
    with described(spark, "nearcast batch 7: read rows"):
        spark.range(1).collect()
    expected = {"nearcast batch 12: step", "nearcast: look around", "nearcast batch 7: read rows"}
    assert expected <= set(descriptions(spark))
