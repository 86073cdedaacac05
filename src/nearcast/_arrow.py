"""Arrow columns from our own values and back; `pa.array` and `to_numpy` import pandas where there is one: 0.5 s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray


def numbers(values: NDArray[Any]) -> pa.Array:
    """Return a column of numbers over the same memory."""
    content = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, content])


def strings(values: Sequence[str]) -> pa.Array:
    """Return a column of a few strings."""
    encoded = [value.encode() for value in values]
    offsets = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(each) for each in encoded], out=offsets[1:])
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)))


def one_id(id_: int | str) -> pa.Array:
    """Return a column of one id."""
    if not isinstance(id_, str):
        return numbers(np.array([id_], np.int64))
    content = id_.encode()
    return pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, len(content)], np.int32)), pa.py_buffer(content))


def one_binary(content: bytes) -> pa.Array:
    """Return a column (large_binary) of one byte string."""
    offsets = pa.py_buffer(np.array([0, len(content)]))
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, pa.py_buffer(content)])


def times(microseconds: NDArray[np.int64], is_given: NDArray[np.bool_]) -> pa.Array:
    """Return a column of times in UTC, null where not given."""
    valid = pa.py_buffer(np.packbits(is_given, bitorder="little"))
    content = pa.py_buffer(np.ascontiguousarray(microseconds))
    return pa.Array.from_buffers(pa.timestamp("us", tz="UTC"), len(microseconds), [valid, content])


def dictionary(codes: NDArray[np.int32], values: pa.Array, is_given: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return a dictionary array over the same memory: `values[codes]`, null where not given."""
    valid = None if is_given is None else pa.py_buffer(np.packbits(is_given, bitorder="little"))
    content = pa.py_buffer(np.ascontiguousarray(codes, np.int32))
    indices = pa.Array.from_buffers(pa.int32(), len(codes), [valid, content])
    return pa.DictionaryArray.from_arrays(indices, values, safe=False)


def numbered(keys: NDArray[Any], n: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Number the distinct of some keys, all in 0 ≤ key < n, as they come; return a number for each key, and them."""
    at = np.arange(len(keys), dtype=np.int32)
    first = np.empty(n, np.int32)
    first[keys[::-1]] = at[::-1]  # of equal keys the last that is written counts
    first = first[keys]
    is_first = first == at
    return (np.cumsum(is_first, dtype=np.int32) - np.int32(1))[first], keys[is_first]


#: So many rows of a column tell whether its values repeat.
_SAMPLE = 1 << 14


def repeats(column: pa.Array) -> bool:
    """Tell whether a dictionary makes a column shorter: its first rows have at most 3/4 as many values, null being one.

    Of a dictionary array in which no value stands twice, the codes are looked at.
    """
    sample = column.slice(0, _SAMPLE)
    sample = sample.indices if pa.types.is_dictionary(column.type) else sample
    return bool(4 * pc.count_distinct(sample, mode="all").as_py() <= 3 * len(sample))


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of a column of this type, also where it is a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def plain(column: Any) -> Any:
    """Return a column, or a table of columns, with values in place of codes of a dictionary."""
    if isinstance(column, pa.Table):
        types = [field.with_type(value_type(field.type)) for field in column.schema]
        return column.cast(pa.schema(types)) if types != list(column.schema) else column
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table as values; one that Python cannot hold, such as a time in the year 20,000, as text."""
    try:
        found: list[dict[str, Any]] = table.to_pylist()
    except Exception:  # noqa: BLE001  whatever the type of a column raises: one value must not take the others along
        columns = [_readable(column) for column in table.itercolumns()]
        return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
    return found


def _readable(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column, as text where they cannot be had otherwise."""
    try:
        found: list[Any] = column.to_pylist()
    except Exception:  # noqa: BLE001  as above
        if len(column) > 1:
            return [value for at in range(len(column)) for value in _readable(column.slice(at, 1))]
        return [_text_of(column)]
    return found


def _text_of(column: pa.ChunkedArray) -> str:
    try:
        return str(column.cast(pa.string())[0].as_py())
    except pa.ArrowException:  # a nested value, or one in a time zone that nobody knows
        return " ".join(column.combine_chunks().to_string().split())


def array_of(column: pa.Array | pa.ChunkedArray, null: float = 0) -> NDArray[Any]:
    """Return a column of numbers or booleans as an array of our own, with `null` where nothing is given."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return np.concatenate(
        [np.empty(0, column.type.to_pandas_dtype()), *(_chunk_values(chunk, null) for chunk in chunks)]
    )


def _chunk_values(chunk: pa.Array, null: float) -> NDArray[Any]:
    kind, first, last = chunk.type.to_pandas_dtype(), chunk.offset, chunk.offset + len(chunk)
    valid, content = chunk.buffers()
    if content is None or not len(chunk):
        return np.full(len(chunk), null, kind)
    if pa.types.is_boolean(chunk.type):
        values = _bits(content, first, last)
    else:
        values = np.frombuffer(content, kind)[first:last]
    return np.where(_bits(valid, first, last), values, kind(null)) if chunk.null_count else values


def _bits(content: pa.Buffer, first: int, last: int) -> NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(content, np.uint8), count=last, bitorder="little")[first:].astype(np.bool_)
