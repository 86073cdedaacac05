"""Tables from and to files, by extension: Parquet, JSON lines, CSV, GeoJSON and sequences of GeoJSON Features.

Reading streams. A file whose content cannot be read at all raises `InvalidColumns` with one line that says why; a line
that cannot be read is a rejected row. Where the file system fails it raises `FileUnavailable`, and `FileMissing` where
there is no file: then the content is not to blame, and trying again may help. Which columns there should be is the
business of `nearcast.tables`.
"""

import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from nearcast.errors import InvalidColumns
from nearcast.files.file_errors import file_error
from nearcast.files.parquet_rows import parquet_batches, parquet_files
from nearcast.files.writer import DeliveryWriter
from nearcast.tables.names import CELLS, JSON_CELLS, ROW_COLUMN
from nearcast.tables.rejected_rows import Rejected
from nearcast.tables.spaces import rename as renamed

__all__ = [
    "READABLE",
    "DeliveryWriter",
    "read_batches",
    "read_lines",
    "read_objects",
    "read_row_groups",
    "read_table",
    "total_rows",
    "united",
]

#: The extensions that can be read; all but .parquet also with .gz behind.
READABLE = (".parquet", ".jsonl", ".ndjson", ".csv", ".geojson", ".geojsonl", ".geojsons")

FilePath = str | os.PathLike[str]


def read_batches(
    path: FilePath,
    *,
    rename: Mapping[str, str] | None = None,
    batch_rows: int = 65_536,
    source: str | None = None,
    rejected: Rejected | None = None,
) -> Iterator[pa.Table]:
    """Yield the rows of a file in order, as tables of at most `batch_rows` rows; at least one, perhaps empty.

    `rename` is {new: old}. Rows that cannot be read are added to `rejected` under `source` (the name of the file
    unless given); without `rejected` the first of them raises `InvalidColumns`. Each table says in a column of its
    own which rows of the file it has, which `read_messages` and `read_subscriptions` use. A folder with the extension
    .parquet is read as its Parquet files in the order of their names.
    """
    path = Path(path)
    extension = _extension(path)
    _check_there(path)
    read = _READERS[extension]
    batches = read(path, source or path.name, batch_rows, rejected)
    return _guarded(path, batches, rename or {})


def read_table(
    path: FilePath,
    *,
    rename: Mapping[str, str] | None = None,
    source: str | None = None,
    rejected: Rejected | None = None,
) -> pa.Table:
    """Return all rows of a file as one table, as `read_batches` does in pieces: for subscriptions, whose ids must
    differ in the whole file.
    """
    return united(list(read_batches(path, rename=rename, source=source, rejected=rejected)))


def read_row_groups(path: FilePath, groups: range, *, source: str, rejected: Rejected) -> pa.Table:
    """Return the rows of some row groups of a Parquet file, numbered as in the whole file."""
    path = Path(path)
    _check_there(path)
    return united(list(_guarded(path, parquet_batches(path, source, 65_536, rejected, groups), {})))


def read_lines(data: bytes, *, source: str, rejected: Rejected | None = None, id_type: type | None = None) -> pa.Table:
    """Return the rows of JSON lines that are in memory, as `read_table` does those of a file.

    Ids are of `id_type` where it is given, else of the type of the first.
    """
    from nearcast.files.json_lines import line_batches

    batches = line_batches(io.BytesIO(data), source, 65_536, rejected, only_features=False, id_type=id_type)
    return united(list(_at_least_one(batches)))


def read_objects(texts: pa.ChunkedArray, *, source: str, id_type: type | None = None) -> pa.Table | None:
    """Return the rows of a binary column of JSON texts, numbered, as `read_lines` does those of as many lines.

    None unless each text is one plain object on one line, and all values have the types that are wanted: then
    `read_lines` tells which are not.
    """
    from nearcast.files.json_lines import object_batches

    batches = object_batches(texts, source, 65_536, id_type=id_type)
    return united(batches) if batches else None


def total_rows(path: FilePath) -> int | None:
    """Return the number of rows where the format tells it without reading the file, else None."""
    if _extension(Path(path)) != ".parquet":
        return None
    from pyarrow import parquet

    try:
        return sum(int(parquet.read_metadata(file).num_rows) for file in parquet_files(Path(path)))
    except (OSError, pa.ArrowException):
        return None  # reading will say what is wrong


def _extension(path: Path) -> str:
    extensions = [suffix.lower() for suffix in path.suffixes]
    known = extensions[-2:-1] if extensions[-1:] == [".gz"] else extensions[-1:]
    if not known or known[0] not in READABLE or (known[0] == ".parquet" and extensions[-1] == ".gz"):
        raise InvalidColumns(f"{path}: the format is not known; expected a name that ends in {', '.join(READABLE)}")
    return known[0]


