"""Zero bytes in parameters, paths, headers and tables: a problem, and nothing was stored. Bodies: test_json_faults."""

import json
import socket

import pyarrow as pa
import pytest

from support.http_server import circle, feature

ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}


@pytest.mark.parametrize(
    "path",
    [
        "/v1/subscriptions?subscriber=a%00b",
        "/v1/subscriptions?label=a%00:b",
        "/v1/subscriptions?cursor=%00",
        "/v1/messages?id=%00",
        "/v1/deliveries?message=%00",
        "/v1/dead-letters?subscriber=a%00",
        "/v1/subscribers/anna/events?cursor=0-0%00",
        "/v1/subscribers/anna/stream?lastEventId=%00",
        "/v1/map?bbox=%00&zoom=1",
    ],
)
def test_a_zero_byte_in_a_parameter_is_refused(client, path):
    """422 with the name of the parameter; it was an empty list."""
    found = client.get(path)
    name = path.partition("?")[2].partition("=")[0]
    assert (422, f"?{name}") == (found.status_code, found.json()["errors"][0]["pointer"]), found.text
    assert "urn:nearcast:problem:zero-byte" == found.json()["type"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/subscriptions/a%00b", 404),
        ("GET", "/v1/messages/a%00b", 404),
        ("GET", "/v1/subscribers/a%00b/events", 404),
        ("PUT", "/v1/subscribers/a%00b", 404),
        ("PUT", "/v1/subscribers/a%00b/location", 404),
        ("PUT", "/v1/subscriptions/a%00b", 422),
        ("DELETE", "/v1/tokens/a%00b", 404),
    ],
)
def test_nothing_has_an_id_with_a_zero_byte(client, server, method, path, status):
    """What cannot be there is not found, and cannot be made."""
    before = server.tenant().hub.stats()["log"]["inputs"]
    body = None if method != "PUT" else {"lon": 1, "lat": 2} if path.endswith("location") else circle(None)
    found = client.request(method, path, json=body)
    assert (status, "application/problem+json") == (found.status_code, found.headers["content-type"])
    assert before == server.tenant().hub.stats()["log"]["inputs"]


@pytest.mark.parametrize(
    "line", [b"Idempotency-Key: a\0b", b"If-Match: \0", b"X\0Y: a", b"Content-Length: x", b"Content-Length: -1"]
)
def test_a_header_that_is_none_is_a_problem(server, line):
    """HTTP forbids it before any route is asked."""
    host, port = server.url.removeprefix("http://").split(":")
    body = json.dumps(feature("m")).encode()
    length = b"" if line.startswith(b"Content-Length") else b"Content-Length: %d\r\n" % len(body)
    with socket.create_connection((host, int(port)), timeout=600) as connection:
        head = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(head + length + line + b"\r\n\r\n" + body)
        answer = b""
        while part := connection.recv(4096):
            answer += part
    head, _, content = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in head
    assert "urn:nearcast:problem:invalid-http" == json.loads(content)["type"]


def _stream(**columns):
    table = pa.table({"id": ["a", "b", "c"], "lon": [1.0] * 3, "lat": [2.0] * 3, **columns})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


COLUMNS = {
    "text": pa.array(["tea", "t\0a", None]),
    "large": pa.array(["tea", "t\0a", None], pa.large_string()),
    "view": pa.array(["tea", "t\0a", "0123456789 0123456789"], pa.string_view()),
    "dictionary": pa.array(["tea", "t\0a", "tea"]).dictionary_encode(),
    "list": pa.array([["tea"], ["tea", "\0"], None]),
    "struct": pa.array([{"a": [{"b": "x"}]}, {"a": [{"b": "\0"}]}, None]),
    "map": pa.array([[("a", "b")], [("a\0", "b")], []], pa.map_(pa.string(), pa.string())),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_row_of_a_table_with_a_zero_byte_is_rejected(client, kind):
    """In a text or within a list, a struct, a map; the other rows are taken."""
    body = _stream(text=["tea"] * 3, about=COLUMNS[kind])
    found = client.post("/v1/messages", content=body, headers=ARROW).json()
    assert (2, [(1, "about", "/1/about")]) == (
        found["accepted"],
        [(each["row"], each["field"], each["pointer"]) for each in found["rejected"]],
    )
    assert "zero byte" in found["rejected"][0]["reason"]


def test_what_python_cannot_hold_beside_a_zero_byte(client):
    """Two fields of one name, a time beyond all calendars: the row is rejected as any other."""
    texts = pa.array(["x", "\0", "x"])
    same = pa.StructArray.from_arrays([texts, texts], names=["a", "a"])
    late = pa.StructArray.from_arrays([texts, pa.array([2**62] * 3).cast(pa.timestamp("us"))], names=["a", "at"])
    for about in (same, late):
        found = client.post("/v1/messages", content=_stream(text=["tea"] * 3, about=about), headers=ARROW)
        assert 202 == found.status_code, found.text
        assert [(1, "about")] == [(each["row"], each["field"]) for each in found.json()["rejected"]]


def test_terms_and_names_of_columns(client):
    """Words that are given, and attributes."""
    terms = pa.array([["tea"], ["t\0a"], None])
    found = client.post("/v1/messages", content=_stream(terms=terms), headers=ARROW).json()
    assert [(1, "terms")] == [(each["row"], each["field"]) for each in found["rejected"]]
    named = client.post("/v1/messages", content=_stream(**{"a\0b": [1, 2, 3]}), headers=ARROW)
    assert (422, "urn:nearcast:problem:zero-byte") == (named.status_code, named.json()["type"])


def test_a_text_that_is_long_and_has_zero_bytes_is_rejected_once(client):
    """For the first thing that is wrong with it."""
    body = _stream(text=["\0" * 10_001, "\0", "tea"])
    found = client.post("/v1/messages", content=body, headers=ARROW).json()
    assert (1, [0, 1]) == (found["accepted"], [each["row"] for each in found["rejected"]])
