"""The first state of a stream: subscriptions placed by a plan, a partition built of each share, one manifest."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.columns import Messages
from nearcast.errors import InvalidColumns, InvalidInput
from nearcast.pipeline.batch.changes import read_changes
from nearcast.pipeline.batch.partition_deliveries import id_type
from nearcast.pipeline.batch.portable_subscriptions import PortableSubscriptions
from nearcast.pipeline.batch.router import Router
from nearcast.pipeline.driver.directory import Directory, described
from nearcast.pipeline.driver.state import DriverState, plan_entry
from nearcast.pipeline.store import pickles
from nearcast.pipeline.store.local_place import CONTENTS
from nearcast.pipeline.store.manifest import Manifest, Manifests
from nearcast.pipeline.store.manifest_entries import PartitionEntry, VocabularyEntry
from nearcast.pipeline.store.store import with_epoch
from nearcast.pipeline.worker.share import Share
from nearcast.pipeline.worker.tasks import BuildTask, build_partition
from nearcast.plans import learn
from nearcast.tables import Rejected, read_messages
from nearcast.text.weights import TermWeights
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from nearcast.pipeline.runner import Runner
    from nearcast.pipeline.settings import PipelineSettings
    from nearcast.pipeline.store.store import Store
    from nearcast.text import Vocabulary

#: The batch before the first.
BEFORE = -1
#: Messages that a plan is learned from at most.
SAMPLE = 20_000


def begin(
    store: Store,
    settings: PipelineSettings,
    runner: Runner,
    subscriptions: pa.Table,
    vocabulary: Vocabulary,
    *,
    sample: pa.Table | None = None,
    source: str = "subscriptions",
    rejected: Rejected,
) -> DriverState:
    """Store the subscriptions a stream begins with; the manifest that names them is the caller's to commit."""
    changes = read_changes(subscriptions, settings, source=source, rejected=rejected, only_subscribe=True)
    words = WordTable()
    columns = changes.subscriptions.into(words)
    weights = TermWeights(words, vocabulary)
    messages = _sample(sample, settings, words)
    spec, partitions = settings.plan, settings.partitions
    window = None if settings.window is None else settings.window.count
    plan = learn(spec, partitions, settings.space, words, columns, messages, weights.of_table(words, 0), window=window)
    numbers = np.arange(len(columns))
    placement = plan.place(columns, numbers, weights.of_table(words, 0))
    router = Router.of(plan, placement)
    directory = Directory()
    copies = np.zeros(len(columns), np.uint64) if placement.copies is None else placement.copies
    if len(columns):
        directory.add(columns.ids, home=placement.home, copies=copies, **described(columns))
    names = {
        "vocabulary": store.unique("vocabularies", BEFORE),
        "plan": store.unique("plans", BEFORE),
        "directory": store.unique("directories", BEFORE),
    }
    store.put_folder(names["vocabulary"], vocabulary.save)
    store.put_folder(names["plan"], router.save)
    store.put_folder(names["directory"], directory.save)
    share = Share(
        PortableSubscriptions.of(columns, words), numbers, placement.home, placement.copies, placement.threshold
    )
    snapshots = build(
        runner, BuildTask(store=store, settings=settings, batch=BEFORE, vocabulary=names["vocabulary"]), share
    )
    id_types = (id_type(columns.ids.type) if len(columns) else None, None)
    manifest = Manifest(
        BEFORE,
        plan=plan_entry(spec, names["plan"], router),
        vocabulary=VocabularyEntry(vocabulary.version, names["vocabulary"]),
        directory=names["directory"],
        directory_batch=BEFORE,
        partitions=tuple(PartitionEntry(name, BEFORE) for name in snapshots),
        next_step=len(columns) if settings.has_steps else 0,
        id_types=id_types,
        counts={"subscriptions": len(columns), "rejected": len(rejected)},
    )
    return DriverState(
        store=store,
        settings=settings,
        manifest=manifest,
        directory=directory,
        router=router,
        vocabulary=vocabulary,
        id_types=id_types,
    )


def begin_from(prepared: Store, store: Store, settings: PipelineSettings) -> DriverState:
    """Begin with the partitions that `nearcast prepare` built; the manifest is the caller's to commit."""
    manifests = Manifests(prepared)
    manifest = manifests.last()
    if manifest is None:
        raise InvalidInput(f"{prepared.root} holds no partitions; prepare subscriptions along with the messages")
    told = {"tell_expiry": manifest.fingerprint.get("tell_expiry")}  # which makes no difference to what was built
    manifests.check(manifest, {**settings.fingerprint(), **told})
    manifests.verify(manifest)
    # Under the epoch of this driver: another one may be about to begin with the same files.
    names = {name: with_epoch(name, store.epoch) for name in sorted(manifests.files_in_use(manifest))}
    for name, new in names.items():
        path = prepared.local(name, verify=True)  # the copy gets checksums of its own
        if path.is_dir():
            store.put_folder(new, partial(_copy_files, path))
        else:
            store.put(new, partial(_copy_file, path))
    return DriverState.opened(store, settings, manifest.with_names(names))


def _copy_file(old: Path, new: Path) -> None:
    shutil.copyfile(old, new)


def _copy_files(old: Path, new: Path) -> None:
    shutil.copytree(old, new, dirs_exist_ok=True, ignore=shutil.ignore_patterns(CONTENTS))


def _sample(table: pa.Table | None, settings: PipelineSettings, words: WordTable) -> Messages:
    """Return messages to learn a plan from; words that no subscription has are left out."""
    if table is None:
        return Messages.none()
    if table.num_rows > SAMPLE:
        table = table.take(_arrow.numbers(np.linspace(0, table.num_rows - 1, SAMPLE).astype(np.int64)))
    try:
        return read_messages(table, settings.space, words, settings.analyzer, source="sample", rejected=Rejected())
    except InvalidColumns:
        return _sample(None, settings, words)  # what is wrong with it is told when its batch comes


def build(runner: Runner, first: BuildTask, share: Share) -> list[str]:
    """Build all partitions in one job, each of its share, with the parameters of `first`; return their snapshots."""
    tasks = []
    for number in range(first.settings.partitions):
        name = pickles.put(first.store, "shares", first.batch, number, share.of_partition(number))
        tasks.append(replace(first, number=number, subscriptions=name))
    snapshots: list[str] = runner.map(build_partition, tasks)
    first.store.delete([task.subscriptions for task in tasks])
    return snapshots
