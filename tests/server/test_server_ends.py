"""A server at its ends: a full disk, callers that went, a hub that stops, ids that are nearly numbers."""

import threading

import pytest
from websockets.sync.client import connect

from nearcast.durable import DurableHub, Retention
from nearcast.errors import FileUnavailable, HubStopped
from nearcast.server.erasure import begin_erasure
from nearcast.server.server_db import ServerDb
from nearcast.server.webhooks.attempts import AttemptStore, Retry
from support.http_server import circle, feature, make_token, running
from support.waiting import PATIENCE_S, wait_until


def _insert(name, size=2):
    return lambda connection: connection.execute("INSERT INTO subscribers VALUES (?, ?)", (name, "x" * size)) and None


def test_a_row_that_the_disk_does_not_take_stops_nothing(tmp_path):
    """Nothing of its transaction is stored, and the next one is."""
    db = ServerDb(tmp_path / "server.db")
    db.write(lambda connection: [*connection.execute("PRAGMA max_page_count = 30")] and None).result(PATIENCE_S)
    with pytest.raises(FileUnavailable, match="full"):
        db.write(_insert("a", 500_000)).result(PATIENCE_S)
    db.write(_insert("b")).result(PATIENCE_S)
    assert db.read("SELECT id FROM subscribers") == [("b",)]
    with pytest.raises(ZeroDivisionError):
        db.write(lambda connection: (_insert("c")(connection), 1 / 0)).result(PATIENCE_S)
    assert db.read("SELECT id FROM subscribers") == [("b",)]
    db.close()


def test_whoever_does_not_wait_any_more_stops_no_other(tmp_path):
    """A write that was cancelled, as a server that stops does with requests, is left out."""
    db, is_busy, go_on = ServerDb(tmp_path / "server.db"), threading.Event(), threading.Event()
    first = db.write(lambda _: (is_busy.set(), go_on.wait(PATIENCE_S)))
    assert is_busy.wait(PATIENCE_S)
    assert not first.cancel()
    second, third = db.write(_insert("a")), db.write(_insert("b"))
    assert second.cancel()
    go_on.set()
    third.result(PATIENCE_S)
    db.close()


def _refusing(hub, error):
    """Let a hub refuse changes of subscriptions."""

    def refuse(*_, **__):
        raise error

    hub.subscribe = hub.subscribe_many = refuse


def test_many_subscriptions_that_the_disk_does_not_take_are_not_made_later(tmp_path):
    """507 says that nothing was stored: the next start does not make them."""
    with running(tmp_path) as server, server.client() as client:
        client.post("/v1/subscriptions", json=[circle("old")])
        _refusing(server.tenant().hub, FileUnavailable("the disk is full"))
        answer = client.post("/v1/subscriptions", json=[circle("old", query="coffee"), circle("new")])
        assert answer.status_code == 507
    with running(tmp_path) as server, server.client() as client:
        assert [(each["id"], each["query"]) for each in client.get("/v1/subscriptions").json()["items"]] == [
            ("old", "tea")
        ]


@pytest.mark.parametrize("body", [circle("a", subscriber="anna"), [circle("a", subscriber="anna")]], ids=type)
def test_a_subscription_that_a_hub_which_stopped_has_logged_is_known_to_the_server(tmp_path, body):
    """The answer was 503; what the log has is listed after the restart, and can be deleted."""
    with running(tmp_path) as server, server.client() as client:
        hub = server.tenant().hub
        subscribe, subscribe_many = hub.subscribe, hub.subscribe_many

        def logged_and_stopped(make):
            def call(*given, **options):
                make(*given, **options)
                raise HubStopped("the hub stopped: IOError")

            return call

        hub.subscribe, hub.subscribe_many = logged_and_stopped(subscribe), logged_and_stopped(subscribe_many)
        assert client.post("/v1/subscriptions", json=body).status_code == 503
    with running(tmp_path) as server, server.client() as client:
        assert list(server.tenant().hub) == ["a"]
        assert [each["id"] for each in client.get("/v1/subscriptions").json()["items"]] == ["a"]


