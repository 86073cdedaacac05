"""Cuts tables into row groups for Parquet: the same rows make the same groups, however they come.

Groups have one size but the last. Text is either plain or a dictionary, as the first group decides for the file: the
values in the order in which they occur, each once and no other. So the bytes of a file depend on its rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Rows in a group.
ROWS = 1 << 17
#: A column of text is a dictionary where its first rows, this many, have at most 3/4 as many values.
_SAMPLE = 1 << 14


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
        rows = rows.unify_dictionaries().combine_chunks()
        if self.schema is None:
            self.schema = pa.schema([_with_form(field, rows.column(at)) for at, field in enumerate(rows.schema)])
        columns = [_ordered(column.chunk(0)) for column in _as_schema(rows, self.schema).columns]
        return pa.table(columns, schema=self.schema)


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
    if not pa.types.is_string(kind):
        return field.with_type(kind)
    sample = column.slice(0, _SAMPLE)
    if pa.types.is_dictionary(field.type):
        n_values = len(pc.unique(sample.chunk(0).indices))
    else:
        n_values = pc.count_distinct(sample, mode="all").as_py()
    return field.with_type(pa.dictionary(pa.int32(), kind) if 4 * n_values <= 3 * len(sample) else kind)


def _ordered(column: pa.Array) -> pa.Array:
    """Return a dictionary array whose values are those that occur, in that order; other arrays as they are."""
    if not pa.types.is_dictionary(column.type):
        return column
    codes, n_values = _arrow.array_of(column.indices, null=-1), len(column.dictionary)
    if _are_ordered(codes, n_values):
        return column
    is_given = codes >= 0
    fresh, used = _arrow.numbered(codes[is_given], n_values)
    ordered = np.zeros(len(codes), np.int32)
    ordered[is_given] = fresh
    return _arrow.dictionary(ordered, column.dictionary.take(_arrow.numbers(used)), is_given)


def _are_ordered(codes: NDArray[np.int32], n_values: int) -> bool:
    """Tell whether each code that occurs first is the next, and all occur; -1 is no code."""
    if n_values == 1:
        return bool((codes == 0).any())
    top = np.maximum.accumulate(codes)
    return bool(top[-1] == n_values - 1 and codes[0] <= 0 and (codes[1:] <= top[:-1] + 1).all())
