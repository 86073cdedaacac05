"""Hands the events of subscribers to their URLs: one task and one queue for each, in the order of their cursors.

Reads events from the outbox, writes attempts, retries and dead letters to the `AttemptStore`, and acknowledges to the
outbox what was accepted or is stored there. An event that fails is tried again by `schedule`, and those after it go on;
an endpoint that fails again and again is left alone by its `Breaker`, and its events wait in the outbox. One that is
paused keeps what it knows, so that a cool-down and a digest go on where they were.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from nearcast.server.webhooks.attempts import Attempt, AttemptOutcome, AttemptStore, DeadLetter, EndpointState, Retry
from nearcast.server.webhooks.breaker import FAILURES, Breaker
from nearcast.server.webhooks.clock import WaitingClock, WallClock
from nearcast.server.webhooks.lanes import Lane
from nearcast.server.webhooks.quiet import CursorEvent, CursorPage, HookNotice, QuietFilter, QuietRules
from nearcast.server.webhooks.recorder import OutcomeRecorder
from nearcast.server.webhooks.schedule import next_try, retry_after_s
from nearcast.server.webhooks.signing import signed_headers
from nearcast.server.webhooks.sink import HookSink
from nearcast.server.webhooks.transport import HookResponse, HookTransport

_log = logging.getLogger(__name__)

#: Events that are read from the outbox at a time, and of an endpoint that does not answer, which then is left alone.
_BATCH, _BATCH_UNANSWERED = 100, FAILURES
#: Bytes of a body above which the message is left out, and a link to it is sent.
_MOST_BODY_BYTES = 20_000
_GONE = 410
_encode = msgspec.json.Encoder(enc_hook=str).encode
#: How long an endpoint waits when its outcome cannot be stored.
_PAUSE_S = 10


class EventSource(Protocol):
    """The outbox, as the dispatcher sees it. Both methods are called in threads other than that of the loop."""

    def events(self, subscriber: str, after: str | None, limit: int) -> CursorPage:
        """Return the next events of a subscriber after a cursor, None: after what was acknowledged."""

    def ack(self, subscriber: str, cursor: str) -> None:
        """Acknowledge all events up to a cursor."""


@dataclass(eq=False)
class Endpoint:
    """A subscriber's sink at work: what wakes it, how it fails, what it holds back, where it reads."""

    subscriber: str
    sink: HookSink
    #: The rules that were set last; `quiet` follows them between two pages.
    rules: QuietRules
    quiet: QuietFilter
    #: None until the state of the endpoint was read.
    breaker: Breaker | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    read: str | None = None
    #: Notices that were read and not sent yet, the cursor of the last that was, and what is acknowledged at the end.
    unsent: deque[HookNotice] = field(default_factory=deque)
    sent: str | None = None
    through: str | None = None
    is_paused: bool = False
    task: asyncio.Task[None] | None = None

    def may_send(self, now: float) -> bool:
        """Tell whether a request may be made now; without a breaker nothing speaks against it yet."""
        breaker = self.breaker
        is_left_alone = breaker is not None and (breaker.state.disabled != "" or breaker.open_until > now)
        return not self.is_paused and not is_left_alone

    def begin_again(self) -> None:
        """Read on from what was acknowledged."""
        self.read, self.quiet, self.sent, self.through = None, self.quiet.begun_again(), None, None
        self.unsent.clear()