@pytest.mark.parametrize("path", ["/v1/messages/--5", "/v1/messages/²", "/v1/messages/" + "9" * 19])
def test_an_id_that_is_nearly_a_number_is_of_no_message(client, path):
    assert client.get(path).status_code == 404


def test_a_cursor_of_digits_that_are_no_number(client):
    assert client.get("/v1/subscriptions", params={"cursor": "²"}).status_code == 422


def test_a_socket_moves_nobody_without_the_scope(tmp_path):
    """As `PUT location` does not."""
    with running(tmp_path) as server, server.client() as client:
        client.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))
        token = make_token(tmp_path, scopes=("subscribe",), subscriber="anna")
        url = server.url.replace("http", "ws") + "/v1/subscribers/anna/ws"
        with connect(url, additional_headers={"Authorization": f"Bearer {token}"}, proxy=None) as socket:
            socket.send('{"location": {"lon": 1, "lat": 2}}')
            assert '"status":403' in socket.recv(PATIENCE_S)


def test_an_erasure_that_a_crash_cut_off_is_made_in_all_places(tmp_path):
    """Also of the events that a webhook was to get."""
    retry = Retry(
        subscriber="anna", event_id="e", message_id=None, cursor="1-1", body=b"{}", first=0.0, n_tries=0, due=0.0
    )
    with running(tmp_path) as server:
        server.tenant().hooks.store.put_back([retry])
        server.tenant().db.write(begin_erasure("anna")).result(PATIENCE_S)
    with running(tmp_path) as server:
        assert server.tenant().hooks.store.retries("anna") == []


def test_attempts_past_the_retention_are_forgotten(tmp_path):
    """Else their database grows for ever."""
    with running(tmp_path):
        pass
    store = AttemptStore(tmp_path / "tenants" / "default" / "webhooks.db")
    store._connection.execute("INSERT INTO attempts VALUES (NULL, 'anna', 'e', NULL, '1-1', 5.0, 204, '')")
    store.close()
    with running(tmp_path) as server:
        wait_until(lambda: not server.tenant().hooks.store.attempts(subscriber="anna"))


def test_a_limit_goes_with_its_subscription_to_another_subscriber(tmp_path):
    """What the first subscriber got does not count for the second."""
    with running(tmp_path) as server, server.client() as client:
        client.put("/v1/subscriptions/tea", json=circle("tea", subscriber="anna", max_events=2))
        client.post("/v1/messages", json=feature("m1"))
        client.get("/v1/subscribers/anna/events")
        client.put("/v1/subscriptions/tea", json=circle("tea", subscriber="ben", max_events=2))
        client.post("/v1/messages", json=feature("m2"))
        client.get("/v1/subscribers/anna/events?cursor=0-0")
        client.post("/v1/messages", json=feature("m3"))
        found = client.get("/v1/subscribers/ben/events").json()["events"]
        assert [each["subject"] for each in found] == ["m2", "m3"]
        assert not server.tenant().limits.concern("anna")


def test_a_gap_is_told_once(tmp_path):
    """Also when nothing came after it: the cursor goes past what was dropped, and can be acknowledged."""
    with DurableHub(tmp_path / "hub", "earth", retention=Retention(age=None, bytes=1)) as hub:
        hub.subscribe(circle("tea"), subscriber="anna")
        hub.publish(feature("m1"))
        hub._outbox.flush()
        hub._outbox.tidy(0)
        found = hub.events("anna")
        assert (len(found), found.gap) == (0, 1)
        assert hub.events("anna", after=found.cursor).gap == 0
        hub.ack("anna", found.cursor)
        assert hub.events("anna").gap == 0
        hub.publish(feature("m2"))
        assert [each.message.id for each in hub.events("anna", after=found.cursor)] == ["m2"]
