"""An erasure beside requests of the same subscriber: whatever comes in between, nothing of it stays."""

from concurrent.futures import ThreadPoolExecutor

from support.held_calls import held_up
from support.http_server import circle, feature
from support.waiting import PATIENCE_S, wait_until

SERVER = {"webhooks": {"allow": ("127.0.0.0/8",)}}
#: Nobody listens there: webhooks fail, and wait to be sent again.
SINK = {"sink": {"url": "http://127.0.0.1:9/hook"}}


def _left_of(server, subscriber):
    """Return how many rows, subscriptions and attempts there are of a subscriber."""
    tenant = server.tenant()
    counts = [
        tenant.db.read(f"SELECT count(*) FROM {table} WHERE {column} = ?", (subscriber,))[0][0]
        for table, column in (("subscriptions", "subscriber"), ("event_limits", "subscriber"), ("subscribers", "id"))
    ]
    answers = tenant.db.read("SELECT count(*) FROM answers WHERE CAST(body AS TEXT) LIKE ?", (f'%"{subscriber}"%',))
    store = tenant.hooks.store
    hooks = [
        next(store._connection.execute(f"SELECT count(*) FROM {table} WHERE subscriber = ?", (subscriber,)))[0]
        for table in ("attempts", "retries", "dead_letters", "endpoints")
    ]
    return [*counts, answers[0][0], *hooks, len(tenant.hub.subscriptions_of(subscriber))]


def _erased_beside(server, client, subscriber, requests):
    """Begin an erasure, make requests while it lasts, and let all of them end; return the answers to them."""
    hub = server.tenant().hub
    with ThreadPoolExecutor(1 + len(requests)) as pool, held_up(hub, "erase") as (began, go_on):
        erased = pool.submit(client.delete, f"/v1/subscribers/{subscriber}")
        assert began.wait(PATIENCE_S)
        answers = [pool.submit(each) for each in requests]
        tasks = server.server.server_state.tasks  # a move waits for nothing, and may be over before the others came
        wait_until(lambda: len(tasks) + sum(each.done() for each in answers) > len(requests))
        go_on.set()
        assert 204 == erased.result(PATIENCE_S).status_code
        return [each.result(PATIENCE_S) for each in answers]


def test_changes_beside_an_erasure_come_before_or_after_it(server, client):
    """What waited for its end is made anew and whole, or finds nothing: it is known to hub and server alike."""
    client.put("/v1/subscribers/anna", json=SINK)
    client.put("/v1/subscriptions/a1", json=circle("a1", subscriber="anna", max_events=5))
    made = [
        lambda: client.post("/v1/subscriptions", json=circle("a2", subscriber="anna", max_events=5)),
        lambda: client.post("/v1/subscriptions", json=[circle("a3", subscriber="anna")]),
    ]
    found = [
        lambda: client.patch("/v1/subscriptions/a1", json={"query": "coffee"}),
        lambda: client.post("/v1/subscriptions/a1:pause"),
        lambda: client.post("/v1/subscribers/anna:enable"),
        lambda: client.post("/v1/replay", json={"subscriber": "anna"}),
    ]
    moved = [lambda: client.put("/v1/subscribers/anna/location", json={"lon": 13.0, "lat": 52.0})]
    answers = _erased_beside(server, client, "anna", made + found + moved)
    assert [201, 200, 404, 404, 409, 409, 200] == [each.status_code for each in answers]
    listed = {each["id"] for each in client.get("/v1/subscriptions?subscriber=anna").json()["items"]}
    assert {"a2", "a3"} == listed == set(server.tenant().hub.subscriptions_of("anna"))
    assert 204 == client.delete("/v1/subscribers/anna").status_code
    assert [0] * 9 == _left_of(server, "anna")


def test_nothing_that_was_under_way_comes_after_an_erasure(server, client):
    """Neither a count nor the answer to a key, which has the place; one that was kept goes with its subscriber."""
    client.put("/v1/subscriptions/b1", json=circle("b1", subscriber="ben", max_events=5))
    tenant = server.tenant()
    with held_up(tenant.hub, "events", is_after=True) as (began, go_on):
        client.post("/v1/messages", json=feature("m1"))
        assert began.wait(PATIENCE_S)  # the message is being counted
        assert 204 == client.delete("/v1/subscribers/ben").status_code
        go_on.set()
        wait_until(lambda: not tenant.limits._is_counting)
    assert [0] * 9 == _left_of(server, "ben")
    body = circle("c1", subscriber="cleo")
    with ThreadPoolExecutor(1) as pool, held_up(tenant.hub, "get", is_after=True) as (began, go_on):
        posted = pool.submit(client.post, "/v1/subscriptions", json=body, headers={"Idempotency-Key": "c"})
        assert began.wait(PATIENCE_S)  # the answer is being made
        assert 204 == client.delete("/v1/subscribers/cleo").status_code
        go_on.set()
        assert "cleo" == posted.result(PATIENCE_S).json()["subscriber"]
    assert [0] * 9 == _left_of(server, "cleo")
    client.post("/v1/subscriptions", json=body, headers={"Idempotency-Key": "d"})
    assert [1, 0, 0, 1, 0, 0, 0, 0, 1] == _left_of(server, "cleo")
    client.delete("/v1/subscribers/cleo")
    assert [0] * 9 == _left_of(server, "cleo")


def test_enabling_needs_a_sink(client):
    """Else it would leave a row behind of somebody who has none."""
    assert 409 == client.post("/v1/subscribers/nobody:enable").status_code
