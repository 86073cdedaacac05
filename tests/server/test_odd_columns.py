"""Messages with columns of Arrow that no JSON has: whoever reads them, or a page with them, gets an answer."""

import pyarrow as pa
import pytest

from support.http_server import circle

COLUMNS = {
    "far": pa.array([2**62], pa.timestamp("us", "UTC")),
    "zone": pa.array([1], pa.timestamp("us", "No/Where")),
    "nanoseconds": pa.array([123456789], pa.timestamp("ns")),
    "short": pa.array([5], pa.duration("ns")),
    "bytes": pa.array([b"\xff\x00"]),
    "nan": pa.array([float("nan")]),
}


def _stream(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_any_type_is_handed_over(client, name):
    """One message must not stop the events of all whom it reached."""
    client.put(f"/v1/subscriptions/{name}", json=circle(name, subscriber=name))
    table = pa.table({"id": [name], "text": ["tea"], "lon": [13.4], "lat": [52.5], "odd": COLUMNS[name], "price": [3]})
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    assert 202 == client.post("/v1/messages", content=_stream(table), headers=headers).status_code
    events = client.get(f"/v1/subscribers/{name}/events").json()["events"]
    assert [3] == [each["data"]["message"]["properties"]["price"] for each in events]
    assert 3 == client.get(f"/v1/messages/{name}").json()["properties"]["price"]
    assert 200 == client.get("/v1/map").status_code
