"""Tables of which Arrow can take rows: columns of views and of runs are decoded, also inside lists and structs.

Arrow reads and writes such columns, but has no kernel that takes or filters their rows.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from nearcast import _arrow
from nearcast.tables.cells import plain


def with_takeable_columns(table: pa.Table) -> pa.Table:
    """Return a table with the same values, in types of which rows can be taken; the table itself where that is so."""
    for at, field in enumerate(table.schema):
        if not _can_be_taken(field.type):
            column = _decoded(table.column(at))
            table = table.set_column(at, field.with_type(column.type), column)
    return table


@lru_cache(maxsize=256)
def _can_be_taken(kind: pa.DataType) -> bool:
    """Tell whether rows of columns of a type can be taken, which Arrow says of a column without any."""
    try:
        pa.nulls(0, kind).take(pa.array([], pa.int64()))
    except pa.ArrowException:
        return False
    return True


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with the same values in another type; as text where there is no such type."""
    found = plain(column)
    wanted = _without_views(found.type)
    try:
        found = found if found.type == wanted else found.cast(wanted)
        if _can_be_taken(found.type):
            return found
    except pa.ArrowException:  # nested in a way that Arrow does not cast
        pass
    values = [row["value"] for row in _arrow.rows_of(pa.table({"value": column}))]
    try:
        return pa.chunked_array([pa.array(values)])
    except (pa.ArrowException, TypeError, ValueError):
        return pa.chunked_array([pa.array([None if each is None else str(each) for each in values], pa.string())])


def _without_views(kind: pa.DataType) -> pa.DataType:
    """Return a type with plain text and bytes in place of views, however deep."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_without_views(kind.key_type), _without_views(kind.item_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_without_views(kind.value_type), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(_without_views(kind.value_type))
    if pa.types.is_large_list(kind) or pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return pa.large_list(_without_views(kind.value_type))
    return kind
