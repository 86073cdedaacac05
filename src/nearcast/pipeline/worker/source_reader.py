"""Reads one source of a batch, a file or rows, into a segment of encoded messages or into changes."""

from __future__ import annotations

import codecs
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.errors import FileMissing, InvalidColumns, with_remedy
from nearcast.files import read_lines, read_objects, read_row_groups, read_table
from nearcast.files.file_errors import ARROW_CONTENT_ERRORS, fetch_error
from nearcast.pipeline.batch.changes import SourceChanges, read_changes
from nearcast.pipeline.batch.packed_columns import PackedState
from nearcast.pipeline.batch.partition_deliveries import id_type
from nearcast.pipeline.batch.router import PlanRef, router_of
from nearcast.pipeline.batch.segments import MessageSegment
from nearcast.pipeline.settings import RENAMING, PipelineSettings
from nearcast.pipeline.store.places import is_uri, open_place
from nearcast.pipeline.store.state_cache import RecentByStore
from nearcast.pipeline.store.store import Store
from nearcast.tables import Rejected, RejectedRow, read_messages, rename_known
from nearcast.tables.cells import TableRows
from nearcast.tables.names import ROW_COLUMN
from nearcast.text import Vocabulary
from nearcast.text.weights import TermWeights, message_totals
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = Literal["messages", "changes"]


@dataclass(frozen=True)
class ReadTask:
    """Task: read one source of a batch, a file or `rows` that came another way.

    `source` is its name, in rejected rows and for the order of sources. With `vocabulary` the totals of messages are
    worked out.
    """

    store: Store
    settings: PipelineSettings
    batch: int
    part: int
    kind: Kind
    source: str
    path: str | None
    plan: PlanRef | None
    vocabulary: str | None
    rows: pa.Table | None = None
    #: The type of ids that the stream has, once it has some.
    id_type: str | None = None
    #: Whether a file that is not there is rejected; else the task fails, and may be tried again.
    skip_missing: bool = False
    #: The row groups of a Parquet file that are read; None for all of it.
    groups: range | None = None


@dataclass(frozen=True)
class ReadResult(PackedState):
    """What was read of a source: the name of the segment with times and row numbers of its messages, or the changes."""

    source: str
    kind: Kind
    segment: str | None
    time: NDArray[np.int64]
    row: NDArray[np.int64]
    id_type: str
    changes: SourceChanges | None
    rejected: list[RejectedRow]
    #: When messages expire, where these have a lifetime.
    expires: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    #: Whether there was no such file, and whether its content could not be read at all.
    is_missing: bool = False
    is_unreadable: bool = False


#: Errors of malformed content. `FileUnavailable` and `StoreError` are none: the content is not to blame.
_UNREADABLE = (InvalidColumns, *ARROW_CONTENT_ERRORS, RecursionError)


def read_source(task: ReadTask) -> ReadResult:
    """Read, check and encode one source; a file or record of malformed content is rejected, and stops nothing.

    Where the file system fails the error is raised: trying again may help. `FileMissing` is, too, unless the task says
    to go on without such a file, which is rejected then.
    """
    try:
        return _read_source(task)
    except FileMissing as error:
        if not task.skip_missing:
            raise
        return replace(_nothing_of(task, error), is_missing=True)
    except _UNREADABLE as error:
        if task.rows is None:
            return _nothing_of(task, error)
        if not _is_json(task.rows):
            raise
    rejected = Rejected()
    good = _readable(task, task.rows, rejected)
    taken = _read_source(replace(task, rows=pa.concat_tables(good) if good else task.rows.slice(0, 0)))
    return replace(taken, rejected=[*rejected, *taken.rejected])


def _nothing_of(task: ReadTask, error: Exception) -> ReadResult:
    rejected = Rejected()
    field = getattr(error, "field", None)
    rejected.add(task.source, 0, None, field, f"nothing of this source was used: {_said(error)}")
    none = np.empty(0, np.int64)
    return ReadResult(
        source=task.source,
        kind=task.kind,
        segment=None,
        time=none,
        row=none,
        id_type="string",
        changes=None,
        rejected=list(rejected),
        is_unreadable=True,
    )


