"""Tables of other libraries: GeoDataFrames, polars, WKB and GeoArrow columns, dates, and FeatureCollections."""

from datetime import UTC, date, datetime

import geopandas as gpd
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from shapely.geometry import MultiPolygon, Point, Polygon, box, mapping

from nearcast import Hub, Message, Similar
from nearcast.errors import InvalidColumns, InvalidMessage
from nearcast.files import read_table

FIELD = box(0, 0, 10, 10)
SHAPES = [FIELD, MultiPolygon([box(20, 0, 30, 10), box(40, 0, 50, 10)])]
#: One message in each of the shapes, and one in none.
PLACES = [Point(5, 5), Point(45, 5), Point(15, 5)]


def frame(geometries, crs=4326, **columns):
    """Return a GeoDataFrame with ids from 1, whose index tells something else."""
    n = len(geometries)
    data = {"id": range(1, n + 1), **columns}
    return gpd.GeoDataFrame(data, geometry=list(geometries), crs=crs, index=range(100, 100 + n))


def messages(geometries=PLACES, crs=4326):
    return frame(geometries, crs, text=["ramen"] * len(geometries))


def subscriptions(geometries=SHAPES, crs=4326, **columns):
    return frame(geometries, crs, query=["ramen"] * len(geometries), **columns)


def pairs(hub, given):
    found = hub.publish_many(given)
    assert [] == list(found.rejected)
    return [(each.subscription_id, each.message_id) for each in found]


def hub_of(given, space="earth"):
    hub = Hub(space)
    assert [] == list(hub.subscribe_many(given))
    return hub


EXPECTED = [(1, 1), (2, 2)]


# --- GeoDataFrames ----------------------------------------------------------------------------------------------


def test_geo_data_frames_are_subscriptions_and_messages():
    """Polygons are regions, points are places, and ids are those of the column."""
    assert EXPECTED == pairs(hub_of(subscriptions()), messages())


def test_points_of_a_geo_data_frame_are_centres():
    """A point and a radius are a circle, as in other tables."""
    hub = hub_of(subscriptions([Point(5, 5), Point(15, 5)], radius_m=[1000.0, 1000.0]))
    assert [(1, 1), (2, 3)] == pairs(hub, messages())


def test_the_active_geometry_counts():
    """Whatever its name is."""
    assert EXPECTED == pairs(hub_of(subscriptions().rename_geometry("area")), messages().rename_geometry("spot"))


def test_features_of_a_geo_data_frame_keep_the_ids_of_their_column():
    """`iterfeatures` writes the index as the id of the Feature; the column counts, and a warning says so."""
    hub = Hub()
    rejected = hub.subscribe_many(subscriptions().iterfeatures())
    assert (0, True, False) == (len(rejected), 1 in hub, "100" in hub)
    assert ["subscriptions: Features have an id of their own and another one among their properties, which counts"] == (
        rejected.warnings
    )
    assert EXPECTED == pairs(hub, messages().iterfeatures())


@pytest.mark.parametrize(
    ("crs", "space", "advice"),
    [
        (3857, "earth", r"EPSG:3857; .*use to_crs\(4326\)"),
        (None, "earth", r"no reference system; .*set_crs\(4326\)"),
        (4326, "plane", "a plane has none"),
    ],
)
def test_a_reference_system_of_another_space_is_refused(crs, space, advice):
    """Coordinates are never taken for what they are not."""
    with pytest.raises(InvalidColumns, match=advice):
        Hub(space).subscribe_many(subscriptions(crs=crs))
    with pytest.raises(InvalidColumns, match=advice):
        Hub(space).publish_many(messages(crs=crs))


def test_crs84_is_the_earth():
    """OGC:CRS84 is longitude and latitude as well."""
    assert EXPECTED == pairs(hub_of(subscriptions(crs="OGC:CRS84")), messages(crs="OGC:CRS84"))


def test_a_geo_data_frame_without_reference_system_is_a_plane():
    """There coordinates have no limits."""
    hub = hub_of(subscriptions([box(0, 0, 5000, 5000)], crs=None), "plane")
    assert [(1, 1)] == pairs(hub, messages([Point(4000, 400)], crs=None))


