"""The publisher of a tenant: whatever waits is one transaction of the hub, and each request gets its own rows.

Neighbours of one form are one call of the hub. Requests with a key, which is logged with them, and of other forms are
calls of their own.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from nearcast.deliveries import Deliveries
from nearcast.durable import MessagesWanted, PublishUnderWay
from nearcast.server.feature_columns import INT64, PointFeature, table_of_points
from nearcast.server.problems import Problem
from nearcast.server.settings import LimitSettings
from nearcast.tables.messages import MESSAGE_FIELDS
from nearcast.tables.names import EARTH_PLACE, PLANE_PLACE
from nearcast.tables.rejected_rows import RejectedRow

#: Called with the messages of a call of the hub, and what it returned.
OnPublished = Callable[[list[Any] | pa.Table, Deliveries], None]
#: Messages that one transaction of the hub takes from several requests, and the bytes of these.
_MOST_TOGETHER, _MOST_BYTES_TOGETHER = 20_000, 32 << 20
#: So many are enough for a call: no more are waited for, and up to so many are prepared in the loop; of dicts, so few.
_ENOUGH, _FEW = 128, 8
#: Calls, each of which takes some tenths of a millisecond, that are prepared in the loop.
_FEW_CALLS = 2
#: Names of values that have types of their own; in what is no Feature also a geometry has.
_NO_ATTRIBUTES = {*MESSAGE_FIELDS, *EARTH_PLACE, *PLANE_PLACE, "place"}
_GEOMETRY = {"geometry", "bbox"}
#: A call costs the hub some milliseconds, whatever it holds. So long others are waited for: while they come, at most.
_MOMENT_S, _LONGEST_WAIT_S = 0.001, 0.005


@dataclass
class PublishRequest:
    """Messages of one request, as values or as a table, on their way to the hub; `n_bytes` is about their size."""

    messages: list[Any] | pa.Table
    key: str | None = None
    n_bytes: int = 0
    answer: asyncio.Future[PublishAnswer] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def __len__(self) -> int:
        return len(self.messages)

    @functools.cached_property
    def form(self) -> Any:
        """Return what requests must have in common to be published together, None for one that must be alone.

        All ids of a call are of one type, and so are all values of an attribute: those of another request must not
        decide which.
        """
        if self.key is not None or not len(self.messages):
            return None
        if isinstance(self.messages, pa.Table):
            return self.messages.schema
        if isinstance(self.messages[0], PointFeature):
            attributes = _types_in(self.messages[0].properties)
            return None if attributes is None else (PointFeature, type(self.messages[0].id), attributes)
        types = {_id_type(message) for message in self.messages}
        found = [_attribute_types(message) for message in self.messages]
        known = [each for each in found if each is not None]
        if len(types) != 1 or None in types or len(known) < len(found):
            return None
        return types.pop(), frozenset().union(*known)


@dataclass(frozen=True)
class PublishAnswer:
    """What came of a request: the rows that were rejected, the cursor after it, and whether it was a repeat."""

    rejected: list[RejectedRow]
    cursor: str
    is_repeat: bool = False


class Publisher:
    """Publishes requests in the order in which they came, together where they wait together."""

    def __init__(self, hub: Any, executor: Executor, limits: LimitSettings, on_published: OnPublished):
        self._hub, self._executor, self._limits = hub, executor, limits
        self._on_published = on_published
        self._waiting: list[PublishRequest] = []
        self._work: asyncio.Task[None] | None = None
        #: Requests that were there when the last call ended: those of that call, and those that waited.
        self._n_under_way = 0
        #: Messages that were taken in and are not published yet, and their bytes.
        self.n_waiting = self.n_waiting_bytes = 0

    async def publish(self, messages: list[Any] | pa.Table, key: str | None, n_bytes: int) -> PublishAnswer:
        """Publish messages; raise if too many wait already, or too many bytes."""
        request = PublishRequest(messages, key, n_bytes)
        if self.n_waiting and self._is_too_much(request):
            raise Problem(
                429,
                "too-many-waiting",
                f"{self.n_waiting:,} messages of {self.n_waiting_bytes:,} bytes wait to be published; "
                "try again in a second",
                headers={"Retry-After": "1"},
            )
        self.n_waiting += len(request)
        self.n_waiting_bytes += n_bytes
        self._waiting.append(request)
        if self._work is None or self._work.done():
            self._work = asyncio.get_running_loop().create_task(self._publish_waiting())
        return await request.answer

    def _is_too_much(self, request: PublishRequest) -> bool:
        """Tell whether more would wait with a request than may."""
        return (
            self.n_waiting + len(request) > self._limits.waiting_messages
            or self.n_waiting_bytes + request.n_bytes > self._limits.waiting_bytes
        )

    async def _publish_waiting(self) -> None:
        while self._waiting:
            await self._gather()
            batch = self._next_batch()
            try:
                answers = await self._publish(batch)
            except BaseException as error:  # noqa: BLE001  told to all who wait for it
                answers = [error] * len(batch)
            for request, answer in zip(batch, answers, strict=True):
                self.n_waiting -= len(request)
                self.n_waiting_bytes -= request.n_bytes
                _tell(request.answer, answer)
            self._n_under_way = len(batch) + len(self._waiting)

    async def _gather(self) -> None:
        """Give clients that were answered together a moment to send their next requests, while these come."""
        loop = asyncio.get_running_loop()
        over, seen = loop.time() + _LONGEST_WAIT_S, 0
        while seen < len(self._waiting) < self._n_under_way and self.n_waiting < _ENOUGH and loop.time() < over:
            seen = len(self._waiting)
            await asyncio.sleep(_MOMENT_S)

    def _next_batch(self) -> list[PublishRequest]:
        """Take the requests off the queue that go into one transaction; small ones do not wait for what is large."""
        total = n_bytes = n = 0
        is_large = len(self._waiting[0]) > _ENOUGH
        for request in self._waiting:
            total, n_bytes = total + len(request), n_bytes + request.n_bytes
            is_enough = total > _MOST_TOGETHER or n_bytes > _MOST_BYTES_TOGETHER
            if n and (is_enough or (len(request) > _ENOUGH) != is_large):
                break
            n += 1
        batch, self._waiting = self._waiting[:n], self._waiting[n:]
        return batch

    async def _publish(self, batch: list[PublishRequest]) -> list[PublishAnswer | BaseException]:
        """Publish requests, prepared in a thread unless that is quick, by calls that are made in the hub's thread."""
        loop, groups = asyncio.get_running_loop(), _groups(batch)
        is_quick = _is_quick(groups)
        if is_quick:
            joined, under_way = self._begin(groups)
        else:
            joined, under_way = await loop.run_in_executor(self._executor, self._begin, groups)
        begun = [each for each in under_way if isinstance(each, PublishUnderWay)]
        if begun:  # they are answered in order
            done = loop.create_future()
            begun[-1].on_done(lambda: loop.call_soon_threadsafe(_wake, done))
            await done
        if is_quick:
            return self._answers(groups, joined, under_way)
        return await loop.run_in_executor(self._executor, self._answers, groups, joined, under_way)

    def _begin(
        self, groups: list[list[PublishRequest]]
    ) -> tuple[list[list[Any] | pa.Table], list[PublishUnderWay | Exception]]:
        """Hand the messages of requests to the hub, each group as one call."""
        joined = [_joined([request.messages for request in group]) for group in groups]
        wanted = [MessagesWanted(messages, group[0].key) for messages, group in zip(joined, groups, strict=True)]
        return joined, self._hub.begin_publish_together(wanted)

    def _answers(
        self,
        groups: list[list[PublishRequest]],
        joined: list[list[Any] | pa.Table],
        under_way: list[PublishUnderWay | Exception],
    ) -> list[PublishAnswer | BaseException]:
        """Return what came of each request of some calls."""
        answers: list[PublishAnswer | BaseException] = []
        for group, messages, each in zip(groups, joined, under_way, strict=True):
            try:
                if isinstance(each, Exception):
                    raise each
                answers += self._answers_of_call(group, messages, each.result())
            except Exception as error:  # noqa: BLE001  told to those of the call
                answers += [error] * len(group)
        return answers

    def _answers_of_call(
        self, group: list[PublishRequest], messages: list[Any] | pa.Table, found: Deliveries
    ) -> list[PublishAnswer]:
        """Return what came of each request of a call."""
        cursor = str(self._hub.end)
        is_repeat = group[0].key is not None and any(
            "was used for the same" in text for text in found.rejected.warnings
        )
        if not is_repeat:
            self._on_published(messages, found)
        rejected, first = sorted(found.rejected, key=lambda row: row.row), 0
        answers: list[PublishAnswer] = []
        for request in group:
            own = [row for row in rejected if first <= row.row < first + len(request)] if rejected else []
            answers.append(PublishAnswer([row._replace(row=row.row - first) for row in own], cursor, is_repeat))
            first += len(request)
        return answers

    async def close(self) -> None:
        """Publish what waits."""
        if self._work is not None:
            await self._work


