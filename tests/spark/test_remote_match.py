"""Places elsewhere on the surfaces of Spark: indexes of `match` in a bucket, sources that Spark cannot open."""

import pyarrow as pa
import pytest

from nearcast.errors import InvalidInput, NotSupported
from nearcast.pipeline.store.store import Store
from nearcast.spark import match
from nearcast.spark.stream import stream
from support.s3_server import s3, s3_environment

__all__ = ["s3", "s3_environment"]


SUBSCRIPTIONS = pa.table({"id": [1, 2], "kind": ["within", "within"], "query": ["coffee", "tea"]})


def test_indexes_in_a_bucket(spark, s3, s3_environment, tmp_path, monkeypatch):
    """Workers download them; nothing appears in the working folder."""
    monkeypatch.chdir(tmp_path)
    messages = spark.createDataFrame(
        pa.table({"id": [1, 2], "text": ["coffee", "milk"], "x": [1.0, 2.0], "y": [1.0, 2.0]})
    )
    subscriptions = spark.createDataFrame(SUBSCRIPTIONS)
    for name, value in s3_environment.items():
        # As spark.executorEnv does.
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    deliveries = match(messages, subscriptions, store=f"{s3}/indexes", space="plane")
    assert [(1, 1)] == [(row["subscription_id"], row["message_id"]) for row in deliveries.collect()]
    assert [] == list(tmp_path.iterdir())
    assert ["indexes"] == Store(f"{s3}/indexes").list()
    with pytest.raises(InvalidInput, match="is not empty"):
        match(messages, subscriptions, store=f"{s3}/indexes", space="plane")


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
@pytest.mark.parametrize("remote", ["messages", "checkpoint"])
def test_a_place_that_spark_cannot_open(spark, s3, tmp_path, scheme, remote):
    """A Spark without Hadoop's client for S3 is told before the first batch; nothing is begun."""
    (tmp_path / "messages").mkdir()
    places = {"messages": str(tmp_path / "messages"), "checkpoint": str(tmp_path / "checkpoint")}
    places[remote] = f"{s3.replace('s3:', f'{scheme}:')}/{remote}"
    with pytest.raises(NotSupported, match=rf"{places[remote]}: Spark cannot .*S3AFileSystem.*hadoop-aws") as raised:
        stream(subscriptions=SUBSCRIPTIONS, out=str(tmp_path / "out"), space="plane", spark=spark, **places)
    assert "\n" not in str(raised.value)
    assert ["messages"] == [path.name for path in tmp_path.iterdir()]
    assert [] == Store(s3).list()
