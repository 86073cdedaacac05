"""Names of deliveries, made from their key: step, arrival, change and subscription, of one row or of whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow

#: The columns that are the key of a delivery, as `delivery_id` takes them, and the name of the one made from them.
DELIVERY_KEY = ("step", "arrival", "change", "subscription_id")
DELIVERY_ID = "delivery_id"


def delivery_id(step: Any, arrival: Any, change: Any, subscription_id: Any) -> Any:
    """Return the name of a delivery from its key: `step:arrival:change` and the id, text behind one more colon.

    Columns of Arrow give a column of names, a row for each delivery. 1 and "1" are two subscriptions and have two
    names. No other delivery of the same run has the name, and every run over the same input gives it.

    >>> delivery_id(12, 7, "-", "anna"), delivery_id(12, 12, "+", 5)
    ('12:7:-:anna', '12:12:+5')
    """
    if not isinstance(subscription_id, pa.Array | pa.ChunkedArray):
        return f"{step}:{arrival}:{change}{':' if isinstance(subscription_id, str) else ''}{subscription_id}"
    change, subscription_id = _arrow.plain(change), _arrow.plain(subscription_id)
    named = pc.binary_join_element_wise(change, _marked(subscription_id), "")
    return pc.binary_join_element_wise(step.cast(pa.string()), arrival.cast(pa.string()), named, ":")


def with_delivery_ids(table: pa.Table) -> pa.Table:
    """Return deliveries with their names behind `arrival`; a table that has them, or lacks the key, as it is."""
    if DELIVERY_ID in table.column_names or not set(DELIVERY_KEY) <= set(table.column_names):
        return table
    place = table.schema.get_field_index("arrival") + 1
    return table.add_column(place, DELIVERY_ID, delivery_id(*(table.column(name) for name in DELIVERY_KEY)))


def _marked(ids: Any) -> Any:
    """Return ids as text, those that are text behind a colon."""
    if isinstance(ids, pa.ChunkedArray):
        return pa.chunked_array([_marked(chunk) for chunk in ids.chunks], pa.string())
    if pa.types.is_integer(ids.type):
        return ids.cast(pa.string())
    if not pa.types.is_union(ids.type):
        return pc.binary_join_element_wise(":", ids.cast(pa.string()), "")
    integers, texts = _marked(ids.field(0)), _marked(ids.field(1))
    here = slice(ids.offset, ids.offset + len(ids))  # `type_codes` and `offsets` do not know of a slice
    codes, places = (np.frombuffer(each, np.int8) for each in ids.buffers()[1:3])
    place = places.view(np.int32)[here] + np.where(codes[here] == 0, 0, len(integers))
    return pa.concat_arrays([integers, texts]).take(_arrow.numbers(place))
