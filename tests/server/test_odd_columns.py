"""Messages with columns of Arrow that no JSON has: whoever reads them, or a page with them, gets an answer."""

import pyarrow as pa
import pytest

from support.http_server import circle, feature

COLUMNS = {
    "far": pa.array([2**62], pa.timestamp("us", "UTC")),
    "zone": pa.array([1], pa.timestamp("us", "No/Where")),
    "nanoseconds": pa.array([123456789], pa.timestamp("ns")),
    "short": pa.array([5], pa.duration("ns")),
    "bytes": pa.array([b"\xff\x00"]),
    "nan": pa.array([float("nan")]),
    "text view": pa.array(["x"], pa.string_view()),
    "byte view": pa.array([b"\xff"], pa.binary_view()),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["x"])),
    "views in a list": pa.array([["x"]], pa.list_(pa.string_view())),
}


def _stream(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _plain(name):
    return name.replace(" ", "-")


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_any_type_is_handed_over(client, name):
    """One message must not stop the events of all whom it reached."""
    client.put(f"/v1/subscriptions/{_plain(name)}", json=circle(_plain(name), subscriber=_plain(name)))
    table = pa.table({"id": [name], "text": ["tea"], "lon": [13.4], "lat": [52.5], "odd": COLUMNS[name], "price": [3]})
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    assert 202 == client.post("/v1/messages", content=_stream(table), headers=headers).status_code
    events = client.get(f"/v1/subscribers/{_plain(name)}/events").json()["events"]
    assert [3] == [each["data"]["message"]["properties"]["price"] for each in events]
    assert 3 == client.get(f"/v1/messages/{name}").json()["properties"]["price"]
    assert 200 == client.get("/v1/map").status_code


def test_views_of_ids_beside_a_row_that_is_rejected_stop_nobody(client):
    """Nor do those of texts of which one is too long, nor of those who are not reached."""
    client.put("/v1/subscriptions/viewer", json=circle("viewer", subscriber="viewer"))
    client.put("/v1/subscriptions/other", json=circle("other", query="soup", subscriber="other"))
    texts = pa.array(["tea", "tea", "x" * 10_001], pa.string_view())
    ids = pa.array(["v1", "v2", "v3"], pa.string_view())
    table = pa.table({"id": ids, "text": texts, "lon": [13.4] * 3, "lat": [52.5, 152.5, 52.5]})
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    answer = client.post("/v1/messages", content=_stream(table), headers=headers)
    assert (202, [1, 2]) == (answer.status_code, [each["row"] for each in answer.json()["rejected"]])
    client.post("/v1/messages", json=feature("soup", text="soup"))
    for name, found in (("viewer", "v1"), ("other", "soup")):
        events = client.get(f"/v1/subscribers/{name}/events").json()["events"]
        assert [found] == [each["data"]["message_id"] for each in events]
    assert "v1" == client.get("/v1/messages/v1").json()["id"]
    assert 200 == client.get("/readyz").status_code