class Dispatcher:
    """Runs the webhooks of a tenant. All methods are called in the loop's thread but `wake_from_thread`."""

    def __init__(
        self,
        store: AttemptStore,
        source: EventSource,
        transport: HookTransport,
        *,
        clock: WaitingClock | None = None,
        observe: Callable[[AttemptOutcome], None] = lambda _: None,
        seed: int | None = None,
    ):
        """`observe` is called with the outcome of each attempt, once it is stored."""
        self._store, self._source, self._transport = store, source, transport
        self._clock: WaitingClock = clock or WallClock()
        self._observe, self._chance = observe, random.Random(seed)
        self._recorder = OutcomeRecorder(store)
        self._endpoints: dict[str, Endpoint] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    # Who is served

    def put(self, subscriber: str, sink: HookSink, rules: QuietRules | None = None) -> None:
        """Serve a subscriber from now on, with another sink or other rules if it was served before.

        What the rules hold back, and for how long, goes on; an endpoint that is left alone is tried at once.
        """
        self._loop = asyncio.get_running_loop()
        rules, known = rules or QuietRules(), self._endpoints.get(subscriber)
        if known is not None:
            known.sink, known.rules, known.is_paused = sink, rules, False
            if known.breaker is not None:
                known.breaker.open_until = 0.0
            known.wake.set()
            return
        endpoint = self._endpoints[subscriber] = Endpoint(subscriber, sink, rules, QuietFilter(rules))
        endpoint.task = asyncio.create_task(self._serve(endpoint), name=f"webhook {subscriber}")

    def pause(self, subscriber: str) -> None:
        """Begin no request of a subscriber until it is `put` again; its events wait in the outbox."""
        if subscriber in self._endpoints:
            self._endpoints[subscriber].is_paused = True

    def remove(self, subscriber: str) -> None:
        """Serve a subscriber no more; its events wait in the outbox."""
        endpoint = self._endpoints.pop(subscriber, None)
        if endpoint is not None and endpoint.task is not None:
            endpoint.task.cancel()

    async def erase(self, subscriber: str) -> None:
        """Serve a subscriber no more, and forget all about it, also what is being written."""
        endpoint = self._endpoints.get(subscriber)
        self.remove(subscriber)
        if endpoint is not None and endpoint.task is not None:
            await asyncio.wait([endpoint.task])
        await self._recorder.flush()
        await asyncio.to_thread(self._store.erase, subscriber)

    async def enable(self, subscriber: str) -> None:
        """Send to an endpoint again that was disabled, or is left alone for its failures."""
        await asyncio.to_thread(self._store.set_endpoint, EndpointState(subscriber))
        endpoint = self._endpoints.get(subscriber)
        if endpoint is not None:
            endpoint.breaker = Breaker(EndpointState(subscriber), self._chance)
            endpoint.wake.set()

    def serves(self, subscriber: str) -> bool:
        """Tell whether a subscriber is served."""
        return subscriber in self._endpoints and not self._endpoints[subscriber].is_paused

    def state(self, subscriber: str) -> EndpointState:
        """Return how an endpoint does; may read the disk."""
        endpoint = self._endpoints.get(subscriber)
        if endpoint is None or endpoint.breaker is None:
            return self._store.endpoint(subscriber)
        return endpoint.breaker.state

    def served(self) -> list[str]:
        """Return the subscribers that are served; for any thread."""
        return list(self._endpoints)

    def sent_to(self) -> set[str]:
        """Return the subscribers that are served and not paused; for any thread."""
        return {name for name, endpoint in list(self._endpoints.items()) if not endpoint.is_paused}

    def held_back(self, subscriber: str) -> int:
        """Return how many events the rules of a subscriber held back since the server started."""
        endpoint = self._endpoints.get(subscriber)
        return 0 if endpoint is None else endpoint.quiet.n_held_back

    def wake(self, subscribers: list[str]) -> None:
        """Look for new events of these subscribers; those that are left alone look when that is over."""
        now = self._clock.now()
        for name in subscribers:
            endpoint = self._endpoints.get(name)
            if endpoint is not None and endpoint.may_send(now):
                endpoint.wake.set()

    def wake_from_thread(self, subscribers: list[str]) -> None:
        """Look for new events of these subscribers; for threads other than that of the loop."""
        now = self._clock.now()
        known = [(name, self._endpoints.get(name)) for name in subscribers]  # the loop may remove some meanwhile
        served = [name for name, endpoint in known if endpoint is not None and endpoint.may_send(now)]
        if served and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and the next one reads the outbox
                self._loop.call_soon_threadsafe(self.wake, served)

    async def resend(self, subscriber: str, events: list[CursorEvent]) -> None:
        """Send events once more, under the ids they had."""
        now = self._clock.now()
        retries = [_first_try(subscriber, each.cursor, each.event, now) for each in events]
        await asyncio.to_thread(self._store.put_back, retries)
        self.wake([subscriber])

    async def try_out(self, subscriber: str, event: dict[str, Any]) -> HookResponse | None:
        """Send an event once, beside all others, whatever comes of it; return the answer, None if nobody is served."""
        endpoint = self._endpoints.get(subscriber)
        if endpoint is None or endpoint.is_paused:
            return None
        lane = (await self._breaker_of(endpoint)).lane
        if lane is Lane.FAILING:  # who asks waits for the answer, and must not wait behind all that are dead
            lane = Lane.NEW
        return await self._posted(endpoint, lane, event["id"], _body(event))

    async def close(self) -> None:
        """Stop; a request under way is cut off, and made again by the next server."""
        tasks = [each.task for each in self._endpoints.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._endpoints.clear()
        await self._recorder.close()
        await self._transport.close()

    # Serving one endpoint

    async def _serve(self, endpoint: Endpoint) -> None:
        while True:
            endpoint.wake.clear()
            try:
                due = await self._turn(endpoint)
            except Exception:  # noqa: BLE001  the hub may have stopped, the disk be full: neither ends the task
                _log.exception("the webhook of a subscriber is put off for %d s", _PAUSE_S)
                endpoint.begin_again()
                due = self._clock.now() + _PAUSE_S
            await self._clock.wait(endpoint.wake, due)

    async def _turn(self, endpoint: Endpoint) -> float | None:
        """Send what can be sent now; return when there is more to do, None: when new events come."""
        while not (breaker := await self._breaker_of(endpoint)).state.disabled and not endpoint.is_paused:
            if breaker.open_until > self._clock.now():
                return breaker.open_until
            if endpoint.rules != endpoint.quiet.rules:
                endpoint.quiet = endpoint.quiet.with_rules(endpoint.rules)
            retries = await asyncio.to_thread(self._store.retries, endpoint.subscriber, _BATCH)
            ready = [each for each in retries if each.due <= self._clock.now()]
            if ready:
                await self._send(endpoint, ready[0])
                continue
            is_done, due = await self._next_events(endpoint)
            if is_done:
                return min(
                    (each for each in (due, *(retry.due for retry in retries[:1])) if each is not None), default=None
                )
        return None

    async def _breaker_of(self, endpoint: Endpoint) -> Breaker:
        """Return the breaker of an endpoint, made from its state on disk when it is first asked for."""
        if endpoint.breaker is None:
            state = await asyncio.to_thread(self._store.known_endpoint, endpoint.subscriber)
            made = Breaker(state or EndpointState(endpoint.subscriber), self._chance, has_answered=state is not None)
            endpoint.breaker = endpoint.breaker or made  # somebody may have enabled it meanwhile
        return endpoint.breaker

    async def _next_events(self, endpoint: Endpoint) -> tuple[bool, float | None]:
        """Read and send some events; return whether none are left, and when something held back is due."""
        is_done, due = False, None
        if not endpoint.unsent:
            answers = (await self._breaker_of(endpoint)).lane is Lane.ANSWERING
            limit = _BATCH if answers else _BATCH_UNANSWERED
            page = await asyncio.to_thread(self._source.events, endpoint.subscriber, endpoint.read, limit)
            handover = endpoint.quiet.take(page, self._clock.now())
            endpoint.unsent.extend(handover.notices)
            endpoint.through, endpoint.read = handover.through, page.cursor or endpoint.read
            is_done, due = page.cursor is None, handover.due
        while endpoint.unsent:
            if not endpoint.may_send(self._clock.now()):
                await self._give_back(endpoint)
                return False, None
            await self._send(endpoint, _first_try(endpoint.subscriber, *endpoint.unsent[0], self._clock.now()))
            endpoint.sent = endpoint.unsent.popleft().cursor
        through, endpoint.through, endpoint.sent = endpoint.through, None, None
        if through is not None:
            await asyncio.to_thread(self._source.ack, endpoint.subscriber, through)
        return is_done, due

    async def _give_back(self, endpoint: Endpoint) -> None:
        """Acknowledge what was sent of a page, and leave the rest in the outbox until the endpoint is served again.

        Under rules the page stays: a notice may stand for events before and after it.
        """
        if endpoint.quiet.rules != QuietRules():
            return
        if endpoint.sent is not None:
            await asyncio.to_thread(self._source.ack, endpoint.subscriber, endpoint.sent)
        endpoint.begin_again()

    async def _send(self, endpoint: Endpoint, event: Retry) -> None:
        """Make one request, and store what came of it."""
        breaker = await self._breaker_of(endpoint)
        response = await self._posted(endpoint, breaker.lane, event.event_id, event.body)
        outcome = self._outcome(await self._breaker_of(endpoint), event, response)
        await self._recorder.record(outcome)
        self._observe(outcome)

    async def _posted(self, endpoint: Endpoint, lane: Lane, event_id: str, body: bytes) -> HookResponse:
        """Make one request as soon as its lane has a connection: waiting for it is no failure of the endpoint."""
        async with self._transport.slot(lane):
            headers = {
                "content-type": "application/cloudevents+json",
                "user-agent": "nearcast",
                **signed_headers(endpoint.sink.secrets, event_id, int(self._clock.now()), body),
            }
            return await self._transport.post(endpoint.sink.url, headers, body)

    def _outcome(self, breaker: Breaker, event: Retry, response: HookResponse) -> AttemptOutcome:
        now = self._clock.now()
        reason = response.error or f"HTTP {response.status}"
        attempt = Attempt(
            event.subscriber, event.event_id, event.message_id, event.cursor, now, response.status, reason
        )
        if 200 <= response.status < 300:
            return AttemptOutcome(attempt, breaker.succeed())
        wait_s = retry_after_s(response.status, response.headers, now)
        state = breaker.fail(now, wait_s)
        if response.status == _GONE:
            state = breaker.disable("the receiver answered 410: gone")
        n_tries = event.n_tries + 1
        due = next_try(event.first, n_tries, now, wait_s, self._chance)
        if due is not None:
            return AttemptOutcome(attempt, state, retry=replace(event, n_tries=n_tries, due=due))
        letter = DeadLetter(
            number=0,
            subscriber=event.subscriber,
            event_id=event.event_id,
            message_id=event.message_id,
            cursor=event.cursor,
            body=event.body,
            at=now,
            reason=reason,
        )
        return AttemptOutcome(attempt, state, dead_letter=letter)


def _first_try(subscriber: str, cursor: str, event: dict[str, Any], now: float) -> Retry:
    """Return an event that was not sent yet, due now."""
    return Retry(
        subscriber=subscriber,
        event_id=event["id"],
        message_id=event.get("subject"),
        cursor=cursor,
        body=_body(event),
        first=now,
        n_tries=0,
        due=now,
    )


def _body(event: dict[str, Any]) -> bytes:
    """Return an event as JSON; one that is too long has links instead of its messages."""
    body = _encode(event)
    return body if len(body) <= _MOST_BODY_BYTES else _encode(_with_links(event))


def _with_links(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event without its message, and a digest without those of its events."""
    data = event.get("data", {})
    if "message" in data:
        url = f"/v1/messages?id={quote(str(event.get('subject')), safe='')}"
        data = {**data, "message": None, "message_url": url}
    elif "events" in data:
        data = {**data, "events": [_with_links(each) for each in data["events"]]}
    return {**event, "data": data}
