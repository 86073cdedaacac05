"""Requests at random, each by its number: queries, GeoJSON, other bodies, headers, parameters and paths, most bad.

A request begins as one that works; then some of its parts are replaced, left out, doubled or damaged.
"""

import copy
import json
import random
from dataclasses import dataclass, field

from support.http_server import circle, feature

JSON, GEO, LINES, ARROW = "application/json", "application/geo+json", "application/x-ndjson", "arrow"
WORDS = ["tea", "milk", "AND", "OR", "NOT", "and", "(", ")", '"', '"green tea"', "tea*", "*", "-", "^", "~", ":", "\\"]
WORDS += [
    "",
    " ",
    "\t",
    "\n",
    "\0",
    "ß",
    "İ",
    "火",
    "🫖",
    "\u202e",
    "\ufeff",
    "a" * 600,
    "((((",
    "))))",
    "&&",
    "||",
    "!",
]
JUNK = [
    None,
    True,
    False,
    0,
    -1,
    1,
    7.5,
    1e308,
    -1e308,
    2**63,
    -(2**63) - 1,
    10**30,
    1e-320,
    "",
    " ",
    "tea",
    "NaN",
    "-0",
]
JUNK += [
    "2026-01-01T00:00:00Z",
    "2026-13-45",
    "9999-12-31T23:59:60Z",
    "0001-01-01",
    "1e9999",
    "null",
    "a" * 3000,
    "\0",
    "é",
]
JUNK += [[], {}, [[]], [None], {"": None}, {"type": "Point"}, [181, 91], ["13.4", "52.5"], [13.4], [13.4, 52.5, 1e400]]
POINT = {"type": "Point", "coordinates": [13.4, 52.5]}
RING = [[13.0, 52.0], [14.0, 52.0], [14.0, 53.0], [13.0, 52.0]]
REGIONS = [
    POINT,
    {"type": "Polygon", "coordinates": [RING]},
    {"type": "MultiPolygon", "coordinates": [[RING], [RING]]},
    {"type": "Polygon", "coordinates": [[[179, 0], [-179, 0], [-179, 1], [179, 0]]]},
    {"type": "LineString", "coordinates": RING},
    {"type": "GeometryCollection", "geometries": [POINT]},
    {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [RING]}, "properties": {}},
]
HEADERS = {
    "content-type": [JSON, GEO, LINES, "text/plain", "application/json; charset=latin-1", "", ";", "\xff", "a/b" * 100],
    "content-encoding": ["gzip", "br", "identity", "GZIP", "", "gzip, gzip"],
    "content-length": ["0", "-1", "1e9", "99999999999", "²"],
    "idempotency-key": ["k", "", "k" * 300, "\xe9", "a b", '"quoted"'],
    "if-match": ['"1"', "*", "1", 'W/"1"', "", '"' * 50],
    "if-none-match": ["*", '"1"', ""],
    "last-event-id": ["0-0", "1-1", "999999-1", "-1--1", "0-0 ", "²-¹", "9" * 40, "1-" + "9" * 5000],
    "authorization": ["Bearer nc_x", "Bearer", "Basic YTpi", "bearer \xff", ""],
    "accept": [GEO, "*/*", "text/html", "\xff"],
    "host": ["localhost", "127.0.0.1:1", "[::1]", "evil.example", "", "[", "localhost:x"],
    "origin": ["http://localhost", "null", "https://evil.example", "http://[", "\xff"],
    "prefer": ["x" * 500],
}
PARAMETERS = {
    "limit": ["0", "-1", "1e3", "many", "9" * 30, "", "1"],
    "cursor": ["0-0", "x", "999999-1", "1-", "-", "9" * 30, "\0", "%ff", "1-1"],
    "subscriber": ["anna", "", "a b", "\0", "a" * 600, "%2e%2e"],
    "label": ["a:b", ":", "a", "a:b:c", "a:" + "b" * 2000],
    "f": ["json", "geojson", "xml", ""],
    "bbox": ["13,52,14,53", "14,53,13,52", "170,0,-170,1", "1,2,3", "nan,0,1,1", "1e999,0,1,1", "", "a,b,c,d"],
    "zoom": ["3", "-1", "99", "x", "1e9", ""],
    "wait": ["0", "-1", "nan", "x"],
    "validateOnly": ["true", "false", "maybe", ""],
    "initialEvent": ["true", "x"],
    "message": ["m1", "", "\0", "9" * 40],
    "status": ["accepted", "failed", "x"],
}
IDS = ["f1", "f2", "f3", "anna", "a b", "a/b", "..", "%00", "ä", "a" * 101, "", ":", "f1:pause", "f1:", "%ff", "🫖"]


