"""Changes whose intent is still there at the next start, though the hub made them: what came since is kept."""

import pytest

from nearcast.errors import FileUnavailable
from nearcast.server.subscription_rows import SubscriptionRow, SubscriptionRows
from support.http_server import circle, running

PLACE = {"lon": 13.0, "lat": 52.0}


@pytest.mark.parametrize("change", ["made", "replaced", "resumed"])
def test_a_move_after_a_change_whose_intent_stayed_is_kept(tmp_path, monkeypatch, change):
    """The disk was full when the intent was to be taken away; the move was answered with 200 a moment later."""

    def full(*_):
        raise FileUnavailable("the disk is full")

    with running(tmp_path) as server, server.client() as client:
        if change == "replaced":
            client.put("/v1/subscriptions/tea", json=circle("tea", "coffee", subscriber="anna"))
        if change == "resumed":
            client.put("/v1/subscriptions/tea", json=circle("tea", subscriber="anna", paused=True))
        with monkeypatch.context() as patch:
            patch.setattr(SubscriptionRows, "settle", full)
            if change == "resumed":
                assert 507 == client.post("/v1/subscriptions/tea:resume").status_code
            else:
                body = circle("tea", subscriber="anna")
                assert 507 == client.put("/v1/subscriptions/tea", json=body).status_code
        assert 1 == client.put("/v1/subscribers/anna/location", json=PLACE).json()["moved"]
    with running(tmp_path) as server, server.client() as client:
        found = client.get("/v1/subscriptions/tea").json()
        assert (PLACE, "tea", False) == ({name: found[name] for name in PLACE}, found["query"], found["paused"])


def test_what_the_hub_holds_is_told_from_what_it_should_hold():
    """By all but the place, and by the place where nothing else was to change."""

    def row(query="tea", lon=1.0, **more):
        return SubscriptionRow("a", "anna", body={"id": "a", "query": query, "lon": lon, "lat": 2.0}, **more)

    moved = row(lon=9.0).body
    assert row().has_made(moved, "anna", None)
    assert row().has_made(moved, "anna", row("coffee"))
    assert row().has_made(moved, "anna", row(is_paused=True))
    assert row().has_made(row().body, "anna", row(lon=3.0))
    assert not row().has_made(moved, "anna", row(lon=9.0))
    assert not row().has_made(row("coffee").body, "anna", None)
    assert not row().has_made(moved, "ben", None)