def test_a_geoparquet_file(tmp_path):
    """Its geometry is WKB, and its reference system is that of the file."""
    subscriptions().to_parquet(tmp_path / "s.parquet")
    messages().to_parquet(tmp_path / "m.parquet")
    assert EXPECTED == pairs(hub_of(read_table(tmp_path / "s.parquet")), read_table(tmp_path / "m.parquet"))
    subscriptions(crs=3857).to_parquet(tmp_path / "s.parquet")
    with pytest.raises(InvalidColumns, match="to_crs"):
        hub_of(read_table(tmp_path / "s.parquet"))


def test_a_sample_of_what_was_published_keeps_its_places():
    """`estimate` judges by the newest messages, wherever their places stood."""
    hub = Hub()
    hub.publish_many(messages())
    assert (3, 1) == ((found := hub.estimate({"id": 1, "region": mapping(FIELD)})).messages, found.matches)


# --- columns of geometries --------------------------------------------------------------------------------------


def wkb(geometries, kind):
    return pa.array([None if each is None else each.wkb for each in geometries], kind)


def geoarrow(geometries, encoding, interleaved=True):
    """Return a table with the geometries in GeoArrow, and ids."""
    kind = encoding.removeprefix("geoarrow.")
    given = gpd.GeoDataFrame({"id": range(1, len(geometries) + 1)}, geometry=list(geometries), crs=4326)
    if kind == "wkb":
        return pa.table(given.to_arrow(index=False, geometry_encoding="WKB"))
    return pa.table(given.to_arrow(index=False, geometry_encoding="geoarrow", interleaved=interleaved))


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()])
@pytest.mark.parametrize("name", ["geometry", "region"])
def test_well_known_binary(kind, name):
    """Binary columns of these names hold geometries, whatever wrote them; null is not given."""
    rows = pa.table({"id": [1, 2, 3], "query": ["ramen"] * 3, name: wkb([*SHAPES, None], kind)})
    places = pa.table({"id": [1, 2, 3], "text": ["ramen"] * 3, "geometry": wkb(PLACES, kind)})
    assert [(1, 1), (3, 1), (2, 2), (3, 2), (3, 3)] == pairs(hub_of(rows), places)


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize(
    ("encoding", "shapes"),
    [("geoarrow.wkb", SHAPES), ("geoarrow.polygon", [FIELD, box(40, 0, 50, 10)]), ("geoarrow.multipolygon", SHAPES)],
)
def test_geoarrow(encoding, shapes, interleaved):
    """Points, polygons and several of them, with coordinates side by side or apart; slices as well."""
    if encoding == "geoarrow.multipolygon":
        shapes = [MultiPolygon([each]) if isinstance(each, Polygon) else each for each in shapes]
    rows = geoarrow(
        [box(60, 60, 61, 61) if encoding != "geoarrow.multipolygon" else shapes[0], *shapes], encoding, interleaved
    )
    rows = rows.slice(1).set_column(0, "id", pa.array([1, 2])).append_column("query", pa.array(["ramen"] * 2))
    places = geoarrow(PLACES, "geoarrow.point", interleaved).append_column("text", pa.array(["ramen"] * 3))
    assert encoding.encode() == rows.schema.field("geometry").metadata[b"ARROW:extension:name"]
    assert EXPECTED == pairs(hub_of(rows), places)


def test_a_bad_geometry_rejects_its_row_alone():
    """Bytes that are no geometry, an empty one, and one of a kind that is no place."""
    line = shapely.LineString([(0, 0), (1, 1)])
    given = [FIELD.wkb, b"nonsense", b"", Point().wkb, line.wkb]
    rows = pa.table({"id": [1, 2, 3, 4, 5], "query": ["a"] * 5, "geometry": pa.array(given, pa.binary())})
    hub = Hub()
    rejected = hub.subscribe_many(rows)
    assert [(1, "geometry"), (2, "geometry"), (3, "geometry"), (4, "region")] == [
        (row.row, row.field) for row in rejected
    ]
    assert ["2", "3", "4", "5"] == [row.id for row in rejected]
    rows = pa.table({"id": [1, 2], "text": ["a"] * 2, "geometry": pa.array([b"x", Point(1, 2).wkb], pa.binary())})
    assert [(0, "geometry")] == [(row.row, row.field) for row in hub.publish_many(rows).rejected]


