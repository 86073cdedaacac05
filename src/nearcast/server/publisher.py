"""The publisher of a tenant: whatever waits is published in one call of the hub, and each request gets its own rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from nearcast.deliveries import Deliveries
from nearcast.server.problems import Problem
from nearcast.tables.rejected_rows import RejectedRow

#: Called in a thread with the messages of a call of the hub, and what it returned.
OnPublished = Callable[[list[Any] | pa.Table, Deliveries], None]
#: Messages that one call of the hub takes from several requests.
_MOST_TOGETHER = 20_000


@dataclass
class PublishRequest:
    """Messages of one request, as values or as a table, on their way to the hub."""

    messages: list[Any] | pa.Table
    key: str | None = None
    answer: asyncio.Future[PublishAnswer] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def __len__(self) -> int:
        return len(self.messages)

    def form(self) -> Any:
        """Return what requests must have in common to be published together, None for one that must be alone.

        All ids of a call are of one type: those of another request must not decide which.
        """
        if self.key is not None or not len(self.messages):
            return None
        if isinstance(self.messages, pa.Table):
            return self.messages.schema
        types = {_id_type(message) for message in self.messages}
        return types.pop() if len(types) == 1 else None


@dataclass(frozen=True)
class PublishAnswer:
    """What came of a request: the rows that were rejected, the cursor after it, and whether it was a repeat."""

    rejected: list[RejectedRow]
    cursor: str
    is_repeat: bool = False


class Publisher:
    """Publishes requests in the order in which they came, together where they wait together."""

    def __init__(self, hub: Any, executor: Executor, most_waiting: int, on_published: OnPublished):
        self._hub, self._executor, self._most_waiting = hub, executor, most_waiting
        self._on_published = on_published
        self._waiting: list[PublishRequest] = []
        self._work: asyncio.Task[None] | None = None
        #: Messages that were taken in and are not published yet.
        self.n_waiting = 0

    async def publish(self, messages: list[Any] | pa.Table, key: str | None = None) -> PublishAnswer:
        """Publish messages; raise if too many wait already."""
        if self.n_waiting and self.n_waiting + len(messages) > self._most_waiting:
            raise Problem(
                429,
                "too-many-waiting",
                f"{self.n_waiting:,} messages wait to be published; try again in a second",
                headers={"Retry-After": "1"},
            )
        request = PublishRequest(messages, key)
        self.n_waiting += len(request)
        self._waiting.append(request)
        if self._work is None or self._work.done():
            self._work = asyncio.get_running_loop().create_task(self._publish_waiting())
        return await request.answer

    async def _publish_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch = self._next_batch()
            try:
                answers = await loop.run_in_executor(self._executor, self._publish, batch)
            except BaseException as error:  # noqa: BLE001  told to all who wait for it
                answers = [error] * len(batch)
            for request, answer in zip(batch, answers, strict=True):
                self.n_waiting -= len(request)
                _tell(request.answer, answer)

    def _next_batch(self) -> list[PublishRequest]:
        """Take the requests off the queue that go together: those without a key, of one form and type of ids."""
        form, total, n = self._waiting[0].form(), len(self._waiting[0]), 1
        if form is not None:
            for request in self._waiting[1:]:
                total += len(request)
                if request.form() != form or total > _MOST_TOGETHER:
                    break
                n += 1
        batch, self._waiting = self._waiting[:n], self._waiting[n:]
        return batch

    def _publish(self, batch: list[PublishRequest]) -> list[PublishAnswer | BaseException]:
        """Publish requests by one call; in a thread."""
        messages = _joined([request.messages for request in batch])
        found: Deliveries = self._hub.publish_many(messages, key=batch[0].key)
        cursor = str(self._hub.end)
        is_repeat = batch[0].key is not None and any(
            "was used for the same" in text for text in found.rejected.warnings
        )
        if not is_repeat:
            self._on_published(messages, found)
        rejected, first = sorted(found.rejected, key=lambda row: row.row), 0
        answers: list[PublishAnswer | BaseException] = []
        for request in batch:
            own = [row for row in rejected if first <= row.row < first + len(request)] if rejected else []
            answers.append(PublishAnswer([row._replace(row=row.row - first) for row in own], cursor, is_repeat))
            first += len(request)
        return answers

    async def close(self) -> None:
        """Publish what waits."""
        if self._work is not None:
            await self._work


def _joined(given: list[Any]) -> Any:
    """Return the messages of requests of one form as one."""
    if len(given) == 1:
        return given[0]
    if isinstance(given[0], pa.Table):
        return pa.concat_tables(given)
    return [message for messages in given for message in messages]


def _id_type(message: Any) -> type | None:
    """Return the type of a message's id, None where it is not plain to see."""
    given = given_id(message)
    return type(given) if isinstance(given, str | int) else None


def given_id(message: Any) -> Any:
    """Return the id of a message as it was given, without any check; None where it is not plain to see."""
    if not isinstance(message, dict):
        return None
    properties = message.get("properties")
    if isinstance(properties, dict) and properties.get("id") is not None:
        return properties["id"]
    return message.get("id")


def _tell(answer: asyncio.Future[PublishAnswer], found: PublishAnswer | BaseException) -> None:
    if answer.done():  # whoever asked has gone
        return
    if isinstance(found, BaseException):
        answer.set_exception(found)
    else:
        answer.set_result(found)
