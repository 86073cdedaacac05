"""The values a manifest is made of: frozen, and plain enough for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


class _ManifestEntry:
    """A frozen dataclass whose fields are plain values, or tuples of such."""

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Return what `to_json` gave, after JSON: lists become tuples."""
        return cls(**{name: tuple(each) if isinstance(each, list) else each for name, each in given.items()})

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name; tuples become lists."""
        return {name: list(each) if isinstance(each, tuple) else each for name, each in vars(self).items()}


@dataclass(frozen=True)
class DriverEpoch(_ManifestEntry):
    """A driver's hold on a checkpoint: numbers of epochs ascend, and the last one alone may commit."""

    number: int
    host: str
    pid: int
    #: When it took over: UTC, as ISO 8601 has it.
    started: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, started {self.started}"


@dataclass(frozen=True)
class SourcesEntry(_ManifestEntry):
    """What a batch was made of: the number of its sources, and a digest of their names and identities."""

    batch: int
    n: int
    digest: str


@dataclass(frozen=True)
class BatchFiles(_ManifestEntry):
    """The files of a batch, and where it ends: the next step and event time after it.

    `beat` is the time that the clock alone moves on to at the end, if there is a clock. `vocabulary` is a snapshot that
    is used from this batch on, where that changes.
    """

    batch: int
    segments: tuple[str, ...]
    sequence: str | None
    changes: str | None
    growth: str | None
    next_step: int
    now: int
    beat: int | None = None
    vocabulary: str | None = None


@dataclass(frozen=True)
class PartitionEntry(_ManifestEntry):
    """The state of a partition: the snapshot at the end of a batch, and the deltas of the batches after it."""

    snapshot: str
    snapshot_batch: int
    deltas: tuple[str, ...] = ()
    #: The delta of the batch that the snapshot is of, where copies in other partitions still need the thresholds in it.
    own_delta: str | None = None

    @property
    def last_delta(self) -> str | None:
        """The delta of the last batch; None where there was none since partitions were built."""
        return self.deltas[-1] if self.deltas else self.own_delta


@dataclass(frozen=True)
class WindowEntry(_ManifestEntry):
    """A part of a divided window: its snapshot at the end of a batch, none before the first."""

    snapshot: str | None
    snapshot_batch: int


@dataclass(frozen=True)
class PlanEntry(_ManifestEntry):
    """The plan by name, its folder of routes, and the files of keys that were added since.

    `line` tells snapshots made under this plan from those of a plan before or after it.
    """

    name: str
    partitions: int
    folder: str
    growth: tuple[str, ...]
    line: str
    #: How many keys each partition had when it last had no more than it needs.
    needed: tuple[int, ...] = ()
    #: How many partitions a key led to on average when subscriptions were placed, and does now.
    spread_at_first: float = 0.0
    spread: float = 0.0


@dataclass(frozen=True)
class VocabularyEntry(_ManifestEntry):
    """The vocabulary by the hash of its content, and its folder."""

    version: str
    folder: str


@dataclass(frozen=True)
class LoadBalance(_ManifestEntry):
    """The moving average of the seconds a batch takes in each partition, and over how many batches.

    `needed` is the share of what routes are made for that the thresholds after the last batch need, where counted, and
    `moves` is how many moves there were since subscriptions were placed.
    """

    seconds: tuple[float, ...]
    batches: int
    needed: float | None = None
    moves: int = 0


@dataclass(frozen=True)
class RebalanceNote(_ManifestEntry):
    """The last rebalance that was asked for: carried out after a batch, or refused with a reason."""

    id: str
    refused: str | None = None
    after_batch: int | None = None
    plan: str | None = None
    partitions: int | None = None
