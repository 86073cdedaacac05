"""How many bytes the values of a column have once views and runs are decoded, counted without decoding them.

A value that many rows share is sent once: a run has a value as often as its end says, rows of views may all be the same
text, and lists that are views may share their values, level by level.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

#: What a value of no fixed width takes beside its bytes.
_OFFSET_BYTES = 8
_OF_BYTES = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def decoded_bytes(column: pa.ChunkedArray, most: int) -> float:
    """Return about how many bytes the values of a column have; infinity where that is surely more than `most`."""
    if pa.types.is_primitive(column.type) or column.type in _OF_BYTES:
        return float(column.nbytes)  # most columns: nothing in them is shared
    return sum(_bytes(chunk, np.ones(len(chunk)), most) for chunk in column.chunks)


def _bytes(array: pa.Array, times: NDArray[np.float64], most: int) -> float:
    """Return the bytes of values each of which is there so many times."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _bytes(array.storage, times, most)
    if pa.types.is_run_end_encoded(kind):
        ends = np.clip(np.asarray(array.run_ends).astype(np.int64) - array.offset, 0, len(array))
        before = np.concatenate(([0.0], np.cumsum(times)))
        return _inner(array.values, np.diff(before[ends], prepend=0.0), most)
    if pa.types.is_dictionary(kind):
        valid = np.asarray(array.indices.is_valid())
        indices = np.asarray(array.indices.drop_null()).astype(np.int64)
        held = np.bincount(indices, times[valid], len(array.dictionary)).astype(np.float64)
        return _inner(array.dictionary, held, most)
    if pa.types.is_union(kind):
        return _of_union(array, times, most)
    times = np.where(np.asarray(array.is_valid()), times, 0.0)
    if pa.types.is_struct(kind):
        return sum(_inner(array.field(at), times, most) for at in range(kind.num_fields))
    if pa.types.is_nested(kind):
        return _of_lists(array, times, most)
    return float(times @ _widths(array)) if len(array) else 0.0


def _inner(array: pa.Array, times: NDArray[np.float64], most: int) -> float:
    """Return the bytes of values inside others; not even their number is held in memory where there are too many."""
    if len(array) > most or times.sum() > most:
        return math.inf
    return _bytes(array, times[: len(array)], most)


def _of_lists(array: pa.Array, times: NDArray[np.float64], most: int) -> float:
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        begins = (np.arange(len(array)) + array.offset) * kind.list_size
        ends = begins + kind.list_size
    elif pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        begins = np.asarray(array.offsets).astype(np.int64)
        ends = begins + np.asarray(array.sizes)
    else:
        offsets = np.asarray(array.offsets).astype(np.int64)
        begins, ends = offsets[:-1], offsets[1:]
    inner = [array.keys, array.items] if pa.types.is_map(kind) else [array.values]
    if len(inner[0]) > most:
        return math.inf
    is_there = times > 0  # the sizes of nulls mean nothing
    changes = np.zeros(len(inner[0]) + 1)
    np.add.at(changes, begins[is_there], times[is_there])
    np.subtract.at(changes, ends[is_there], times[is_there])
    held = np.cumsum(changes)[:-1]
    return _OFFSET_BYTES * float(times.sum()) + sum(_inner(each, held, most) for each in inner)


def _of_union(array: pa.Array, times: NDArray[np.float64], most: int) -> float:
    part, found = slice(array.offset, array.offset + len(array)), 0.0
    buffers = array.buffers()  # the properties of a slice are those of its array
    codes = np.frombuffer(buffers[1], np.int8)[part]
    for at, code in enumerate(array.type.type_codes):
        inner, own = array.field(at), np.where(codes == code, times, 0.0)
        if array.type.mode == "dense":
            own = np.bincount(
                np.frombuffer(buffers[2], np.int32)[part][codes == code], times[codes == code], len(inner)
            )
        found += _inner(inner, own, most)
    return found


def _widths(array: pa.Array) -> NDArray[np.float64]:
    """Return the bytes of each value."""
    kind = array.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = np.frombuffer(array.buffers()[1], np.int32).reshape(-1, 4)  # each begins with its length
        return views[array.offset : array.offset + len(array), 0].astype(float) + _OFFSET_BYTES
    if kind in _OF_BYTES:
        return np.asarray(pc.fill_null(pc.binary_length(array), 0), float) + _OFFSET_BYTES
    return np.full(len(array), 0.0 if pa.types.is_null(kind) else kind.bit_width / 8)
