"""What the driver of a stream knows between two batches, and how it is found again after a restart."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nearcast.columns import NO_TIME
from nearcast.spark.carried import unpickled
from nearcast.spark.changes import Registered
from nearcast.spark.directory import Directory
from nearcast.spark.inputs import BatchFiles
from nearcast.spark.manifest import Manifest
from nearcast.spark.routing import PlanRef, Router
from nearcast.spark.tasks import PartitionRef
from nearcast.text import Vocabulary
from nearcast.text.weights import TermWeights

if TYPE_CHECKING:
    from nearcast.spark.settings import Settings
    from nearcast.spark.store import Store


@dataclass
class Standing:
    """The manifest of the last batch, with what it names opened."""

    store: Store
    settings: Settings
    manifest: Manifest
    directory: Directory
    router: Router
    vocabulary: Vocabulary
    #: Snapshots made in the background, by partition: name and batch; the next manifest takes them in.
    snapshots: dict[int, tuple[str, int]] = field(default_factory=dict)

    @classmethod
    def found(cls, store: Store, settings: Settings, manifest: Manifest) -> Standing:
        """Open what a manifest names."""
        directory = Directory.open(store.local(str(manifest.directory)))
        for files in _batches(manifest):
            if files.batch > manifest.more["directory_batch"]:
                if files.changes is not None:
                    changes = unpickled(store.local(files.changes))
                    assert isinstance(changes, Registered)
                    directory.follow(changes)
                directory.forget_expired(files.now)
        vocabulary = Vocabulary.open(store.local(manifest.vocabulary["folder"]))
        standing = cls(store, settings, manifest, directory, None, vocabulary)  # type: ignore[arg-type]
        # A router of the driver's own: what grows in it is not yet known to the tasks that run in this process.
        standing.router = Router.open(store.local(manifest.plan["folder"]))
        standing.router.follow(standing.plan_ref)
        return standing

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
        return PlanRef(self.store, self.manifest.plan["folder"], tuple(self.manifest.plan["growth"]))

    @property
    def history(self) -> list[BatchFiles]:
        """The batches since the oldest snapshot."""
        return _batches(self.manifest)

    def partition_ref(self, number: int) -> PartitionRef:
        """Where the state of a partition lies."""
        entry = self.manifest.partitions[number]
        since = [files for files in self.history if files.batch > entry["snapshot_batch"]]
        return PartitionRef(
            self.store,
            self.settings,
            number,
            self.manifest.plan["line"],
            entry["snapshot"],
            entry["snapshot_batch"],
            tuple(zip(since, entry["deltas"], strict=True)),
        )

    def partitions_after(self, deltas: list[str]) -> list[dict[str, Any]]:
        """Return the partitions of the next manifest: a delta more each, from a newer snapshot where there is one."""
        result = []
        for number, (entry, delta) in enumerate(zip(self.manifest.partitions, deltas, strict=True)):
            entry = {**entry, "deltas": [*entry["deltas"], delta]}
            if number in self.snapshots:
                name, batch = self.snapshots[number]
                older = sum(1 for files in self.history if entry["snapshot_batch"] < files.batch <= batch)
                entry = {"snapshot": name, "snapshot_batch": batch, "deltas": entry["deltas"][older:]}
            result.append(entry)
        return result

    def with_manifest(self, manifest: Manifest) -> None:
        """Go on from a batch that was committed."""
        self.manifest = manifest
        self.snapshots = {}


def _batches(manifest: Manifest) -> list[BatchFiles]:
    return [BatchFiles.from_json(each) for each in manifest.more["batches"]]


def new_line() -> str:
    """Return the name of a new line of snapshots."""
    return uuid.uuid4().hex[:12]
