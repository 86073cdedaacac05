"""Reads columns of an Arrow table, of whatever type, into flat arrays: ids, text, numbers, times, lists of words.

A wrong type is an error of the whole table (`InvalidColumns`), a wrong value a fault of its row. Files without types
mark their columns instead: cells of CSV are text, mixed values of JSON are JSON text; there a wrong type, too, is a
fault of the row.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast.columns import FIRST_TIME, LAST_TIME, NO_TIME
from nearcast.errors import InvalidColumns, Remedy
from nearcast.geo.shapes import shorten
from nearcast.nesting import is_encodable
from nearcast.tables.names import CELLS, CSV_CELLS, JSON_CELLS, ROW_COLUMN
from nearcast.tables.rejected_rows import Faults, Mask, Rejected, Rows

Floats = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]

_UTC = pa.timestamp("us", "UTC")
_RFC_3339 = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?"
    r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_TIME_FORMS = "expected RFC 3339 text like 2026-05-01T09:00:00Z"


class TableRows:
    """The rows of a table, read column by column; faults of rows are collected on the way."""

    def __init__(self, table: pa.Table, source: str, first_row: int):
        twice = {name for name in table.column_names if table.column_names.count(name) > 1}
        if twice:
            raise InvalidColumns(f"{source}: column {min(twice)} is there twice; rename one of them", field=min(twice))
        self.table, self.source = table, source
        self.faults = Faults(table.num_rows)
        if ROW_COLUMN in table.column_names:
            self.numbers: Rows = _arrow.array_of(table[ROW_COLUMN])
        else:
            self.numbers = np.arange(first_row, first_row + table.num_rows)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def has(self, name: str) -> bool:
        """Tell whether there is such a column."""
        return name in self.table.column_names

    def require(self, *names: str) -> None:
        """Raise `InvalidColumns` unless all these columns are there; a table without rows need not have any."""
        missing = [name for name in names if not self.has(name)]
        if missing and len(self):
            raise self.lacks(", ".join(missing), missing[0])

    def foreign(self, names: Iterable[str], *, is_at_home: bool, kind: str) -> list[str]:
        """Return which columns of another space make this a table of that space.

        In a table that `is_at_home`, having columns of its own space, some rows alone may have a foreign value: a line
        of JSON with a key too many. These rows are at fault.
        """
        found = [name for name in names if self.has(name)]
        stray = [name for name in found if is_at_home and not as_mask(self.table[name].is_valid()).all()]
        for name in stray:
            is_given = as_mask(self.table[name].is_valid())
            self.faults.add_where(is_given, name, f"{name} is given, which does not belong to the {kind}; remove it")
        return [name for name in found if name not in stray]

    def lacks(self, wanted: str, field: str) -> InvalidColumns:
        """Return the error that says which columns are missing and which there are."""
        there = ", ".join(name for name in self.table.column_names if not name.startswith("nearcast.")) or "none"
        return InvalidColumns(
            f"{self.source}: there is no column {wanted}; there are: {there}; rename one",
            field=field,
            remedy=Remedy.NAME_COLUMN,
        )

    def taken(self, which: Rows, names: Iterable[str]) -> pa.Table:
        """Return those of the named columns that are there, for these rows alone."""
        there = [self.table.schema.field(name) for name in names if self.has(name)]
        columns = [_taken(self.column(field.name), which) for field in there]
        fields = [field.with_type(column.type) for field, column in zip(there, columns, strict=True)]
        return pa.table(columns, pa.schema(fields)) if fields else pa.table({})

    def part(self, which: Rows, names: Iterable[str]) -> "TableRows":
        """Return these rows, ascending, with the named columns and their faults; faults noted later are not shared."""
        part = TableRows(self.taken(which, names), self.source, 0)
        part.numbers = self.numbers[which]
        part.faults.is_bad[:] = self.faults.is_bad[which]
        return part

    def report(self, rejected: Rejected, ids: pa.Array) -> None:
        """Add all faults to `rejected`."""
        self.faults.report(rejected, self.source, self.numbers, ids)

    def column(self, name: str) -> pa.ChunkedArray:
        """Return a column that is there, without dictionary or extension type."""
        return plain(self.table[name])

    def cells(self, name: str) -> bytes | None:
        """Return how the cells of an untyped column are written, as CSV or JSON text; None if it has an Arrow type."""
        return (self.table.schema.field(name).metadata or {}).get(CELLS)

    def wrong_type(self, name: str, expected: str) -> InvalidColumns:
        """Return the error that says which type a column has and which it should have."""
        kind = self.table.schema.field(name).type
        return InvalidColumns(f"{self.source}: column {name} is of type {kind}; expected {expected}", field=name)

    def _values(self, name: str, wanted: Callable[[Any], bool], expected: str) -> list[Any]:
        """Return the values of a column of JSON text, None where there is none or it is a fault."""
        values: list[Any] = []
        for row, text in enumerate(self.column(name).to_pylist()):
            value = None if text is None else json.loads(text)
            if value is not None and not wanted(value):
                self.faults.add(row, name, f"{name} is {shorten(value)}; expected {expected}")
                value = None
            values.append(value)
        return values

    # --- ids ---

    def ids(self) -> pa.Array:
        """Return the ids as string or int64; null, which is a fault, where a row has none."""
        column = self.column("id") if self.has("id") else pa.chunked_array([_arrow.strings([])])
        if pa.types.is_integer(column.type):
            ids = self._integer_ids(column)
        elif is_text(column.type) or pa.types.is_null(column.type):
            ids = joined(column.cast(pa.large_string() if column.nbytes >= 2**31 else pa.string()))
            with_zero = as_mask(pc.match_substring(ids, "\x00"))
            self.faults.add_where(with_zero, "id", "the id holds a zero byte; remove it")
        else:
            raise self.wrong_type("id", "text or integers")
        if ids.null_count:
            self.faults.add_where(as_mask(ids.is_null()), "id", "there is no id; give text or an integer")
        return ids

    def _integer_ids(self, column: pa.ChunkedArray) -> pa.Array:
        if not pa.types.is_uint64(column.type):
            return joined(column.cast(pa.int64()))
        too_large = as_mask(pc.greater(column, pa.scalar(2**63 - 1, pa.uint64())))
        self.faults.add_where(too_large, "id", lambda row: f"id is {column[row]}; expected an integer of 64 bits")
        return joined(pc.if_else(pa.array(too_large), pa.scalar(None, column.type), column).cast(pa.int64()))

    # --- text ---

    def texts(self, name: str) -> pa.ChunkedArray:
        """Return a column of text, of whatever string type it has; all null if it is missing."""
        if not self.has(name):
            return pa.chunked_array([pa.nulls(len(self), pa.string())])
        if self.cells(name) == JSON_CELLS:
            values = self._values(name, lambda value: isinstance(value, str), "text")
            return pa.chunked_array([pa.array(values, pa.string())])
        column = self.column(name)
        if is_text(column.type):
            return column
        if pa.types.is_null(column.type):
            return column.cast(pa.string())
        raise self.wrong_type(name, "text")

    # --- numbers ---

    def numbers_of(self, name: str) -> tuple[Floats, Mask]:
        """Return a column of numbers and where they are given; NaN elsewhere."""
        n = len(self)
        if not self.has(name):
            return np.full(n, np.nan), np.zeros(n, np.bool_)
        cells = self.cells(name)
        if cells == CSV_CELLS:
            return self._parsed_numbers(name)
        column = self.column(name)
        if cells == JSON_CELLS:
            values = [None if value is None else float(value) for value in self._values(name, is_number, "a number")]
            column = pa.chunked_array([pa.array(values, pa.float64())])
        kind = column.type
        tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
        if not any(test(kind) for test in tests):
            raise self.wrong_type(name, "numbers")
        given = as_mask(column.is_valid()) if column.null_count else np.ones(n, np.bool_)
        floats = column if pa.types.is_float64(kind) else column.cast(pa.float64(), safe=False)
        return _arrow.array_of(floats, null=np.nan), given

    def _parsed_numbers(self, name: str) -> tuple[Floats, Mask]:
        column = self.column(name)
        given = as_mask(column.is_valid())
        try:
            return _arrow.array_of(column.cast(pa.float64()), null=np.nan), given
        except pa.ArrowInvalid:
            pass
        values = np.full(len(self), np.nan)
        for row, text in enumerate(column.to_pylist()):
            if text is not None:
                try:
                    values[row] = float(text.replace("_", "?"))  # 1_000 is a number to Python alone
                except ValueError:
                    self.faults.add(row, name, f"{name} is {shorten(text)}; expected a number")
        return values, given

    # --- times ---

    def times(self, name: str) -> Times:
        """Return microseconds since 1970 in UTC, NO_TIME where none is given.

        Finer times are cut, naive ones are UTC, dates are midnight in UTC.
        """
        if not self.has(name):
            return np.full(len(self), NO_TIME, np.int64)
        column = self.column(name)
        if pa.types.is_date(column.type):
            column = column.cast(pa.timestamp("s" if pa.types.is_date32(column.type) else "ms"))
        if pa.types.is_timestamp(column.type):
            return self._timestamps(name, column)
        if is_text(column.type) or pa.types.is_null(column.type):
            return self._parsed_times(name, self.texts(name))
        raise self.wrong_type(name, "timestamps, dates or RFC 3339 text")

    def _timestamps(self, name: str, column: pa.ChunkedArray) -> Times:
        per_second = _PER_SECOND[column.type.unit]
        given = as_mask(column.is_valid())
        counts = _arrow.array_of(column.cast(pa.int64()), null=0)
        low, high = (limit * per_second // 10**6 for limit in (FIRST_TIME, LAST_TIME))
        far = given & ((counts < max(low, -(2**63))) | (counts > min(high, 2**63 - 1)))
        self.faults.add_where(
            far, name, lambda row: f"{name} is {counts[row]} {column.type.unit} after 1970; expected years 1 to 9999"
        )
        counts = np.where(far, 0, counts)
        times = counts // (per_second // 10**6) if per_second > 10**6 else counts * (10**6 // per_second)
        return np.where(given, times, NO_TIME)

    def _parsed_times(self, name: str, column: pa.ChunkedArray) -> Times:
        given = as_mask(column.is_valid())
        looks_right = as_mask(pc.match_substring_regex(column, _RFC_3339))
        if (looks_right | ~given).all():
            try:
                times: Times = _arrow.array_of(column.cast(_UTC).cast(pa.int64()), null=NO_TIME)
                if (~given | ((times >= FIRST_TIME) & (times <= LAST_TIME))).all():
                    return times
            except pa.ArrowInvalid:
                pass
        return self._times_one_by_one(name, column, looks_right)

    def _times_one_by_one(self, name: str, column: pa.ChunkedArray, looks_right: Mask) -> Times:
        times = np.full(len(self), NO_TIME, np.int64)
        for row, text in enumerate(column.to_pylist()):
            if text is None:
                continue
            if not looks_right[row]:
                self.faults.add(row, name, f"{name} is {shorten(text)}; {_TIME_FORMS}")
                continue
            try:
                times[row] = microseconds(text)
            except (ValueError, OverflowError) as error:
                self.faults.add(row, name, f"{name} is {shorten(text)}: {error}; expected a time that exists")
        return times

    # --- lists of words ---

    def lists(self, name: str) -> tuple[Times, pa.ChunkedArray]:
        """Return the start of each row's list of words and all words in order; null lists are empty."""
        n = len(self)
        if not self.has(name):
            return np.zeros(n + 1, np.int64), pa.chunked_array([_arrow.strings([])])
        column = self.column(name)
        if self.cells(name):
            column = pa.chunked_array([self._parsed_lists(name, column)])
        if pa.types.is_null(column.type):
            column = column.cast(pa.list_(pa.string()))
        if not is_list(column.type):
            raise self.wrong_type(name, "lists of text")
        words = plain(pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type))
        if not (is_text(words.type) or pa.types.is_null(words.type)):
            raise self.wrong_type(name, "lists of text")
        start = np.zeros(n + 1, np.int64)
        np.cumsum(_arrow.array_of(pc.list_value_length(column), null=0), out=start[1:])
        if words.null_count:
            self._refuse_nulls(name, start, words)
        return start, words

    def _refuse_nulls(self, name: str, start: Times, words: pa.ChunkedArray) -> None:
        rows = np.searchsorted(start, np.flatnonzero(as_mask(words.is_null())), side="right") - 1
        bad = np.zeros(len(self), np.bool_)
        bad[rows] = True
        self.faults.add_where(bad, name, f"{name} holds null; expected only text")

    def _parsed_lists(self, name: str, column: pa.ChunkedArray) -> pa.Array:
        values: list[list[str] | None] = []
        for row, text in enumerate(column.to_pylist()):
            words = None
            if text is not None:
                words = json_or_none(text)
                if not isinstance(words, list) or not all(map(_is_whole_text, words)):
                    expected = 'a JSON list of text like ["hot", "dog"]'
                    self.faults.add(row, name, f"{name} is {shorten(text)}; expected {expected}")
                    words = None
            values.append(words)
        return pa.array(values, pa.list_(pa.string()))


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the column without dictionary, run-end, view or extension type around its values."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain(pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type))
    if pa.types.is_run_end_encoded(kind):
        return _rebuilt(column, kind.value_type, _runs)
    if pa.types.is_dictionary(kind):
        return _rebuilt(column, kind.value_type, lambda chunk: (chunk.dictionary, chunk.indices))
    # Many of Arrow's functions take no views.
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if pa.types.is_binary_view(kind) else column


