"""What JSON, or a column, cannot hold is refused by its name and place: in single bodies, items and lines."""

import json

import pytest

from nearcast.server.json_faults import fault_within, may_have_faults, read_with_faults
from support.http_server import circle, feature

JSON = {"Content-Type": "application/json"}
LINES = {"Content-Type": "application/x-ndjson"}
#: What is written in the place of `?`, the slug of the problem, and what its sentence has.
FAULTS = {
    "nan": ("NaN", "invalid-number", "is NaN, which is no number"),
    "infinity": ("Infinity", "invalid-number", "is Infinity"),
    "minus-infinity": ("-Infinity", "invalid-number", "is -Infinity"),
    "float": ("1e999", "invalid-number", "is 1e999, which needs more than 64 bits"),
    "whole": (str(2**63), "invalid-number", f"is {2**63}, which needs more than 64 bits"),
    "huge": ("1" * 5000, "invalid-number", "needs more than 64 bits"),
    "low": ("-" + "2" * 30, "invalid-number", "needs more than 64 bits"),
    "half": (r'"a\ud800"', "half-character", r"half a character (\ud800"),
    "other-half": (r'"\udfffa"', "half-character", r"half a character (\udfff"),
    "zero": (r'"a\u0000b"', "zero-byte", "zero byte"),
}
MESSAGE = json.dumps(feature("m", price="?")).replace('"?"', "?")
COLUMNS = '{"id": "m", "text": "tea", "lon": ?, "lat": 52.5}'
SUBSCRIPTION = json.dumps(circle("s", labels={"of/us": "?"})).replace('"?"', "?")
#: name: (method, path, body, pointer)
BODIES = {
    "message": ("POST", "/v1/messages", MESSAGE, "/properties/price"),
    "columns": ("POST", "/v1/messages", COLUMNS, "/lon"),
    "collection": ("POST", "/v1/messages", '{"type": "FeatureCollection", "bbox": [?], "features": []}', "/bbox/0"),
    "subscription": ("POST", "/v1/subscriptions", SUBSCRIPTION, "/labels/of~1us"),
    "patch": ("PATCH", "/v1/subscriptions/s", '{"query": ["a", {"b": ?}]}', "/query/1/b"),
    "location": ("PUT", "/v1/subscribers/a/location", '{"lon": 1, "lat": ?}', "/lat"),
    "locations": ("POST", "/v1/locations", '{"lon": ?}', "/lon"),
    "settings": ("PUT", "/v1/subscribers/a", '{"digest": {"every": ?}}', "/digest/every"),
    "sink": ("PUT", "/v1/subscribers/a", '{"sink": {"url": ?}}', "/sink/url"),
    "ack": ("POST", "/v1/subscribers/a/ack", '{"cursor": ?}', "/cursor"),
    "explain": ("POST", "/v1/explain", f'{{"message": {MESSAGE}, "subscription": "s"}}', "/message/properties/price"),
    "estimate": ("POST", "/v1/estimate", '{"subscription": {"query": ?}}', "/subscription/query"),
    "token": ("POST", "/v1/tokens", '{"scopes": ["publish"], "name": ?}', "/name"),
}


#: Each fault in one body, and one that stops the parser and one that does not in each body.
PAIRS = [(fault, "message") for fault in FAULTS] + [(fault, body) for fault in ("nan", "zero") for body in BODIES]


@pytest.mark.parametrize(("fault", "body"), sorted(set(PAIRS)))
def test_a_fault_is_refused_with_its_place(client, server, body, fault):
    """422 with the pointer; the hub is as it was."""
    (written, slug, about), (method, path, content, pointer) = FAULTS[fault], BODIES[body]
    before = server.tenant().hub.stats()["log"]["inputs"]
    found = client.request(method, path, content=content.replace("?", written), headers=JSON)
    assert 422 == found.status_code, found.text
    problem = found.json()
    assert f"urn:nearcast:problem:{slug}" == problem["type"], found.text
    assert about in problem["detail"]
    assert [(pointer, problem["detail"])] == [(each["pointer"], each["message"]) for each in problem["errors"]]
    assert before == server.tenant().hub.stats()["log"]["inputs"]


@pytest.mark.parametrize("fault", ["infinity", "whole", "half"])
@pytest.mark.parametrize(
    ("path", "good", "bad", "pointer"),
    [
        ("/v1/messages", json.dumps(feature("good")), MESSAGE, "/1/properties/price"),
        ("/v1/subscriptions", json.dumps(circle("good")), SUBSCRIPTION, "/1/labels/of~1us"),
        ("/v1/locations", '{"subscriber": "anna", "lon": 1, "lat": 2}', '{"lon": 1, "lat": ?}', "/1/lat"),
    ],
)
def test_a_fault_of_a_line_is_that_of_its_item(client, fault, path, good, bad, pointer):
    """The other lines are taken."""
    written, _, about = FAULTS[fault]
    client.put("/v1/subscriptions/walker", json=circle("walker", subscriber="anna"))
    content = f"{good}\n{bad.replace('?', written)}\n{good.replace('good', 'better')}\n"
    found = client.post(path, content=content, headers=LINES).json()
    assert 2 == found["accepted"], found
    assert [(1, pointer)] == [(each["row"], each["pointer"]) for each in found["rejected"]]
    assert about in found["rejected"][0]["reason"]


