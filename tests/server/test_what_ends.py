"""What has ended by itself is forgotten while the server runs, so that nothing grows without end."""

import time

import pytest

from nearcast.durable import Retention
from nearcast.server.rates import TokenRates
from nearcast.server.tokens import TokenStore
from support.http_server import circle, feature
from support.waiting import wait_until

DAY_S = 86_400.0


def test_tokens_that_expired_are_listed_for_a_month(server):
    """Then they go, also those of other tenants; those without an end stay."""
    store, now = TokenStore(server.data / "tokens.db"), time.time()
    for name, expires in (("long ago", now - 31 * DAY_S), ("just now", now - 1), ("later", now + 60), ("never", None)):
        store.create("default", ["publish"], name=name, expires=expires)
    server.tenant().upkeep.once(now)
    assert ["just now", "later", "never"] == [token.name for token in store.of_tenant(None)]
    store.close()


def test_rates_of_tokens_that_call_no_more_are_forgotten(monkeypatch):
    """A token that calls again begins a window as any other; those in a window are counted on."""
    rates, now = TokenRates("2/second"), 100.0
    monkeypatch.setattr("nearcast.server.rates.time.monotonic", lambda: now)
    for number in range(5_000):
        now += 0.01
        rates.take(f"token {number}")
    assert len(rates._windows) <= 2_000
    rates.take("token 4999")
    with pytest.raises(Exception, match="more than 2 per"):
        rates.take("token 4999")


@pytest.fixture
def limits(server):
    """Return the limits of the default tenant."""
    return server.tenant().limits


def test_counts_of_subscriptions_that_are_gone_are_forgotten(client, server, limits):
    """A month after they ended, or were deleted, and not before: what they got too much may still be read."""
    for name in ("ends", "deleted", "stays"):
        client.post("/v1/subscriptions", json=circle(name, query=name, subscriber=name, max_events=1))
    assert {"ends", "deleted", "stays"} == set(limits.counted())
    client.post("/v1/messages", json=feature("m", text="ends"))
    wait_until(lambda: client.get("/v1/subscriptions/ends").status_code == 404)
    client.delete("/v1/subscriptions/deleted")
    server.tenant().upkeep.once(time.time() + 20 * DAY_S)
    assert {"ends", "deleted", "stays"} == set(limits._by_subscriber)
    server.tenant().upkeep.once(time.time() + 31 * DAY_S)
    assert ["stays"] == list(limits._by_subscriber) == limits.counted()
    assert [("stays",)] == server.tenant().db.read("SELECT id FROM event_limits")


def test_the_count_of_a_subscription_that_could_not_end_stays(client, server, limits):
    """A full disk may have kept it from ending: without its count it would begin again."""
    client.post("/v1/subscriptions", json=circle("late", query="late", subscriber="late", max_events=1))
    db, old = server.tenant().db, time.time() - 40 * DAY_S
    db.execute("UPDATE event_limits SET last = since, at = ? WHERE id = 'late'", (old,)).result()
    limits.forget_old(time.time())
    assert "late" in limits._by_subscriber
    assert [("late",)] == db.read("SELECT id FROM event_limits WHERE id = 'late'")


def test_counts_outlive_the_events(limits, monkeypatch):
    """However long these are kept."""
    monkeypatch.setattr(limits, "_retention", Retention("60d"))
    assert limits._old(100 * DAY_S) <= 39 * DAY_S


def test_nobody_is_counted_who_had_all_events(client, limits):
    """The hub asks for whom to count after every call; one who begins again is among them."""
    client.post("/v1/subscriptions", json=circle("once", query="once", subscriber="once", max_events=1))
    assert "once" in limits.counted()
    client.post("/v1/messages", json=feature("n", text="once"))
    wait_until(lambda: client.get("/v1/subscriptions/once").status_code == 404)
    assert "once" not in limits.counted()
    client.post("/v1/subscriptions", json=circle("once", query="once", subscriber="once"))
    assert "once" not in limits._by_subscriber


def test_overdue_webhooks_past_the_retention_are_counted(server):
    """They were dropped before they were handed over."""
    hooks, now = server.tenant().hooks, time.time()
    row = ("anna", "e", None, "1-1", b"{}", now, 0, now)
    hooks.store._connection.execute("INSERT INTO retries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    dropped = hooks._metrics.gaps.labels("retention")._value
    before = dropped.get()
    hooks.forget_old(now + 6 * DAY_S)
    assert before == dropped.get()
    hooks.forget_old(now + 8 * DAY_S)
    assert before + 1 == dropped.get()
    assert [] == hooks.store.retries("anna")
