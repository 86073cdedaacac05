"""Names of columns in DataFrames that are nearly right: told, as they are of tables, before a job runs."""

import pyarrow as pa
import pytest

from nearcast import InvalidColumns, InvalidInput
from nearcast.spark import match
from nearcast.tables import Rejected


def test_names_that_are_nearly_right(spark):
    """`Query` would mean any words: it is warned of; an error lists the columns that are there; a path is no frame."""
    posts = spark.createDataFrame(pa.table({"id": [1], "text": ["tea"], "lon": [13.4], "lat": [52.5], "price": [3]}))
    circle = {"id": ["a"], "lon": [13.4], "lat": [52.5], "radius_m": [800.0]}
    wishes = spark.createDataFrame(pa.table({**circle, "Query": ["coffee"]}))
    told = "subscriptions: column Query is not used; did you mean query?"
    with pytest.warns(UserWarning, match="column Query is not used"):
        match(posts, wishes)
    rejected = Rejected()
    match(posts, wishes, rejected=rejected)
    assert rejected.warnings == [told]
    with pytest.raises(InvalidColumns, match="there are: id, lon, lat, txt, price; rename one: withColumnRenamed"):
        match(posts.withColumnRenamed("text", "txt"), wishes)
    with pytest.raises(InvalidInput, match="messages is 'posts/'; expected a DataFrame of Spark"):
        match("posts/", wishes)
    with pytest.raises(InvalidInput, match="subscriptions is None; expected a DataFrame of Spark"):
        match(posts, None)
