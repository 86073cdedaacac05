"""Places of subscribers as a table of moves in one pass: the way of large batches, which are plain nearly always.

What is anything else (a subscription by its id, a region, a value of another type) is left to the rows of `locations`,
item by item. Both lead to the same moves, and reject the same items for the same reasons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from nearcast.errors import InvalidInput
from nearcast.geo.shapes import check_position
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
    """Moves of all subscriptions of some subscribers: a table with a row for each, and the item that each row is of.

    `faults` has the items that move nothing: their numbers and what is wrong with them.
    """

    table: pa.Table
    items: NDArray[np.int64]
    n_items: int
    faults: list[tuple[int, InvalidInput]]


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
    try:
        times = [checked_time(each.time, "time") for each in points]
    except InvalidInput:
        return None
    lon, lat = (np.array([getattr(each, name) for each in points], np.float64) for name in ("lon", "lat"))
    is_place = (np.abs(lon) <= 180.0) & (np.abs(lat) <= 90.0)
    ids, counts = hub.subscriptions_of_many([each.subscriber for each in points])
    moved = np.repeat(is_place, counts)
    items = np.repeat(np.arange(len(points)), counts)[moved]
    columns: dict[str, Any] = {"id": ids.filter(pa.array(moved)), "lon": lon[items], "lat": lat[items]}
    if any(time is not None for time in times):
        columns["time"] = pa.array(times, _TIME).take(pa.array(items))
    faults = [(int(item), _fault(points[item])) for item in np.flatnonzero(~is_place | (counts == 0))]
    return SubscriberMoves(pa.table(columns), items, len(points), faults)


def _fault(point: SubscriberPoint) -> InvalidInput:
    """Return what is wrong with a point that moves nothing: its place, else its subscriber."""
    try:
        check_position(point.lon, point.lat)
    except InvalidInput as error:
        return error
    return nothing_to_move()


def nothing_to_move() -> InvalidInput:
    """Return the error of a subscriber that is unknown, or has nothing in the index; its name is in the item."""
    return InvalidInput(
        "the subscriber has no subscription that could be moved: none at all, or all are paused; subscribe first",
        field="subscriber",
    )
