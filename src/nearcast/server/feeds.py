"""Feeds of events: pages of a subscriber's events as JSON, for those who pull them and for streams that follow.

Nothing is pushed into queues: a stream asks for its next page when it has sent the last one, so that a slow client
costs one page of memory and nobody else's time. Pages that are asked for together are read in one call of a thread. A
stream is told when its page is there, not when there may be one, and writes it at once where its client takes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from nearcast.durable import Cursor, EventsWanted
from nearcast.errors import NearcastError
from nearcast.server.encoded_events import EncodedEvent, EventEncoder, encoded_gap
from nearcast.server.event_limits import EventLimits, HandedOver
from nearcast.server.metrics import TenantMetrics

#: Pages that one call of a thread reads.
_MOST_PAGES = 1000


@dataclass(frozen=True, slots=True)
class EventPage:
    """Some events of a subscriber after `begin`; the next page begins at `cursor`, `gap` were dropped before this."""

    events: list[EncodedEvent]
    begin: str
    cursor: str
    gap: int
    #: Whether there may be more.
    is_full: bool
    #: All up to here was looked at.
    read_to: Cursor

    def with_gap(self, subscriber: str) -> list[EncodedEvent]:
        """Return the events behind one that stands for those that were dropped before them."""
        return [encoded_gap(subscriber, self.begin, self.gap), *self.events] if self.gap else self.events


class PageReader(Protocol):
    """Somebody who waits for a page, and what is asked for."""

    subscriber: str
    after: Cursor | str | None
    limit: int

    def begin_read(self) -> None:
        """Know that what comes from now on may not be in the page."""

    def take(self, found: EventPage | BaseException) -> bool:
        """Take the page, or why there is none; tell whether it is of use."""


@dataclass(eq=False)
class PageRequest:
    """A page that somebody waits for once."""

    subscriber: str
    after: Cursor | str | None
    limit: int
    answer: asyncio.Future[EventPage] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def begin_read(self) -> None:
        """Do nothing: it is asked for once."""

    def take(self, found: EventPage | BaseException) -> bool:
        """Answer, unless whoever asked has gone."""
        if self.answer.done():
            return False
        if isinstance(found, BaseException):
            self.answer.set_exception(found)
        else:
            self.answer.set_result(found)
        return True


class EventWaiter:
    """Somebody who waits for a subscriber to get something; `woken` is done then."""

    def __init__(self) -> None:
        self.woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        """Tell that there may be something."""
        if not self.woken.done():
            self.woken.set_result(None)


#: Writes a page; tells whether all of it was taken. What it raises is raised by whoever waits for the next page.
PageWriter = Callable[[EventPage], bool]


class EventFollower:
    """A stream of one subscriber's events, page after page, from a cursor on; it waits so many seconds for each.

    With a `write` pages that come while `next` waits go there, and `next` goes on waiting. One that is not taken at
    once interrupts it.
    """

    def __init__(
        self,
        feeds: EventFeeds,
        subscriber: str,
        after: Cursor | str | None,
        limit: int,
        seconds: float,
        write: PageWriter | None = None,
    ):
        self.subscriber, self.after, self.limit, self._seconds = subscriber, after, limit, seconds
        self._write = write
        self._feeds, self._loop = feeds, asyncio.get_running_loop()
        self._page: asyncio.Future[EventPage | None] | None = None
        #: Whether there may be events that were not looked for, and whether somebody is looking.
        self._is_behind, self._is_asked = True, False
        self._timer: asyncio.TimerHandle | None = None
        self._until = 0.0

    async def next(self) -> EventPage | None:
        """Return the next page with events, when there are some; None when time is over, or it is interrupted."""
        self._page = self._loop.create_future()
        self._until = self._loop.time() + self._seconds
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._ring)
        if self._is_behind:
            self._ask()
        try:
            return await self._page
        finally:
            self._page = None

    def _ring(self) -> None:
        """Interrupt whoever waited long enough. One timer serves many pages: most come before it rings."""
        self._timer = None
        if self._page is None:
            return
        rest = self._until - self._loop.time()
        if rest > 0:
            self._timer = self._loop.call_later(rest, self._ring)
        else:
            self.interrupt()

    def interrupt(self, _: object = None) -> None:
        """End the wait for a page; may be the callback of a future."""
        if self._page is not None and not self._page.done():
            self._page.set_result(None)

    def wake(self) -> None:
        """Look for events, now or when the last page is sent."""
        self._is_behind = True
        self._ask()

    def _ask(self) -> None:
        if not self._is_asked and self._page is not None and not self._page.done():
            self._is_asked = True
            self._feeds.ask(self)

    def begin_read(self) -> None:
        """Know that what comes from now on may not be in the page."""
        self._is_behind = False

    def take(self, found: EventPage | BaseException) -> bool:
        """Hand a page to the stream; one without events only tells up to where there are none."""
        self._is_asked = False
        if self._page is None or self._page.done():  # interrupted: it is read again
            self._is_behind = True
            return False
        if isinstance(found, BaseException):
            self._page.set_exception(found)
        else:
            self.after = found.read_to
            self._is_behind = self._is_behind or found.is_full
            if found.events or found.gap:
                self._hand_over(found, self._page)
            if self._is_behind:
                self._ask()
        return True

    def _hand_over(self, found: EventPage, waiting: asyncio.Future[EventPage | None]) -> None:
        """Write a page, or wake whoever waits for it."""
        if self._write is None:
            waiting.set_result(found)
            return
        try:
            is_taken = self._write(found)
        except Exception as error:  # noqa: BLE001  the stream knows what to do about it
            waiting.set_exception(error)
            return
        self._until = self._loop.time() + self._seconds
        if not is_taken:
            self.interrupt()

    def close(self) -> None:
        """Wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()