@dataclass
class FuzzedRequest:
    """A request as an ASGI server would hand it on."""

    method: str
    path: str
    query: str = ""
    headers: list = field(default_factory=list)
    body: bytes = b""

    @property
    def may_change(self):
        return self.method not in ("GET", "HEAD", "OPTIONS")


def fuzzed(number):
    """Return the request with a number: always the same."""
    chance = random.Random(f"nearcast {number}")
    request = chance.choice([_of_query, _of_query, _of_geojson, _of_geojson, _of_body, _of_parts])(chance)
    if chance.random() < 0.3:
        _with_headers(chance, request)
    return request


def query_text(chance):
    """Return a query, or what somebody took for one."""
    text = " ".join(chance.choice(WORDS) for _ in range(chance.randrange(1, 9)))
    for _ in range(chance.choice([0, 0, 1, 3])):
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chance.choice([*WORDS, chr(chance.randrange(1, 0xD7FF))]) + text[at + chance.randrange(2) :]
    return text


def _of_query(chance):
    subscription = {**_subscription(chance), "query": query_text(chance)}
    kind = chance.randrange(5)
    if kind == 0:
        return _json("POST", "/v1/estimate", {"subscription": subscription})
    if kind == 1:
        return _json("POST", "/v1/explain", {"message": feature("m1"), "subscription": subscription})
    if kind == 2:
        return _json("PATCH", f"/v1/subscriptions/{subscription['id']}", {"query": subscription["query"]})
    return _json("POST", "/v1/subscriptions", subscription, "validateOnly=true" if kind == 3 else "")


def _of_geojson(chance):
    if chance.randrange(2):
        body = {**_subscription(chance), "region": damaged(chance, chance.choice(REGIONS))}
        return _json("POST", "/v1/subscriptions", without(chance, body, "lon", "lat", "radius_m"))
    messages = [damaged(chance, _message(chance)) for _ in range(chance.choice([1, 1, 2, 5]))]
    form = chance.randrange(4)
    if form == 0:
        return _json("POST", "/v1/messages", damaged(chance, {"type": "FeatureCollection", "features": messages}))
    if form == 1:
        lines = b"\n".join(bitten(chance, _encoded(each)) for each in messages)
        return FuzzedRequest("POST", "/v1/messages", "", [("content-type", LINES)], lines)
    return _json("POST", "/v1/messages", messages[0] if form == 2 else messages)


def _of_body(chance):
    """A body of any route that takes one."""
    id_ = chance.choice(IDS)
    method, path, body = chance.choice(
        [
            ("POST", "/v1/subscriptions", _subscription(chance)),
            ("POST", "/v1/subscriptions", [_subscription(chance) for _ in range(3)]),
            ("PUT", f"/v1/subscriptions/{id_}", _subscription(chance)),
            ("PATCH", f"/v1/subscriptions/{id_}", {"labels": {"a": "b"}, "max_events": 10**6, "paused": True}),
            ("POST", f"/v1/subscriptions/{id_}:test", {"message": feature("m1"), "place": [13.4, 52.5]}),
            (
                "POST",
                "/v1/locations",
                [{"subscriber": "anna", "lon": 1.0, "lat": 2.0}, {"id": id_, "lon": 1, "lat": 2}],
            ),
            ("PUT", f"/v1/subscribers/{id_}/location", {"lon": 13.4, "lat": 52.5, "time": "2026-01-01T00:00:00Z"}),
            ("PUT", f"/v1/subscribers/{id_}", {"cooldown": "5m", "digest": "1h", "paused": False, "sink": None}),
            ("PATCH", f"/v1/subscribers/{id_}", {"sink": {"url": "https://hook.invalid/"}, "debounce": "1m"}),
            ("POST", f"/v1/subscribers/{id_}/ack", {"cursor": "0-0"}),
            ("POST", "/v1/explain", {"message": feature("m1"), "subscription": _subscription(chance)}),
            ("POST", "/v1/deliveries:resend", {"subscriber": "anna", "from": "0-0", "to": "1-1"}),
            ("POST", "/v1/dead-letters:resend", {"subscriber": "anna"}),
            ("POST", "/v1/replay", {"subscriber": "anna", "from": "0-0", "to": "1-1"}),
            ("POST", "/v1/tokens", {"scopes": ["publish"], "subscriber": "anna", "expires": "2999-01-01T00:00:00Z"}),
        ]
    )
    request = _json(method, path, damaged(chance, body))
    request.body = bitten(chance, request.body)
    return request


