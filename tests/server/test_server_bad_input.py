"""Bad input over real sockets: every case is one line or a problem with a pointer that helps, and stops nothing."""

import gzip
import json
import socket

import pyarrow as pa
import pytest

from nearcast.cli import main
from nearcast.errors import InvalidInput
from nearcast.server.settings import load_settings
from support.http_server import circle, feature

JSON, GEO, LINES = "application/json", "application/geo+json", "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"


SERVER = {"limits": {"batch": 10, "body_bytes": 50_000, "vertices": 10}}


def body(value):
    return json.dumps(value).encode()


def without(subscription, *names):
    return {name: value for name, value in subscription.items() if name not in names}


RING = [[float(x), x * x / 2] for x in range(12)] + [[0.0, 0.0]]
BOW = [[0, 0], [2, 2], [2, 0], [0, 2], [0, 0]]
SUBSCRIPTION = circle("x")


def polygon(ring):
    return {"id": "x", "query": "tea", "region": {"type": "Polygon", "coordinates": [ring]}}


#: name: (method, path, content type, body, status, slug, pointer)
CASES = {
    "empty": ("POST", "/v1/subscriptions", JSON, b"", 400, "no-content", None),
    "half-json": ("POST", "/v1/subscriptions", JSON, b'{"query": "te', 400, "invalid-json", ""),
    "nan": ("POST", "/v1/subscriptions", JSON, b'{"lon": NaN}', 422, "invalid-number", "/lon"),
    "infinite": ("POST", "/v1/subscriptions", JSON, body(SUBSCRIPTION).replace(b"13.4", b"1e999"), 422, None, "/lon"),
    "lone-surrogate": ("POST", "/v1/subscriptions", JSON, b'{"query": "\\ud800"}', 422, None, "/query"),
    "not-utf-8": ("POST", "/v1/subscriptions", JSON, b'{"query": "\xff"}', 400, "invalid-json", ""),
    "zero-byte": ("POST", "/v1/subscriptions", JSON, body(circle("a\0b")), 422, None, "/id"),
    "mark": ("POST", "/v1/subscriptions", JSON, b"\xef\xbb\xbf{}", 400, "invalid-json", ""),
    "utf-16": ("POST", "/v1/messages", JSON, '{"id": 1}'.encode("utf-16"), 400, "invalid-json", ""),
    "deep": ("POST", "/v1/subscriptions", JSON, b"[" * 150 + b"]" * 150, 422, "too-deep", ""),
    "very-deep": ("POST", "/v1/subscriptions", JSON, b"[" * 40_000, 400, "invalid-json", ""),
    "number": ("POST", "/v1/subscriptions", JSON, b"7", 422, "invalid-content", ""),
    "many": ("POST", "/v1/subscriptions", JSON, b"[" + b"1," * 10 + b"1]", 413, "too-many-items", None),
    "text-type": ("POST", "/v1/subscriptions", "text/plain", b"{}", 415, "content-type", None),
    "form-type": ("POST", "/v1/messages", "application/x-www-form-urlencoded", b"a=b", 415, "content-type", None),
    "large": ("POST", "/v1/messages", GEO, b" " * 50_001, 413, "too-large", None),
    "gzip-bomb": ("POST", "/v1/messages", "gzip", gzip.compress(b" " * 50_000_000), 413, "too-large", None),
    "no-gzip": ("POST", "/v1/messages", "gzip", b"{}", 400, "invalid-gzip", None),
    "half-gzip": ("POST", "/v1/messages", "gzip", gzip.compress(b"{}")[:-9], 400, "invalid-gzip", None),
    "brotli": ("POST", "/v1/messages", "br", b"{}", 415, "content-encoding", None),
    "batch": ("POST", "/v1/messages", JSON, body([feature(i) for i in range(11)]), 413, "too-many-items", None),
    "lines": ("POST", "/v1/messages", LINES, b"{}\n" * 11, 413, "too-many-items", None),
    "no-arrow": ("POST", "/v1/messages", ARROW, b"ARROW1", 400, "invalid-arrow", None),
    "half-arrow": ("POST", "/v1/messages", ARROW, "half", 400, "invalid-arrow", None),
    "arrow-columns": ("POST", "/v1/messages", ARROW, "columns", 422, "invalid-columns", "/text"),
    "message-number": ("POST", "/v1/messages", JSON, b"7", 422, "invalid-content", ""),
    "features": ("POST", "/v1/messages", GEO, b'{"type":"FeatureCollection"}', 422, "invalid-content", "/features"),
    "no-place": ("POST", "/v1/messages", JSON, b'{"id":1,"text":"tea"}', 422, None, "/lon"),
    "no-id": ("POST", "/v1/messages", JSON, b'{"text":"tea","lon":1,"lat":1}', 422, None, "/id"),
    "latitude": ("POST", "/v1/messages", GEO, body(feature(1, lat=95)), 422, None, "/geometry/coordinates"),
    "bad-time": ("POST", "/v1/messages", GEO, body(feature(1, time="noon")), 422, None, "/properties/time"),
    "long-text": ("POST", "/v1/messages", GEO, body(feature(1, "x" * 10_001)), 422, None, "/properties/text"),
    "query": ("POST", "/v1/subscriptions", JSON, body(circle("x", "a AND (")), 422, "invalid-query", "/query"),
    "long-query": ("POST", "/v1/subscriptions", JSON, body(circle("x", "a" * 1025)), 422, None, "/query"),
    "unknown-field": ("POST", "/v1/subscriptions", JSON, body({**SUBSCRIPTION, "radius": 3}), 422, None, "/radius"),
    "unknown-kind": ("POST", "/v1/subscriptions", JSON, body({**SUBSCRIPTION, "kind": "best"}), 422, None, "/kind"),
    "other-kind": ("POST", "/v1/subscriptions", JSON, body({**SUBSCRIPTION, "k": 3}), 422, None, "/k"),
    "half-region": ("POST", "/v1/subscriptions", JSON, body(without(SUBSCRIPTION, "lat")), 422, None, "/lat"),
    "bow": ("POST", "/v1/subscriptions", JSON, body(polygon(BOW)), 422, "invalid-region", "/region"),
    "vertices": ("POST", "/v1/subscriptions", JSON, body(polygon(RING)), 422, None, "/region"),
    "longitude": ("POST", "/v1/subscriptions", JSON, body(circle("x", lon=181)), 422, None, "/lon"),
    "subscription-id": ("POST", "/v1/subscriptions", JSON, body(circle("a/b")), 422, "invalid-input", "/id"),
    "number-id": ("POST", "/v1/subscriptions", JSON, body(circle(7)), 422, "invalid-input", "/id"),
    "subscriber": ("POST", "/v1/subscriptions", JSON, body(circle("x", subscriber="a b")), 422, None, "/subscriber"),
    "labels": ("POST", "/v1/subscriptions", JSON, body(circle("x", labels=["a"])), 422, None, "/labels"),
    "max-events": ("POST", "/v1/subscriptions", JSON, body(circle("x", max_events=0)), 422, None, "/max_events"),
    "paused": ("POST", "/v1/subscriptions", JSON, body(circle("x", paused="yes")), 422, None, "/paused"),
    "past": ("POST", "/v1/subscriptions", JSON, body(circle("x", expires="noon")), 422, None, "/expires"),
    "no-window": ("POST", "/v1/subscriptions", JSON, "topk", 422, "invalid-subscription", "/kind"),
    "other-id": ("PUT", "/v1/subscriptions/y", JSON, body(SUBSCRIPTION), 422, None, "/id"),
    "patch-unknown": ("PATCH", "/v1/subscriptions/nobody", JSON, b"{}", 404, "unknown-subscription", None),
    "limit": ("GET", "/v1/subscriptions?limit=many", None, b"", 422, "invalid-parameter", "?limit"),
    "list-cursor": ("GET", "/v1/subscriptions?cursor=x", None, b"", 422, "invalid-parameter", "?cursor"),
    "label": ("GET", "/v1/subscriptions?label=x", None, b"", 422, "invalid-parameter", "?label"),
    "cursor": ("GET", "/v1/subscribers/a/events?cursor=x", None, b"", 422, "invalid-input", "?cursor"),
    "twice": ("GET", "/v1/subscribers/a/events?cursor=0-0&cursor=1-0", None, b"", 422, "invalid-parameter", "?cursor"),
    "future": ("GET", "/v1/subscribers/a/events?cursor=999999-0", None, b"", 422, "future-cursor", "?cursor"),
    "wait": ("GET", "/v1/subscribers/a/events?wait=nan", None, b"", 422, "invalid-parameter", "?wait"),
    "subscriber-id": ("GET", "/v1/subscribers/a%20b/events", None, b"", 404, "unknown-subscriber", None),
    "location": ("PUT", "/v1/subscribers/a/location", JSON, b'{"lon": 1}', 422, "invalid-input", "/lat"),
    "location-far": ("PUT", "/v1/subscribers/a/location", JSON, b'{"lon": 1, "lat": 95}', 422, None, "/lat"),
    "location-time": ("PUT", "/v1/subscribers/a/location", JSON, b'{"lon":1,"lat":1,"time":7}', 422, None, "/time"),
    "locations": ("POST", "/v1/locations", JSON, b"{}", 422, "invalid-content", ""),
    "ack": ("POST", "/v1/subscribers/a/ack", JSON, b'{"cursor": 7}', 422, None, "/cursor"),
    "sink": ("PUT", "/v1/subscribers/a", JSON, b'{"sink": {"url": "http://a.example"}}', 422, None, "/sink/url"),
    "no-sink": ("PUT", "/v1/subscribers/a", JSON, b'{"sink": 7}', 422, None, "/sink"),
    "cooldown": ("PUT", "/v1/subscribers/a", JSON, b'{"cooldown": "soon"}', 422, None, "/cooldown"),
    "explain": (
        "POST",
        "/v1/explain",
        JSON,
        b'{"message": 7, "subscription": {"query": "tea"}}',
        422,
        None,
        "/message",
    ),
    "explain-nothing": ("POST", "/v1/explain", JSON, b"{}", 422, "invalid-message", "/message"),
    "explain-place": ("POST", "/v1/explain", JSON, "place", 422, None, "/place"),
    "estimate-topk": ("POST", "/v1/estimate", JSON, "estimate", 422, "not-supported", "/subscription/kind"),
    "debounce": ("PUT", "/v1/subscribers/a", JSON, b'{"debounce": []}', 422, "invalid-input", "/debounce"),
    "explain-query": ("POST", "/v1/explain", JSON, "explain", 422, "invalid-query", "/subscription/query"),
    "explain-key": ("POST", "/v1/explain", JSON, b'{"msg": 1}', 422, None, "/msg"),
    "estimate": ("POST", "/v1/estimate", JSON, b"{}", 422, None, "/subscription"),
    "scopes": ("POST", "/v1/tokens", JSON, b'{"scopes": ["root"]}', 422, None, "/scopes"),
    "route": ("GET", "/v2/subscriptions", None, b"", 404, "no-such-route", None),
    "method": ("DELETE", "/v1/messages", None, b"", 405, "method-not-allowed", None),
    "token-id": ("DELETE", "/v1/tokens/none", None, b"", 404, "unknown-token", None),
}