def _said(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else with_remedy(error, RENAMING)


def _readable(task: ReadTask, rows: pa.Table, rejected: Rejected) -> list[pa.Table]:
    """Return the records that can be read, in order; those that spoil the others are rejected one by one."""
    try:
        _check(replace(task, rows=rows))
    except _UNREADABLE as error:
        if rows.num_rows == 1:
            position = rows.column("position")[0].as_py()
            reason = f"{_where(task.source, position)}: {_said(error)}"
            rejected.add(task.source, position, None, getattr(error, "field", None), reason)
            return []
        half = rows.num_rows // 2
        parts = (rows.slice(0, half), rows.slice(half))
        return [table for part in parts for table in _readable(task, part, rejected)]
    return [rows]


def _check(task: ReadTask) -> None:
    """Read records as `read_source` does, and leave nothing behind."""
    found = Rejected()
    table = _table(task, found)
    if task.kind == "changes":
        read_changes(table, task.settings, source=task.source, rejected=found)
    else:
        read_messages(
            table, task.settings.space, WordTable(), task.settings.analyzer, source=task.source, rejected=found
        )


def _read_source(task: ReadTask) -> ReadResult:
    rejected = Rejected()
    table = _table(task, rejected)
    if task.kind == "changes":
        changes = read_changes(table, task.settings, source=task.source, rejected=rejected)
        return ReadResult(
            source=task.source,
            kind=task.kind,
            segment=None,
            time=changes.time,
            row=changes.row,
            id_type=id_type(changes.ids.type),
            changes=changes,
            rejected=list(rejected),
        )
    segment, rows = _segment(task, table, rejected)
    ids = segment.messages.ids
    assert isinstance(ids, pa.Array)
    name = None
    if len(segment):
        name = task.store.put_summed(task.store.unique("segments", task.batch, task.part, ".arrow"), segment.write).name
    return ReadResult(
        source=task.source,
        kind=task.kind,
        segment=name,
        time=segment.messages.time,
        row=rows,
        id_type=id_type(ids.type),
        changes=None,
        rejected=list(rejected),
        expires=segment.messages.expires if task.settings.lifetime is not None else np.empty(0, np.int64),
    )


def _table(task: ReadTask, rejected: Rejected) -> pa.Table:
    if task.rows is not None:
        table = _read_rows(task, task.rows, rejected) if _is_json(task.rows) else task.rows
    else:
        assert task.path is not None
        with fetched(task.path) as path:
            if task.groups is None:
                table = read_table(path, source=task.source, rejected=rejected)
            else:
                table = read_row_groups(path, task.groups, source=task.source, rejected=rejected)
    return rename_known(table, task.settings.renames)


def _is_json(rows: pa.Table) -> bool:
    """Tell whether rows came as JSON, each with its position."""
    return bool(rows.column_names == ["position", "line"])


def _read_rows(task: ReadTask, rows: pa.Table, rejected: Rejected) -> pa.Table:
    """Return rows that came as JSON, numbered by their position; one that is no object is rejected."""
    id_type = {"int64": int, "string": str, None: None}[task.id_type]
    table = read_objects(rows.column("line").cast(pa.binary()), source=task.source, id_type=id_type)
    if table is None:
        table = _read_one_by_one(task.source, rows, id_type, rejected)
    position = _arrow.array_of(rows.column("position"))
    numbers = _arrow.numbers(position[_arrow.array_of(table[ROW_COLUMN])])
    return table.set_column(table.column_names.index(ROW_COLUMN), ROW_COLUMN, numbers)


def _read_one_by_one(source: str, rows: pa.Table, id_type: type | None, rejected: Rejected) -> pa.Table:
    """Return rows some of which may be no objects; they are numbered by their place in the table."""
    found = Rejected()
    lines = [_one_line(each) for each in rows.column("line").to_pylist()]
    table = read_lines(b"\n".join(line or b"null" for line in lines), source=source, rejected=found, id_type=id_type)
    position = rows.column("position")
    for row in found:
        at = position[row.row].as_py()
        reason = _LINE.sub("", row.reason) if lines[row.row] else "it is empty; expected a JSON object"
        rejected.add(source, at, row.id, row.field, f"{_where(source, at)}: {reason}")
    return table


#: How `read_lines` begins a reason: these lines are nobody else's.
_LINE = re.compile(r"^line \d+: ")


def _one_line(given: bytes | str | None) -> bytes:
    """Return the bytes of a JSON text on one line, none where there is no text."""
    text = given.encode() if isinstance(given, str) else given or b""
    # A line end inside a JSON text stands between values, where a space does as well.
    text = text.replace(b"\n", b" ").lstrip(b"\x1e").removeprefix(codecs.BOM_UTF8)
    return text if text.strip() else b""


def _where(source: str, position: int) -> str:
    """Return the place of a row that came as JSON: that of a record of Kafka, whose source is `topic/partition`."""
    topic, _, partition = source.rpartition("/")
    is_record = topic and partition.isdigit()
    return f"topic {topic}, partition {int(partition)}, offset {position}" if is_record else f"row {position}"


@contextmanager
def fetched(path: str) -> Iterator[Path]:
    """Give the path of a file on this host: the file itself, or a copy of one that lies elsewhere."""
    if not is_uri(path):
        yield Path(path)
        return
    folder, _, name = path.rpartition("/")
    with tempfile.TemporaryDirectory(prefix="nearcast-") as here:
        copy = Path(here) / name
        try:
            open_place(folder).copy_to(name, copy)
        except OSError as error:
            raise fetch_error(path, error) from None
        yield copy


def _segment(task: ReadTask, table: pa.Table, rejected: Rejected) -> tuple[MessageSegment, NDArray[np.int64]]:
    """Return the good messages of a source, and their numbers in it."""
    words, found = WordTable(), Rejected()
    segment = MessageSegment.encoded(table, task.settings, words, source=task.source, rejected=found)
    rows = TableRows(table, task.source, 0).numbers
    if len(found):
        rejected.extend(found)
        rows = rows[~np.isin(rows, [row.row for row in found])]
    if task.vocabulary is not None and len(segment):
        messages, weights = segment.messages, TermWeights(words, _vocabulary(task.store, task.vocabulary))
        totals = message_totals(messages.term_start, messages.terms, words, weights)
        segment = replace(segment, messages=replace(messages, totals=totals))
    route = None if task.plan is None or not len(segment) else router_of(task.plan).route(segment)
    if route is not None:
        segment = replace(segment, route_start=route[0], route=route[1])
    return segment, rows


_vocabularies: RecentByStore[Vocabulary] = RecentByStore(1)


def _vocabulary(store: Store, name: str) -> Vocabulary:
    """Return a vocabulary of the store; the last one is kept in this process."""
    return _vocabularies.get(store, name, lambda: Vocabulary.open(store.local(name)))
