"""`Outbox`: a log-structured merge tree of deliveries by subscriber.

Batches in memory become sorted runs when somebody reads or when there are many; runs become files, which are merged by
size. Only what a snapshot stands on is synced: all else is made again by replay, with the same cursors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast._saved import sync
from nearcast.durable.outbox.acks import Ack, AckColumns
from nearcast.durable.outbox.batches import OutboxBatch, Totals, run_of
from nearcast.durable.outbox.cursors import BEGIN, Cursor
from nearcast.durable.outbox.dropped_counts import DroppedCounts
from nearcast.durable.outbox.events import RowSpan
from nearcast.durable.outbox.retention import Retention
from nearcast.durable.outbox.run_files import files_of, open_run, remove_unfinished, write_run
from nearcast.durable.outbox.runs import SortedRun, merged
from nearcast.errors import IncompatibleStore

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Deliveries, and bytes of messages, that wait in memory before they become a file.
_FLUSH_ROWS, _FLUSH_BYTES = 1 << 20, 64 << 20
#: So many neighbours of like size are merged, unless the file would be longer than this.
_MERGED_FILES, _LARGEST_FILE = 4, 256 << 20
#: Files up to this size are alike.
_SMALL_FILE = 1 << 20


class Outbox:
    """Deliveries that wait for their subscribers, in files and in memory, and the messages that they are about.

    Batches come from one thread; any thread may read. `is_known` tells which numbers are those of subscribers that
    were not erased: merging drops the rows of the others.
    """

    def __init__(self, folder: Path, retention: Retention):
        self.folder, self.retention = folder, retention
        self.acks = AckColumns()
        self.is_known: Callable[[NDArray[np.int32]], NDArray[np.bool_]] = lambda numbers: np.ones(len(numbers), bool)
        #: What was found wrong with a file when the outbox was opened, and why the last file could not be written.
        self.fault = self.write_error = ""
        self._lock = threading.RLock()
        self._files: list[SortedRun] = []
        self._memory: list[SortedRun] = []
        self._pending: list[OutboxBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self._totals, self._dropped = Totals(), DroppedCounts.of(folder)
        #: The last input that files hold; the last whose deliveries are here; the last that is synced.
        self.in_files = self.complete = self._synced = 0
        self.flush_rows, self.flush_bytes, self.largest_file = _FLUSH_ROWS, _FLUSH_BYTES, _LARGEST_FILE

    # Opening

    def recover(self, last_input: int, synced: int) -> None:
        """Take over the files that are whole and follow each other, up to an input of the log.

        Files with inputs after `synced` may be torn. What was found wrong with an older one is in `fault`.
        """
        if not self.folder.is_dir():
            return
        remove_unfinished(self.folder)
        for span, path in files_of(self.folder):
            if self._files and span.last <= self.in_files:
                continue  # a part of the one before, which was merged
            if span.last > last_input:
                break
            try:
                run = open_run(path, verify=span.last > synced)
            except IncompatibleStore as error:
                self.fault = str(error)
                break
            if self._files and span.before != self.in_files:
                self.fault = f"{self.folder} lacks the file after input {self.in_files}"
                break
            self._files.append(run)
            self.in_files = span.last
        self._synced = min(synced, self.in_files)
        for run in self._files:
            self._totals.raise_to(run.subscriber, run.ordinal + np.diff(run.start))
        self._totals.raise_to(self._dropped.subscriber, self._dropped.ordinal)

    def begin(self, snapshot: int) -> None:
        """Go on from a snapshot: what files lack of the inputs after it is going to be added by replay."""
        self.complete = max(snapshot, self.in_files)
        kept = {run.path for run in self._files}
        for _, path in files_of(self.folder) if self.folder.is_dir() else ():
            if path not in kept:
                path.unlink(missing_ok=True)

    # Adding

    def add(self, batch: OutboxBatch) -> None:
        """Take what an input delivered and published; inputs come in order."""
        self.complete = batch.number
        if not batch.rows and batch.published is None:
            return
        with self._lock:
            self._pending.append(batch)
            self._pending_rows += len(batch)
            if batch.published is not None:
                self._pending_bytes += batch.published.given.table.nbytes

    @property
    def is_full(self) -> bool:
        """Tell whether enough waits in memory to become a file."""
        rows = self._pending_rows + sum(map(len, self._memory))
        size = self._pending_bytes + sum(run.content.nbytes for run in self._memory)
        return rows >= self.flush_rows or size >= self.flush_bytes

    def _consolidate(self) -> None:
        """Make a run of the batches that wait, and merge runs of like size; the lock is held."""
        if self._pending:
            before = self._memory[-1].span.last if self._memory else self.in_files
            self._memory.append(run_of(self._pending, before, self._totals))
            self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        while len(self._memory) > 1 and self._memory[-2].nbytes < 2 * self._memory[-1].nbytes:
            self._memory[-2:] = [merged(self._memory[-2:], self.is_known)]

    def flush(self, *, synced: bool = False) -> None:
        """Write what is in memory into a file; with `synced` have all files survive a power cut."""
        with self._lock:
            self._consolidate()
            if self._memory:
                self.folder.mkdir(exist_ok=True)
                whole = self._memory[0] if len(self._memory) == 1 else merged(self._memory, self.is_known)
                self._files.append(write_run(whole, self.folder, synced=synced))
                self._memory, self.in_files = [], whole.span.last
            if synced:
                self._sync()
        self.write_error = ""

    def _sync(self) -> None:
        for run in self._files:
            if run.span.last > self._synced and run.path is not None:
                sync(run.path)
        if self.in_files > self._synced:
            sync(self.folder)
            sync(self.folder.parent)
            self._synced = self.in_files

    # Merging and dropping

    def tidy(self, now: int) -> None:
        """Write a file where enough waits, merge files of like size, and drop those that are past the retention."""
        try:
            if self.is_full:
                self.flush()
            while (at := self._like_sized()) is not None:
                self._merge(*at)
            self._drop(now)
        except OSError as error:  # a full disk: all of it stays where it is, and the next call tries again
            self.write_error = str(error)

    def _like_sized(self) -> tuple[int, int] | None:
        """Return the newest neighbours that are to be merged."""
        classes, sizes = [_size_class(run.nbytes) for run in self._files], [run.nbytes for run in self._files]
        for last in range(len(classes), _MERGED_FILES - 1, -1):
            first = last - _MERGED_FILES
            if len(set(classes[first:last])) == 1 and sum(sizes[first:last]) <= self.largest_file:
                return first, last
        return None

    def _merge(self, first: int, last: int) -> None:
        parts = self._files[first:last]
        whole = write_run(merged(parts, self.is_known), self.folder, synced=True)
        with self._lock:
            self._files[first:last] = [whole]
        for run in parts:
            _remove(run)

    def _drop(self, now: int) -> None:
        """Drop the oldest files, while they are past the retention; what is in memory always stays."""
        age, most = self.retention.age_us, self.retention.bytes
        while self._files:
            oldest, size = self._files[0], sum(run.nbytes for run in self._files)
            time = oldest.last_time
            is_old = age is not None and time is not None and time < now - age
            if not is_old and (most is None or size <= most):
                return
            self._dropped.count(oldest, self.acks)
            self._dropped.save(self.folder, self.is_known)
            with self._lock:
                del self._files[0]
            _remove(oldest)

    # Reading

    def runs(self) -> list[SortedRun]:
        """Return all runs there are, in order."""
        with self._lock:
            self._consolidate()
            return [*self._files, *self._memory]

    def rows_after(self, runs: list[SortedRun], subscriber: int, after: Cursor, limit: int) -> list[RowSpan]:
        """Return the rows of a subscriber after a cursor, up to a limit."""
        spans: list[RowSpan] = []
        for run in runs:
            if limit <= 0:
                break
            at = -1 if run.last_step < after.step else run.place_of(subscriber)
            if at < 0:
                continue
            first, last = run.rows_after(at, after)
            last = min(last, first + limit)
            if first < last:
                spans.append(RowSpan(run, first, last))
                limit -= last - first
        return spans

    def gap(self, runs: list[SortedRun], subscriber: int, after: Cursor) -> int:
        """Return how many deliveries of a subscriber after a cursor were dropped.

        Exact for a cursor that is kept, for the last acknowledgement and for the begin; else as many at most.
        """
        ack = self.acks.of(subscriber)
        known = ack.ordinal if ack.cursor <= after else 0
        for run in runs:
            at = run.place_of(subscriber)
            if at < 0:
                continue
            is_kept = run.rows_after(at, after)[0] > run.start[at]
            return 0 if is_kept else max(0, int(run.ordinal[at]) - known)
        return max(0, self._totals.of(subscriber) - known)

    def ack_at(self, subscriber: int, cursor: Cursor) -> Ack:
        """Return the acknowledgement of all deliveries up to a cursor."""
        for run in reversed(self.runs()):
            at = run.place_of(subscriber)
            if at >= 0:
                n = run.rows_after(at, cursor)[0] - int(run.start[at])
                if n:
                    return Ack(cursor, int(run.ordinal[at]) + n)
        return Ack(cursor, self.acks.of(subscriber).ordinal if cursor > BEGIN else 0)

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes."""
        with self._lock:
            return {
                "files": len(self._files),
                "bytes": sum(run.nbytes for run in self._files),
                "deliveries": sum(map(len, self._files)) + sum(map(len, self._memory)) + self._pending_rows,
                "dropped": self._dropped.n_dropped,
                "dropped_unacknowledged": self._dropped.n_unacknowledged,
                "write_error": self.write_error,
            }


def _size_class(nbytes: int) -> int:
    size, found = max(nbytes, 1) // _SMALL_FILE, 0
    while size:
        size, found = size // _MERGED_FILES, found + 1
    return found


def _remove(run: SortedRun) -> None:
    if run.path is not None:
        with suppress(OSError):  # the next start removes it
            run.path.unlink(missing_ok=True)
