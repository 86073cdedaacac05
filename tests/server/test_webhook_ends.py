"""Webhooks at their ends: bodies that are hard to write, hosts that are hard to spell, digests out of order."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hook_receivers import HookReceiver, ListedEvents, page_of

from nearcast.errors import FileUnavailable
from nearcast.server.webhooks.addresses import AddressPolicy
from nearcast.server.webhooks.attempts import (
    Attempt,
    AttemptOutcome,
    AttemptStore,
    DeadLetter,
    EndpointState,
    Retry,
)
from nearcast.server.webhooks.dispatcher import Dispatcher
from nearcast.server.webhooks.lanes import Lane
from nearcast.server.webhooks.quiet import CursorEvent, QuietFilter, QuietRules
from nearcast.server.webhooks.recorder import OutcomeRecorder
from nearcast.server.webhooks.schedule import retry_after_s
from nearcast.server.webhooks.signing import new_secret
from nearcast.server.webhooks.sink import HookSink
from nearcast.server.webhooks.transport import HookTransport

NOW = 1_800_000_000.0
DEADLINE_S = 600


def run(test: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await test()

    asyncio.run(bounded())


def sent_bodies(folder: Path, source: ListedEvents, rules: QuietRules | None = None) -> list[dict[str, Any]]:
    """Return what a receiver gets of some events."""
    receiver = HookReceiver()

    async def test() -> None:
        transport = HookTransport(AddressPolicy.allowing(["127.0.0.0/8"]))
        dispatcher = Dispatcher(AttemptStore(folder / "webhooks.db"), source, transport)
        async with receiver.running():
            dispatcher.put("anna", HookSink(f"http://127.0.0.1:{receiver.port}/", (new_secret(),)), rules)
            await receiver.take(1)
            await dispatcher.close()

    run(test)
    return [json.loads(each.body, parse_constant=_refuse) for each in receiver.requests]


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def test_any_attribute_of_a_message_is_sent(tmp_path: Path) -> None:
    """A time, bytes and a NaN, which an Arrow stream may hold; an endpoint must not wait for ever for one of them."""
    source = ListedEvents()
    made = source.add()
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    made.event["data"]["message"] = {"properties": {"seen": moment, "raw": b"ab", "ratio": float("nan")}}
    (body,) = sent_bodies(tmp_path, source)
    assert body["data"]["message"]["properties"] == {"seen": "2026-01-01T00:00:00Z", "raw": "YWI=", "ratio": None}


def test_a_long_digest_has_links(tmp_path: Path) -> None:
    """As a long event has one, with an id that is safe in a path."""
    source = ListedEvents()
    for _ in range(3):
        made = source.add()
        made.event["subject"] = "a/b"
        made.event["data"]["message"] = {"properties": {"text": "x" * 10_000}}
    (body,) = sent_bodies(tmp_path, source, QuietRules(digest=timedelta(microseconds=1)))
    shown = [(each["data"]["message"], each["data"]["message_url"]) for each in body["data"]["events"]]
    assert shown == [(None, "/v1/messages?id=a%2Fb")] * 3


def test_a_name_in_another_script_is_resolved_as_it_was_read() -> None:
    """The URL is parsed once: who connects gets the name that was looked at."""
    asked: list[str] = []

    async def resolver(host: str, _: int) -> list[str]:
        asked.append(host)
        return []

    async def test() -> None:
        transport = HookTransport(AddressPolicy(), resolver=resolver)
        found = await transport.post("https://bücher.example/hook?q=ü", {}, b"{}")
        await transport.close()
        assert (found.status, asked) == (0, ["xn--bcher-kva.example"])
        assert "no address" in found.error

    run(test)


def test_an_internal_address_is_not_told() -> None:
    """Whoever sets a sink would learn from the attempts where internal names are."""

    async def resolver(*_: Any) -> list[str]:
        return ["10.9.8.7"]

    async def test() -> None:
        transport = HookTransport(AddressPolicy(), resolver=resolver)
        found = await transport.post("https://db.internal/", {}, b"{}")
        await transport.close()
        assert "db.internal is not" in found.error
        assert "10.9.8.7" not in found.error

    run(test)


@pytest.mark.parametrize("given", ["Mon, 01 Jan 0001 00:00:00 -0000", "soon", "²"])
def test_a_time_to_wait_that_is_none(given: str) -> None:
    """What a receiver says there can be anything."""
    assert retry_after_s(503, {"retry-after": given}, NOW) in (None, 0.0)


def _change(source: ListedEvents, subscription: str, change: str) -> CursorEvent:
    made = source.add(subscription_id=subscription, message_id=1, change=change)
    made.event["time"] = datetime.fromtimestamp(NOW, UTC).isoformat().replace("+00:00", "Z")
    return made


def test_nothing_in_a_digest_is_acknowledged_when_debounced_events_come_in_another_order() -> None:
    """An exit that must last longer comes after the later entry: the digest has both, and its first cursor holds."""
    rules = QuietRules(digest=timedelta(hours=1), enter=timedelta(seconds=1), leave=timedelta(seconds=60))
    source, quiet = ListedEvents(), QuietFilter(rules)
    told = _change(source, "a", "+")
    quiet.take(page_of([told]), NOW)
    quiet.take(page_of([]), NOW + 2)
    later = [_change(source, "a", "-"), _change(source, "b", "+")]
    for each in later:
        each.event["time"] = datetime.fromtimestamp(NOW + 3600, UTC).isoformat().replace("+00:00", "Z")
    sent = quiet.take(page_of([]), NOW + 3603).notices
    assert [each.event["id"] for each in sent] == ["digest:1-1:1-1"]
    quiet.take(page_of(later), NOW + 3603)
    quiet.take(page_of([]), NOW + 3605)
    held = quiet.take(page_of([]), NOW + 3700)
    assert quiet._through() == "2-0", held
    (digest,) = quiet.take(page_of([]), NOW + 9000).notices
    assert (digest.cursor, digest.event["id"]) == ("3-1", "digest:2-1:3-1")
    assert quiet._through() == "3-1"


def _letter(subscriber: str, number: int) -> DeadLetter:
    return DeadLetter(
        number=number,
        subscriber=subscriber,
        event_id=f"e{number}",
        message_id=None,
        cursor=f"{number}-1",
        body=b"{}",
        at=NOW,
        reason="HTTP 500",
    )


def test_dead_letters_by_number(tmp_path: Path) -> None:
    """However many there are; those of another subscriber are not among one's own."""
    store = AttemptStore(tmp_path / "webhooks.db")
    for number, subscriber in enumerate(("anna", "ben", "anna"), 1):
        store._insert("dead_letters", _letter(subscriber, number))
    assert [each.number for each in store.dead_letters_numbered([3, 2, 9])] == [3, 2]
    assert [each.number for each in store.dead_letters_numbered([3, 2], "anna")] == [3]
    store.close()


