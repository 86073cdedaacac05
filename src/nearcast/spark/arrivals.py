"""What came with a batch: its sources, the last beat of the clock, and when the newest arrived. Imports pyspark."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from nearcast.errors import FileUnavailable
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.spark.row_reader import RowPart, RowReader
from nearcast.spark.sources import CLOCK, COLUMNS, InputFolders, local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True)
class BatchArrivals:
    """The input of a batch: its sources, the last beat of the clock, and the arrival time of the newest."""

    given: list[BatchSource]
    beat: int | None
    newest: float | None


def listed_files(query: StreamingQuery) -> list[str]:
    """Return the paths of all files that Spark listed for the batch under way.

    Spark gives no row for a file that has gone since, and says nothing of it. The plan of the batch, which only the JVM
    holds, still names it.
    """
    leaves = query._jsq.streamingQuery().lastExecution().analyzed().collectLeaves()
    found = [leaves.apply(at) for at in range(leaves.size())]
    relations = [leaf.relation() for leaf in found if leaf.getClass().getSimpleName() == "LogicalRelation"]
    of_files = [each for each in relations if each.getClass().getSimpleName() == "HadoopFsRelation"]
    names = [each.location().rootPaths().mkString("\0") for each in of_files]
    return [local_path(path) for each in names for path in each.split("\0") if path]


def file_arrivals(folders: InputFolders, listed: Iterable[str]) -> BatchArrivals:
    """Return the input of a batch that is files of this host and nothing else, without a job of Spark."""
    given, newest = [], None
    for each in folders.sources_of(listed):
        source, arrived = _looked_at(each)
        given.append(source)
        newest = arrived if newest is None else max(newest, arrived or newest)
    given.sort(key=lambda each: (each.kind, each.source))
    return BatchArrivals(given, None, newest)


def _looked_at(source: BatchSource) -> tuple[BatchSource, float | None]:
    """Return a file with its size and time, or as one that is gone; and when it was last written."""
    assert source.path is not None
    try:
        about = Path(source.path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return source, None
    except OSError as error:
        raise FileUnavailable(f"{source.path} cannot be read: {error.strerror or error}") from None
    milliseconds = about.st_mtime_ns // 1_000_000  # what Spark tells of a file
    found = replace(source, is_gone=False, n_bytes=about.st_size, modified=1000 * milliseconds)
    return found, milliseconds / 1000


def arrivals_of(
    frame: DataFrame, folders: InputFolders, listed: Sequence[str] = (), reader: RowReader | None = None
) -> BatchArrivals:
    """Return the input of a batch by one job, in which the workers encode its rows; `reader` is None without any.

    Names of files are relative to the folders. Rows that do not say when they arrived did so now. Files of `listed`
    that Spark gave no row for become sources as well: reading them tells that they are gone.
    """
    began = time.time()
    parts: list[RowPart] = []
    if reader is None:
        table = frame.select(*COLUMNS).toArrow()
    else:
        table, parts = reader.read(frame.select(*COLUMNS))
    columns = {name: table.column(name).to_pylist() for name in ("kind", "position", "path", "length")}
    given, beat = _sources_of(parts), None
    modified = table.column("arrived").cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    for at, kind in enumerate(columns["kind"]):
        if kind == CLOCK:
            beat = max(beat or 0, columns["position"][at])
        elif columns["path"][at] is not None:
            path = local_path(columns["path"][at])
            name = folders.name_of(path, kind)
            given.append(BatchSource(kind, name, path, n_bytes=columns["length"][at], modified=modified[at]))
    rowless = set(listed) - {each.path for each in given if each.path is not None}
    given += folders.sources_of(rowless)
    given.sort(key=lambda each: (each.kind, each.source))
    stamps = [each.timestamp() for each in table.column("arrived").to_pylist() if each is not None]
    stamps += [began if part.newest is None else part.newest for part in parts]
    return BatchArrivals(given, beat, max(stamps, default=None))


def _sources_of(parts: Sequence[RowPart]) -> list[BatchSource]:
    """Return the sources of rows, with what was read of each in all partitions of the batch."""
    by_source: dict[tuple[str, str], list[RowPart]] = {}
    for part in parts:
        by_source.setdefault((part.kind, part.source), []).append(part)
    return [
        BatchSource(
            found[0].kind,
            source,
            reads=tuple(part.result for part in found if part.result is not None),
            # Rows of a DataFrame are numbered anew each time, so that their positions tell nothing.
            span=None if source == kind else f"{min(p.first for p in found)}-{max(p.last for p in found)}",
            content=f"{sum(part.n for part in found)} {sum(part.digest for part in found) % (1 << 64):016x}",
        )
        for (kind, source), found in by_source.items()
    ]
