"""Whole tables in and out of a hub: pandas, polars, geopandas and DuckDB, the same four steps with each.

Run it: python examples/tables.py (needs pandas, polars, geopandas and duckdb)
"""

import duckdb
import geopandas as gpd
import pandas as pd
import polars as pl
import pyarrow as pa
from shapely.geometry import box

from nearcast import Hub

#: Circles: a centre and a radius in metres. The query of the last row is wrong.
WISHES = {
    "id": ["anna", "bert", "cleo"],
    "query": ["ramen", "ramen OR coffee", "coffee AND"],
    "lon": [13.40, 13.45, 13.40],
    "lat": [52.52, 52.50, 52.52],
    "radius_m": [1000.0, 2000.0, 1000.0],
}
POSTS = {
    "id": [1, 2, 3],
    "text": ["Ramen for two", "Coffee, freshly ground", "Ramen again"],
    "lon": [13.401, 13.449, 13.44],
    "lat": [52.521, 52.501, 52.51],
}


def with_pandas() -> None:
    """DataFrames in; deliveries are a DataFrame, joined with the messages. A bad row is returned with its reason."""
    posts = pd.DataFrame(POSTS)
    hub = Hub("earth")
    rejected = hub.subscribe_many(pd.DataFrame(WISHES))
    deliveries = hub.publish_many(posts).to_pandas()

    print([(row.id, row.field) for row in rejected])
    joined = deliveries.merge(posts, left_on="message_id", right_on="id")
    print(joined[["subscription_id", "text"]].to_string(index=False, header=False))


def with_polars() -> None:
    """DataFrames in; polars reads deliveries as they are, by the Arrow C data interface."""
    posts = pl.DataFrame(POSTS)
    hub = Hub("earth")
    hub.subscribe_many(pl.DataFrame(WISHES))
    deliveries = pl.DataFrame(hub.publish_many(posts))

    per_subscription = deliveries.group_by("subscription_id", maintain_order=True).len("messages")
    print(per_subscription.rows())


def with_geopandas() -> None:
    """Polygons are regions and points are places; both frames say that they are in longitude and latitude."""
    districts = gpd.GeoDataFrame(
        {"id": ["west", "east"], "query": ["ramen", "coffee"]},
        geometry=[box(13.35, 52.48, 13.42, 52.55), box(13.42, 52.48, 13.50, 52.55)],
        crs="EPSG:4326",
    )
    places = gpd.points_from_xy(POSTS["lon"], POSTS["lat"], crs="EPSG:4326")
    posts = gpd.GeoDataFrame({"id": POSTS["id"], "text": POSTS["text"]}, geometry=places)
    hub = Hub("earth")
    hub.subscribe_many(districts)
    deliveries = hub.publish_many(posts).to_pandas()

    found = posts.merge(deliveries[["subscription_id", "message_id"]], left_on="id", right_on="message_id")
    for row in found.itertuples():
        print(row.subscription_id, row.text, row.geometry)


def with_duckdb() -> None:
    """Relations in, and deliveries in the FROM of a query, by the Arrow C data interface as well."""
    database = duckdb.connect()
    database.register("wishes", pa.table(WISHES))
    database.register("posts", pa.table(POSTS))
    hub = Hub("earth")
    hub.subscribe_many(database.sql("SELECT * FROM wishes WHERE id <> 'cleo'"))
    database.register("deliveries", hub.publish_many(database.sql("SELECT * FROM posts ORDER BY id")))

    found = database.sql("SELECT subscription_id, text FROM deliveries JOIN posts ON message_id = id ORDER BY id")
    print(found.fetchall())


if __name__ == "__main__":
    with_pandas()
    with_polars()
    with_geopandas()
    with_duckdb()
