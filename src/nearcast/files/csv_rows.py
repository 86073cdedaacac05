"""Reading CSV: a header, commas, quotes where needed, UTF-8. Cells stay text; an empty one is not given.

By the `csv` module and not by Arrow, which guesses types and gives up a whole file for one bad line.
"""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.errors import InvalidColumns
from nearcast.tables.names import CELLS, CSV_CELLS, ROW_COLUMN
from nearcast.tables.rejected_rows import Rejected

#: A polygon may be long; the module's own limit is 128 KiB a cell.
_LONGEST_CELL = 1 << 30


def csv_batches(
    file: IO[str], path: Path, source: str, batch_rows: int, rejected: Rejected | None
) -> Iterator[pa.Table]:
    """Yield the rows of a CSV file, opened with errors="surrogateescape", as columns of text.

    A row with more or fewer cells than the header is rejected, or raises `InvalidColumns` if `rejected` is None.
    """
    reader = csv.reader(file, strict=True)
    header = _header(reader, path)
    schema = pa.schema([pa.field(name, pa.string(), metadata={CELLS: CSV_CELLS}) for name in header])
    row, is_first = 0, True
    while True:
        with _long_cells():
            numbers, cells, n_read = _rows(reader, len(header), row, batch_rows, source, rejected)
        if not n_read and not is_first:
            return
        row, is_first = row + n_read, False
        columns = list(zip(*cells, strict=True)) if cells else [()] * len(header)
        arrays = [_without_empty(pa.array(column, pa.string())) for column in columns]
        table = pa.table(arrays, schema) if header else pa.table({})
        yield table.append_column(ROW_COLUMN, pa.array(np.array(numbers, np.int64)))


def _without_empty(cells: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(cells, ""), pa.scalar(None, pa.string()), cells)


def _header(reader: Iterator[list[str]], path: Path) -> list[str]:
    try:
        with _long_cells():
            names = next((row for row in reader if row), [])
    except csv.Error as error:
        raise InvalidColumns(f"{path} is not CSV: {error} in its first line") from None
    if not all(map(_is_utf8, names)):
        raise InvalidColumns(f"{path} is not CSV in UTF-8: the bytes of its first line are something else")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InvalidColumns(f"{path}: column {twice[0]} is there twice; rename one of them", field=twice[0])
    return names


def _rows(
    reader: Any, width: int, first: int, limit: int, source: str, rejected: Rejected | None
) -> tuple[list[int], list[list[str]], int]:
    """Return the numbers and the cells of the next good rows, and how many rows were read."""
    numbers: list[int] = []
    rows: list[list[str]] = []
    n_read = 0
    while n_read < limit:
        reason, line = None, reader.line_num + 1
        try:
            cells = next(reader)
            if not cells:
                continue
            if len(cells) != width:
                reason = f"the row has {len(cells)} cells, the header {width}; quote cells that hold commas"
            elif not _is_utf8("".join(cells)):
                reason = "the bytes are not UTF-8; save the file as UTF-8"
        except StopIteration:
            break
        except csv.Error as error:
            reason = f"not CSV: {error}; check the quotes" + (
                ", one is never closed and takes all lines behind it" if "end of data" in str(error) else ""
            )
        if reason is None:
            numbers.append(first + n_read)
            rows.append(cells)
        elif rejected is None:
            raise InvalidColumns(f"{source}: line {line}: {reason}")
        else:
            rejected.add(source, first + n_read, None, None, f"line {line}: {reason}")
        n_read += 1
    return numbers, rows, n_read


@contextmanager
def _long_cells() -> Iterator[None]:
    """Allow long cells while rows are read; the limit belongs to the module, so it is put back."""
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