class EventFeeds:
    """The events of one tenant's hub, for all who read them."""

    def __init__(
        self,
        hub: Any,
        executor: Executor,
        loop: asyncio.AbstractEventLoop,
        metrics: TenantMetrics,
        limits: EventLimits,
    ):
        self._executor, self._loop, self._metrics, self._limits = executor, loop, metrics, limits
        self._encoder = EventEncoder()
        self._waiting: dict[str, set[EventWaiter | EventFollower]] = {}
        self._asked: list[PageReader] = []
        self._reader: asyncio.Task[None] | None = None
        self._stop_listening = hub.on_release(self._released, self._wanted)

    def close(self) -> None:
        """Listen to the hub no more."""
        self._stop_listening()

    # Waiting

    def _wanted(self) -> list[str]:
        """Return whose events somebody waits for or counts; in the writing thread of the hub."""
        return [*self._waiting, *self._limits.counted()]

    def _released(self, names: list[str]) -> None:
        """Note who got something; in the writing thread of the hub."""
        woken = [name for name in names if name in self._waiting]
        if woken:
            self._loop.call_soon_threadsafe(self.wake, woken)
        self._limits.count_soon(names)

    def wake(self, names: list[str]) -> None:
        """Let those who wait for events of subscribers look for them."""
        for name in names:
            for waiter in self._waiting.get(name, ()):
                waiter.wake()

    @contextmanager
    def waiting(self, subscriber: str) -> Iterator[asyncio.Future[None]]:
        """Give a future that is done when a subscriber gets something; entered before looking whether it has."""
        waiter = EventWaiter()
        with self._woken(subscriber, waiter):
            yield waiter.woken

    @contextmanager
    def following(
        self,
        subscriber: str,
        after: Cursor | str | None,
        limit: int,
        seconds: float,
        write: PageWriter | None = None,
    ) -> Iterator[EventFollower]:
        """Give all events of a subscriber after a cursor, as they come, at most `limit` at a time."""
        follower = EventFollower(self, subscriber, after, limit, seconds, write)
        with self._woken(subscriber, follower):
            try:
                yield follower
            finally:
                follower.close()

    @contextmanager
    def _woken(self, subscriber: str, waiter: EventWaiter | EventFollower) -> Iterator[None]:
        self._waiting.setdefault(subscriber, set()).add(waiter)
        try:
            yield
        finally:
            others = self._waiting[subscriber]
            others.discard(waiter)
            if not others:
                del self._waiting[subscriber]

    # Reading

    async def page(self, subscriber: str, after: str | None, limit: int) -> EventPage:
        """Return the events of a subscriber after a cursor; None: after its last acknowledgement."""
        request = PageRequest(subscriber, after, limit)
        self.ask(request)
        return await request.answer

    def ask(self, reader: PageReader) -> None:
        """Read a page for somebody, together with those that others ask for."""
        self._asked.append(reader)
        if self._reader is None or self._reader.done():
            self._reader = self._loop.create_task(self._read_asked())

    async def _read_asked(self) -> None:
        while self._asked:
            batch, self._asked = self._asked[:_MOST_PAGES], self._asked[_MOST_PAGES:]
            for reader in batch:
                reader.begin_read()
            found = await self._loop.run_in_executor(self._executor, self._read, batch)
            for reader, page in zip(batch, found, strict=True):
                if reader.take(page) and isinstance(page, EventPage) and page.gap:
                    self._metrics.gaps.labels("retention").inc(page.gap)

    def _read(self, batch: list[PageReader]) -> list[EventPage | BaseException]:
        """Read pages; in a thread."""
        try:
            wanted = [EventsWanted(each.subscriber, each.after, each.limit) for each in batch]
            found = self._limits.pages(wanted, self._encoder.events_of)
        except Exception as error:  # noqa: BLE001  told to whoever asked
            if len(batch) > 1:  # one page that cannot be made must not take the others along
                return [page for each in batch for page in self._read([each])]
            return [error]
        return [page if isinstance(page, NearcastError) else _page_of(page) for page in found]


def _page_of(found: HandedOver) -> EventPage:
    return EventPage(found.events, found.begin, found.cursor, found.gap, found.is_full, found.read_to)
