"""Endpoints that hang hold up nobody else, and waiting for our own connections is nobody's failure."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hook_receivers import HookReceiver, ListedEvents

from nearcast.server.webhooks.addresses import AddressPolicy, NameLookups
from nearcast.server.webhooks.attempts import AttemptStore, EndpointState
from nearcast.server.webhooks.breaker import Breaker
from nearcast.server.webhooks.dispatcher import Dispatcher
from nearcast.server.webhooks.lanes import ConnectionLanes, Lane
from nearcast.server.webhooks.signing import new_secret
from nearcast.server.webhooks.sink import HookSink
from nearcast.server.webhooks.transport import HookTransport

DEADLINE_S = 600


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await test()

    asyncio.run(bounded())


class HangingReceiver:
    """A server that takes connections and never answers."""

    def __init__(self) -> None:
        self.n_connections = 0
        self.came = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []

    async def take(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.n_connections += 1
        self._writers.append(writer)
        self.came.set()

    async def wait_for(self, n: int) -> None:
        while self.n_connections < n:
            self.came.clear()
            await self.came.wait()

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


class OwnEvents:
    """An outbox of a list for each subscriber."""

    def __init__(self, **n_events: int):
        self.lists = {name: ListedEvents(n) for name, n in n_events.items()}

    def events(self, subscriber: str, after: str | None, limit: int) -> Any:
        return self.lists[subscriber].events(subscriber, after, limit)

    def ack(self, subscriber: str, cursor: str) -> None:
        self.lists[subscriber].ack(subscriber, cursor)


def _sink(port: int) -> HookSink:
    return HookSink(f"http://127.0.0.1:{port}/", (new_secret(),))


def test_dead_endpoints_take_no_connection_from_one_that_answers(tmp_path: Path) -> None:
    """More of them hang than there are connections; all events of the live one still come, and none waited its turn."""

    async def test() -> None:
        dead = [f"dead{n}" for n in range(12)]
        source = OwnEvents(live=1, **dict.fromkeys(dead, 1))
        store, receiver, hanging = AttemptStore(tmp_path / "webhooks.db"), HookReceiver(), HangingReceiver()
        policy = AddressPolicy.allowing(["127.0.0.0/8"])
        transport = HookTransport(policy, timeout_s=DEADLINE_S, most_connections=4)
        dispatcher = Dispatcher(store, source, transport)
        server = await asyncio.start_server(hanging.take, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with receiver.running():
            dispatcher.put("live", _sink(receiver.port))
            await receiver.take(1)
            while not source.lists["live"].acked:
                await asyncio.sleep(0)
            for each in dead:
                dispatcher.put(each, _sink(port))
            await hanging.wait_for(1)  # of four connections new endpoints have one
            for _ in range(20):
                source.lists["live"].add()
            dispatcher.wake(["live"])
            await receiver.take(21)
            assert hanging.n_connections == 1
            await dispatcher.close()
        server.close()
        hanging.close()
        assert [EndpointState(each) for each in dead] == [store.endpoint(each) for each in dead]
        store.close()

    run(test)


def test_waiting_for_a_connection_is_no_failure(tmp_path: Path) -> None:
    """It takes longer than any request may; the endpoint is not blamed, and its first attempt is the accepted one."""

    async def test() -> None:
        store, receiver = AttemptStore(tmp_path / "webhooks.db"), HookReceiver()
        transport = HookTransport(AddressPolicy.allowing(["127.0.0.0/8"]), timeout_s=0.05, most_connections=4)
        dispatcher = Dispatcher(store, ListedEvents(1), transport)
        async with receiver.running():
            async with transport.slot(Lane.NEW):  # all that new endpoints have
                dispatcher.put("anna", _sink(receiver.port))
                await asyncio.sleep(0.3)  # six times as long as a request may take
                assert store.attempts() == []
            await receiver.take(1)
            while not store.attempts():
                await asyncio.sleep(0)
            await dispatcher.close()
        assert [204] == [attempt.status for _, attempt in store.attempts()]
        assert store.endpoint("anna").n_failures == 0
        store.close()

    run(test)


def test_names_that_hang_keep_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as there are connections for endpoints that do not answer; the name of one that does is found."""
    lanes, released = ConnectionLanes(512), threading.Event()
    n_hanging = lanes.slot(Lane.NEW)._value + lanes.slot(Lane.FAILING)._value
    begun = threading.Semaphore(0)

    def look_up(host: str, *_: Any, **__: Any) -> list[Any]:
        if host != "live.example":
            begun.release()
            assert released.wait(DEADLINE_S)
        return [(2, 1, 6, "", ("203.0.113.1", 443))]

    monkeypatch.setattr("nearcast.server.webhooks.addresses.socket.getaddrinfo", look_up)

    async def test() -> None:
        lookups = NameLookups(lanes.n_connections)
        hanging = [asyncio.create_task(lookups.resolve(f"dead{n}.example", 443)) for n in range(n_hanging)]
        try:
            await asyncio.to_thread(begun.acquire)
            async with asyncio.timeout(DEADLINE_S):
                assert ["203.0.113.1"] == await lookups.resolve("live.example", 443)
        finally:
            released.set()
            await asyncio.gather(*hanging)
            lookups.close()

    run(test)


def test_lanes() -> None:
    """Half of the connections for endpoints that answer, a quarter for each other lane; each has one at least."""
    for most, sizes in ((512, [256, 128, 128]), (4, [2, 1, 1]), (1, [1, 1, 1])):
        lanes = ConnectionLanes(most)
        assert sizes == [lanes.slot(lane)._value for lane in Lane]
        assert sum(sizes) == lanes.n_connections


def test_the_lane_of_an_endpoint() -> None:
    """New until a request was accepted; failing while requests fail."""
    breaker = Breaker(EndpointState("anna"), random.Random(1))
    assert breaker.lane is Lane.NEW
    breaker.succeed()
    assert breaker.lane is Lane.ANSWERING
    breaker.fail(5.0, None)
    assert breaker.lane is Lane.FAILING
    breaker.succeed()
    assert breaker.lane is Lane.ANSWERING


def test_no_database_is_read_in_the_loop(tmp_path: Path) -> None:
    """Neither when a subscriber is served from now on, nor later."""

    async def test() -> None:
        store, readers = AttemptStore(tmp_path / "webhooks.db"), set()
        rows = store._rows

        def noted(*given: Any) -> Any:
            readers.add(threading.current_thread())
            return rows(*given)

        store._rows = noted  # type: ignore[method-assign]
        receiver = HookReceiver()
        dispatcher = Dispatcher(store, ListedEvents(2), HookTransport(AddressPolicy.allowing(["127.0.0.0/8"])))
        async with receiver.running():
            dispatcher.put("anna", _sink(receiver.port))
            await receiver.take(1)
            dispatcher.put("anna", _sink(receiver.port))
            await receiver.take(2)
            await dispatcher.close()
        assert readers
        assert threading.current_thread() not in readers
        store.close()

    run(test)
