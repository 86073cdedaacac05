"""Refused changes of subscriptions with `max_events`: the count goes on as if nobody had asked."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nearcast.errors import FileUnavailable
from nearcast.server.server_db import ServerDb
from nearcast.server.subscription_changes import end_subscription
from nearcast.server.subscription_rows import SubscriptionRows
from support.http_server import circle, feature, running
from support.waiting import PATIENCE_S, wait_until

LIMITED = circle("tea", subscriber="anna", max_events=2)


def _read(client, subscriber="anna", cursor="0-0"):
    found = client.get(f"/v1/subscribers/{subscriber}/events", params={"cursor": cursor}).json()
    return [each["subject"] for each in found["events"]]


def _publish(client, *ids):
    assert 202 == client.post("/v1/messages", json=[feature(each) for each in ids]).status_code


def _refusing(hub):
    """Let a hub refuse registrations, as on a full disk; return how to end that."""
    kept = hub.subscribe, hub.subscribe_many

    def refuse(*_, **__):
        raise FileUnavailable("the disk is full")

    hub.subscribe = hub.subscribe_many = refuse

    def end():
        hub.subscribe, hub.subscribe_many = kept

    return end


def _put(client, id_="tea"):
    return client.put(f"/v1/subscriptions/{id_}", json={**LIMITED, "id": id_, "max_events": 9})


def _changes(client):
    """Make each change that registers a subscription anew; return the answers."""
    return [
        _put(client, "put"),
        client.patch("/v1/subscriptions/patch", json={"max_events": 9}),
        client.post("/v1/subscriptions", json=[{**LIMITED, "id": "post", "max_events": 9}]),
        client.put("/v1/subscriptions/without", json=circle("without", subscriber="anna")),
    ]


def test_a_refused_change_leaves_the_count_as_it_was(tmp_path):
    """One event was told and one is left, also after a restart."""
    ids = ("put", "patch", "post", "without")
    with running(tmp_path) as server, server.client() as client:
        client.post("/v1/subscriptions", json=[{**LIMITED, "id": each} for each in ids])
        _publish(client, "m1")
        assert ["m1"] * 4 == _read(client)
        end = _refusing(server.tenant().hub)
        assert [507] * 4 == [answer.status_code for answer in _changes(client)]
        end()
    with running(tmp_path) as server, server.client() as client:
        _publish(client, "m2", "m3")
        assert ["m1"] * 4 + ["m2"] * 4 == _read(client)
        wait_until(lambda: client.get("/v1/subscriptions").json()["items"] == [])


def test_a_refused_change_after_the_last_event_hands_over_nothing_more(tmp_path):
    """What came between the last event and the end stays held back."""
    with running(tmp_path) as server, server.client() as client:
        client.put("/v1/subscriptions/tea", json=LIMITED)
        _publish(client, "m1", "m2", "m3")
        wait_until(lambda: client.get("/v1/subscriptions/tea").status_code == 404)
        end = _refusing(server.tenant().hub)
        assert 507 == client.post("/v1/subscriptions", json=LIMITED).status_code
        end()
        assert ["m1", "m2"] == _read(client)


def test_a_refused_resume_leaves_the_count_as_it_was(tmp_path):
    """The subscription stays paused; what it got before the pause was all that it gets."""
    with running(tmp_path) as server, server.client() as client:
        client.put("/v1/subscriptions/tea", json=LIMITED)
        _publish(client, "m1")
        client.post("/v1/subscriptions/tea:pause")
        _read(client)
        before = server.tenant().db.read("SELECT counted FROM event_limits")
        end = _refusing(server.tenant().hub)
        assert 507 == client.post("/v1/subscriptions/tea:resume").status_code
        end()
        assert before == server.tenant().db.read("SELECT counted FROM event_limits") == [(1,)]


def test_events_wait_while_a_registration_is_under_way(tmp_path):
    """Neither the old count nor the new one decides before the hub did; then those who read get them at once."""
    with running(tmp_path, limits={"wait_seconds": PATIENCE_S}) as server, server.client() as client:
        client.put("/v1/subscriptions/tea", json=LIMITED)
        client.put("/v1/subscriptions/other", json=circle("other", subscriber="anna", query="coffee"))
        hub, is_there, go_on = server.tenant().hub, threading.Event(), threading.Event()
        subscribe = hub.subscribe

        def held_up(*given, **options):
            is_there.set()
            assert go_on.wait(PATIENCE_S)
            raise FileUnavailable("the disk is full")

        hub.subscribe = held_up
        with ThreadPoolExecutor(2) as pool:
            changed = pool.submit(_put, client)
            assert is_there.wait(PATIENCE_S)
            client.post(
                "/v1/messages", json=[feature("c1", text="coffee"), feature("m1"), feature("m2"), feature("m3")]
            )
            assert ["c1"] == _read(client)
            after = client.get("/v1/subscribers/anna/events").json()["cursor"]
            waiting = pool.submit(client.get, f"/v1/subscribers/anna/events?cursor={after}&wait={PATIENCE_S}")
            wait_until(lambda: server.tenant().feeds._waiting)
            hub.subscribe = subscribe
            go_on.set()
            assert 507 == changed.result(PATIENCE_S).status_code
            found = waiting.result(PATIENCE_S).json()["events"]
            assert ["m1", "m2"] == [each["subject"] for each in found]


def test_a_subscription_made_anew_is_not_ended_by_its_last_count(tmp_path):
    """The end of the first one was on its way when it was registered anew."""
    with running(tmp_path) as server, server.client() as client:
        client.put("/v1/subscriptions/tea", json=LIMITED)
        tenant = server.tenant()
        ends = []
        tenant.on_last_event = ends.append
        _publish(client, "m1", "m2")
        wait_until(lambda: ends)
        client.put("/v1/subscriptions/tea", json=LIMITED)
        ending = end_subscription(tenant, "tea")
        asyncio.run_coroutine_threadsafe(ending, tenant.feeds._loop).result(PATIENCE_S)
        assert 200 == client.get("/v1/subscriptions/tea").status_code


def test_a_count_comes_back_with_an_intent_that_is_refused_at_the_start(tmp_path):
    """A crash came after the intent was written, and now the hub refuses it: row and count are as before."""
    with running(tmp_path) as server, server.client() as client:
        client.put("/v1/subscriptions/tea", json=LIMITED)
        _publish(client, "m1")
        _read(client)
        tenant = server.tenant()
        row = tenant.rows.get("tea")
        change = tenant.limits.begin(row)
        wait_until(lambda: tenant.db.read("SELECT counted FROM event_limits") == [(1,)])

        def write(connection):
            tenant.rows.intend(row, "hold", row, limit=change.earlier)(connection)
            change.write(connection)

        tenant.db.write(write).result(PATIENCE_S)
        assert [(0,)] == tenant.db.read("SELECT counted FROM event_limits")
    db = ServerDb(tmp_path / "tenants" / "default" / "server.db")

    def refuse(*_):
        raise FileUnavailable("the disk is full")

    assert 1 == SubscriptionRows(db).make_again(refuse, refuse)
    assert [(1,)] == db.read("SELECT counted FROM event_limits")
    assert SubscriptionRows(db).get("tea").is_settled
    db.close()


def test_counting_leaves_threads_for_others(tmp_path):
    """However many subscribers have limits: while the hub takes its time to count for one, all else is answered."""
    with running(tmp_path) as server, server.client() as client:
        many = [circle(f"s{n}", subscriber=f"b{n}", max_events=5) for n in range(40)]
        assert 40 == client.post("/v1/subscriptions", json=many).json()["accepted"]
        hub, is_there, go_on = server.tenant().hub, threading.Event(), threading.Event()
        events, under_way = hub.events, []

        def slow(*given, **options):
            under_way.append(given)
            is_there.set()
            assert go_on.wait(PATIENCE_S)
            return events(*given, **options)

        hub.events = slow
        try:
            _publish(client, "m1")
            assert is_there.wait(PATIENCE_S)
            assert 200 == client.get("/v1/subscriptions/s1").status_code
            assert 1 == len(under_way)
        finally:
            go_on.set()
        wait_until(lambda: server.tenant().db.read("SELECT sum(counted) FROM event_limits") == [(40,)])


@pytest.mark.parametrize("way", ["put", "batch"])
def test_a_refused_change_does_not_touch_the_count_of_events(tmp_path, way):
    """A subscription that had two of three events has one left after a change that was refused."""
    with running(tmp_path) as server, server.client() as client:
        client.put("/v1/subscriptions/few", json=circle("few", subscriber="anna", max_events=3))
        client.post("/v1/messages", json=[feature("m1"), feature("m2")])
        topk = {"id": "few", "kind": "topk", "query": "tea", "lon": 13.4, "lat": 52.5, "max_distance_m": 500}
        refused = {**topk, "subscriber": "anna"}  # without a window the hub has no such thing
        if way == "put":
            assert 422 == client.put("/v1/subscriptions/few", json=refused).status_code
        else:
            assert 1 == len(client.post("/v1/subscriptions", json=[refused]).json()["rejected"])
        client.post("/v1/messages", json=[feature("m3"), feature("m4")])
        assert ["m1", "m2", "m3"] == _read(client)