def _check_there(path: Path) -> None:
    try:
        path.stat()
    except OSError as error:
        raise file_error(path, error) from None


def _guarded(path: Path, batches: Iterator[pa.Table], names: Mapping[str, str]) -> Iterator[pa.Table]:
    try:
        for batch in batches:
            # A file without any column has nothing to rename, and nothing to complain about.
            yield renamed(batch, names) if names and batch.num_columns > 1 else batch
    except (OSError, EOFError, zlib.error) as error:
        raise file_error(path, error) from None


# --- formats ----------------------------------------------------------------------------------------------------


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def _read_lines(path: Path, source: str, batch_rows: int, rejected: Rejected | None) -> Iterator[pa.Table]:
    from nearcast.files.json_lines import line_batches

    only_features = _extension(path) not in (".jsonl", ".ndjson")
    with _opened(path) as file:
        yield from _at_least_one(line_batches(file, source, batch_rows, rejected, only_features=only_features))


def _read_collection(path: Path, source: str, batch_rows: int, rejected: Rejected | None) -> Iterator[pa.Table]:
    from nearcast.files.json_lines import collection_batches

    with _opened(path) as file:
        yield from collection_batches(file, path, source, batch_rows, rejected)


def _read_csv(path: Path, source: str, batch_rows: int, rejected: Rejected | None) -> Iterator[pa.Table]:
    from nearcast.files.csv_rows import csv_batches

    with (
        _opened(path) as file,
        io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="") as text,
    ):
        yield from csv_batches(text, path, source, batch_rows, rejected)


def _at_least_one(batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
    first = next(batches, None)
    yield pa.table({ROW_COLUMN: pa.array([], pa.int64())}) if first is None else first
    yield from batches


_Read = Callable[[Path, str, int, Rejected | None], Iterator[pa.Table]]

_READERS: dict[str, _Read] = {
    ".parquet": parquet_batches,
    ".jsonl": _read_lines,
    ".ndjson": _read_lines,
    ".csv": _read_csv,
    ".geojson": _read_collection,
    ".geojsonl": _read_lines,
    ".geojsons": _read_lines,
}


# --- one table of many ------------------------------------------------------------------------------------------


def united(batches: list[pa.Table]) -> pa.Table:
    """Return the batches as one table; a column that is of several types becomes JSON text, ids plain text."""
    ids = {batch.schema.field("id").type for batch in batches if "id" in batch.column_names and batch.num_rows}
    if len(ids) > 1:
        batches = [_with_text_ids(batch) for batch in batches]
    kinds: dict[str, set[tuple[pa.DataType, bytes | None]]] = {}
    for batch in batches:
        for field in batch.schema:
            if not pa.types.is_null(field.type):
                kinds.setdefault(field.name, set()).add((field.type, (field.metadata or {}).get(CELLS)))
    mixed = [
        name
        for name, found in kinds.items()
        if len(found) > 1 and not (_are_numbers(found) and all(_are_exact(batch, name) for batch in batches))
    ]
    for name in mixed:
        batches = [_as_json(batch, name) for batch in batches]
    marks = {name: {CELLS: next(iter(found))[1]} for name, found in kinds.items() if name not in mixed}
    for field in (field for batch in batches for field in batch.schema if field.metadata):
        marks.get(field.name, {}).update(field.metadata)
    table = pa.concat_tables([batch.replace_schema_metadata(None) for batch in batches], promote_options="permissive")
    fields = [
        field.with_metadata({CELLS: JSON_CELLS} if field.name in mixed else _given(marks.get(field.name)))
        for field in table.schema
    ]
    return pa.table(table.columns, pa.schema(fields))


def _with_text_ids(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("id")
    return table if at < 0 else table.set_column(at, "id", table.column(at).cast(pa.string()))


def _given(mark: Mapping[bytes, bytes | None] | None) -> dict[bytes, bytes] | None:
    return {name: value for name, value in (mark or {}).items() if value is not None} or None


def _are_numbers(found: set[tuple[pa.DataType, bytes | None]]) -> bool:
    return all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind, _ in found)


def _are_exact(table: pa.Table, name: str) -> bool:
    """Tell whether the numbers of a column, where it has some, are the same as floats."""
    if name not in table.column_names:
        return True
    try:
        table.column(name).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _as_json(table: pa.Table, name: str) -> pa.Table:
    if name not in table.column_names:
        return table
    at = table.column_names.index(name)
    field = table.schema.field(at)
    if (field.metadata or {}).get(CELLS) == JSON_CELLS or pa.types.is_null(field.type):
        return table
    texts = [None if value is None else _json(value) for value in table.column(at).to_pylist()]
    return table.set_column(at, pa.field(name, pa.string(), metadata={CELLS: JSON_CELLS}), pa.array(texts, pa.string()))


def _json(value: Any) -> str:
    return json.dumps(value, default=str)