def _rebuilt(
    column: pa.ChunkedArray, kind: pa.DataType, parts: Callable[[pa.Array], tuple[pa.Array, pa.Array]]
) -> pa.ChunkedArray:
    """Decode a column stored as values and the position of each row among them; Arrow does not decode all types."""
    chunks = []
    for chunk in column.chunks:
        values, places = parts(chunk)
        chunks.append(joined(plain(pa.chunked_array([values]))).take(places))
    return pa.chunked_array(chunks) if chunks else plain(pa.chunked_array([], kind))


def _runs(chunk: pa.Array) -> tuple[pa.Array, pa.Array]:
    rows = np.arange(chunk.offset, chunk.offset + len(chunk))
    return chunk.values, _arrow.numbers(np.searchsorted(_arrow.array_of(chunk.run_ends), rows, side="right"))


def _taken(column: pa.ChunkedArray, which: Rows) -> pa.ChunkedArray:
    """Return these rows of a plain column; Arrow itself takes no rows of views of strings."""
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    elif is_list(column.type) and pa.types.is_string_view(column.type.value_type):
        column = column.cast(pa.large_list(pa.large_string()))
    try:
        return column.take(_arrow.numbers(which))
    except pa.ArrowNotImplementedError:
        return pa.chunked_array([pa.array([column[row].as_py() for row in which.tolist()])])