def _groups(batch: list[PublishRequest]) -> list[list[PublishRequest]]:
    """Return requests as those that are one call: neighbours of one form; any other is one of its own."""
    groups: list[list[PublishRequest]] = []
    for request in batch:
        if groups and request.form is not None and request.form == groups[-1][0].form:
            groups[-1].append(request)
        else:
            groups.append([request])
    return groups


def _is_quick(groups: list[list[PublishRequest]]) -> bool:
    """Tell whether what is done around calls may be done in the loop: around few, of few messages."""
    messages = [request.messages for group in groups for request in group]
    is_plain = all(isinstance(each, pa.Table) or isinstance(each[0], PointFeature) for each in messages)
    return len(groups) <= _FEW_CALLS and sum(map(len, messages)) <= (_ENOUGH if is_plain else _FEW)


def _joined(given: list[Any]) -> Any:
    """Return the messages of requests of one form as one."""
    if len(given) == 1 and (isinstance(given[0], pa.Table) or not isinstance(given[0][0], PointFeature)):
        return given[0]
    if isinstance(given[0], pa.Table):
        return pa.concat_tables(given)
    joined = [message for messages in given for message in messages]
    return _of_points(joined) if isinstance(joined[0], PointFeature) else joined


def _of_points(features: list[PointFeature]) -> Any:
    """Return Features as a table, or as dicts if they have no columns in common."""
    table = table_of_points(features)
    return [msgspec.to_builtins(feature) for feature in features] if table is None else table


