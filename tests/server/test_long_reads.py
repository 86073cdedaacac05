"""Somebody who looks through a whole table holds up neither the loop nor any webhook."""

import threading

from nearcast.server.webhooks.attempts import AttemptStore, EndpointState
from support.http_server import circle, make_token
from support.waiting import join


def answers_of(client, *paths):
    return [client.get(path).status_code for path in paths]


def test_a_list_by_a_label_stops_no_other_request(client, server):
    """It looks at all subscriptions; single ones are found by their keys meanwhile, also for a repeated POST."""
    client.post("/v1/subscriptions", json=circle("tea", labels={"a": "b"}))
    listed = []
    with server.client() as other:
        listing = threading.Thread(
            target=lambda: listed.append(other.get("/v1/subscriptions", params={"label": "a:b"})), daemon=True
        )
        with server.tenant().db._scanning:  # as long as it lasts, the list is not there
            listing.start()
            assert [200, 200] == answers_of(client, "/v1/subscriptions/tea", "/healthz")
            made = client.post("/v1/subscriptions", json=circle("mint"), headers={"Idempotency-Key": "k"})
            assert (201, []) == (made.status_code, listed)
        join(listing)
    assert ["tea"] == [each["id"] for each in listed[0].json()["items"]]


def test_who_writes_or_lists_tokens_stops_no_other_request(server):
    """Those that call are found meanwhile."""
    store = server.server.app.state.access.tokens
    with server.client(make_token(server.data)) as admin, server.client(make_token(server.data)) as other:
        with store._lock:
            listed = []
            listing = threading.Thread(target=lambda: listed.append(other.get("/v1/tokens")), daemon=True)
            listing.start()
            assert [200, 200] == answers_of(admin, "/v1/subscriptions", "/healthz")
            assert not listed
        join(listing)
        assert 200 == listed[0].status_code


def test_a_list_of_attempts_stops_no_webhook(tmp_path):
    """Outcomes are stored while somebody looks through all there were."""
    store = AttemptStore(tmp_path / "webhooks.db")
    with store._listing:
        listing = threading.Thread(target=lambda: store.attempts(is_accepted=False), daemon=True)
        listing.start()
        store.set_endpoint(EndpointState("anna", n_failures=1))
        assert 1 == store.endpoint("anna").n_failures
        assert listing.is_alive()
    join(listing)
    store.close()
