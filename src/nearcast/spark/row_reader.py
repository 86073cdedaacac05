"""Encodes rows of Kafka and of DataFrames in the workers that hold them: no row travels to the driver.

Each partition of a batch becomes a message segment of the store for each source in it; what comes back are names,
times and numbers of rows. They are encoded once, so that every task of the batch sees them alike.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from nearcast.errors import NearcastError
from nearcast.pipeline.worker.source_reader import Kind, ReadResult, ReadTask, read_source
from nearcast.spark.failures import in_one_line
from nearcast.spark.gc_freeze import freeze_once
from nearcast.spark.runner import described
from nearcast.spark.sources import CLOCK, WALL

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
        WALL: pa.int64(),
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
    wall: int | None
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
        rows = table.filter(pc.invert(is_other))
        names = zip(rows["kind"].to_pylist(), rows["source"].to_pylist(), strict=True)
        parts = [self._part(rows, kind, source) for kind, source in dict.fromkeys(names)]
        others = table.filter(is_other)
        if WALL not in others.column_names:
            others = others.append_column(WALL, pa.nulls(others.num_rows, pa.int64()))
        return PartContents(others.select(_OTHERS.names).cast(_OTHERS), parts)

    def _part(self, table: pa.Table, kind: Kind, source: str) -> RowPart:
        is_own = pc.and_(pc.equal(table["kind"], kind), pc.equal(table["source"], source))
        rows = _numbered(table.filter(is_own)).sort_by("position")
        positions, lines = rows["position"].to_pylist(), rows["row"].to_pylist()
        read = pa.table({"position": rows["position"], "line": rows["row"].cast(pa.binary())})
        newest = pc.max(rows["arrived"]).as_py()
        return RowPart(
            kind=kind,
            source=source,
            n=len(lines),
            first=positions[0],
            last=positions[-1],
            digest=_digest(lines if kind == source else map(_at, positions, lines)),
            newest=None if newest is None else newest.timestamp(),
            wall=pc.max(rows[WALL]).as_py() if WALL in rows.column_names else None,
            result=self._result(kind, source, read),
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


def _at(position: int, line: bytes | None) -> bytes:
    return b"%d %b" % (position, line or b"")


def _digest(lines: Iterable[bytes | None]) -> int:
    """Return the sum of the digests of lines."""
    return sum(int.from_bytes(hashlib.blake2b(line or b"", digest_size=8).digest(), "big") for line in lines)
