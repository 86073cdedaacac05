"""How many deliveries of each subscriber were dropped by the retention, in a file beside the runs.

Reads and writes `outbox/dropped.npz`, always before a run is removed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from nearcast._saved import replace_file
from nearcast.durable.outbox.acks import Ack, AckColumns
from nearcast.durable.outbox.cursors import Cursor
from nearcast.durable.outbox.runs import SortedRun, place_in
from nearcast.saved_files.contents import damaged

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NAME = "dropped.npz"


class DroppedCounts:
    """By subscriber, ascending, how many of its deliveries were dropped, and the cursor of the last of them.

    `n_dropped` is how many were dropped in all, `n_unacknowledged` how many of these nobody had acknowledged, `until`
    the last input whose deliveries were dropped.
    """

    def __init__(self, subscriber: NDArray[np.int32], rows: NDArray[np.int64], counts: NDArray[np.int64]):
        self._by_subscriber = (subscriber, rows)
        self.n_dropped, self.n_unacknowledged, self.until = map(int, counts)

    @classmethod
    def open(cls, folder: Path) -> DroppedCounts:
        """Return the counts of an outbox."""
        path = folder / _NAME
        if not path.exists():
            return cls(np.empty(0, np.int32), np.empty((0, 3), np.int64), np.zeros(3, np.int64))
        try:
            with np.load(path, allow_pickle=False) as saved:
                return cls(saved["subscriber"], saved["rows"], saved["counts"])
        except (BadZipFile, ValueError, KeyError, EOFError) as error:
            raise damaged(str(path), str(error)) from None

    @property
    def subscriber(self) -> NDArray[np.int32]:
        """Return the numbers of the subscribers, ascending."""
        return self._by_subscriber[0]

    @property
    def ordinal(self) -> NDArray[np.int64]:
        """Return how many deliveries of each subscriber were dropped."""
        return self._by_subscriber[1][:, 0]

    def of(self, subscriber: int) -> Ack:
        """Return the cursor of the last delivery of a subscriber that was dropped, and how many were."""
        numbers, rows = self._by_subscriber
        at = place_in(numbers, subscriber)
        if at == len(numbers) or numbers[at] != subscriber:
            return Ack()
        ordinal, step, row = rows[at].tolist()
        return Ack(Cursor(step, row), ordinal)

    def counted(self, run: SortedRun, acks: AckColumns) -> DroppedCounts:
        """Return the counts with the deliveries of a run that is going to be dropped."""
        counts = np.diff(run.start)
        ends = run.ordinal + counts
        acked = acks.ordinals(run.subscriber)
        n_unacknowledged = int(np.maximum(ends - np.maximum(run.ordinal, acked), 0).sum())
        numbers, rows = self._by_subscriber
        both = np.concatenate([numbers, run.subscriber])
        last = run.start[1:] - 1
        rows = np.concatenate([rows, np.column_stack([ends, run.step[last], run.row[last]])])
        order = np.lexsort((rows[:, 0], both))
        is_last = np.append(np.diff(both[order]) != 0, True)[: len(both)]
        totals = (self.n_dropped + int(counts.sum()), self.n_unacknowledged + n_unacknowledged, run.span.last)
        return DroppedCounts(both[order][is_last], rows[order][is_last], np.array(totals, np.int64))

    def save(self, folder: Path, is_known: Callable[[NDArray[np.int32]], NDArray[np.bool_]]) -> None:
        """Write the counts, but of those who were erased; they survive a power cut when it returns."""
        numbers, rows = self._by_subscriber
        known = is_known(numbers)
        numbers, rows = self._by_subscriber = (numbers[known], rows[known])
        counts = np.array([self.n_dropped, self.n_unacknowledged, self.until])

        def write(path: Path) -> None:
            with path.open("wb") as file:
                np.savez(file, subscriber=numbers, rows=rows, counts=counts)

        replace_file(folder / _NAME, write)