def _of_parts(chance):
    """A path, its parameters and its method."""
    id_ = chance.choice(IDS)
    paths = ["subscriptions", f"subscriptions/{id_}", f"subscriptions/{id_}/current", f"subscriptions/{id_}:pause"]
    paths += [f"subscriptions/{id_}:resume", f"subscribers/{id_}", f"subscribers/{id_}/events", "map", "deliveries"]
    paths += [
        f"subscribers/{id_}/stream",
        "dead-letters",
        f"messages/{id_}",
        f"tokens/{id_}",
        "messages",
        id_,
        "tokens",
    ]
    method = chance.choice(["GET", "GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "X"])
    names = chance.sample(sorted(PARAMETERS), chance.randrange(4))
    query = "&".join(f"{name}={chance.choice(PARAMETERS[name])}" for name in names)
    return FuzzedRequest(method, f"/v1/{chance.choice(paths)}", query, [("content-type", JSON)])


def _with_headers(chance, request):
    for name in chance.sample(sorted(HEADERS), chance.randrange(1, 4)):
        value = chance.choice(HEADERS[name])
        if chance.randrange(4) == 0:
            value += "".join(chr(chance.randrange(1, 256)) for _ in range(chance.randrange(1, 20)))
        if chance.randrange(3):
            request.headers = [each for each in request.headers if each[0] != name]
        request.headers.append((name, value))


def _subscription(chance):
    found = circle(chance.choice(["f1", "f2", "f3"]), chance.choice(["tea", "milk OR tea"]), subscriber="anna")
    kind = chance.randrange(4)
    if kind == 1:
        found |= {"kind": "similar", "threshold": 0.5, "alpha": 0.5}
    elif kind == 2:
        found |= {"kind": "topk", "k": 3}
    elif kind == 3:
        found |= {"expires": "2999-01-01T00:00:00Z", "labels": {"a": "b"}, "max_events": 10**5}
    return found


def _message(chance):
    return feature(chance.choice(["m1", "m2", 7]), chance.choice(["tea", "milk tea"]), mood="good")


def without(chance, given, *names):
    """Leave names out, nearly always."""
    return given if chance.randrange(8) == 0 else {name: value for name, value in given.items() if name not in names}


#: Characters of a value of which there are no further 200 copies.
_LARGE = 10_000


def damaged(chance, value):
    """Return a value with some places of it replaced, left out or added; now and then it is left alone."""
    found = copy.deepcopy(value)
    for _ in range(chance.choice([0, 1, 1, 2])):
        places = list(_places(found))
        if not places:
            return chance.choice(JUNK)
        holder, key = chance.choice(places)
        act = chance.randrange(6)
        if key == "max_events":  # never so few that they are reached: what follows from that follows later
            holder[key] = chance.choice([0, -1, 10**6, 10**6 + 0.5, 2**63, "5", [], None])
        elif act == 0:
            del holder[key]
        elif act == 1 and isinstance(holder, dict):
            holder[chance.choice(["", "x", "id", "type", "lon", "coordinates", "time", "expires", "\0"])] = (
                chance.choice(JUNK)
            )
        elif act == 2:
            n = chance.choice([1, 2, 200])
            is_large = len(repr(found)) > _LARGE  # copies of copies would be more than memory holds
            holder[key] = [copy.deepcopy(holder[key])] * (min(n, 2) if is_large else n)
        else:
            holder[key] = copy.deepcopy(chance.choice(JUNK))
    return found


def _places(value):
    """Yield all places in nested values, as holder and key."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def bitten(chance, body):
    """Return bytes with a few of them changed, or cut off; mostly they are left alone."""
    if chance.random() < 0.7 or not body:
        return body
    at = chance.randrange(len(body))
    piece = chance.choice([b"", b"\xff", b"\0", b"NaN", b"1e999", b"\\ud800", b"{", b"]", b",", b'"', b"\x1e", b"\n"])
    return body[:at] + piece + (b"" if chance.randrange(4) == 0 else body[at + chance.randrange(3) :])


def _encoded(value):
    return json.dumps(value).encode()


def _json(method, path, value, query=""):
    return FuzzedRequest(method, path, query, [("content-type", JSON)], _encoded(value))