def _arrow(columns):
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


MADE = {
    "half": lambda: _arrow({"id": [1], "text": ["tea"], "lon": [1.0], "lat": [1.0]})[:-40],
    "columns": lambda: _arrow({"id": [1], "text": [7], "lon": [1.0], "lat": [1.0]}),
    "topk": lambda: body({"id": "t", "kind": "topk", "query": "a", "lon": 1, "lat": 1, "max_distance_m": 5}),
    "place": lambda: body({"message": feature(1), "subscription": circle("x"), "place": [1]}),
    "estimate": lambda: body(
        {"subscription": {"id": "t", "kind": "topk", "query": "a", "lon": 1, "lat": 1, "max_distance_m": 5}}
    ),
    "explain": lambda: body({"message": feature(1), "subscription": circle("x", "a AND (")}),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_a_problem_that_helps(client, server, name):
    """The status, the type, and a pointer to what is wrong; the hub is as it was, and the next call works."""
    method, path, content_type, content, status, slug, pointer = CASES[name]
    before = server.tenant().hub.stats()["log"]["inputs"]
    headers = {} if content_type is None else {"Content-Type": content_type}
    if content_type in ("gzip", "br"):
        headers = {"Content-Type": GEO, "Content-Encoding": content_type}
    content = MADE[content]() if isinstance(content, str) else content
    answer = client.request(method, path, content=content, headers=headers)
    found = answer.json()
    assert (status, "application/problem+json") == (answer.status_code, answer.headers["content-type"]), answer.text
    assert {"type", "title", "status", "detail", "instance"} <= set(found)
    if slug is not None:
        assert f"urn:nearcast:problem:{slug}" == found["type"]
    assert "\n" not in found["detail"]
    if pointer is not None:
        assert [pointer] == [each["pointer"] for each in found["errors"]]
    if status != 422 or method != "POST" or "messages" not in path:  # a message is refused by the log's own reader
        assert before == server.tenant().hub.stats()["log"]["inputs"]
    assert 200 == client.get("/v1/subscriptions").status_code


def test_a_query_has_a_caret_below_its_mistake(client):
    """The error of a query has its line, column and a drawing."""
    (error,) = client.post("/v1/subscriptions", json=circle("x", "tea AND (")).json()["errors"]
    assert (1, 9) == (error["line"], error["column"])
    line, caret = error["caret"].splitlines()
    assert "(" == line[caret.index("^")]


def test_a_body_without_an_end_is_not_read_beyond_the_limit(server):
    """A body of a gigabyte, announced or in chunks, is 413 before it was sent."""
    host, port = server.url.removeprefix("http://").split(":")
    head = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for rest in (b"Content-Length: 1000000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=600) as connection:
            connection.sendall(head + rest)
            if b"chunked" in rest:
                connection.sendall(b"F000\r\n" + b" " * 0xF000 + b"\r\n")
            assert b" 413 " in connection.recv(4096).split(b"\r\n")[0]


def test_a_body_that_does_not_come_is_not_waited_for_without_end(server, monkeypatch):
    """After a while it is 408, and the connection ends."""
    monkeypatch.setattr("nearcast.server.bodies._BODY_SECONDS", 0.05)
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=600) as connection:
        head = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(head + b"Content-Length: 10\r\n\r\n{")
        assert b" 408 " in connection.recv(4096).split(b"\r\n")[0]


def test_half_a_body_changes_nothing(server, client):
    """A client that goes before its body is complete has published nothing, and the server goes on."""
    host, port = server.url.removeprefix("http://").split(":")
    before = server.tenant().hub.stats()["published"]
    content = body(feature("half"))
    with socket.create_connection((host, int(port)), timeout=600) as connection:
        head = f"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: {GEO}\r\n"
        connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content[: len(content) // 2])
    assert 202 == client.post("/v1/messages", json=feature("whole")).status_code
    assert 1 == server.tenant().hub.stats()["published"] - before


def test_settings_come_from_three_places_in_order(tmp_path):
    """The command line goes before the environment, that before the file; unknown keys are named."""
    file = tmp_path / "nearcast.toml"
    file.write_text('[limits]\nbatch = 1\nvertices = 1\npage = 1\n[server]\nallowed_hosts = ["a", "b"]\n')
    environment = {"NEARCAST_LIMITS__BATCH": "2", "NEARCAST_LIMITS__VERTICES": "2", "NEARCAST_CACHE_DIR": "x"}
    found = load_settings(file, environment, {"limits": {"batch": 3}})
    assert (3, 2, 1) == (found.limits.batch, found.limits.vertices, found.limits.page)
    assert ("a", "b") == found.server.allowed_hosts
    for bad, about in [
        ({"limits": {"bacth": 1}}, "did you mean batch"),
        ({"limit": {}}, "did you mean limits"),
        ({"limits": {"batch": "many"}}, "expected int"),
        ({"server": {"require_tokens": "maybe"}}, "expected bool"),
    ]:
        with pytest.raises(InvalidInput, match=about):
            load_settings(None, {}, bad)
    file.write_text("[limits")
    with pytest.raises(InvalidInput, match="is not TOML"):
        load_settings(file, {})


COMMANDS = {
    "unknown-option": (["--prot", "1"], 2, "No such option"),
    "unknown-setting": (["--set", "limits.bacth=1"], 1, "did you mean batch"),
    "no-setting": (["--set", "limits"], 2, "expected SECTION.KEY=VALUE"),
    "no-file": (["--config", "none.toml"], 1, "there is no file none.toml"),
    "outside": (["--host", "0.0.0.0"], 1, "nearcast token create"),
    "busy-port": (["--port", "PORT"], 1, "cannot listen on 127.0.0.1:PORT"),
    "busy-folder": (["--data", "DATA", "--port", "0"], 1, "is in use by process"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_fails_in_one_line(server, tmp_path, capsys, name):
    """A wrong option, a busy port and a folder in use are one line on stderr."""
    options, status, about = COMMANDS[name]
    places = {"PORT": server.url.rpartition(":")[2], "DATA": str(server.data)}
    options = [places.get(each, each) for each in options]
    options += [] if "--data" in options else ["--data", str(tmp_path / "data")]
    with pytest.raises(SystemExit) as left:
        main(["serve", *options])
    told = capsys.readouterr().err
    assert status == left.value.code, told
    assert about.replace("PORT", places["PORT"]) in told
    assert 1 == len(told.strip().splitlines()), told


def test_tokens_by_the_command(tmp_path, capsys):
    """`nearcast token` makes a token that is listed without its secret, and revokes it."""

    def token(*arguments, status=0):
        with pytest.raises(SystemExit) as left:
            main(["token", *arguments, "--data", str(tmp_path)])
        assert status == left.value.code
        return capsys.readouterr().out

    secret = token("create", "--scopes", "publish, location", "--tenant", "red").strip()
    assert secret.startswith("nc_")
    (listed,) = map(json.loads, token("list").splitlines())
    assert ("red", ["publish", "location"]) == (listed["tenant"], listed["scopes"])
    token("revoke", listed["id"])
    assert "" == token("list")
    token("revoke", listed["id"], status=2)
