"""The state of the driver between two batches: the last manifest, with directory, routes and vocabulary opened."""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nearcast.columns import NO_TIME
from nearcast.pipeline.batch.router import PlanRef, Router
from nearcast.pipeline.driver.directory import Directory
from nearcast.pipeline.driver.snapshot_costs import SnapshotCosts
from nearcast.pipeline.driver.table_snapshots import DirectoryRef, TablesTask
from nearcast.pipeline.store.manifest import Manifest
from nearcast.pipeline.store.manifest_entries import BatchFiles, PartitionEntry, PlanEntry
from nearcast.pipeline.worker.tasks import PartitionRef, SnapshotTurn, StepResult
from nearcast.text import Vocabulary
from nearcast.text.weights import TermWeights

if TYPE_CHECKING:
    from nearcast.pipeline.settings import PipelineSettings
    from nearcast.pipeline.store.store import Store


@dataclass(frozen=True)
class Snapshots:
    """Names the snapshots of what the driver keeps of a stream, at the end of `batch`: of directory and routes.

    `line` tells to which line of history it belongs, `growth` names the keys that its routes hold already.
    """

    line: str
    batch: int
    directory: str
    plan: str
    growth: frozenset[str]
    #: The parts of the window, where it is divided.
    windows: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of all its folders."""
        return [self.directory, self.plan, *self.windows]


def new_line() -> str:
    """Return the name of a new line of snapshots."""
    return uuid.uuid4().hex[:12]


def plan_entry(spec: str, folder: str, router: Router) -> PlanEntry:
    """Return what a manifest says of a plan by which subscriptions were just placed."""
    routes = router.routes
    return PlanEntry(
        name=spec,
        partitions=router.plan.partitions,
        folder=folder,
        growth=(),
        line=new_line(),
        needed=routes.counts(),
        spread_at_first=routes.spread,
        spread=routes.spread,
    )


@dataclass
class DriverState:
    """The manifest of the last batch, and in memory the directory, routes and vocabulary that it names."""

    store: Store
    settings: PipelineSettings
    manifest: Manifest
    directory: Directory
    router: Router
    vocabulary: Vocabulary
    #: The types of the ids of subscriptions and of messages, as far as the batch under way has told.
    id_types: tuple[str | None, str | None]
    #: What the next manifest takes in, in place of older snapshots and what came since.
    snapshots: Snapshots | None = None
    #: What snapshots cost, which is found anew with every start.
    snapshot_costs: SnapshotCosts = field(default_factory=SnapshotCosts)
    #: Tells states in the memory of workers from those of an attempt that an earlier start gave up.
    start: str = field(default_factory=new_line)

    @classmethod
    def opened(cls, store: Store, settings: PipelineSettings, manifest: Manifest) -> DriverState:
        """Open the files that a manifest names, and replay the changes since the directory was saved."""
        directory = _directory_ref(store, manifest).opened()
        vocabulary = Vocabulary.open(store.local(manifest.vocabulary.folder))
        state = cls(store, settings, manifest, directory, None, vocabulary, manifest.id_types)  # type: ignore[arg-type]
        # A router of the driver's own: what grows in it is not yet known to the tasks that run in this process.
        state.router = Router.open(store.local(manifest.plan.folder))
        state.router.follow(state.plan_ref)
        return state

    @property
    def now(self) -> int:
        """Event time after the last batch."""
        return NO_TIME if self.manifest.now is None else self.manifest.now

    @property
    def weights(self) -> TermWeights:
        """What words weigh."""
        return TermWeights(self.router.plan.words, self.vocabulary)

    @property
    def plan_ref(self) -> PlanRef:
        """Where the plan lies."""
        return PlanRef(self.store, self.manifest.plan.folder, self.manifest.plan.growth)

    @property
    def directory_ref(self) -> DirectoryRef:
        """Where the directory lies."""
        return _directory_ref(self.store, self.manifest)

    @property
    def history(self) -> tuple[BatchFiles, ...]:
        """The batches since the oldest snapshot."""
        return self.manifest.batches

    def partition_ref(self, number: int) -> PartitionRef:
        """Return the names of the files that hold the state of a partition."""
        entry = self.manifest.partitions[number]
        since = [files for files in self.history if files.batch > entry.snapshot_batch]
        return PartitionRef(
            store=self.store,
            settings=self.settings,
            number=number,
            line=f"{self.manifest.plan.line} {self.start}",
            snapshot=entry.snapshot,
            snapshot_batch=entry.snapshot_batch,
            history=tuple(zip(since, entry.deltas, strict=True)),
            now=NO_TIME if self.settings.has_steps else self.now,
        )

    def is_recorded(self, files: BatchFiles) -> bool:
        """Tell whether a batch leaves something behind in partitions, but the time: without a window changes alone do.

        What is not recorded is no part of the history: it needs no deltas, and no snapshots are due for it.
        """
        given = (files.changes, files.growth, files.vocabulary)
        return self.settings.has_steps or any(each is not None for each in given)

    def partitions_after(self, batch: int, results: Sequence[StepResult]) -> tuple[PartitionEntry, ...]:
        """Return the partitions of the next manifest: a delta more each, and snapshots that were finished."""
        for number, result in enumerate(results):
            self.snapshot_costs.note(number, result)
        entries = zip(self.manifest.partitions, results, strict=True)
        return tuple(self._entry_after(batch, *each) for each in entries)

    def _entry_after(self, batch: int, entry: PartitionEntry, result: StepResult) -> PartitionEntry:
        since = [files.batch for files in self.history if files.batch > entry.snapshot_batch]
        if result.delta is not None:
            since.append(batch)
            entry = replace(entry, deltas=(*entry.deltas, result.delta), own_delta=None)
        written = result.snapshots.written
        if written is None or written.batch <= entry.snapshot_batch:
            return entry
        n_before = bisect_right(since, written.batch)
        deltas, own = entry.deltas[n_before:], None
        if not deltas and self.router.plan.has_copies:
            own = entry.last_delta
        return PartitionEntry(written.name, written.batch, deltas, own)

    def snapshot_turns(self, batch: int, every: int) -> dict[int, SnapshotTurn]:
        """Return the partitions that write a snapshot in a batch: each by itself, once in so many batches.

        One whose turn failed tries again in the next batch; one whose snapshots take long waits until it has paid.
        """
        entries, costs = self.manifest.partitions, self.snapshot_costs
        return {
            number: SnapshotTurn(may_be_late=costs.may_be_late(number, len(entry.deltas), every))
            for number, entry in enumerate(entries)
            if ((batch + number * every // len(entries)) % every == every - 1 or len(entry.deltas) >= every)
            and costs.is_worth_it(number, len(entry.deltas), every)
        }

    def plan_after(self, growth: list[str], whole: tuple[int, ...]) -> PlanEntry:
        """Return the plan of the next manifest: more keys, from newer routes where there are such.

        Partitions that are `whole` have no more keys than they need.
        """
        counts, plan = self.router.routes.counts(), self.manifest.plan
        needed = tuple(counts[at] if at in whole else each for at, each in enumerate(plan.needed))
        spread = self.router.routes.spread  # of a stream that began empty the first that is none of 0 counts
        plan = replace(plan, needed=needed, spread=spread, spread_at_first=plan.spread_at_first or spread)
        if self.snapshots is None:
            return replace(plan, growth=(*plan.growth, *growth))
        since = [name for name in plan.growth if name not in self.snapshots.growth]
        return replace(plan, folder=self.snapshots.plan, growth=(*since, *growth))

    def directory_after(self) -> tuple[str, int]:
        """Return the directory that the next manifest names, and the batch it is of."""
        if self.snapshots is None:
            return self.manifest.directory, self.manifest.directory_batch
        return self.snapshots.directory, self.snapshots.batch

    def is_newer(self, snapshots: Snapshots) -> bool:
        """Tell whether snapshots are of this line of history, and newer than those it has."""
        return snapshots.line == self.manifest.plan.line and snapshots.batch > self.manifest.directory_batch

    def snapshots_to_write(self) -> tuple[Snapshots, TablesTask]:
        """Name snapshots of directory and routes as they are now; return them with the task that writes them."""
        batch, plan = self.manifest.batch, self.plan_ref
        snapshots = Snapshots(
            self.manifest.plan.line,
            batch,
            self.store.unique("directories", batch),
            self.store.unique("plans", batch),
            frozenset(plan.growth),
        )
        return snapshots, TablesTask(self.directory_ref, plan, snapshots.directory, snapshots.plan)

    def with_manifest(self, manifest: Manifest) -> None:
        """Take over the manifest of a batch that was committed."""
        self.manifest = manifest
        self.snapshots = None


def _directory_ref(store: Store, manifest: Manifest) -> DirectoryRef:
    since = tuple(files for files in manifest.batches if files.batch > manifest.directory_batch)
    return DirectoryRef(store, manifest.directory, since, NO_TIME if manifest.now is None else manifest.now)
