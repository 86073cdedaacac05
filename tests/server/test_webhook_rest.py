"""Endpoints that rest: paused by their subscriber, or left alone for their failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from hook_receivers import OK, HookReceiver, ListedEvents, ManualClock, status

from nearcast.server.webhooks.addresses import AddressPolicy, NameLookups
from nearcast.server.webhooks.attempts import AttemptStore
from nearcast.server.webhooks.breaker import FAILURES
from nearcast.server.webhooks.dispatcher import Dispatcher
from nearcast.server.webhooks.lanes import PacedSlots
from nearcast.server.webhooks.quiet import QuietRules
from nearcast.server.webhooks.signing import new_secret
from nearcast.server.webhooks.sink import HookSink
from nearcast.server.webhooks.transport import HookTransport

HOUR = timedelta(hours=1)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(600):
            await test()

    asyncio.run(bounded())


class Served:
    """A dispatcher over a list of events and a clock that stands."""

    def __init__(self, folder: Path, n_events: int = 0):
        self.clock, self.source = ManualClock(), ListedEvents(n_events)
        self.store = AttemptStore(folder / "webhooks.db")
        self.transport = HookTransport(AddressPolicy.allowing(["127.0.0.0/8"]))
        self.dispatcher = Dispatcher(self.store, self.source, self.transport, clock=self.clock, seed=1)

    async def put(self, receiver: HookReceiver, rules: QuietRules | None = None) -> None:
        self.dispatcher.put("anna", HookSink(f"http://127.0.0.1:{receiver.port}/", (new_secret(),)), rules)
        await self.clock.settle()

    async def add(self) -> None:
        self.source.add()
        self.dispatcher.wake(["anna"])
        await self.clock.settle()

    async def close(self) -> None:
        await self.dispatcher.close()
        self.store.close()


def test_a_cool_down_goes_on_over_a_pause(tmp_path: Path) -> None:
    """It ends when it would have ended, and what was held back before the pause is counted after it."""

    async def test() -> None:
        served, receiver, rules = Served(tmp_path, 1), HookReceiver(), QuietRules(cooldown=HOUR)
        async with receiver.running():
            await served.put(receiver, rules)
            await served.add()
            assert (1, 1) == (len(receiver.requests), served.dispatcher.held_back("anna"))
            served.dispatcher.pause("anna")
            served.source.add()
            served.dispatcher.wake(["anna"])
            assert not served.dispatcher.serves("anna")
            served.clock.advance(1800)
            await served.put(receiver, rules)
            assert (1, 2) == (len(receiver.requests), served.dispatcher.held_back("anna"))
            served.clock.advance(1801)
            await served.add()
            assert 2 == len(receiver.requests)
            assert b'"heldback":2' in receiver.requests[1].body
            await served.close()

    run(test)


def test_a_digest_goes_on_over_a_pause(tmp_path: Path) -> None:
    """It is sent when it is due, not an hour after the end of the pause, with what came meanwhile."""

    async def test() -> None:
        served, receiver, rules = Served(tmp_path, 1), HookReceiver(), QuietRules(digest=HOUR)
        async with receiver.running():
            await served.put(receiver, rules)
            served.dispatcher.pause("anna")
            served.source.add()
            served.clock.advance(3000)
            await served.put(receiver, rules)
            assert [] == receiver.requests
            served.clock.advance(601)
            await served.clock.settle()
            assert b'"count":2' in receiver.requests[0].body
            assert "2-1" == served.source.acked[-1]
            await served.close()

    run(test)


def test_a_pause_in_the_middle_of_a_page_holds_the_rest_of_it(tmp_path: Path) -> None:
    """The request under way ends; the others come after the pause, each once and in order."""

    async def test() -> None:
        served = Served(tmp_path, 4)
        receiver = HookReceiver(lambda n: (served.dispatcher.pause("anna") if n == 1 else None) or OK)
        async with receiver.running():
            await served.put(receiver)
            assert 2 == len(receiver.requests)
            assert ["2-1"] == served.source.acked
            await served.put(receiver)
            assert [each.event["id"] for each in served.source.listed] == receiver.ids
            await served.close()

    run(test)


def test_events_of_an_endpoint_that_fails_stay_in_the_outbox(tmp_path: Path) -> None:
    """Of many that wait, those that were tried alone are stored as retries; all of them come when it answers."""

    async def test() -> None:
        served, answers = Served(tmp_path, 300), {"now": status(500)}
        receiver = HookReceiver(lambda _: answers["now"])
        async with receiver.running():
            await served.put(receiver)
            assert FAILURES == len(receiver.requests) == len(served.store.retries("anna"))
            served.dispatcher.wake(["anna"])
            assert not served.dispatcher._endpoints["anna"].wake.is_set(), "it is left alone"
            answers["now"] = OK
            served.clock.advance(400)
            await served.clock.settle()
            assert 300 == len(set(receiver.ids))
            assert [] == served.store.retries("anna")
            assert "300-1" == served.source.acked[-1]
            await served.close()

    run(test)


def test_failing_endpoints_take_turns() -> None:
    """A few go at once, and the next waits for its token; who gives up takes no connection along."""

    async def test() -> None:
        slots, n_in = PacedSlots(10, per_s=1e-9, at_once=3.0), 0

        async def take() -> None:
            nonlocal n_in
            async with slots:
                n_in += 1

        tasks = [asyncio.create_task(take()) for _ in range(5)]
        await asyncio.wait(tasks[:3])
        assert (3, [False, False]) == (n_in, [task.done() for task in tasks[3:]])
        for task in tasks[3:]:
            task.cancel()
        await asyncio.wait(tasks)
        assert (3, 10) == (n_in, slots._value)

    run(test)


def test_an_address_is_not_looked_up() -> None:
    """It stands for itself; whether it may be called is another question."""

    async def test() -> None:
        lookups = NameLookups(1)
        assert ["127.0.0.1"] == await lookups.resolve("127.0.0.1", 80)
        assert ["2606:4700::1111"] == await lookups.resolve("2606:4700::1111", 443)
        lookups.close()

    run(test)