def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    """Not as a defect of ours: it passes."""
    store = AttemptStore(tmp_path / "webhooks.db")
    store._connection.execute("PRAGMA max_page_count = 20")
    with pytest.raises(FileUnavailable, match="full"):
        store.put_back([_retry("anna", bytes(200_000))])
    assert store.retries("anna") == []
    store.close()


def _retry(subscriber: str, body: bytes) -> Retry:
    return Retry(
        subscriber=subscriber, event_id="e", message_id=None, cursor="1-1", body=body, first=NOW, n_tries=0, due=NOW
    )


def test_nothing_of_an_erased_subscriber_stays_in_the_file(tmp_path: Path) -> None:
    """Not in free pages either, nor by an outcome that was being written."""

    async def test() -> None:
        store = AttemptStore(tmp_path / "webhooks.db")
        dispatcher = Dispatcher(store, ListedEvents(), HookTransport(AddressPolicy()))
        attempt = Attempt("anna", "e", None, "1-1", NOW, 500, "HTTP 500")
        retry = _retry("anna", b"at 13.4 52.5" * 1000)
        outcome = AttemptOutcome(attempt, EndpointState("anna"), retry=retry)
        writing = asyncio.create_task(dispatcher._recorder.record(outcome))
        await asyncio.sleep(0)
        await dispatcher.erase("anna")
        await writing
        assert store.retries("anna") == []
        await dispatcher.close()
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        store.close()

    run(test)
    assert b"52.5" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_an_erasure_does_not_wait_for_a_lull(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes of others come all the time; those that were given before it are waited for, and no more."""

    store = AttemptStore(tmp_path / "webhooks.db")
    record, gates = store.record, [threading.Event(), threading.Event()]
    waiting = iter(gates)

    def record_when_let(outcomes: Iterable[AttemptOutcome]) -> None:
        assert next(waiting).wait(DEADLINE_S)
        record(outcomes)

    async def test() -> None:
        recorder = OutcomeRecorder(store)
        outcome = AttemptOutcome(Attempt("ben", "e", None, "1-1", NOW, 204, "HTTP 204"), EndpointState("ben"))
        first = asyncio.create_task(recorder.record(outcome))
        await asyncio.sleep(0)
        flush = asyncio.create_task(recorder.flush())
        await asyncio.sleep(0)
        later = asyncio.create_task(recorder.record(outcome))
        await asyncio.sleep(0)
        assert not flush.done()
        gates[0].set()
        try:
            async with asyncio.timeout(DEADLINE_S):
                await flush
            await first
            assert not later.done()
        finally:
            gates[1].set()
        await later
        await recorder.close()

    monkeypatch.setattr(store, "record", record_when_let)

    run(test)


def test_events_that_nobody_takes_go_with_the_retention(tmp_path: Path) -> None:
    """Those of an endpoint that is disabled or paused are due and not sent; what waits for its turn stays."""
    store = AttemptStore(tmp_path / "webhooks.db")
    store.put_back([_retry("anna", b"old"), replace(_retry("anna", b"new"), event_id="later", due=NOW + 20)])
    assert 0 == store.drop_before(NOW)
    assert 1 == store.drop_before(NOW + 10)
    assert [b"new"] == [each.body for each in store.retries("anna")]
    store.close()


def test_events_of_who_is_sent_to_are_never_dropped(tmp_path: Path) -> None:
    """An endpoint that is only left alone, or whose server was off, has its turn; one that is disabled has none."""
    store = AttemptStore(tmp_path / "webhooks.db")
    store.put_back([_retry("left alone", b""), _retry("disabled", b""), _retry("paused", b"")])
    store.set_endpoint(EndpointState("left alone", failing_since=NOW, n_failures=7))
    store.set_endpoint(EndpointState("disabled", disabled="410"))
    assert 2 == store.drop_before(NOW + 10, {"left alone", "disabled"})
    assert [1, 0, 0] == [len(store.retries(name)) for name in ("left alone", "disabled", "paused")]
    store.close()


def test_a_trial_does_not_wait_behind_endpoints_that_fail(tmp_path: Path) -> None:
    """Somebody waits for its answer, and asks just because the endpoint fails."""

    async def test() -> None:
        store, receiver = AttemptStore(tmp_path / "webhooks.db"), HookReceiver()
        transport = HookTransport(AddressPolicy.allowing(["127.0.0.0/8"]), most_connections=4)
        dispatcher = Dispatcher(store, ListedEvents(), transport)
        store.set_endpoint(EndpointState("anna", failing_since=NOW, n_failures=7))
        async with receiver.running():
            dispatcher.put("anna", HookSink(f"http://127.0.0.1:{receiver.port}/", (new_secret(),)))
            async with transport.slot(Lane.FAILING), asyncio.timeout(DEADLINE_S):  # all that failing endpoints have
                answer = await dispatcher.try_out("anna", {"id": "test:1"})
            assert answer is not None
            assert answer.status == 204
            await dispatcher.close()
        store.close()

    run(test)


def test_enabling_does_not_wait_for_the_disk_in_the_loop(tmp_path: Path) -> None:
    """The write is awaited, so that others go on."""

    async def test() -> None:
        store = AttemptStore(tmp_path / "webhooks.db")
        dispatcher = Dispatcher(store, ListedEvents(), HookTransport(AddressPolicy()))
        with store._lock:
            enabling = asyncio.create_task(dispatcher.enable("anna"))
            await asyncio.sleep(0.01)
            assert not enabling.done()
        await enabling
        assert store.endpoint("anna") == EndpointState("anna")
        await dispatcher.close()

    run(test)
