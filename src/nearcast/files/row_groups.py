"""Cuts tables into row groups for Parquet: the same rows make the same groups, however they come.

Groups have one size but the last. Text is either plain or a dictionary, as the first group decides for the file: the
values in the order in which they occur, each once and no other. So the bytes of a file depend on its rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nearcast import _arrow

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Rows in a group.
ROWS = 1 << 17
#: Tables that wait to become a group, at most: a table of one row takes kilobytes.
_TABLES = 512


class RowGroups:
    """Collects rows and hands them over group by group; `schema` is that of the groups, once there was one."""

    def __init__(self) -> None:
        self.schema: pa.Schema | None = None
        self._waiting: list[pa.Table] = []
        self._rows = 0

    def add(self, table: pa.Table) -> Iterator[pa.Table]:
        """Take the rows of a table with the columns of the first; yield the groups that are full."""
        if not table.num_rows:
            return
        self._waiting.append(table)
        self._rows += table.num_rows
        if len(self._waiting) > _TABLES:
            self._waiting = [_in_one_chunk(self._united())]
        while self._rows >= ROWS:
            whole = self._united()
            rest = whole.slice(ROWS)
            self._waiting, self._rows = ([rest] if rest.num_rows else []), rest.num_rows
            yield self._group(whole.slice(0, ROWS))

    def rest(self) -> Iterator[pa.Table]:
        """Yield the last group, if rows are left."""
        if self._rows:
            whole, self._waiting, self._rows = self._united(), [], 0
            yield self._group(whole)

    def _united(self) -> pa.Table:
        schema = self._waiting[0].schema if self.schema is None else self.schema
        return pa.concat_tables([_as_schema(table, schema) for table in self._waiting])

    def _group(self, rows: pa.Table) -> pa.Table:
        """Return rows in one chunk, each column of text in the form that it has in this file."""
        rows = _in_one_chunk(rows)
        if self.schema is None:
            self.schema = pa.schema([_with_form(field, rows.column(at)) for at, field in enumerate(rows.schema)])
        columns = [_ordered(column.chunk(0)) for column in _as_schema(rows, self.schema).columns]
        return pa.table(columns, schema=self.schema)


def _in_one_chunk(table: pa.Table) -> pa.Table:
    return table.unify_dictionaries().combine_chunks()


def _as_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns in the types of a schema."""
    if table.schema == schema:
        return table
    columns = [_as_type(table.column(field.name), field.type) for field in schema]
    return pa.table(columns, schema=schema)


def _as_type(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    column = _arrow.plain(column).cast(_arrow.value_type(kind))
    return column.dictionary_encode() if pa.types.is_dictionary(kind) else column


def _with_form(field: pa.Field, column: pa.ChunkedArray) -> pa.Field:
    """Return a field, of text as a dictionary where the values of its first group repeat, else as plain values."""
    kind = _arrow.value_type(field.type)
    is_coded = pa.types.is_string(kind) and _arrow.repeats(column.chunk(0))
    return field.with_type(pa.dictionary(pa.int32(), kind) if is_coded else kind)


def _ordered(column: pa.Array) -> pa.Array:
    """Return a dictionary array whose values are those that occur, in that order; other arrays as they are."""
    if not pa.types.is_dictionary(column.type):
        return column
    values = column.dictionary
    if len(values) == 1 and not column.null_count:
        return column
    codes = _arrow.array_of(column.indices, null=-1)
    first, n = _span(codes)
    if (first, n) == (0, len(values)):
        return column
    if n:  # as in a slice of what was ordered
        return _arrow.dictionary(codes - np.int32(first), values.slice(first, n))
    is_given = codes >= 0
    fresh, used = _arrow.numbered(codes[is_given], len(values))
    ordered = np.zeros(len(codes), np.int32)
    ordered[is_given] = fresh
    return _arrow.dictionary(ordered, values.take(_arrow.numbers(used)), is_given)


def _span(codes: NDArray[np.int32]) -> tuple[int, int]:
    """Return the lowest code and how many there are, if each that occurs first is the next; 0 if not, or one is -1."""
    top = np.maximum.accumulate(codes)
    is_ordered = codes.min() == codes[0] >= 0 and (codes[1:] <= top[:-1] + 1).all()
    return int(codes[0]), int(top[-1] - codes[0]) + 1 if is_ordered else 0
