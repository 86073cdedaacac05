"""Reads the sources of a batch: small files in the driver, large Parquet files in pieces, the rest by one job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nearcast.errors import FileMissing, NearcastError
from nearcast.files.parquet_rows import row_group_pieces
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.store.places import is_uri
from nearcast.pipeline.worker.source_reader import Kind, ReadResult, ReadTask, read_source

if TYPE_CHECKING:
    from nearcast.pipeline.driver.batch_source import BatchSource
    from nearcast.pipeline.driver.state import DriverState
    from nearcast.pipeline.runner import Runner

#: Files smaller than this together are read by the driver: a job would take longer.
SMALL_BYTES = 1 << 18
#: A Parquet file of twice this size is read in pieces of at least that, by row groups.
PIECE_BYTES = 1 << 26
#: Times that workers look for a file before a batch goes on without it: as often as Spark runs a task that fails.
_LOOKS = 4


def tasks_by_kind(state: DriverState, batch: int, vocabulary: str | None) -> dict[Kind, ReadTask]:
    """Return the task that reads a source of each kind; which source is still to be said.

    `vocabulary` names the one that the batch begins with, if that is another than before.
    """
    settings = state.settings
    needs_totals = settings.has_steps or bool((state.directory.kind != 0).any())
    folder = (vocabulary or state.manifest.vocabulary.folder) if needs_totals else None
    # Other weights need other keys, which homes work out during the batch: until then messages go to everybody.
    plan = state.plan_ref if settings.partitions > 1 and vocabulary is None else None
    messages = ReadTask(
        store=state.store,
        settings=settings,
        batch=batch,
        part=0,
        kind="messages",
        source="messages",
        path=None,
        plan=plan,
        vocabulary=folder,
        id_type=state.id_types[1],
    )
    changes = replace(messages, kind="changes", source="changes", id_type=state.id_types[0])
    return {"messages": messages, "changes": changes}


@dataclass(frozen=True)
class BatchReader:
    """Reads the sources of batches; with `skip_missing` those that are gone are rejected, else the batch fails."""

    runner: Runner
    skip_missing: bool

    def read(self, given: Sequence[BatchSource], by_kind: dict[Kind, ReadTask]) -> list[ReadResult]:
        """Return what was read of all sources, in their order."""
        tasks = [[] if each.reads else _tasks_of(each, part, by_kind[each.kind]) for part, each in enumerate(given)]
        waiting = [each for each in given if not each.reads]
        found = iter(self._read_waiting(waiting, [task for several in tasks for task in several]))
        reads = [each.reads or _of_whole([next(found) for _ in tasks[part]]) for part, each in enumerate(given)]
        return [result for each in reads for result in each]

    def _read_waiting(self, sources: Sequence[BatchSource], tasks: list[ReadTask]) -> list[ReadResult]:
        """Return what was read of sources that nobody has read yet."""
        is_small = sum(each.n_bytes for each in sources) < SMALL_BYTES and all(each.rows is None for each in sources)
        if is_small:
            try:
                return LocalRunner().map(read_source, tasks)
            except OSError:
                pass
            except NearcastError as error:
                if not error.may_pass:
                    raise
        return self._read_without_missing(tasks) if self.skip_missing else self._read_all(tasks)

    def _read_all(self, tasks: list[ReadTask]) -> list[ReadResult]:
        try:
            return self.runner.map(read_source, tasks)
        except FileMissing as error:
            raise FileMissing(
                f"{error}; nothing of this batch was committed: bring the file back, or go on without it"
                " (skip_missing_files)"
            ) from error

    def _read_without_missing(self, tasks: list[ReadTask]) -> list[ReadResult]:
        """Read all files; look again for each that is missing, before it is rejected."""
        tasks = [replace(task, skip_missing=True) for task in tasks]
        results = self.runner.map(read_source, tasks)
        for _ in range(_LOOKS - 1):
            missing = [i for i, result in enumerate(results) if result.is_missing]
            if not missing:
                break
            again = self.runner.map(read_source, [tasks[i] for i in missing])
            for i, result in zip(missing, again, strict=True):
                results[i] = result
        return results


def _tasks_of(source: BatchSource, part: int, task: ReadTask) -> list[ReadTask]:
    """Return the tasks that read a source: one, or several that share a large Parquet file of this host."""
    task = replace(task, part=part, source=source.source, path=source.path, rows=source.rows)
    path = source.path or ""
    is_cut = source.n_bytes >= 2 * PIECE_BYTES and path.endswith(".parquet") and not is_uri(path)
    pieces = row_group_pieces(Path(path), PIECE_BYTES) if is_cut and source.kind == "messages" else []
    return [replace(task, groups=piece) for piece in pieces] or [task]


def _of_whole(pieces: list[ReadResult]) -> list[ReadResult]:
    """Return what was read of a source in pieces; of one with a piece that cannot be read nothing is used."""
    bad = [each for each in pieces if each.is_unreadable]
    return bad[:1] or pieces
