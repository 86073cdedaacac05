"""Names of deliveries in DataFrames: those that the hub gives, for ids of either type."""

import pyarrow as pa
import pytest

from nearcast import Hub
from nearcast.spark import match


@pytest.mark.parametrize("kind", [pa.string(), pa.int64()], ids=["text", "integers"])
def test_names_on_request_are_those_of_the_hub(spark, kind):
    """Also where two messages share an id; without the option there is the key alone."""
    ids = pa.array([0, 1, 1, 2], pa.int64())
    messages = pa.table(
        {"id": ids.cast(kind), "text": ["tea"] * 4, "x": [1.0] * 4, "y": [1.0] * 4, "seq": [0, 1, 2, 3]}
    )
    subscriptions = pa.table({"id": pa.array([-7, 1], pa.int64()).cast(kind), "query": ["tea", "tea"]})
    hub = Hub("plane")
    hub.subscribe_many(subscriptions)
    expected = hub.publish_many(messages.drop_columns(["seq"])).to_table(delivery_ids=True)
    given = spark.createDataFrame(messages), spark.createDataFrame(subscriptions)
    names = match(*given, delivery_ids=True).toArrow()
    assert names.column_names == expected.column_names
    assert sorted(names["delivery_id"].to_pylist()) == sorted(expected["delivery_id"].to_pylist())
    plain = match(*given).toArrow()
    assert plain.column_names == expected.drop_columns("delivery_id").column_names
    order = [("step", "ascending"), ("subscription_id", "ascending")]
    assert plain.sort_by(order).to_pylist() == expected.drop_columns("delivery_id").sort_by(order).to_pylist()
