"""Rows of Parquet files, whole or by row groups: numbered as they stand, without those that are no text or no ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.errors import InvalidColumns
from nearcast.files.file_errors import ARROW_CONTENT_ERRORS
from nearcast.files.geoparquet import with_geometries_marked
from nearcast.geo.shapes import shorten
from nearcast.tables.cells import is_text, plain
from nearcast.tables.names import ROW_COLUMN
from nearcast.tables.rejected_rows import Rejected


def parquet_files(path: Path) -> list[Path]:
    """Return the file, or the Parquet files of a folder in the order of their names."""
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.parquet"))
    if not files:
        raise InvalidColumns(f"{path} is a folder without .parquet files")
    return files


def rows_before(path: Path, group: int) -> int:
    """Return how many rows of a file stand before a row group."""
    from pyarrow import parquet

    about = parquet.read_metadata(path)
    return sum(about.row_group(at).num_rows for at in range(group))


def row_group_pieces(path: Path, least_bytes: int) -> list[range]:
    """Return pieces of a Parquet file, each row groups of at least so many bytes together; none if it cannot be cut."""
    from pyarrow import parquet

    try:
        about = parquet.read_metadata(path)
    except (OSError, pa.ArrowException):
        return []  # reading will say what is wrong
    sizes = [about.row_group(at).total_byte_size for at in range(about.num_row_groups)]
    pieces, first, n_bytes = [], 0, 0
    for at, size in enumerate(sizes):
        n_bytes += size
        if n_bytes >= least_bytes:
            pieces.append(range(first, at + 1))
            first, n_bytes = at + 1, 0
    if first < len(sizes) and pieces:
        pieces[-1] = range(pieces[-1].start, len(sizes))
    return pieces if len(pieces) > 1 else []


def parquet_batches(
    path: Path, source: str, batch_rows: int, rejected: Rejected | None, groups: range | None = None
) -> Iterator[pa.Table]:
    """Yield the rows of a file, or of the files of a folder; of a file some row groups, if they are given."""
    row, first = 0 if groups is None else rows_before(path, groups.start), None
    for file in parquet_files(path):
        for batch in _batches(file, batch_rows, groups):
            numbers = _arrow.numbers(np.arange(row, row + batch.num_rows))
            row += batch.num_rows
            if ROW_COLUMN in batch.column_names:
                batch = batch.drop_columns([ROW_COLUMN])
            batch = batch.append_column(ROW_COLUMN, numbers)
            kind = _id_kind(batch)
            first = first or kind
            if first and kind and first != kind:
                batch = _without_ids_of_other_type(batch, first, source, rejected)
            yield _with_text_only(batch, source, rejected)


def _id_kind(table: pa.Table) -> str | None:
    """Return what the ids of a table are; None where there are none, or of a type that no id has."""
    if not table.num_rows or "id" not in table.column_names:
        return None
    kind = plain(table["id"].slice(0, 0)).type
    return "integers" if pa.types.is_integer(kind) else "text" if is_text(kind) else None


def _without_ids_of_other_type(table: pa.Table, expected: str, source: str, rejected: Rejected | None) -> pa.Table:
    """Reject the rows of a file of a folder whose ids are not of the type that the first file has."""
    for number, given in zip(table[ROW_COLUMN].to_pylist(), table["id"].to_pylist(), strict=True):
        reason = f"id is {shorten(given)}; expected {expected}, like the first id"
        if rejected is None:
            raise InvalidColumns(f"{source}: row {number}: {reason}", field="id")
        rejected.add(source, number, given, "id", reason)
    return table.slice(0, 0).drop_columns(["id"])


def _batches(path: Path, batch_rows: int, groups: range | None) -> Iterator[pa.Table]:
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
    except pa.ArrowInvalid:
        raise InvalidColumns(f"{path} is not a Parquet file") from None
    with file:
        if file.metadata.num_rows == 0:
            yield with_geometries_marked(file.schema_arrow.empty_table(), file.schema_arrow)
        try:
            for batch in file.iter_batches(batch_rows, row_groups=None if groups is None else list(groups)):
                yield with_geometries_marked(pa.Table.from_batches([batch]), file.schema_arrow)
        except ARROW_CONTENT_ERRORS as error:
            raise InvalidColumns(f"{path} is damaged: {str(error).splitlines()[0]}") from None


def _with_text_only(table: pa.Table, source: str, rejected: Rejected | None) -> pa.Table:
    """Return the table without the rows whose text is no UTF-8: Parquet does not look, and nothing could show them."""
    bad = np.zeros(table.num_rows, np.bool_)
    for field, column in zip(table.schema, table.columns, strict=True):
        if is_text(field.type) and not _is_valid(column):
            for row, value in enumerate(column.cast(pa.large_binary()).to_pylist()):
                if value is not None and not bad[row] and not _is_utf8(value):
                    bad[row] = True
                    _reject_bytes(source, table[ROW_COLUMN][row].as_py(), field.name, rejected)
    return table.filter(pa.array(~bad)) if bad.any() else table


def _reject_bytes(source: str, row: int, field: str, rejected: Rejected | None) -> None:
    reason = f"the bytes of {field} are not UTF-8; write it anew"
    if rejected is None:
        raise InvalidColumns(f"{source}: row {row}: {reason}", field=field)
    rejected.add(source, row, None, field, reason)


def _is_valid(column: pa.ChunkedArray) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