def test_a_rectangle_as_the_geometry_of_a_message():
    """A polygon along the axes is a rectangle."""
    assert [(1, 1)] == pairs(hub_of(subscriptions([FIELD])), messages([box(9, 9, 12, 12)]))


def test_places_of_a_message_in_numbers_count_and_its_geometry_travels_along():
    """A table with `lon` and `lat` has its places there."""
    given = messages([Point(5, 5)])
    given["lon"], given["lat"] = 45.0, 5.0
    assert [(2, 1)] == pairs(hub_of(subscriptions()), given)


def test_a_point_and_its_numbers_are_one_too_many():
    """A subscription has one place."""
    given = subscriptions([Point(5, 5)], radius_m=[5.0], lon=[4.0], lat=[4.0])
    assert [(0, "geometry")] == [(row.row, row.field) for row in Hub().subscribe_many(given)]


def test_an_unknown_encoding_is_named():
    """What GeoArrow has beside, nobody takes for a place."""
    field = pa.field("geometry", pa.string(), metadata={b"ARROW:extension:name": b"geoarrow.wkt"})
    rows = pa.table([pa.array([1]), pa.array(["POINT (1 2)"])], pa.schema([pa.field("id", pa.int64()), field]))
    with pytest.raises(InvalidColumns, match=r"type geoarrow.wkt; expected one of geoarrow.wkb"):
        Hub().subscribe_many(rows)


# --- GeoJSON ----------------------------------------------------------------------------------------------------


def test_feature_collections_as_dicts():
    """A FeatureCollection is its Features."""
    assert EXPECTED == pairs(hub_of(subscriptions().__geo_interface__), messages().__geo_interface__)
    with pytest.raises(InvalidColumns, match="no list of features"):
        Hub().publish_many({"type": "FeatureCollection"})


def test_shapely_points_on_a_plane_have_no_limits():
    """Degrees end at 180, a plane does not."""
    hub = Hub("plane")
    hub.subscribe({"id": 1, "query": "ramen", "x": 500, "y": 1000, "radius": 5})
    feature = {"type": "Feature", "geometry": mapping(Point(501, 1001)), "properties": {"id": 2, "text": "ramen"}}
    for message in (Message(2, "ramen", Point(501, 1001)), feature):
        assert [1] == [each.subscription_id for each in hub.publish(message)]
    assert [1] == [each.subscription_id for each in hub.publish_many([feature])]
    wide = {"type": "Feature", "geometry": mapping(box(0, 0, 600, 2000)), "properties": {"id": 2, "text": "ramen"}}
    assert [1] == [each.subscription_id for each in hub.publish(wide)]
    hub.subscribe(Similar(3, "ramen", Point(501, 1001), threshold=0.5, max_distance=10))
    hub.subscribe({"type": "Feature", "geometry": mapping(Point(501, 1001)), "properties": {"id": 4, "radius": 9}})
    assert (True, True) == (3 in hub, 4 in hub)


def test_shapely_points_on_the_earth_have_limits():
    """As ever."""
    with pytest.raises(InvalidMessage, match="beyond 180"):
        Hub().publish(Message(2, "ramen", Point(501, 1)))


# --- types ------------------------------------------------------------------------------------------------------


def test_dates_are_midnight_in_utc():
    """In tables of both kinds of dates, and as values."""
    hub = Hub()
    for kind in (pa.date32(), pa.date64()):
        rows = pa.table({"id": [1], "query": ["a"], "expires": pa.array([date(2027, 1, 2)], kind)})
        assert [] == list(hub.subscribe_many(rows))
        hub.advance("2027-01-01T23:59:59Z")
        assert 1 in hub
    assert datetime(2026, 5, 1, tzinfo=UTC) == Message(1, "a", (1, 2), time=date(2026, 5, 1)).time


