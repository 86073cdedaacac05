"""Pages that are read together: one that cannot be made takes no other along."""

from dataclasses import dataclass

import pytest

from support.http_server import circle, feature


@dataclass
class Reader:
    """Somebody who waits for a page."""

    subscriber: str
    after: str | None = None
    limit: int = 10


def test_a_page_that_cannot_be_made_stops_its_reader_alone(client, server, monkeypatch):
    """Whatever is wrong with it: the others get theirs."""
    for name in ("anna", "ben", "cleo"):
        client.post("/v1/subscriptions", json=circle(name, subscriber=name))
    client.post("/v1/messages", json=feature("m"))
    feeds = server.tenant().feeds
    real = feeds._encoder.events_of

    def encoded(columns):
        if "ben" in columns.subscription_ids:
            raise ValueError("a defect")
        return real(columns)

    monkeypatch.setattr(feeds._encoder, "events_of", encoded)
    found = feeds._read([Reader(name) for name in ("anna", "ben", "cleo")])
    assert isinstance(found[1], ValueError)
    assert [["anna"], ["cleo"]] == [[event.subscription_id for event in page.events] for page in found[::2]]
    monkeypatch.undo()
    assert 1 == len(client.get("/v1/subscribers/ben/events").json()["events"])


def test_a_failure_of_all_is_told_to_all(server, monkeypatch):
    """Each gets the error of its own page."""
    feeds = server.tenant().feeds
    monkeypatch.setattr(feeds._encoder, "events_of", lambda _: pytest.fail("not reached"))
    found = feeds._read([Reader("anna", after="9-9-9"), Reader("ben", limit=0)])
    assert ["cursor", "limit"] == [error.field for error in found]
