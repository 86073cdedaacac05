"""What the wall clock of a stream goes by: when a batch began, and whether it may have left input behind.

Reads what Spark notes in its half of the checkpoint before a batch begins: its time and its offsets. So a re-run
judges alike.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nearcast.errors import IncompatibleStore

if TYPE_CHECKING:
    from nearcast.pipeline.driver.batch_source import BatchSource
    from nearcast.pipeline.store.store import Store

#: Where Spark keeps the offsets of batches in its half of a checkpoint, one file for each.
_OFFSETS = "offsets"
#: Lines before those of the sources: a version, and what else Spark notes of a batch; in that, its time.
_HEAD = 2
_TIME_MS = "batchTimestampMs"


@dataclass(frozen=True)
class BacklogGauge:
    """Compares what a batch took with the most that Spark lets into one: a full batch may have left a backlog.

    `most_files` counts the files of a folder, `most_records` those of all topics of a source together; `topics` are
    these for each source. A streaming DataFrame has no limit that is known here, and leaves no backlog.
    """

    checkpoint: Store
    most_files: int
    most_records: int
    topics: tuple[tuple[str, ...], ...] = ()

    def wall(self, batch: int) -> int:
        """Return the wall clock when a batch began, in microseconds; `IncompatibleStore` where Spark has not noted it.

        Beats alone would not do: the first batch may come before the first of them.
        """
        name = f"{_OFFSETS}/{batch}"
        try:
            about = json.loads(self.checkpoint.read_bytes(name).splitlines()[_HEAD - 1])
            return int(about[_TIME_MS]) * 1000
        except (ValueError, TypeError, LookupError):
            raise IncompatibleStore(
                f"{self.checkpoint.root}/{name} does not say when batch {batch} began; bring it back, or begin anew"
                " with another checkpoint"
            ) from None

    def is_full(self, batch: int, given: Sequence[BatchSource]) -> bool:
        """Tell whether a batch took as much of a source as it may."""
        files = Counter(each.kind for each in given if each.path is not None)
        if any(n >= self.most_files for n in files.values()):
            return True
        return any(self._are_full(topics, batch) for topics in self.topics)

    def _are_full(self, topics: tuple[str, ...], batch: int) -> bool:
        """Tell whether a batch took as many offsets of a source's topics as it may, or so many that rounding hides it.

        Offsets count, not records: those of transactions and of compacted records have none. Spark divides
        `most_records` over partitions and rounds down, so that a full batch may lack one for each.
        """
        start, end = self._offsets(topics, batch - 1), self._offsets(topics, batch)
        taken = sum(max(offset - start.get(partition, 0), 0) for partition, offset in end.items())
        return taken > max(self.most_records - len(end), 0)

    def _offsets(self, topics: tuple[str, ...], batch: int) -> dict[tuple[str, str], int]:
        """Return where a batch ends in each partition of some topics; nothing before the first."""
        name = f"{_OFFSETS}/{batch}"
        if batch < 0 or not self.checkpoint.exists(name):
            return {}
        for line in self.checkpoint.read_bytes(name).decode().splitlines()[_HEAD:]:
            found = json.loads(line) if line.startswith("{") else {}
            there = [(topic, found[topic]) for topic in topics if isinstance(found.get(topic), dict)]
            if there:
                return {(topic, str(at)): int(offset) for topic, offsets in there for at, offset in offsets.items()}
        return {}
