"""The names of a hub that clients have: `move`, `move_many`, `subscribe_many` and those that ask, of both clients."""

import asyncio
import inspect

import pyarrow as pa
import pytest

from nearcast import AsyncClient, Box, Circle, Client, Message, Similar, Within
from nearcast.client import ServerProblem
from nearcast.durable import DurableHub
from support.http_server import circle, feature, running


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("client") / "data") as found:
        yield found


class Waiting:
    """A client whose coroutines are waited for, so that both kinds are tried by the same test."""

    def __init__(self, client, loop):
        self._client, self._loop = client, loop

    def __getattr__(self, name):
        method = getattr(self._client, name)
        return lambda *given, **more: self._loop.run_until_complete(method(*given, **more))


@pytest.fixture(params=["sync", "async"])
def client(server, request):
    if request.param == "sync":
        with Client(server.url) as found:
            yield found
        return
    with asyncio.Runner() as runner:
        made = AsyncClient(server.url)
        yield Waiting(made, runner.get_loop())
        runner.run(made.close())


def _place(client, name):
    found = client.get(name)
    return found["lon"], found["lat"]


def test_many_subscriptions(client):
    """Values, dicts, Features and tables; known ids are replaced, and the others' mistakes are told."""
    given = [
        Within("m1", "tea", Circle(13.4, 52.5, 500)),
        circle("m2", lat=91),
        circle("m3"),
        {"type": "Feature", "geometry": None, "properties": {"id": "m4", "query": "jam"}},
    ]
    found = client.subscribe_many(given, subscriber="many")
    assert (3, [1]) == (found.accepted, [each["row"] for each in found.rejected])
    assert ["many"] * 3 == [client.subscriber_of(name) for name in ("m1", "m3", "m4")]
    table = pa.table({"id": ["m1", "m5"], "query": ["jam", "tea"], "lon": [1.0, 2.0], "lat": [3.0, None]})
    table = table.append_column("radius_m", pa.array([100.0, None]))
    found = client.subscribe_many(table)
    assert (1, [1]) == (found.accepted, [each["row"] for each in found.rejected])
    assert ("jam", None) == (client.get("m1")["query"], client.subscriber_of("m1"))
    assert 0 == client.subscribe_many([]).accepted


def test_a_subscription_moves(client):
    """To a point, which carries its region along, or to a region; what cannot be is a problem."""
    client.subscribe(circle("walks"))
    client.subscribe(Similar("scored", "ramen", (13.4, 52.5), threshold=0.5, max_distance=900))
    client.move("walks", (1.0, 2.0), "2026-01-01T00:00:00Z")
    assert ((1.0, 2.0), 800) == (_place(client, "walks"), client.get("walks")["radius_m"])
    client.move("walks", Circle(3.0, 4.0, 50))
    assert ((3.0, 4.0), 50) == (_place(client, "walks"), client.get("walks")["radius_m"])
    client.move("walks", Box(1, 2, 3, 4))
    assert 2 == client.get("walks")["south"]
    for name, place, status in (("nobody", (1, 2), 404), ("walks", (1, 91), 422), ("scored", Box(1, 2, 3, 4), 422)):
        with pytest.raises(ServerProblem) as refused:
            client.move(name, place)
        assert status == refused.value.status, refused.value


def test_many_move(client):
    """Subscriptions and subscribers, as dicts or a table; those that move nothing are rejected."""
    client.subscribe(circle("w1"), subscriber="anna")
    client.subscribe(circle("w2"), subscriber="anna")
    moves = [
        {"id": "w1", "lon": 1.0, "lat": 2.0},
        {"id": "nobody", "lon": 1.0, "lat": 2.0},
        {"subscriber": "anna", "lon": 5.0, "lat": 6.0},
        {"subscriber": "unknown", "lon": 5.0, "lat": 6.0},
    ]
    found = client.move_many(moves)
    assert (2, [1, 3]) == (found.accepted, [each["row"] for each in found.rejected])
    assert [(5.0, 6.0)] * 2 == [_place(client, name) for name in ("w1", "w2")]
    assert 1 == client.move_many(pa.table({"id": ["w1"], "lon": [7.0], "lat": [8.0]})).accepted
    assert (7.0, 8.0) == _place(client, "w1")


def test_questions_by_the_hubs_names(client):
    """Who gets a message, who nearly does, what is kept of it, and what was acknowledged."""
    client.subscribe(circle("asks", query="tea"), subscriber="asker")
    client.subscribe(circle("nearly", query="tea AND jam"))
    given = feature("asked")
    assert "asks" in client.reached(given)
    assert "nearly" in {each["subscription_id"] for each in client.nearly(Message("asked", "tea", (13.4, 52.5)))}
    client.publish(given)
    assert "tea" == client.kept_message("asked")["properties"]["text"]
    assert client.kept_message("never") is None
    cursor = client.events("asker").events[-1].cursor
    client.ack("asker", cursor)
    assert cursor == client.acked("asker")


#: Names of a durable hub that clients do not have: docs/server.md says why.
NOT_GIVEN = {
    "unsubscribe_many": "one route deletes one",
    "subscriptions_of": "subscriptions(subscriber)",
    "subscriptions_of_many": "subscriptions(subscriber)",
    "to_table": "subscriptions()",
    "events_many": "one subscriber a request",
    "poll": "deliveries are events",
    "ends": "deliveries are events",
    "end": "the cursor of a publish",
    "on_release": "stream",
    "begin_publish": "AsyncClient",
    "begin_publish_together": "AsyncClient",
    "safe": "for programs in the same process",
    "in_box": "the map",
    "centres_in_box": "the map",
    "empty_copy": "validateOnly",
    "advance": "time is the wall clock",
    "beat": "time is the wall clock",
    "use_vocabulary": "settings of the server",
    "save": "backup",
    "open": "serve",
    "snapshot": "the server's own business",
    "forget_erased": "the server's own business",
    "has_events": "the server's own business",
    "count_refused": "the server's own business",
    "is_stopped": "health",
    "stats": "/metrics",
    "lifetime": "settings of the server",
    "window": "settings of the server",
}


def test_clients_have_the_names_of_the_hub_or_say_why_not():
    """A method that the hub gets is given to clients, or entered above and in the page."""

    def names(kind):
        return {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}

    assert names(Client) == names(AsyncClient)
    assert set(NOT_GIVEN) == names(DurableHub) - names(Client)


@pytest.mark.parametrize("name", sorted({name for name, _ in inspect.getmembers(Client, inspect.isfunction)}))
def test_both_clients_take_the_same_arguments(name):
    """The mirror is kept by this test."""
    if not name.startswith("__"):
        assert list(inspect.signature(getattr(Client, name)).parameters) == list(
            inspect.signature(getattr(AsyncClient, name)).parameters
        )
