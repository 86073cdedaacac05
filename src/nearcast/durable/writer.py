"""The writing thread of a durable hub: whatever waits is logged in one transaction (group commit), then made in order.

A thread of its own, so that an interrupt of a caller never comes between the log and the state.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from nearcast.durable.input_log import InputLog, LogEntry
from nearcast.durable.outbox.acks import AckEntry
from nearcast.errors import FileUnavailable, HubStopped, NearcastError

#: So many calls are enough for a transaction.
_MOST_TOGETHER = 1000
#: Callers that were answered together call again one after the other. So long the next of them is waited for, and so
#: long all of them: an fsync costs more.
_MOMENT_S, _LONGEST_WAIT_S = 0.001, 0.004
#: A snapshot may fail, on a full disk or without memory, and the log is still all there is to know.
_HARMLESS_ALONE = (NearcastError, OSError, MemoryError)


class HasEntry(Protocol):
    """A call with its entry of the log, or an acknowledgement with its row."""

    @property
    def entry(self) -> LogEntry | AckEntry:
        """Return what is logged."""


Call = TypeVar("Call", bound=HasEntry)
#: A call, or a function that is run between transactions, and where its answer goes.
Waiting = tuple[Any, "Future[Any]"]


class GroupWriter(Generic[Call]):
    """Takes calls from any thread: logs them, then lets `make` make each, and answers."""

    def __init__(self, log: InputLog, make: Callable[[Call], Any], after_batch: Callable[[], None]):
        self._log, self._make, self._after_batch = log, make, after_batch
        #: Calls that go into one transaction; a function stands alone; None: the end.
        self._queue: queue.SimpleQueue[list[Waiting] | None] = queue.SimpleQueue()
        #: Callers whose calls were under way when the last transaction was on disk: those in it, and those that waited.
        self._n_under_way = 0
        self._waits_for_more = not log.is_relaxed
        #: Why the hub stopped, empty while it runs.
        self.stopped = ""
        self._closing, self._is_closed = threading.Lock(), False
        self._thread = threading.Thread(target=self._work, name="nearcast-log", daemon=True)
        self._thread.start()

    @property
    def n_waiting(self) -> int:
        """Return how many calls, or groups of them, wait for the transaction under way to end."""
        return self._queue.qsize()

    def run(self, call: Call) -> Any:
        """Log a call, make it, and return its answer, or raise what it raised."""
        return self.begin(call).result()

    def begin(self, call: Call) -> Future[Any]:
        """Let a call wait to be logged and made; return its answer to come, which must never be cancelled."""
        return self.begin_together([call])[0]

    def begin_together(self, calls: Sequence[Call]) -> list[Future[Any]]:
        """Let calls wait to be logged in one transaction, and made and answered in their order."""
        return self._put(calls)

    def run_alone(self, function: Callable[[], Any]) -> Any:
        """Run a function in the writing thread, between two transactions."""
        return self._put([function])[0].result()

    def _put(self, given: Sequence[Any]) -> list[Future[Any]]:
        waiting: list[Waiting] = [(each, Future()) for each in given]
        with self._closing:
            if self._is_closed:
                raise HubStopped("the hub was closed; open it again")
            if waiting:
                self._queue.put(waiting)
        return [answer for _, answer in waiting]

    def close(self) -> None:
        """Make the calls that wait, and end the thread."""
        with self._closing:
            self._is_closed = True
            self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        is_open = True
        while is_open:
            batch, alone, is_open = self._batch()
            if batch:
                self._take(batch)
            if alone is not None:
                self._run(*alone, harmless=_HARMLESS_ALONE)

    def _batch(self) -> tuple[list[Waiting], Waiting | None, bool]:
        """Return the calls that wait, up to a function that runs alone or the end.

        While they are fewer than were under way the last time, the next is waited for a moment.
        """
        batch: list[Waiting] = []
        waiting, n_callers = self._queue.get(), 0
        over = time.monotonic() + _LONGEST_WAIT_S
        while waiting is not None:
            if callable(waiting[0][0]):
                self._n_under_way = n_callers
                return batch, waiting[0], True
            batch += waiting
            n_callers += 1
            if len(batch) >= _MOST_TOGETHER:
                break
            is_expected = self._waits_for_more and n_callers < self._n_under_way and time.monotonic() < over
            try:
                waiting = self._queue.get(timeout=_MOMENT_S if is_expected else 0)
            except queue.Empty:
                break
        self._n_under_way = n_callers
        return batch, None, waiting is not None

    def _take(self, batch: list[Waiting]) -> None:
        """Log calls in one transaction, and then make them one after the other."""
        try:
            if not self.stopped:
                self._log.append(call.entry for call, _ in batch)
        except FileUnavailable as error:
            for _, answer in batch:
                answer.set_exception(FileUnavailable(str(error)))
            return
        except BaseException as error:  # noqa: BLE001  whatever it was, the log may hold what the state does not
            self._stop(error)
        self._n_under_way += self.n_waiting
        for call, answer in batch:
            self._run(partial(self._make, call), answer)
        if not self.stopped:
            self._run(self._after_batch, Future(), harmless=_HARMLESS_ALONE)

    def _run(
        self,
        function: Callable[[], Any],
        answer: Future[Any],
        harmless: tuple[type[Exception], ...] = (NearcastError,),
    ) -> None:
        """Run a function and answer with what it returns or raises; any error that is not harmless stops the hub."""
        if self.stopped:
            answer.set_exception(HubStopped(self.stopped))
            return
        try:
            found = function()
        except harmless as error:
            answer.set_exception(error)
        except BaseException as error:  # noqa: BLE001  the state may lack what the log has
            self._stop(error)
            answer.set_exception(HubStopped(self.stopped))
        else:
            answer.set_result(found)

    def _stop(self, error: BaseException) -> None:
        self.stopped = (
            f"the hub stopped: {type(error).__name__}: {error}; close it and open it again, "
            "then you see whether the calls under way were stored"
        )
