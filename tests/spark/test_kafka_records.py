"""What is sent to Kafka, and what a Spark without the connector says; neither needs a broker."""

import json
import traceback
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812

from nearcast.errors import NearcastError, NotSupported
from nearcast.pipeline.batch.partition_deliveries import schema_of
from nearcast.pipeline.kafka_topics import KafkaOptions
from nearcast.pipeline.sinks import sink_of
from nearcast.pipeline.store.store import Store
from nearcast.spark.sources import InputFolders
from nearcast.spark.stream import Stream, stream

TOPIC = "kafka://127.0.0.1:1/deliveries"
SUBSCRIPTIONS = pa.table({"id": ["a"], "query": ["w1"]})


def deliveries(steps, ids):
    """Return a delivery of a `-` and one of a `+` for each step and id, in order."""
    rows = [(step, id_, change) for step in steps for id_ in ids for change in "-+"]
    plain = {"message_id": "m", "cause_id": "m", "score": 0.5, "rank": 1, "time": None, "version": "v1"}
    values = [
        {**plain, "subscription_id": id_, "change": change, "step": step, "arrival": 1} for step, id_, change in rows
    ]
    return pa.Table.from_pylist(values, schema_of("string", "string"))


@pytest.fixture
def small_pieces(spark):
    """Let Spark read files in pieces of a few lines, as it does with large ones."""
    settings = {"spark.sql.files.maxPartitionBytes": "700", "spark.sql.files.openCostInBytes": "0"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)


@pytest.mark.usefixtures("small_pieces")
def test_one_task_sends_the_rows_of_a_subscription_in_order(spark, tmp_path):
    """Files are read in pieces, and a subscription that moved within the batch is in two: its rows still meet."""
    sink = sink_of(TOPIC, Store(tmp_path / "K"))
    ids = [f"s{n}" for n in range(20)]
    # The second partition has earlier steps of some of the first one's subscriptions.
    outputs = [
        sink.stage(3, 0, [deliveries(range(95, 105), ids)]),
        sink.stage(3, 1, [deliveries(range(90, 95), ids[:5])]),
    ]
    records = sink.records(outputs)
    assert spark.read.text([sink.stager.store.url(each["staged"]) for each in outputs]).rdd.getNumPartitions() > 10
    found = {}
    for row in records.select(F.spark_partition_id().alias("task"), "key", "value").collect():
        found.setdefault(row.key, []).append((row.task, json.loads(row.value)["delivery_id"]))
    assert set(ids) == set(found)
    assert [] == [id_ for id_, rows in found.items() if len({task for task, _ in rows}) > 1]
    for id_, rows in found.items():
        steps = range(90 if id_ in ids[:5] else 95, 105)
        assert [f"{step}:1:{change}:{id_}" for step in steps for change in "-+"] == [name for _, name in rows]


@pytest.mark.parametrize(
    "given", [{"messages": TOPIC}, {"changes": TOPIC}, {"out": TOPIC}], ids=lambda each: next(iter(each))
)
def test_a_spark_without_the_connector_is_refused_before_the_first_batch(unconnected, tmp_path, given):
    (tmp_path / "in").mkdir()
    places = {"messages": str(tmp_path / "in"), "out": str(tmp_path / "out"), "space": "plane", **given}
    with pytest.raises(NotSupported, match=r"spark-sql-kafka-0-10_2\.13 4\.2\.0, ") as raised:
        stream(subscriptions=SUBSCRIPTIONS, checkpoint=tmp_path / "K", spark=unconnected, once=True, **places)
    assert str(raised.value).startswith(f"{TOPIC}: this Spark has no connector for Kafka")
    assert "\n" not in str(raised.value)
    assert not list((tmp_path / "K").rglob("*.json"))


class FailedQuery:
    """A query that ended with an error of Spark; what Kafka's clients say today holds no secret, so none can be had."""

    def awaitTermination(self, _):  # noqa: N802 - Spark's name
        raise StreamingQueryException("[STREAM_FAILED] KafkaException: expected [;], read [hush-hush]")


def test_what_spark_says_is_shown_without_secrets():
    options = KafkaOptions({"kafka.sasl.jaas.config": "Login required password=hush-hush more"})
    running = Stream(SimpleNamespace(conflict=lambda: None), InputFolders({}), None, kafka=options)
    running.query = FailedQuery()
    with pytest.raises(NearcastError, match=r"expected \[;\], read \[\[hidden\]\]") as raised:
        running.wait(1)
    assert "hush" not in "".join(traceback.format_exception(raised.value))
