"""Encodes rows of Kafka and of DataFrames in the workers that hold them: no row travels to the driver.

Each partition of a batch becomes a message segment of the store for each source in it; what comes back are names,
times and numbers of rows. They are encoded once, so that every task of the batch sees them alike.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast.errors import NearcastError
from nearcast.pipeline.worker.source_reader import Kind, ReadResult, ReadTask, read_source
from nearcast.spark.failures import in_one_line
from nearcast.spark.gc_freeze import freeze_once
from nearcast.spark.runner import described
from nearcast.spark.sources import CLOCK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


#: The columns of rows that name files or are beats.
_OTHERS = pa.schema(
    {
        "kind": pa.string(),
        "position": pa.int64(),
        "path": pa.string(),
        "length": pa.int64(),
        "arrived": pa.timestamp("us", "UTC"),
    }
)


#: Rows of a partition that are numbered before those of the next: as many as Spark's own numbers leave room for.
_ROW_BITS = 33


class RowPart(NamedTuple):
    """The rows of one source in one partition of a batch, from position `first` to `last`, and what was read of them.

    `digest` is a sum over the rows: the same in any order and any partitions.
    """

    kind: Kind
    source: str
    n: int
    first: int
    last: int
    digest: int
    newest: float | None
    result: ReadResult | None


class PartContents(NamedTuple):
    """What one partition of a batch holds: rows that name files or are beats, and rows of sources, or an error."""

    others: pa.Table
    parts: list[RowPart]
    error: NearcastError | None = None


@dataclass(frozen=True)
class RowReader:
    """Reads the rows of a batch as the task of their kind says; without tasks it only tells what there is."""

    tasks: dict[Kind, ReadTask]

    def read(self, frame: DataFrame) -> tuple[pa.Table, list[RowPart]]:
        """Return the rows that name files or are beats, and what was read of all others, partition by partition."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        try:
            with described(frame.sparkSession, f"nearcast{self._batch}: read rows"):
                found = frame.mapInArrow(self._encoded, "content binary").collect()
        except (Py4JError, PySparkException) as error:
            raise in_one_line(error, "reading rows")  # noqa: B904 - it has its cause
        contents: list[PartContents] = [pickle.loads(row[0]) for row in found]
        for each in contents:
            if each.error is not None:
                raise each.error
        others = [each.others for each in contents]
        return pa.concat_tables([_OTHERS.empty_table(), *others]), [part for each in contents for part in each.parts]

    @property
    def _batch(self) -> str:
        return "".join(f" batch {task.batch}" for task in list(self.tasks.values())[:1])

    def _encoded(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the contents of one partition, pickled; runs in a worker."""
        given = [batch for batch in batches if batch.num_rows]
        if not given:
            return
        try:
            contents = self._contents(pa.Table.from_batches(given))
        except NearcastError as error:
            if error.may_pass:
                raise
            contents = PartContents(_OTHERS.empty_table(), [], error)
        yield pa.record_batch([pa.array([pickle.dumps(contents)], pa.binary())], ["content"])
        freeze_once()

    def _contents(self, table: pa.Table) -> PartContents:
        is_other = pc.or_(pc.equal(table["kind"], CLOCK), pc.is_valid(table["path"]))
        others, rows = table.filter(is_other), table
        if others.num_rows:
            rows = table.filter(pc.invert(is_other))
        names = rows.group_by(["kind", "source"], use_threads=False).aggregate([]).to_pylist()
        parts = [self._part(rows, each["kind"], each["source"], is_alone=len(names) == 1) for each in names]
        return PartContents(others.select(_OTHERS.names).cast(_OTHERS), parts)

    def _part(self, table: pa.Table, kind: Kind, source: str, *, is_alone: bool) -> RowPart:
        """Read the rows of one source, which is alone where a partition has no other."""
        if not is_alone:
            table = table.filter(pc.and_(pc.equal(table["kind"], kind), pc.equal(table["source"], source)))
        rows = _in_order(_numbered(table))
        positions, lines = rows["position"], rows["row"].cast(pa.binary())
        newest = pc.max(rows["arrived"]).as_py()
        return RowPart(
            kind=kind,
            source=source,
            n=rows.num_rows,
            first=positions[0].as_py(),
            last=positions[-1].as_py(),
            digest=_digest(None if kind == source else positions, lines),
            newest=None if newest is None else newest.timestamp(),
            result=self._result(kind, source, pa.table({"position": positions, "line": lines})),
        )

    def _result(self, kind: Kind, source: str, rows: pa.Table) -> ReadResult | None:
        from pyspark import TaskContext

        context = TaskContext.get()
        if kind not in self.tasks or context is None:
            return None
        return read_source(replace(self.tasks[kind], source=source, part=context.partitionId(), rows=rows))


def _numbered(rows: pa.Table) -> pa.Table:
    """Return rows with a position each: those without any have Spark's order, by partition of the batch and row."""
    from pyspark import TaskContext

    if not rows["position"].null_count:
        return rows
    context = TaskContext.get()
    first = 0 if context is None else context.partitionId() << _ROW_BITS
    numbers = pa.array(range(first, first + rows.num_rows), pa.int64())
    return rows.set_column(rows.column_names.index("position"), "position", pc.coalesce(rows["position"], numbers))


def _in_order(rows: pa.Table) -> pa.Table:
    """Return rows by position, as those of a topic come."""
    is_sorted = bool((np.diff(_arrow.array_of(rows["position"])) >= 0).all())
    return rows if is_sorted else rows.sort_by("position")


def _digest(positions: pa.ChunkedArray | None, lines: pa.ChunkedArray) -> int:
    """Return the sum of the digests of lines, each behind its position where these are given, modulo 2^64."""
    lines = pc.fill_null(lines, b"")
    if positions is not None:
        lines = pc.binary_join_element_wise(positions.cast(pa.string()).cast(pa.binary()), lines, b" ")
    digests = b"".join([blake2b(line, digest_size=8).digest() for line in lines.to_pylist()])
    return int(np.frombuffer(digests, ">u8").sum(dtype=np.uint64))
