"""What a stream tells its operator after each batch: counts, lag, load, the age of snapshots, seconds by phase."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

from nearcast.columns import NO_TIME

if TYPE_CHECKING:
    from nearcast.pipeline.driver.batch_report import Report
    from nearcast.pipeline.store.manifest import Manifest


class SnapshotAge(NamedTuple):
    """How far back a restart goes, in batches that it replays and in seconds since the first of them.

    Batches without changes, window and lifetime leave nothing to replay. Of one that was committed before this driver
    started, `seconds` count from that start.
    """

    batches: int = 0
    seconds: float = 0.0


_NO_AGE = SnapshotAge()


@dataclass(frozen=True)
class BatchProgress:
    """What a batch did, and how the stream stands after it; `numbers` has all of it under flat names.

    `lag` is the time in seconds since the newest input of the batch arrived, `event_lag` that since event time; None
    where nothing arrived, or no message has a time. `complaint` is a line about what went wrong beside the batch, and
    did not stop it. `snapshot_failures` counts how often in a row snapshots could not be written, `hook_failures` how
    often `on_batch` raised since the stream started.
    """

    report: Report
    lag: float | None
    complaint: str | None = None
    snapshot_failures: int = 0
    event_lag: float | None = None
    snapshot_age: SnapshotAge = _NO_AGE
    hook_failures: int = 0

    def numbers(self) -> dict[str, int | float | None]:
        """Return every figure but those by partition, under the names that `observedMetrics` of Spark have."""
        report = self.report
        load = [each["seconds"] for each in report.load]
        return {
            "batch": report.batch,
            "messages": report.messages,
            "changes": report.changes,
            "deliveries": report.deliveries,
            "rejected": report.rejected,
            "late": report.late,
            "tuples": report.tuples,
            "lag_s": self.lag,
            "event_lag_s": self.event_lag,
            "busiest_s": max(load, default=0.0),
            "mean_load_s": sum(load) / max(len(load), 1),
            "snapshot_age_batches": self.snapshot_age.batches,
            "snapshot_age_s": self.snapshot_age.seconds,
            "snapshot_failures": self.snapshot_failures,
            "hook_failures": self.hook_failures,
            **{f"{name}_s": seconds for name, seconds in asdict(report.phases).items()},
        }


class SnapshotAgeGauge:
    """Notes when this driver saw each batch committed, and tells from that how old snapshots are."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._committed: dict[int, float] = {}

    def age_in(self, manifest: Manifest) -> SnapshotAge:
        """Return the age of the oldest snapshot that a manifest names, which was committed just now."""
        now, oldest = time.monotonic(), min(entry.snapshot_batch for entry in manifest.partitions)
        replayed = [files.batch for files in manifest.batches if files.batch > oldest]
        self._committed[manifest.batch] = now
        self._committed = {batch: at for batch, at in self._committed.items() if batch in replayed}
        if not replayed:
            return SnapshotAge()
        return SnapshotAge(len(replayed), now - self._committed.get(replayed[0], self._began))


def event_lag_of(report: Report) -> float | None:
    """Return how far event time is behind the wall clock, in seconds; None where there is no event time."""
    return None if report.now == NO_TIME else time.time() - report.now / 1e6