@pytest.mark.parametrize("fault", ["infinity", "whole", "half"])
@pytest.mark.parametrize(
    ("path", "good", "bad", "frame", "pointer"),
    [
        ("/v1/messages", json.dumps(feature("good")), MESSAGE, "[%s]", "/1/properties/price"),
        (
            "/v1/messages",
            json.dumps(feature("good")),
            MESSAGE,
            '{"type": "FeatureCollection", "features": [%s]}',
            "/features/1/properties/price",
        ),
        ("/v1/subscriptions", json.dumps(circle("good")), SUBSCRIPTION, "[%s]", "/1/labels/of~1us"),
        ("/v1/locations", '{"subscriber": "anna", "lon": 1, "lat": 2}', '{"at": [?]}', "[%s]", "/1/at/0"),
    ],
)
def test_a_fault_of_an_item_stops_no_other(client, fault, path, good, bad, frame, pointer):
    """Also where the parser stops at it."""
    written, _, about = FAULTS[fault]
    client.put("/v1/subscriptions/walker", json=circle("walker", subscriber="anna"))
    content = frame % f"{good}, {bad.replace('?', written)}"
    found = client.post(path, content=content, headers=JSON).json()
    assert 1 == found["accepted"], found
    assert [(1, pointer)] == [(each["row"], each["pointer"]) for each in found["rejected"]]
    assert about in found["rejected"][0]["reason"]


def test_large_batches_are_looked_through_as_well(client):
    """Those that are read in one pass."""
    lines = [json.dumps(feature(f"m{at}", price=at)) for at in range(100)]
    lines[70] = MESSAGE.replace("?", "9" * 20)
    found = client.post("/v1/messages", content="\n".join(lines), headers=LINES).json()
    assert (99, [(70, "price", "/70/properties/price")]) == (
        found["accepted"],
        [(each["row"], each["field"], each["pointer"]) for each in found["rejected"]],
    )


def test_names_of_members_are_looked_at_too(client):
    """The pointer is to the object, since no pointer could hold such a name; nor can the answer."""
    for name in (r"\ud800", r"\u0000"):
        found = client.post("/v1/messages", content='{"id": 1, "about": {"?": 1}}'.replace("?", name), headers=JSON)
        assert (422, "/about") == (found.status_code, found.json()["errors"][0]["pointer"])


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": 9223372036854775807, "b": -9223372036854775808}',
        rb'{"a": "\\u0000", "b": "\ud83d\ude00"}',
        b'{"a": "99999999999999999999", "b": 0.99999999999999999999}',
        b'{"a": 1e-999, "b": -0.0, "c": [true, null]}',
    ],
)
def test_what_can_be_stored_has_no_fault(body):
    """The largest numbers, a backslash before u0000, whole pairs of surrogates, digits in a text."""
    assert json.loads(body) == read_with_faults(body)
    assert fault_within(read_with_faults(body)) is None


def test_other_bodies_are_not_read_twice():
    """Digits of a time or a place are no reason to."""
    plain = json.dumps([feature(9_223_372_036_854_775_807, lon=0.1234567890123456789, time="2026-01-01T00:00:00Z")])
    assert not may_have_faults(plain.encode())
    assert may_have_faults(plain.replace("9223372036854775807", "9223372036854775808").encode())
    for given in ('{"id": "12345678901234567890"}', '{"lon": 13.38886000000000037176}', "[0.5, 1e-7]"):
        assert not may_have_faults(given.encode())
    for number in ("9223372036854775808", "-9223372036854775809"):
        for given in (number, f"[{number}]", f"[0,{number} ]", f'{{"a":\n{number}}}', f'{{"a":{number},"b":1}}'):
            assert may_have_faults(given.encode()), given


def test_a_socket_is_told_the_place_as_well(server):
    """A message of a client that has a fault is a problem with a pointer."""
    from websockets.sync.client import connect

    with connect(f"{server.url.replace('http', 'ws')}/v1/subscribers/anna/ws", proxy=None) as socket:
        socket.send('{"location": {"lon": NaN, "lat": 1}}')
        while "problem" not in (found := json.loads(socket.recv(timeout=600))):
            continue
    assert "/location/lon" == found["problem"]["errors"][0]["pointer"]


def test_half_characters_as_bytes_are_named(client):
    """Some write each half of a pair by itself (CESU-8), which is no UTF-8."""
    found = client.post("/v1/messages", content=b'{"id": "a\xed\xa0\x80"}', headers=JSON)
    assert (422, "/id") == (found.status_code, found.json()["errors"][0]["pointer"])