POLARS = {"id": ["a", "b"], "query": ["ramen", "ramen"], "kind": ["within", "similar"], "lon": [5, 5], "lat": [5, 5]}
SCORED = {"radius_m": [9.0, None], "threshold": [None, 0.1], "max_distance_m": [None, 900], "terms": [None, ["hot"]]}


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical, pl.Enum(["a", "b", "ramen", "within", "similar"])])
def test_polars_frames(kind):
    """Text is text, whether it is stored as such, in categories or in enums."""
    texts = dict.fromkeys(("id", "query", "kind"), kind)
    rows = pl.DataFrame({**POLARS, **SCORED}).cast(texts)
    posted = pl.DataFrame({"id": ["a"], "text": ["ramen"], "lon": [5.0], "lat": [5.0], "time": [date(2026, 5, 1)]})
    posted = posted.cast({"id": kind, "text": kind}).with_columns(terms=pl.lit(["hot"]).cast(pl.List(pl.String)))
    hub = hub_of(rows)
    assert [("a", "a"), ("b", "a")] == pairs(hub, posted)
    assert 1 == hub.estimate({"id": 1, "query": "ramen"}, posted).matches


def encoded(values, how):
    if how == "dictionary of views":
        return pa.DictionaryArray.from_arrays(
            pa.array(range(len(values)), pa.int32()), pa.array(values, pa.string_view())
        )
    if how == "run-end":
        return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(values) + 1), pa.int32()), pa.array(values))
    if how == "run-end of views":
        ends = pa.array(range(1, len(values) + 1), pa.int32())
        return pa.RunEndEncodedArray.from_arrays(ends, pa.array(values, pa.string_view()))
    return pa.array(values, pa.string_view())


@pytest.mark.parametrize("how", ["dictionary of views", "run-end", "run-end of views", "views"])
def test_encodings_of_text(how):
    """Arrow's own functions take few of these; each column is decoded first, in slices as well."""
    columns = {"id": ["x", "a", "b"], "query": ["x", "ramen", "ramen"], "kind": ["x", "within", "similar"]}
    rows = pa.table({name: encoded(values, how) for name, values in columns.items()}).slice(1)
    for name, values in {**POLARS, **SCORED}.items():
        if name not in columns:
            rows = rows.append_column(name, pa.array(values, pa.large_list(pa.string()) if name == "terms" else None))
    texts = {"id": ["x", "m"], "text": ["x", "ramen"]}
    posted = pa.table({name: encoded(values, how) for name, values in texts.items()}).slice(1)
    words = pa.array([["hot"]], pa.large_list(pa.string_view()))
    posted = (
        posted.append_column("lon", pa.array([5.0])).append_column("lat", pa.array([5.0])).append_column("terms", words)
    )
    posted = posted.append_column("time", encoded(["2026-05-01T09:00:00Z"], how))
    assert [("a", "m"), ("b", "m")] == pairs(hub_of(rows), posted)


def test_numbers_in_runs():
    """Run-end encoded coordinates are numbers."""
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array([5.0]))
    posted = pa.table({"id": [1, 2], "text": ["ramen"] * 2, "lon": runs, "lat": runs})
    assert [(1, 1), (1, 2)] == pairs(hub_of(subscriptions([FIELD])), posted)


def test_objects_that_arrow_cannot_hold_are_named():
    """A pandas column of mixed objects stops the table with one clear line."""
    given = pd.DataFrame({"id": [1, 2], "text": ["a", "b"], "lon": [1.0, 2.0], "lat": [1.0, 2.0], "odd": [1, "x"]})
    with pytest.raises(InvalidColumns, match="DataFrame has a column that is no Arrow column"):
        Hub().publish_many(given)


def test_a_parquet_file_of_dictionaries(tmp_path):
    """Categories written to Parquet and read again are text."""
    path = tmp_path / "m.parquet"
    pq.write_table(pa.table({"id": [1], "text": pa.array(["ramen"]).dictionary_encode(), "lon": [5], "lat": [5]}), path)
    assert [(1, 1)] == pairs(hub_of(subscriptions([FIELD])), read_table(path))
