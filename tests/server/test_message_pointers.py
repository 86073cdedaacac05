"""Pointers to what is wrong lead into what was sent: a Feature, columns, an item of a list, a collection, a table."""

import json

import pyarrow as pa
import pytest

from support.http_server import circle, feature

JSON = {"Content-Type": "application/json"}
LINES = {"Content-Type": "application/x-ndjson"}
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
COLUMNS = {"id": "c", "text": "tea", "lon": 13.4, "lat": 52.5}
BOX = {"type": "Feature", "id": "b", "bbox": [1, 2, 3, 95], "properties": {"text": "tea"}}
#: A message, and the pointer to what is wrong with it.
MESSAGES = {
    "no-place": ({"id": 1, "text": "tea"}, "/lon"),
    "half-place": ({"id": 1, "text": "tea", "lon": 1.0}, "/lat"),
    "far": ({**COLUMNS, "lat": 95}, "/lat"),
    "far-feature": (feature(1, lat=95), "/geometry/coordinates"),
    "far-box": (BOX, "/bbox"),
    "time": ({**COLUMNS, "time": "noon"}, "/time"),
    "time-of-feature": (feature(1, time="noon"), "/properties/time"),
    "text": ({**COLUMNS, "text": "x" * 10_001}, "/text"),
    "text-of-feature": (feature(1, "x" * 10_001), "/properties/text"),
    "terms": ({**COLUMNS, "terms": [7]}, "/terms"),
    "id": ({**COLUMNS, "id": [7]}, "/id"),
    "id-of-feature": (feature([7]), "/id"),
    "id-in-properties": ({**feature(1), "id": None, "properties": {"id": [7], "text": "tea"}}, "/id"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_single_message_and_an_item_have_the_same_place(client, name):
    """The pointer of an item begins with where the item is."""
    message, pointer = MESSAGES[name]
    alone = client.post("/v1/messages", json=message)
    assert (422, pointer) == (alone.status_code, alone.json()["errors"][0]["pointer"]), alone.text
    good = feature("good")
    among = client.post("/v1/messages", json=[good, message]).json()
    collection = client.post("/v1/messages", json={"type": "FeatureCollection", "features": [good, message]}).json()
    lines = client.post("/v1/messages", content=f"{json.dumps(good)}\n\n{json.dumps(message)}", headers=LINES).json()
    assert [f"/1{pointer}"] == [each["pointer"] for each in among["rejected"]]
    assert [f"/features/1{pointer}"] == [each["pointer"] for each in collection["rejected"]]
    assert [f"/1{pointer}"] == [each["pointer"] for each in lines["rejected"]]


@pytest.mark.parametrize(("lat", "text", "field"), [(95.0, "tea", "geometry/coordinates"), (1.0, "x" * 10_001, None)])
def test_a_large_collection_has_the_same_pointers(client, lat, text, field):
    """Its Features are read in one pass."""
    features = [feature(f"m{at}") for at in range(50)]
    features[30] = feature("bad", text, lat=lat)
    found = client.post("/v1/messages", json={"type": "FeatureCollection", "features": features}).json()
    assert (49, [f"/features/30/{field or 'properties/text'}"]) == (
        found["accepted"],
        [each["pointer"] for each in found["rejected"]],
    )


def test_a_row_of_a_table_has_its_column(client):
    """Of an Arrow stream."""
    table = pa.table({"id": [1, 2, 3], "text": ["tea", "x" * 10_001, "tea"], "lon": [1.0] * 3, "lat": [1.0, 1.0, 95.0]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found = client.post("/v1/messages", content=sink.getvalue().to_pybytes(), headers=ARROW).json()
    assert ["/1/text", "/2/lat"] == [each["pointer"] for each in found["rejected"]]


@pytest.mark.parametrize("end", ["query", "paused", "expires"])
def test_a_subscription_has_the_same_place_alone_and_among_others(client, end):
    """As columns and as a Feature, whose columns are properties."""
    bad = {"query": "tea AND (", "paused": "yes", "expires": "noon"}[end]
    columns = circle("s", **{end: bad}) if end != "query" else circle("s", bad)
    properties = {name: value for name, value in columns.items() if name not in ("id", "lon", "lat")}
    geometry = {"type": "Point", "coordinates": [13.4, 52.5]}
    as_feature = {"type": "Feature", "id": "s", "geometry": geometry, "properties": properties}
    for given, pointer in ((columns, f"/{end}"), (as_feature, f"/properties/{end}")):
        alone = client.post("/v1/subscriptions", json=given)
        assert (422, [pointer]) == (alone.status_code, [each["pointer"] for each in alone.json()["errors"]])
        among = client.post("/v1/subscriptions", json=[given]).json()["rejected"]
        collection = {"type": "FeatureCollection", "features": [given]}
        inside = client.post("/v1/subscriptions", json=collection).json()["rejected"]
        assert [(end, f"/0{pointer}")] == [(each["field"], each["pointer"]) for each in among]
        assert [(end, f"/features/0{pointer}")] == [(each["field"], each["pointer"]) for each in inside]


@pytest.mark.parametrize("given", ["columns", "Feature"])
def test_a_field_is_the_column_however_it_was_given(client, given):
    """A latitude that is none; only the pointer says that it stood in a geometry."""
    bad = circle("s", "tea", lat=95.0)
    pointer = "/0/lat"
    if given == "Feature":
        geometry = {"type": "Point", "coordinates": [13.4, 95.0]}
        bad = {"type": "Feature", "id": "s", "geometry": geometry, "properties": {"query": "tea", "radius_m": 5}}
        pointer = "/0/geometry"
    (row,) = client.post("/v1/subscriptions", json=[bad]).json()["rejected"]
    assert ("lat", pointer) == (row["field"], row["pointer"])


def test_a_feature_without_a_geometry_has_its_place_in_properties(client):
    """What is wrong may stand there, too."""
    given = {"type": "Feature", "id": "m", "properties": {"text": "x" * 10_001, "lon": 1, "lat": 2}}
    found = client.post("/v1/messages", json=given)
    assert (422, ["/properties/text"]) == (found.status_code, [each["pointer"] for each in found.json()["errors"]])


def test_what_the_hub_refuses_of_a_batch_has_a_pointer(client):
    """A top-k without a window."""
    top = {"id": "t", "kind": "topk", "query": "a", "lon": 1, "lat": 1, "max_distance_m": 5}
    (row,) = client.post("/v1/subscriptions", json=[circle("s"), top]).json()["rejected"]
    assert (1, "/1/kind") == (row["row"], row["pointer"])
