"""The first state of a stream: subscriptions placed by a plan, a partition built of each share, one manifest."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.columns import Messages
from nearcast.errors import IncompatibleStore, InvalidColumns, InvalidInput
from nearcast.pipeline.batch.partition_deliveries import id_type
from nearcast.pipeline.driver.building import FEW, BuiltPartitions, built, learned_plan, runner_for, sample_step
from nearcast.pipeline.driver.directory import Directory
from nearcast.pipeline.driver.placing import (
    EncodedRows,
    EncodeRowsTask,
    PlaceTask,
    RowsToPlace,
    encode_subscriptions,
)
from nearcast.pipeline.driver.state import DriverState, plan_entry
from nearcast.pipeline.store.local_place import CONTENTS
from nearcast.pipeline.store.manifest import Manifest, Manifests, difference
from nearcast.pipeline.store.manifest_entries import PartitionEntry, VocabularyEntry
from nearcast.pipeline.store.store import with_epoch
from nearcast.pipeline.worker.tasks import BuildTask
from nearcast.tables import Rejected, read_messages
from nearcast.tables.duplicates import repeated, why_repeated
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.pipeline.runner import Runner
    from nearcast.pipeline.settings import PipelineSettings
    from nearcast.pipeline.store.store import Store
    from nearcast.pipeline.worker.share import SharePart
    from nearcast.text import Vocabulary

#: The batch before the first.
BEFORE = -1
#: Messages that a plan is learned from at most.
SAMPLE = 20_000
#: Rows of subscriptions that a task encodes.
PIECE_ROWS = 100_000


def begin(
    store: Store,
    settings: PipelineSettings,
    runner: Runner,
    subscriptions: Sequence[RowsToPlace],
    vocabulary: Vocabulary,
    *,
    sample: pa.Table | None = None,
    source: str = "subscriptions",
    rejected: Rejected,
) -> DriverState:
    """Store the subscriptions a stream begins with; the manifest that names them is the caller's to commit."""
    names = {
        "vocabulary": store.unique("vocabularies", BEFORE),
        "plan": store.unique("plans", BEFORE),
        "directory": store.unique("directories", BEFORE),
    }
    store.put_folder(names["vocabulary"], vocabulary.save)
    encoded = _encoded(store, settings, runner, subscriptions, source, rejected)
    kept = _without_repeated(encoded, source, rejected)
    n = sum(len(rows) for rows in kept)
    parts = [_sample_of(each.part, rows) for each, rows in zip(encoded, kept, strict=True)]
    plan = learned_plan(parts, settings, partial(_sample, sample, settings), vocabulary)
    firsts = np.cumsum([0, *(len(rows) for rows in kept)]).tolist()
    shares = [
        PlaceTask(
            store=store,
            batch=BEFORE,
            plan="",
            vocabulary=names["vocabulary"],
            share=each.part.name,
            rows=rows,
            first_number=first,
        )
        for each, rows, first in zip(encoded, kept, firsts[:-1], strict=True)
    ]
    first = BuildTask(store=store, settings=settings, batch=BEFORE, vocabulary=names["vocabulary"])
    made = built(plan, shares, first, runner, n)
    store.delete([each.part.name for each in encoded])
    directory = _directory(encoded, kept, made)
    store.put_folder(names["plan"], made.router.save)
    store.put_folder(names["directory"], directory.save)
    id_types = (id_type(encoded[0].ids.type) if n else None, None)
    manifest = Manifest(
        BEFORE,
        plan=plan_entry(settings.plan, names["plan"], made.router),
        vocabulary=VocabularyEntry(vocabulary.version, names["vocabulary"]),
        directory=names["directory"],
        directory_batch=BEFORE,
        partitions=tuple(PartitionEntry(name, BEFORE) for name in made.snapshots),
        next_step=n if settings.has_steps else 0,
        id_types=id_types,
        counts={"subscriptions": n, "rejected": len(rejected)},
    )
    return DriverState(
        store=store,
        settings=settings,
        manifest=manifest,
        directory=directory,
        router=made.router,
        vocabulary=vocabulary,
        id_types=id_types,
    )


