"""Events reach their URL in order, at least once, whatever the receiver does; what it never takes is a dead letter."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hook_receivers import OK, HookReceiver, ListedEvents, ManualClock, status, statuses

from nearcast.server.webhooks.addresses import AddressPolicy
from nearcast.server.webhooks.attempts import AttemptOutcome, AttemptStore
from nearcast.server.webhooks.dispatcher import Dispatcher
from nearcast.server.webhooks.quiet import QuietRules
from nearcast.server.webhooks.schedule import DELAYS_S
from nearcast.server.webhooks.signing import new_secret
from nearcast.server.webhooks.sink import HookSink
from nearcast.server.webhooks.transport import HookTransport

DAY_S = 86_400


class Bench:
    """A dispatcher with its parts: a list for an outbox, a database, a clock that is moved by hand."""

    def __init__(self, folder: Path, n_events: int, timeout_s: float = 60.0):
        self.clock, self.source = ManualClock(), ListedEvents(n_events)
        self.folder, self.timeout_s = folder, timeout_s
        self.notices: list[tuple[str, str, str]] = []
        self.dispatcher: Dispatcher

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Dispatcher]:
        self.store = AttemptStore(self.folder / "server.db")
        transport = HookTransport(AddressPolicy.allowing(["127.0.0.0/8"]), timeout_s=self.timeout_s)
        self.dispatcher = Dispatcher(
            self.store,
            self.source,
            transport,
            clock=self.clock,
            observe=self._observe,
            seed=1,
        )
        try:
            yield self.dispatcher
        finally:
            await self.dispatcher.close()

    def _observe(self, outcome: AttemptOutcome) -> None:
        subscriber = outcome.attempt.subscriber
        if outcome.dead_letter is not None:
            self.notices.append(("dead-letter", subscriber, outcome.dead_letter.reason))
        if outcome.endpoint.disabled:
            self.notices.append(("disabled", subscriber, outcome.endpoint.disabled))

    def put(self, port: int, rules: QuietRules | None = None, subscriber: str = "anna") -> None:
        self.dispatcher.put(subscriber, HookSink(f"http://127.0.0.1:{port}/", (new_secret(),)), rules)

    async def later(self, seconds: float) -> None:
        """Let time pass, and wait until what was due then is done."""
        if self.clock.advance(seconds):
            await self.clock.settle()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(600):
            await test()

    asyncio.run(bounded())


def test_events_arrive_in_order_and_are_acknowledged(tmp_path: Path) -> None:
    """More than one batch; the connection is used again; the last cursor is acknowledged."""

    async def test() -> None:
        bench, receiver = Bench(tmp_path, 250), HookReceiver()
        async with receiver.running(), bench.running():
            bench.put(receiver.port)
            await bench.clock.settle()
        assert receiver.ids == [each.event["id"] for each in bench.source.listed]
        assert receiver.n_connections == 1
        assert bench.source.acked[-1] == "250-1"
        assert statuses(bench.store) == [204] * 250

    run(test)


def test_an_event_that_fails_is_tried_again_while_others_go_on(tmp_path: Path) -> None:
    """The second event fails twice; it comes again after 5 s and 5 min, under the same id, and nothing waits for it."""

    async def test() -> None:
        failures = {1, 3}
        bench = Bench(tmp_path, 3)
        receiver = HookReceiver(lambda n: status(500) if n in failures else OK)
        async with receiver.running(), bench.running():
            bench.put(receiver.port)
            await bench.clock.settle()
            assert bench.source.acked[-1] == "3-1"
            await bench.later(6)
            await bench.later(400)
            first, second, third = (each.event["id"] for each in bench.source.listed)
            assert receiver.ids == [first, second, third, second, second]
            assert bench.store.retries("anna") == []

    run(test)


def test_a_dead_letter_after_a_day(tmp_path: Path) -> None:
    """Ten attempts over 24 hours; then it is a dead letter, somebody is told, and it can be sent again."""

    async def test() -> None:
        bench = Bench(tmp_path, 1)
        answers = {"now": status(500)}
        receiver = HookReceiver(lambda _: answers["now"])
        async with receiver.running(), bench.running() as dispatcher:
            bench.put(receiver.port)
            await bench.clock.settle()
            for _ in range(400):
                if bench.notices:
                    break
                await bench.later(DAY_S / 100)
            assert len(receiver.requests) == len(DELAYS_S) + 1
            assert bench.notices == [("dead-letter", "anna", "HTTP 500")]
            (letter,) = bench.store.dead_letters("anna")
            assert letter.event_id == receiver.ids[0]
            answers["now"] = OK
            assert bench.store.revive([letter.number], bench.clock.now()) == 1
            await dispatcher.enable("anna")
            await bench.clock.settle()
            assert receiver.requests[-1].body == letter.body
            assert bench.store.dead_letters("anna") == []

    run(test)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (status(302, "location: http://127.0.0.1:1/"), 302),
        (status(199), 0),
        (status(500), 500),
        (None, 0),
        (b"HTTP/1.1 two hundred\r\n\r\n", 0),
        (b"HTTP/1.1 200 x\r\ncontent-length: 10\r\n\r\nhalf", 0),
        (b"\x00" * 70_000, 0),
    ],
)
def test_only_2xx_is_success(tmp_path: Path, answer: bytes | None, expected: int) -> None:
    """Redirects are not followed; half an answer, none, or nonsense is a failure that is tried again."""

    async def test() -> None:
        bench = Bench(tmp_path, 1, timeout_s=1.0)
        receiver = HookReceiver(lambda _: answer)
        async with receiver.running(), bench.running():
            bench.put(receiver.port)
            await bench.clock.settle()
            assert statuses(bench.store) == [expected]
            assert [each.n_tries for each in bench.store.retries("anna")] == [1]

    run(test)


def test_an_answer_without_end_is_cut_off(tmp_path: Path) -> None:
    """Of a long answer only the beginning is read, and its status counts."""

    async def test() -> None:
        bench = Bench(tmp_path, 1)
        receiver = HookReceiver(lambda _: b"HTTP/1.1 200 x\r\ncontent-length: 99999999\r\n\r\n" + b"x" * 100_000)
        async with receiver.running(), bench.running():
            bench.put(receiver.port)
            await bench.clock.settle()
            assert statuses(bench.store) == [200]

    run(test)


def test_a_receiver_that_does_not_answer_slows_nobody(tmp_path: Path) -> None:
    """One endpoint hangs, one has nobody listening; a third gets its events meanwhile."""

    async def test() -> None:
        bench, good = Bench(tmp_path, 20), HookReceiver()
        hanging = HookReceiver(lambda _: b"")
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            async with good.running(), hanging.running(), bench.running():
                bench.put(hanging.port, subscriber="hangs")
                bench.put(closed.getsockname()[1], subscriber="dead")
                await hanging.take(1)
                bench.put(good.port, subscriber="good")
                await good.take(20)
                assert statuses(bench.store, "hangs") == []

    run(test)


def test_gone_disables(tmp_path: Path) -> None:
    """After a 410 nothing is sent until somebody enables the endpoint; its events wait."""

    async def test() -> None:
        answers = {"now": status(410)}
        bench, receiver = Bench(tmp_path, 2), HookReceiver(lambda _: answers["now"])
        async with receiver.running(), bench.running() as dispatcher:
            bench.put(receiver.port)
            await bench.clock.settle()
            assert dispatcher.state("anna").disabled == "the receiver answered 410: gone"
            assert bench.notices == [("disabled", "anna", "the receiver answered 410: gone")]
            assert len(receiver.requests) == 1
        async with receiver.running(), bench.running() as dispatcher:
            bench.put(receiver.port)
            await bench.clock.settle()
            assert len(receiver.requests) == 1, "a restart does not enable it"
            answers["now"] = OK
            bench.clock.advance(10)
            await dispatcher.enable("anna")
            await bench.clock.settle()
            assert sorted(set(receiver.ids)) == sorted(each.event["id"] for each in bench.source.listed)

    run(test)


@pytest.mark.parametrize(("given", "wait_s"), [("120", 120), ("Fri, 15 Jan 2027 08:02:00 GMT", 120), ("soon", 5)])
def test_retry_after(tmp_path: Path, given: str, wait_s: float) -> None:
    """A receiver that asks for time gets it, in seconds or as a date; nonsense is not read."""

    async def test() -> None:
        bench = Bench(tmp_path, 1)
        receiver = HookReceiver(lambda n: OK if n else status(503, f"retry-after: {given}"))
        async with receiver.running(), bench.running():
            bench.put(receiver.port)
            await bench.clock.settle()
            (retry,) = bench.store.retries("anna")
            assert wait_s <= retry.due - bench.clock.now() <= wait_s * 1.11

    run(test)


def test_the_circuit_opens(tmp_path: Path) -> None:
    """After five failures in a row an endpoint is left alone; one probe a pause; a success closes the circuit."""

    async def test() -> None:
        answers = {"now": status(500)}
        bench, receiver = Bench(tmp_path, 300), HookReceiver(lambda _: answers["now"])
        async with receiver.running(), bench.running():
            bench.put(receiver.port)
            await bench.clock.settle()
            assert len(receiver.requests) == 5
            await bench.later(40)
            assert len(receiver.requests) == 6
            await bench.later(40)
            assert len(receiver.requests) == 6, "the pause is longer each time"
            answers["now"] = OK
            await bench.later(400)
            assert len(set(receiver.ids)) == 300

    run(test)


def test_five_days_of_failures_disable(tmp_path: Path) -> None:
    """An endpoint that accepted nothing for five days is disabled, and somebody is told."""

    async def test() -> None:
        bench, receiver = Bench(tmp_path, 1), HookReceiver(lambda _: status(500))
        async with receiver.running(), bench.running():
            bench.put(receiver.port)
            await bench.clock.settle()
            for _ in range(6):
                bench.source.add()
                await bench.later(DAY_S)
            assert ("disabled", "anna", "no request was accepted for 5 days") in bench.notices

    run(test)


def test_a_restart_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """Events after the last acknowledged one come, retries too; what is repeated has the id it had."""

    async def test() -> None:
        bench = Bench(tmp_path, 3)
        receiver = HookReceiver(lambda n: status(500) if n == 0 else OK)
        async with receiver.running(), bench.running():
            bench.put(receiver.port)
            await bench.clock.settle()
        bench.source.add()
        async with receiver.running(), bench.running():
            bench.put(receiver.port)
            await bench.clock.settle()
            await bench.later(6)
        first, *rest = (each.event["id"] for each in bench.source.listed)
        assert receiver.ids == [first, *rest, first]

    run(test)


def test_a_full_disk_puts_the_endpoint_off(tmp_path: Path) -> None:
    """While outcomes cannot be stored nothing is acknowledged; later the same events come again."""

    async def test() -> None:
        bench, receiver = Bench(tmp_path, 2), HookReceiver()
        async with receiver.running(), bench.running():
            kept, bench.store.record = bench.store.record, _raise_full  # type: ignore[method-assign,assignment]
            bench.put(receiver.port)
            await bench.clock.settle()
            assert bench.source.acked == []
            bench.store.record = kept  # type: ignore[method-assign]
            await bench.later(11)
            assert bench.source.acked == ["2-1"]
        first, second = (each.event["id"] for each in bench.source.listed)
        assert receiver.ids == [first, first, second]

    run(test)


def _raise_full(_outcomes: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_large_event_links_to_its_message(tmp_path: Path) -> None:
    """A body above 20 kB has the address of the message instead of it."""

    async def test() -> None:
        bench, receiver = Bench(tmp_path, 0), HookReceiver()
        bench.source.add(message={"type": "Feature", "properties": {"text": "x" * 30_000}})
        async with receiver.running(), bench.running():
            bench.put(receiver.port)
            await bench.clock.settle()
        assert len(receiver.requests[0].body) < 1000
        assert b'"message_url":"/v1/messages?id=1"' in receiver.requests[0].body

    run(test)


def test_nothing_is_left_of_an_erased_subscriber(tmp_path: Path) -> None:
    """Attempts, retries, dead letters and the state of the endpoint."""

    async def test() -> None:
        bench, receiver = Bench(tmp_path, 2), HookReceiver(lambda n: OK if n else status(500))
        async with receiver.running(), bench.running() as dispatcher:
            bench.put(receiver.port)
            await bench.clock.settle()
            dispatcher.remove("anna")
            bench.store.erase("anna")
            assert (statuses(bench.store), bench.store.retries("anna")) == ([], [])

    run(test)
