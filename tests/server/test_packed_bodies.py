"""Bodies that gzip packed in several members: files put end to end are one gzip file (RFC 1952)."""

import gzip

import pytest

from support.http_server import circle, feature

LINES = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}


def _line(message_id):
    return b'{"id": "%s", "text": "tea", "lon": 13.4, "lat": 52.5}\n' % message_id.encode()


def test_all_members_of_a_gzip_body_are_read(client):
    """What comes after the first was dropped, and 202 told that all of it was there."""
    client.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))
    body = b"".join(gzip.compress(_line(f"m{number}")) for number in range(3))
    found = client.post("/v1/messages", content=body + bytes(100), headers=LINES)
    assert (202, 3) == (found.status_code, found.json()["accepted"])
    events = client.get("/v1/subscribers/anna/events").json()["events"]
    assert ["m0", "m1", "m2"] == [each["subject"] for each in events]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (gzip.compress(_line("a")) + b"tail", 400),
        (gzip.compress(_line("a")) + gzip.compress(_line("b"))[:-4], 400),
        (gzip.compress(bytes(1 << 19)) * 3, 413),
        (gzip.compress(b"") * 2000, 400),
        (b"", 400),
    ],
    ids=["tail", "cut", "bomb", "members", "empty"],
)
def test_a_gzip_body_that_cannot_be_read_is_refused_as_a_whole(client, body, status):
    """Neither half of it is published, nor is more unpacked than the limit in all members together."""
    assert status == client.post("/v1/messages", content=body, headers=LINES).status_code
    assert 404 == client.get("/v1/messages/a").status_code


def test_a_feature_in_one_member_is_read_as_before(client):
    """The usual case."""
    body = gzip.compress(b'{"id": "one", "text": "tea", "lon": 13.4, "lat": 52.5}')
    found = client.post("/v1/messages", content=body, headers={**LINES, "Content-Type": "application/json"})
    assert 202 == found.status_code
    assert feature("one")["geometry"] == client.get("/v1/messages/one").json()["geometry"]