def joined(column: pa.ChunkedArray) -> pa.Array:
    """Return the chunks as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def as_mask(column: Any) -> Mask:
    """Return a boolean column as a mask, null being False."""
    return _arrow.array_of(column)


def is_text(kind: pa.DataType) -> bool:
    """Tell whether it is one of the string types."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_list(kind: pa.DataType) -> bool:
    """Tell whether it is one of the list types."""
    tests = (
        *(pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
        *(pa.types.is_list_view, pa.types.is_large_list_view),
    )
    return any(test(kind) for test in tests)


def is_number(value: Any) -> bool:
    """Tell whether a value read from JSON is a number that a float can hold."""
    return isinstance(value, float) or (type(value) is int and abs(value) < 1 << 1023)


def is_id(value: Any) -> bool:
    """Tell whether a value read from JSON can be an id."""
    return isinstance(value, str) or (type(value) is int and -(2**63) <= value < 2**63)


def _is_whole_text(value: Any) -> bool:
    return isinstance(value, str) and is_encodable(value)


def json_or_none(text: str) -> Any:
    """Return the value of JSON text, None for what is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def microseconds(text: str) -> int:
    """Return the microseconds since 1970 of RFC 3339 text; digits beyond are cut. Raises ValueError, OverflowError."""
    from datetime import UTC, datetime, timedelta

    at = datetime.fromisoformat(text.upper()).astimezone(UTC)
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def without_nulls(value: Any) -> Any:
    """Return a nested value without the null fields that Arrow adds to make all structs of a column alike."""
    if isinstance(value, Mapping):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value
