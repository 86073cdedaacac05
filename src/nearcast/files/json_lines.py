"""Reading JSON lines and GeoJSON.

A block of lines is read by Arrow if all of it has the types that are wanted, else line by line: then a bad line or a
bad value is the fault of its row, and a column whose values have no type in common becomes JSON text. Arrow ends the
process at a line `null` and at deep nesting, so it is given only lines that are objects of limited depth.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.errors import InvalidColumns, InvalidInput, InvalidMessage
from nearcast.files.file_errors import ARROW_CONTENT_ERRORS
from nearcast.geo.shapes import shorten
from nearcast.model.dicts import TWO_IDS, has_two_ids
from nearcast.model.places import place_of_feature
from nearcast.nesting import MAX_DEPTH, has_half_character, is_deep, is_deep_json
from nearcast.tables.cells import is_id, is_list, is_number, is_text
from nearcast.tables.names import (
    CELLS,
    GEOMETRY_COLUMN,
    JSON_CELLS,
    NUMBER_NAMES,
    ROW_COLUMN,
    TEXT_NAMES,
    TIME_NAMES,
)
from nearcast.tables.rejected_rows import Rejected

_RECORD_SEPARATOR = b"\x1e"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
#: A whole number that a float may not hold, and what such a number is at least.
_LONG_INTEGER = re.compile(rb"[:,\[]\s*-?[0-9]{16,}\s*[,}\]]")
_LONG = 1e15
_INFINITE = re.compile(rb"[:,\[]\s*-?Inf\s*[,}\]]")
#: The names of times, as they stand before their values.
_TIME_KEYS = {name: re.compile(rf'"{name}"\s*:'.encode()) for name in TIME_NAMES}
#: Texts of so many bytes together are not joined: Arrow's offsets end at 2 GiB.
_JOINED_BYTES = 1 << 30
#: How the last line of an object ends.
_OBJECT_ENDS = (b"}\n", b"}\r\n", b"}")
_TOO_DEEP = f"nested more than {MAX_DEPTH} deep; expected flat columns, or geometries"
_HALF_CHARACTER = "a \\u escape names half a character; correct it"
#: What JSON calls a value that Python shows otherwise.
_JSON_NAMES = {"None": "null", "True": "true", "False": "false"}
_GEOJSON_COLUMNS = ("lon", "lat", GEOMETRY_COLUMN)


class Record(NamedTuple):
    """One JSON text of a file and the line it begins on, counted from 1."""

    line: int
    text: bytes


def line_batches(
    file: IO[bytes],
    source: str,
    batch_rows: int,
    rejected: Rejected | None,
    *,
    only_features: bool,
    id_type: type | None = None,
) -> Iterator[pa.Table]:
    """Yield the records of a file of JSON lines, or of a sequence with record separators.

    Ids are of `id_type` where it is given, else of the type of the first.
    """
    reader = _Reader(source, rejected, only_features=only_features)
    reader.id_type = id_type
    records = _records(file)
    for block in iter(lambda: list(itertools.islice(records, batch_rows)), []):
        yield reader.table(block)


def object_batches(
    texts: pa.ChunkedArray, source: str, batch_rows: int, *, id_type: type | None = None
) -> list[pa.Table] | None:
    """Return the tables of a binary column of JSON texts; None if some must be looked at one by one.

    They are those that `line_batches` makes of the same texts, a line each.
    """
    reader = _Reader(source, None, only_features=False)
    reader.id_type = id_type
    tables = []
    for first in range(0, len(texts), batch_rows):
        block = texts.slice(first, batch_rows)
        content = _joined_objects(block)
        table = None if content is None else reader.table_at_once(content, len(block))
        if table is None:
            return None
        tables.append(table)
    return tables


def collection_batches(
    file: IO[bytes], path: Path, source: str, batch_rows: int, rejected: Rejected | None
) -> Iterator[pa.Table]:
    """Yield the Features of a GeoJSON FeatureCollection; a Feature alone is a collection of one."""
    text = file.read()
    try:
        content = json.loads(text.decode(json.detect_encoding(text)))
    except (ValueError, RecursionError) as error:
        raise InvalidColumns(f"{path} is not GeoJSON: {error}") from None
    kind = content.get("type") if isinstance(content, dict) else None
    features = content.get("features") if kind == "FeatureCollection" else [content] if kind == "Feature" else None
    if not isinstance(features, list):
        raise InvalidColumns(f"{path} is no GeoJSON FeatureCollection; for one Feature a line use .geojsonl")
    check = _feature_check(text)
    reader = _Reader(source, rejected, only_features=True)
    for first in range(0, max(len(features), 1), batch_rows):
        yield reader.values_table([(None, check(feature)) for feature in features[first : first + batch_rows]])


def _feature_check(text: bytes) -> Callable[[Any], Any]:
    """Return a function that returns a value of the text, or the reason why it cannot be used."""
    may_be_deep, has_escapes = is_deep_json(text), b"\\u" in text

    def check(value: Any) -> Any:
        if may_be_deep and is_deep(value):
            return InvalidColumns(_TOO_DEEP)
        return InvalidColumns(_HALF_CHARACTER) if has_escapes and has_half_character(value) else value

    return check


def _records(file: IO[bytes]) -> Iterator[Record]:
    """Yield what stands between line ends or, if the first line begins with a record separator, between those."""
    head = next(file, b"").removeprefix(_BYTE_ORDER_MARK)
    lines = enumerate(itertools.chain([head] if head else [], file), 1)
    if not head.startswith(_RECORD_SEPARATOR):
        yield from (Record(number, line) for number, line in lines if not line.isspace())
        return
    begin, parts = 1, list[bytes]()
    for number, line in lines:
        before, *rest = line.split(_RECORD_SEPARATOR)
        parts.append(before)
        for piece in rest:
            yield from _record(begin, parts)
            begin, parts = number, [piece]
    yield from _record(begin, parts)


def _record(line: int, parts: list[bytes]) -> Iterator[Record]:
    text = b"".join(parts)
    if text.strip():
        yield Record(line, text)


class _Reader:
    """Turns records into tables; all tables of a file have ids of one type and the columns of those before."""

    def __init__(self, source: str, rejected: Rejected | None, *, only_features: bool):
        self._source, self._rejected, self._only_features = source, rejected, only_features
        self._next_row = 0
        self.id_type: type | None = None
        self._columns: dict[str, None] = dict.fromkeys(_GEOJSON_COLUMNS) if only_features else {}

    def table(self, records: list[Record]) -> pa.Table:
        """Return the table of some records; those that cannot be read are rejected."""
        content = b"" if self._only_features else b"".join(record.text for record in records)
        if content and _are_for_arrow(records, content):
            found = self.table_at_once(content, len(records))
            if found is not None:
                return found
        return self.values_table([(record.line, _parsed(record.text)) for record in records])

    def table_at_once(self, content: bytes, n: int) -> pa.Table | None:
        """Return the table Arrow makes of n objects of limited depth; None if it cannot, or has other types."""
        found = _read_at_once(content, n)
        if found is None or not self._is_usable(found.schema):
            return None
        numbers = np.arange(self._next_row, self._next_row + n)
        self._next_row += n
        return self._finished(found, numbers)

    def values_table(self, values: list[tuple[int | None, Any]]) -> pa.Table:
        """Return the table of some JSON values; an error in place of a value is the reason to reject its row."""
        rows: list[dict[str, Any]] = []
        numbers: list[int] = []
        for number, (line, value) in enumerate(values, self._next_row):
            try:
                rows.append(self._row(value))
                numbers.append(number)
            except InvalidInput as error:
                self._reject(number, line, value, error)
        self._next_row += len(values)
        names = dict.fromkeys(itertools.chain.from_iterable(rows))
        arrays = [_array(name, [row.get(name) for row in rows], self.id_type) for name in names]
        fields = [
            pa.field(name, array.type, metadata={CELLS: JSON_CELLS} if is_mixed else None)
            for name, (array, is_mixed) in zip(names, arrays, strict=True)
        ]
        found = pa.table([array for array, _ in arrays], pa.schema(fields)) if fields else pa.table({})
        return self._finished(found, np.array(numbers, np.int64))

    def _row(self, value: Any) -> dict[str, Any]:
        if isinstance(value, InvalidInput):
            raise value
        if not isinstance(value, dict):
            shown = _JSON_NAMES.get(shorten(value), shorten(value))
            raise InvalidColumns(f"{shown} is no JSON object; expected one a row")
        if value.get("type") == "Feature" and ("geometry" in value or "bbox" in value):
            row = _flattened(value)
            if self._rejected is not None and has_two_ids(value):
                self._rejected.warn(f"{self._source}: {TWO_IDS}")
        elif self._only_features:
            raise InvalidColumns(f"{shorten(value)} is no GeoJSON Feature; expected one a row", field="type")
        else:
            row = value
        if row.get("id") is not None:
            self._check_id(row["id"])
        return row

    def _check_id(self, given: Any) -> None:
        if not is_id(given):
            raise InvalidColumns(f"id is {shorten(given)}; expected text or an integer of 64 bits", field="id")
        if self.id_type is None:
            self.id_type = type(given)
        elif type(given) is not self.id_type:
            expected = "text" if self.id_type is str else "an integer"
            raise InvalidColumns(f"id is {shorten(given)}; expected {expected}, like the first id", field="id")

    def _reject(self, number: int, line: int | None, value: Any, error: InvalidInput) -> None:
        reason = str(error) if line is None else f"line {line}: {error}"
        if self._rejected is None:
            raise InvalidColumns(f"{self._source}: {reason}", field=error.field)
        given = value.get("id") if isinstance(value, dict) else None
        self._rejected.add(self._source, number, given if isinstance(given, str | int) else None, error.field, reason)

    def _is_usable(self, schema: pa.Schema) -> bool:
        """Tell whether the types Arrow found are those that are wanted."""
        if "type" in schema.names and ("geometry" in schema.names or "bbox" in schema.names):
            return False
        if not all(_is_wanted(field.name, field.type) for field in schema):
            return False
        if "id" in schema.names and not pa.types.is_null(schema.field("id").type):
            id_type = int if pa.types.is_int64(schema.field("id").type) else str
            self.id_type = self.id_type or id_type
            return self.id_type is id_type
        return True

    def _finished(self, table: pa.Table, numbers: np.ndarray) -> pa.Table:
        self._columns.update(dict.fromkeys(table.column_names))
        missing = [name for name in self._columns if name not in table.column_names]
        columns = [*table.columns, *(pa.nulls(len(numbers)) for _ in missing), pa.array(numbers, pa.int64())]
        fields = [*table.schema, *(pa.field(name, pa.null()) for name in missing), pa.field(ROW_COLUMN, pa.int64())]
        return pa.table(columns, pa.schema(fields))


# --- many lines at once -----------------------------------------------------------------------------------------


def _read_at_once(content: bytes, n: int) -> pa.Table | None:
    """Return the table Arrow makes of n objects, None if it cannot or would change a value."""
    try:
        content.decode()
        table = _table_with_text_times(content)
        if _has_long_floats(table) and (_LONG_INTEGER.search(content) or _INFINITE.search(content)):
            return (
                None  # Arrow rounds an integer that stands among floats, and takes Inf, which is no JSON, for a number
            )
    except (*ARROW_CONTENT_ERRORS, UnicodeDecodeError, OverflowError, RecursionError):
        return None
    # Two records on a line, or one on two, are for the slow way to reject.
    return table if table.num_rows == n else None


def _table_with_text_times(content: bytes) -> pa.Table:
    """Return the table Arrow makes of a content, in which text that looks like a date is as it is written."""
    first = content.partition(b"\n")[0]
    texts = {name: pa.string() for name, key in _TIME_KEYS.items() if key.search(first)}
    table = _arrow_table(content, texts)
    if any(table[name].null_count == table.num_rows for name in texts):
        texts = {}  # the name may stand elsewhere, and this be no column at all
        table = _arrow_table(content, texts)
    dated = {field.name: _undated(field.type) for field in table.schema if _holds(pa.types.is_temporal, field.type)}
    return _arrow_table(content, texts | dated) if dated else table


def _has_long_floats(table: pa.Table) -> bool:
    """Tell whether a float is as large as an integer of many digits, or is nested, where it is not looked at."""
    for field in table.schema:
        if pa.types.is_floating(field.type):
            least, most = pc.min_max(table[field.name]).values()
            if least.is_valid and not -_LONG < least.as_py() <= most.as_py() < _LONG:
                return True
        elif _holds(pa.types.is_floating, field.type):
            return True
    return False


def _are_for_arrow(records: list[Record], content: bytes) -> bool:
    """Tell whether all records begin and end as an object does and none is nested deeply.

    A line with both braces cannot lend a part of itself to the next one, so as many rows as lines are one row a line.
    """
    if _are_objects(content, len(records)):
        return True  # the common case, without a look at each line
    return all(_is_object(record.text) and not is_deep_json(record.text) for record in records)


def _are_objects(content: bytes, n: int) -> bool:
    """Tell whether a content is n lines, each of which begins and ends as an object does, and none nested deeply.

    False may also be the answer where there are spaces around objects, or many of them in one.
    """
    if not content.startswith(b"{") or not content.endswith((b"}", b"}\n")):
        return False
    n_between = content.count(b"\n") - content.endswith(b"\n")
    return n_between == content.count(b"}\n{") == n - 1 and _most_brackets(content) <= MAX_DEPTH


def _most_brackets(lines: bytes) -> int:
    """Return how many brackets open on one line at most; nothing on it is nested deeper than that."""
    content = np.frombuffer(lines, np.uint8)
    opening = np.flatnonzero((content == ord("[")) | (content == ord("{")))
    ends = np.append(np.flatnonzero(content == ord("\n")), len(content))
    return int(np.diff(np.searchsorted(opening, ends), prepend=0).max())


def _joined_objects(texts: pa.ChunkedArray) -> bytes | None:
    """Return objects of limited depth, a line each; None if some text may be anything else."""
    if texts.null_count or texts.nbytes > _JOINED_BYTES:
        return None
    lists = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts.combine_chunks())
    content: bytes = pc.binary_join(lists, pa.scalar(b"\n", texts.type))[0].as_py()
    return content if _are_objects(content, len(texts)) else None


def _is_object(text: bytes) -> bool:
    if text.startswith(b"{") and text.endswith(_OBJECT_ENDS):
        return True
    text = text.strip()
    return text.startswith(b"{") and text.endswith(b"}")


def _arrow_table(content: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
    from pyarrow import json as arrow_json

    return arrow_json.read_json(
        pa.BufferReader(content),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(content) + 1),
        parse_options=arrow_json.ParseOptions(explicit_schema=pa.schema(types) if types else None),
    )


def _holds(test: Callable[[pa.DataType], bool], kind: pa.DataType) -> bool:
    """Tell whether a type, or one nested in it, passes the test."""
    return test(kind) or any(_holds(test, kind.field(at).type) for at in range(kind.num_fields))


def _undated(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_temporal(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_undated(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(kind.field(at).name, _undated(kind.field(at).type)) for at in range(kind.num_fields)])
    return kind


def _is_wanted(name: str, kind: pa.DataType) -> bool:
    if pa.types.is_null(kind):
        return True
    if name in NUMBER_NAMES:
        return bool(pa.types.is_int64(kind) or pa.types.is_float64(kind))
    if name == "id":
        return bool(pa.types.is_int64(kind)) or is_text(kind)
    if name in TEXT_NAMES:
        return is_text(kind)
    if name == "terms":
        return is_list(kind) and (is_text(kind.value_type) or bool(pa.types.is_null(kind.value_type)))
    # Nested values: Arrow would give each the fields of all others.
    return name not in ("query", "region") or is_text(kind)


# --- one value at a time ----------------------------------------------------------------------------------------


def _parsed(text: bytes) -> Any:
    """Return the value of one JSON text, or the reason why it has none."""
    if is_deep_json(text):
        return InvalidColumns(_TOO_DEEP)
    try:
        value = json.loads(text.decode())
    except UnicodeDecodeError:
        return InvalidColumns("the bytes are not UTF-8; expected a JSON object in UTF-8")
    except json.JSONDecodeError as error:
        return InvalidColumns(f"column {error.colno}: not JSON: {error.msg}; expected one whole object {{...}}")
    except (ValueError, RecursionError) as error:
        return InvalidColumns(f"not JSON that can be read: {error}")
    return InvalidColumns(_HALF_CHARACTER) if b"\\u" in text and has_half_character(value) else value


def _flattened(feature: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a GeoJSON Feature: its properties, its id, and `lon` and `lat` of a Point."""
    properties = feature.get("properties")
    if not isinstance(properties, dict | None):
        raise InvalidColumns(f"properties is {shorten(properties)}; expected an object", field="properties")
    row = {**(properties or {})}
    if feature.get("id") is not None and row.get("id") is None:
        row["id"] = feature["id"]
    geometry = feature.get("geometry")
    if isinstance(geometry, dict) and geometry.get("type") == "Point":
        row["lon"], row["lat"] = place_of_feature(feature, InvalidMessage)
    elif geometry is not None:
        row[GEOMETRY_COLUMN] = json.dumps(geometry)
    elif feature.get("bbox") is not None:
        row[GEOMETRY_COLUMN] = json.dumps(place_of_feature(feature, InvalidMessage))
    return row