def _id_type(message: Any) -> type | None:
    """Return the type of a message's id, None where it is not plain to see."""
    given = given_id(message)
    return type(given) if isinstance(given, str | int) else None


def _types_in(given: dict[str, Any]) -> frozenset[tuple[str, type]] | None:
    """Return the type of each attribute; None if there is a list, a dict or an integer beyond int64 among them.

    A column of those has the type that all its values allow.
    """
    attributes = [(name, value) for name, value in given.items() if name not in _NO_ATTRIBUTES]
    if any(type(value) in (list, dict) or (type(value) is int and value not in INT64) for _, value in attributes):
        return None
    return frozenset((name, type(value)) for name, value in attributes)


def _attribute_types(message: Any) -> frozenset[tuple[str, type]] | None:
    """Return the type of each attribute of a message given as a dict; None as `_types_in`."""
    if not isinstance(message, dict):
        return frozenset()
    properties = message.get("properties")
    if message.get("type") == "Feature" and isinstance(properties, dict):
        return _types_in(properties)
    return _types_in({name: value for name, value in message.items() if name not in _GEOMETRY})


def given_id(message: Any) -> Any:
    """Return the id of a message as it was given, without any check; None where it is not plain to see."""
    if not isinstance(message, dict):
        return None
    properties = message.get("properties")
    if isinstance(properties, dict) and properties.get("id") is not None:
        return properties["id"]
    return message.get("id")


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():  # the loop is being closed
        waiter.set_result(None)


def _tell(answer: asyncio.Future[PublishAnswer], found: PublishAnswer | BaseException) -> None:
    if answer.done():  # whoever asked has gone
        return
    if isinstance(found, BaseException):
        answer.set_exception(found)
    else:
        answer.set_result(found)
