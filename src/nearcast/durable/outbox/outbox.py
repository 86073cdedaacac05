"""`Outbox`: a log-structured merge tree of deliveries by subscriber.

Batches in memory become sorted runs when somebody reads or when there are many; runs become files, which are merged by
size. A thread of its own does that. Only what a snapshot stands on must be synced: all else is made again by replay,
with the same cursors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast._saved import sync
from nearcast.columns import NO_TIME
from nearcast.durable.outbox.acks import Ack, AckColumns
from nearcast.durable.outbox.batches import OutboxBatch, Totals, run_of
from nearcast.durable.outbox.cursors import Cursor
from nearcast.durable.outbox.dropped_counts import DroppedCounts
from nearcast.durable.outbox.events import RowSpan
from nearcast.durable.outbox.kept_messages import MessageCache
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
#: The same of runs in memory; those that are larger are left for the file.
_MERGED_RUNS, _SMALL_RUN, _LARGEST_RUN = 8, 1 << 14, 8 << 20
#: Runs of so many rows and bytes are merged by whoever reads, in some milliseconds; of more, by the thread that tidies
#: up.
_MERGED_ROWS, _MERGED_BYTES = 1 << 15, 4 << 20
#: Deliveries that wait unsorted: a reader, who sorts them first, never waits for more.
_SORT_ROWS = 1 << 16
#: Fewer pages than these are looked up one by one.
_FEW_PAGES = 8


class FailedSync(Exception):
    """Files that are in use could not be synced. Never to be tried again: it might succeed without having written."""


class Outbox:
    """Deliveries that wait for their subscribers, in files and in memory, and the messages that they are about.

    One thread adds, one thread tidies up, and any may read. `is_known` tells which numbers are those of subscribers
    that were not erased: merging drops the rows of the others.

    Locks are taken in this order: `_tidying` by whoever changes files, `_sorting` by whoever changes runs in memory,
    `_adding` for a moment.
    """

    def __init__(self, folder: Path, retention: Retention):
        self.folder, self.retention = folder, retention
        self.acks, self.cache = AckColumns(), MessageCache()
        self.is_known: Callable[[NDArray[np.int32]], NDArray[np.bool_]] = lambda numbers: np.ones(len(numbers), bool)
        #: What was found wrong with a file when the outbox was opened, and why the last file could not be written.
        self.fault = self.write_error = ""
        self._tidying, self._sorting, self._adding = threading.RLock(), threading.RLock(), threading.Lock()
        self._files: list[SortedRun] = []
        self._memory: list[SortedRun] = []
        #: So many runs in memory are being written into a file.
        self._n_sealed = 0
        #: How many files there were when all was tidy.
        self._n_tidied = 0
        self._pending: list[OutboxBatch] = []
        self._rows_in_memory = self._bytes_in_memory = self._rows_unsorted = 0
        self._totals, self._dropped = Totals(), DroppedCounts.open(folder)
        #: The last input that files hold; the last whose deliveries are here; the last that is synced.
        self.in_files = self.complete = self._synced = 0
        #: Whether files are merged whose inputs a power cut may take from the log: the others would go with them.
        self.merges_unsynced = True
        self.flush_rows, self.flush_bytes, self.largest_file = _FLUSH_ROWS, _FLUSH_BYTES, _LARGEST_FILE
        self.merged_rows, self.sort_rows = _MERGED_ROWS, _SORT_ROWS

    # Opening

    def recover(self, last_input: int, synced: int) -> None:
        """Take over the files that are whole and follow each other, up to an input of the log.

        Files with inputs after `synced` may be torn. What was found wrong with an older one is in `fault`.
        """
        if not self.folder.is_dir():
            return
        remove_unfinished(self.folder)
        self.in_files = self._dropped.until
        for span, path in files_of(self.folder):
            if span.last <= self.in_files:
                continue  # a part of the one before, which was merged, or past the retention
            if span.last > last_input:
                break
            try:
                run = open_run(path, verify=span.last > synced)
            except IncompatibleStore as error:
                self.fault = str(error)
                break
            if span.before != self.in_files:
                self.fault = f"{self.folder} lacks the file after input {self.in_files}; bring it back from a copy"
                break
            self._files.append(run)
            self.in_files = span.last
        self._synced = min(synced, self.in_files)
        self._totals.raise_to(self._dropped.subscriber, self._dropped.ordinal)
        for run in self._files:
            self._totals.raise_to(run.subscriber, run.ordinal + np.diff(run.start))

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
        with self._adding:
            self._pending.append(batch)
            self._rows_in_memory += len(batch)
            self._rows_unsorted += len(batch)
            self._bytes_in_memory += batch.nbytes

    def fullness(self) -> float:
        """Return how many files what is in memory would fill."""
        return max(self._rows_in_memory / self.flush_rows, self._bytes_in_memory / self.flush_bytes)

    def _consolidate(self) -> None:
        """Make a run of the batches that wait, and merge small runs of like size; `_sorting` is held."""
        if batches := self._pending[:]:
            before = self._memory[-1].span.last if self._memory else self.in_files
            self._memory.append(run_of(batches, before, self._totals))
            with self._adding:
                del self._pending[: len(batches)]
                self._rows_unsorted -= sum(map(len, batches))
        n = self._n_like_sized_in_memory()
        if n >= _MERGED_RUNS and self._is_quickly_merged(newest := self._memory[-n:]):
            self._memory[-n:] = [merged(newest, self.is_known)]

    def _is_quickly_merged(self, runs: list[SortedRun]) -> bool:
        return sum(map(len, runs)) <= self.merged_rows and sum(run.nbytes for run in runs) <= _MERGED_BYTES

    def _merge_memory(self) -> None:
        """Merge runs of like size in memory; whoever reads or adds meanwhile leaves them as they are."""
        with self._sorting:
            n, n_sealed, end = self._n_like_sized_in_memory(), self._n_sealed, len(self._memory)
            if n < _MERGED_RUNS:
                return
            parts, self._n_sealed = self._memory[end - n : end], end
        try:
            whole = [merged(parts, self.is_known)]
        except BaseException:
            whole = parts
            raise
        finally:
            with self._sorting:
                self._memory[end - n : end], self._n_sealed = whole, n_sealed

    def _n_like_sized_in_memory(self) -> int:
        """Return how many of the newest runs in memory have none among them that is larger than all newer ones."""
        n = size = 0
        for run in reversed(self._memory[self._n_sealed :]):
            if run.nbytes > _LARGEST_RUN or (n and run.nbytes > max(size, _SMALL_RUN)):
                break
            n, size = n + 1, size + run.nbytes
        return n

    def flush(self, *, synced: bool = False) -> None:
        """Write what is in memory into a file; with `synced` have all files survive a power cut."""
        with self._tidying:
            with self._sorting:
                self._consolidate()
                self._n_sealed = len(self._memory)
            if self._n_sealed:
                self._write(self._memory[: self._n_sealed], synced=synced)
            if synced:
                self._sync()
        self.write_error = ""

    def _write(self, runs: list[SortedRun], *, synced: bool) -> None:
        """Write runs of memory into one file, which takes their place."""
        self.folder.mkdir(exist_ok=True)
        is_whole = len(runs) == 1 and self.is_known(runs[0].subscriber).all()
        file = write_run(runs[0] if is_whole else merged(runs, self.is_known), self.folder, synced=synced)
        with self._sorting:
            self._files.append(file)
            del self._memory[: len(runs)]
            self._n_sealed, self.in_files = 0, file.span.last
            with self._adding:
                self._rows_in_memory = sum(map(len, self._memory)) + sum(map(len, self._pending))
                self._bytes_in_memory = sum(run.content.nbytes for run in self._memory)
                self._bytes_in_memory += sum(batch.nbytes for batch in self._pending)

    def _sync(self) -> None:
        try:
            for run in self._files:
                if run.span.last > self._synced and run.path is not None:
                    sync(run.path)
            if self.in_files > self._synced:
                sync(self.folder)
                sync(self.folder.parent)
                self._synced = self.in_files
        except OSError as error:
            raise FailedSync(f"{self.folder} could not be synced ({error})") from error

    # Merging and dropping

    def tidy(self, now: int) -> None:
        """Sort much that waits, write a file of more, merge files of like size, and drop those past the retention."""
        with self._tidying:
            if self._rows_unsorted >= self.sort_rows:
                self.runs()
            if self.fullness() >= 1:
                self.flush()
            self._merge_memory()
            self._drop(now)
            while (at := self._like_sized()) is not None:
                self._merge(*at)
            self._n_tidied = len(self._files)

    def is_untidy(self, now: int) -> bool:
        """Tell whether there is something to do for `tidy`; quick."""
        files = self._files[:]
        is_much = self._rows_unsorted >= self.sort_rows or self.fullness() >= 1
        if is_much or len(files) != self._n_tidied or self._n_past(files, now) > 0:
            return True
        return self._n_like_sized_in_memory() >= _MERGED_RUNS  # what readers leave of these is too large for them

    def _like_sized(self) -> tuple[int, int] | None:
        """Return the newest neighbours that are to be merged."""
        files = [run for run in self._files if self.merges_unsynced or run.span.last <= self._synced]
        classes, sizes = [_size_class(run.nbytes) for run in files], [run.nbytes for run in files]
        for last in range(len(classes), _MERGED_FILES - 1, -1):
            first = last - _MERGED_FILES
            if len(set(classes[first:last])) == 1 and sum(sizes[first:last]) <= self.largest_file:
                return first, last
        return None

    def _merge(self, first: int, last: int) -> None:
        """Merge files; the log may lack their inputs, so the new one is synced before they go."""
        parts = self._files[first:last]
        whole = write_run(merged(parts, self.is_known), self.folder, synced=True)
        with self._sorting:
            self._files[first:last] = [whole]
        for run in parts:
            _remove(run)

    def _drop(self, now: int) -> None:
        """Drop the oldest files that are past the retention; what is in memory always stays."""
        for run in self._files[: self._n_past(self._files, now)]:
            dropped = self._dropped.counted(run, self.acks)
            dropped.save(self.folder, self.is_known)  # what fails here has dropped and counted nothing
            with self._sorting:
                self._dropped = dropped
                self._files.remove(run)
            _remove(run)

    def _n_past(self, files: list[SortedRun], now: int) -> int:
        """Return how many files are past the retention."""
        age, most, n = self.retention.age_us, self.retention.bytes, 0
        size = sum(run.nbytes for run in files)
        for at, run in enumerate(files, 1):
            is_old = age is not None and NO_TIME not in (run.now, now) and run.now < now - age
            if is_old or (most is not None and size > most):
                n = at
            size -= run.nbytes
        return n

    # Reading

    def runs(self) -> list[SortedRun]:
        """Return all runs there are, in order."""
        return self.runs_and_dropped()[0]

    def runs_and_dropped(self) -> tuple[list[SortedRun], DroppedCounts]:
        """Return all runs there are, in order, and what was dropped before them."""
        with self._sorting:
            self._consolidate()
            return [*self._files, *self._memory], self._dropped

    def rows_after(self, runs: list[SortedRun], subscriber: int, after: Cursor, limit: int) -> list[RowSpan]:
        """Return the rows of a subscriber after a cursor, up to a limit."""
        spans: list[RowSpan] = []
        for run in runs:
            at = -1 if run.last_step < after.step or limit <= 0 else run.place_of(subscriber)
            if at < 0:
                continue
            first, last = run.rows_after(at, after)
            last = min(last, first + limit)
            if first < last:
                spans.append(RowSpan(run, first, last))
                limit -= last - first
        return spans

    def pages_after(self, runs: list[SortedRun], wanted: Sequence[tuple[int, Cursor, int]]) -> list[list[RowSpan]]:
        """Return what `rows_after` would for many: a subscriber, -1 for none, a cursor and a limit each."""
        if len(wanted) < _FEW_PAGES:
            return [self.rows_after(runs if each[0] >= 0 else [], *each) for each in wanted]
        numbers = np.array([number for number, *_ in wanted], np.int32)
        steps = np.array([after.step if number >= 0 else np.iinfo(np.int64).max for number, after, _ in wanted])
        left, pages = [limit for *_, limit in wanted], [list[RowSpan]() for _ in wanted]
        for run in runs:
            asked = np.flatnonzero(steps <= run.last_step)
            places = run.subscriber.searchsorted(numbers[asked])
            is_here = run.subscriber.take(places, mode="clip") == numbers[asked] if len(run.subscriber) else places < 0
            asked, places = asked[is_here], places[is_here]
            begins, ends = run.start[places].tolist(), run.start[places + 1].tolist()
            for page, place, begin, last in zip(asked.tolist(), places.tolist(), begins, ends, strict=True):
                after = wanted[page][1]
                first = begin if after.step < run.first_step else run.rows_after(place, after)[0]
                last = min(last, first + left[page])
                if first < last:
                    pages[page].append(RowSpan(run, first, last))
                    left[page] -= last - first
        return pages

    def gap(self, counts: DroppedCounts, subscriber: int, after: Cursor) -> tuple[int, Cursor]:
        """Return how many deliveries of a subscriber after a cursor the retention dropped, and the last of them.

        Exact after its last acknowledgement, after 0-0, and where it is 0; else as many at most.
        """
        dropped = counts.of(subscriber)
        if after >= dropped.cursor:
            return 0, after
        ack = self.acks.of(subscriber)
        return max(0, dropped.ordinal - (ack.ordinal if ack.cursor <= after else 0)), dropped.cursor

    def ack_at(self, subscriber: int, cursor: Cursor) -> Ack:
        """Return the acknowledgement of all deliveries up to a cursor."""
        for run in reversed(self.runs()):
            at = run.place_of(subscriber)
            n = run.rows_after(at, cursor)[0] - int(run.start[at]) if at >= 0 else 0
            if n:
                return Ack(cursor, int(run.ordinal[at]) + n)
        dropped = self._dropped.of(subscriber)
        return Ack(cursor, dropped.ordinal if cursor >= dropped.cursor else self.acks.of(subscriber).ordinal)

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing waits, and no message is kept."""
        return not (self._files or self._memory or self._pending)

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes."""
        with self._sorting:
            return {
                "files": len(self._files),
                "bytes": sum(run.nbytes for run in self._files),
                "deliveries": sum(map(len, self._files)) + self._rows_in_memory,
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
