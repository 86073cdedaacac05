"""Zero bytes (U+0000) in the columns of a table: C ends a text at one, so programs that read on would see another.

In JSON `json_faults` finds them, HTTP itself forbids them in headers, and `parameters` refuses them in a query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast._arrow import rows_of


def zero_byte_rows(table: pa.Table) -> dict[int, str]:
    """Return the rows of a table in whose texts, nested or not, zero bytes are, each with the first such column."""
    found: dict[int, str] = {}
    for name in table.column_names:
        column = table[name]
        if not any(map(_has_zero_byte, column.chunks)):
            continue
        for row in _rows_of(column):
            found.setdefault(row, name)
    return found


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a column of this type holds texts, each by itself."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _has_zero_byte(array: pa.Array) -> bool:
    """Tell whether a zero byte is in any text of an array, looked at without a Python object for each."""
    kind = array.type
    if is_text(kind):
        return bool(pc.any(pc.match_substring(array, "\0")).as_py())
    if isinstance(kind, pa.BaseExtensionType):
        return _has_zero_byte(array.storage)
    if pa.types.is_dictionary(kind):
        return _has_zero_byte(array.dictionary)
    if pa.types.is_map(kind):
        return _has_zero_byte(array.keys) or _has_zero_byte(array.items)
    if pa.types.is_struct(kind):
        return any(map(_has_zero_byte, array.flatten()))
    if pa.types.is_union(kind):
        return any(_has_zero_byte(array.field(at)) for at in range(kind.num_fields))
    return _has_zero_byte(array.flatten()) if pa.types.is_nested(kind) else False


def _rows_of(column: pa.ChunkedArray) -> list[int]:
    if is_text(column.type):
        is_bad = pc.fill_null(pc.match_substring(column, "\0"), False)
        rows: list[int] = np.flatnonzero(is_bad.to_numpy(zero_copy_only=False)).tolist()
        return rows
    return [row for row, value in enumerate(rows_of(pa.table([column], names=["it"]))) if _is_within(value)]


def _is_within(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any(_is_within(each) for pair in value.items() for each in pair)
    return isinstance(value, list | tuple) and any(map(_is_within, value))