def pieces_of(table: pa.Table) -> list[RowsToPlace]:
    """Return the rows of a table in pieces that tasks read."""
    starts = range(0, max(table.num_rows, 1), PIECE_ROWS)
    parts = [table.slice(first, PIECE_ROWS) for first in starts]
    return [RowsToPlace(first, part.num_rows, part) for first, part in zip(starts, parts, strict=True)]


def _encoded(
    store: Store,
    settings: PipelineSettings,
    runner: Runner,
    pieces: Sequence[RowsToPlace],
    source: str,
    rejected: Rejected,
) -> list[EncodedRows]:
    """Encode all rows, each piece by a task; those with good ones are returned, and one in any case."""
    n = sum(piece.n for piece in pieces)
    runs_here = n < FEW
    rows = [piece if runs_here or piece.table is None else piece.put(store, BEFORE) for piece in pieces]
    tasks = [EncodeRowsTask(store, settings, BEFORE, source, each, sample_step(n)) for each in rows]
    encoded: list[EncodedRows] = runner_for(n, runner).map(encode_subscriptions, tasks)
    store.delete([each.name for each, piece in zip(rows, pieces, strict=True) if each is not piece])
    for each in encoded:
        rejected.extend(each.rejected)
    used = [each for each in encoded if len(each)] or encoded[:1]
    store.delete({each.part.name for each in encoded} - {each.part.name for each in used})
    return used


def _without_repeated(encoded: list[EncodedRows], source: str, rejected: Rejected) -> list[NDArray[np.int64]]:
    """Return by piece the rows whose id no earlier one has; the others are rejected."""
    ids = pa.concat_arrays([each.ids for each in encoded])
    number = np.concatenate([each.row for each in encoded])
    again, first = repeated(ids)
    for at, before in zip(again.tolist(), first.tolist(), strict=True):
        id_ = ids[at].as_py()
        rejected.add(source, int(number[at]), id_, "id", why_repeated(id_, int(number[before])))
    is_kept = np.ones(len(ids), np.bool_)
    is_kept[again] = False
    ends = np.cumsum([len(each) for each in encoded])[:-1]
    return [np.flatnonzero(part) for part in np.split(is_kept, ends)]


def _sample_of(part: SharePart, kept: NDArray[np.int64]) -> SharePart:
    """Return a part with those of its sample that are kept; its numbers are those of rows without a gap."""
    rows = np.flatnonzero(np.isin(part.number - part.number[:1], kept))
    if len(rows) == len(part.number):
        return part
    sample = part.sample.take(rows)
    return replace(part, sample=sample, number=part.number[rows], threshold=part.threshold[rows])


def _directory(encoded: list[EncodedRows], kept: list[NDArray[np.int64]], made: BuiltPartitions) -> Directory:
    """Return the directory of subscriptions that were placed, in order."""
    directory = Directory()
    for each, rows, placed in zip(encoded, kept, made.placed, strict=True):
        if len(rows):
            columns = {name: values[rows] for name, values in each.described.items()}
            ids = each.ids.take(_arrow.numbers(rows))
            directory.add(ids, home=placed.home, copies=placed.copies, **columns)
    return directory


def begin_from(prepared: Store, store: Store, settings: PipelineSettings) -> DriverState:
    """Begin with the partitions that `nearcast prepare` built; the manifest is the caller's to commit."""
    manifests = Manifests(prepared)
    manifest = manifests.last()
    if manifest is None:
        raise InvalidInput(f"{prepared.root} holds no partitions; prepare subscriptions along with the messages")
    told = {"tell_expiry": manifest.fingerprint.get("tell_expiry")}  # which makes no difference to what was built
    different = difference(manifest, {**settings.fingerprint(), **told})
    if different is not None:
        raise IncompatibleStore(
            f"the store {prepared.root.removesuffix('/nearcast')} was prepared with {different}; give the stream what"
            " nearcast prepare was given, or prepare again"
        )
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