def _array(name: str, values: list[Any], id_type: type | None) -> tuple[pa.Array, bool]:
    """Return the column of some values and whether it had to become JSON text, for values of several types."""
    given = [value for value in values if value is not None]
    if name == "id":
        return pa.array(values, pa.int64() if id_type is int else pa.string()), False
    if name == "region":
        return pa.array([_region_text(value) for value in values], pa.string()), False
    if name in NUMBER_NAMES:
        kind = pa.int64() if all(isinstance(value, int) for value in given) else pa.float64()
        return _typed(values, kind, all(map(is_number, given)))
    if name in TEXT_NAMES:
        return _typed(values, pa.string(), _all_text(given))
    if name == "terms":
        return _typed(values, pa.list_(pa.string()), all(isinstance(each, list) and _all_text(each) for each in given))
    if name == "query":
        return _typed(values, pa.string(), _all_text(given))
    return _typed(values, None, True)


def _typed(values: list[Any], kind: pa.DataType | None, fits: bool) -> tuple[pa.Array, bool]:
    if fits:
        try:
            return pa.array(values, kind), False
        except (*ARROW_CONTENT_ERRORS, OverflowError):
            pass
    return pa.array([None if value is None else json.dumps(value) for value in values], pa.string()), True


def _all_text(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _region_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
