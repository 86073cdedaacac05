"""Places of subscribers as a table of moves in one pass: the way of large batches, which are plain nearly always.

What is anything else (a subscription by its id, a region, a value of another type) is left to the rows of `locations`,
item by item. Both lead to the same moves; ranges of numbers are checked when the table is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from nearcast.errors import InvalidInput
from nearcast.model import checked_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.durable import DurableHub

#: Characters of a name that is surely one of a subscriber.
_LONGEST_NAME = 500
_TIME = pa.timestamp("us", "UTC")


class SubscriberPoint(msgspec.Struct, forbid_unknown_fields=True):
    """Where a subscriber is, on the earth."""

    subscriber: str
    lon: float
    lat: float
    time: str | None = None


@dataclass(frozen=True)
class SubscriberMoves:
    """Moves of all subscriptions of some subscribers: a table with a row for each, and the item that each row is of."""

    table: pa.Table
    items: NDArray[np.int64]
    n_items: int


_points = msgspec.json.Decoder(list[SubscriberPoint])
_lines = msgspec.json.Decoder(SubscriberPoint)


def plain_points(body: bytes, *, is_lines: bool) -> list[SubscriberPoint] | None:
    """Return the items of a body, None if they are not all points of subscribers."""
    try:
        found = _lines.decode_lines(body) if is_lines else _points.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    are_names = all(0 < len(each.subscriber) <= _LONGEST_NAME and "\0" not in each.subscriber for each in found)
    return found if are_names else None


def moves_of_points(points: list[SubscriberPoint], hub: DurableHub) -> SubscriberMoves | None:
    """Return the moves of points, None if one has a time that cannot be read."""
    ids, counts = hub.subscriptions_of_many([each.subscriber for each in points])
    items = np.repeat(np.arange(len(points)), counts)
    columns: dict[str, Any] = {"id": ids}
    for name in ("lon", "lat"):
        columns[name] = np.array([getattr(each, name) for each in points], np.float64)[items]
    if any(each.time is not None for each in points):
        try:
            times = [checked_time(each.time, "time") for each in points]
        except InvalidInput:
            return None
        columns["time"] = pa.array(times, _TIME).take(pa.array(items))
    return SubscriberMoves(pa.table(columns), items, len(points))
