"""Where subscriptions are after they moved: a region replaces the old one, a point carries it along.

The width and height of a box that is carried are those of the box that was registered or given last, which `Movers`
keeps. Those of the box that was carried last would drift: each move rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast.columns import NO_TIME, WITHIN, datetime_of
from nearcast.errors import InvalidRegion, InvalidSubscription
from nearcast.geo import ANYWHERE, BOX, CIRCLE, POLYGON, Area, Box, Circle, Regions, Shape, Space, shape_from
from nearcast.geo.shapes import check_position, finite_number, is_number, shorten
from nearcast.tables.requests import is_cut

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.engine.items import Move
    from nearcast.engine.state import State

NOWHERE = "the subscription listens anywhere and has no place to move; give it a region"
POLYGON_STAYS = "a polygon cannot follow a point; move it to another polygon"

#: (row, field, reason) of a move that cannot be made.
Fault = tuple[int, str, str]


class MovePlaces(NamedTuple):
    """Where the rows of a `Move` go: their regions, the boxes' widths and heights (n, 2), and their request texts.

    An extent is NaN where the index's own region tells it. `texts` are those that change, by row.
    """

    regions: Regions
    extents: NDArray[np.float64]
    texts: dict[int, bytes]


class KnownMove(NamedTuple):
    """What a caller of `Move` has looked up already: slots, what the index holds there, and where they go."""

    slots: NDArray[np.int32]
    held: Subscriptions
    placement: MovePlaces


# --- the place of a move ----------------------------------------------------------------------------------------


def point_of(place: Any) -> tuple[float, float] | None:
    """Return a place that is a point as (x, y), None if it is anything else."""
    geometry = getattr(place, "__geo_interface__", place)
    if isinstance(geometry, Mapping):
        geometry = geometry.get("coordinates") if geometry.get("type") == "Point" else None
    if isinstance(geometry, (Sequence, np.ndarray)) and len(geometry) == 2 and all(map(is_number, geometry)):
        return float(geometry[0]), float(geometry[1])
    return None


def place_at(state: State, slot: int, held: Subscriptions, place: Any) -> MovePlaces:
    """Return where one subscription goes that moves to a place as people write it: a region, or a point (x, y).

    `held` is what the index holds at the slot. Raises `InvalidInput` if it cannot go there.
    """
    space, point, extent = state.index.space, point_of(place), np.full((1, 2), np.nan)
    if point is None:
        shape = _given_shape(place, space)
    else:
        _check_point(*point, space)
        shape = _carried_shape(state, slot, held, *point, extent)
    if held.kind[0] != WITHIN and not _is_one_point(shape):
        raise InvalidSubscription(_needs_point(state, slot), field="place")
    shape.check(space)
    text = _text_at(state, slot, shape, space)
    return MovePlaces(Regions.from_shapes([shape], space), extent, {} if text is None else {0: text})


def _given_shape(place: Any, space: Space) -> Shape:
    is_list = isinstance(place, (Sequence, np.ndarray)) and not isinstance(place, (str, bytes))
    if place is None or is_number(place) or (is_list and len(place) != 4):
        raise InvalidRegion(
            f"place is {shorten(place)}; expected a point (x, y), or a region as subscriptions have", field="place"
        )
    return shape_from(place, space)


def _check_point(x: float, y: float, space: Space) -> None:
    names = ("lon", "lat") if space.is_earth else ("x", "y")
    x, y = finite_number(x, names[0]), finite_number(y, names[1])
    if space.is_earth:  # a box around it would be wrapped, and look like a good one
        check_position(x, y)


def _needs_point(state: State, slot: int) -> str:
    name = state.ids.snapshot().value(slot)
    return f"subscription {name!r} is scored by the distance to a point; move it to a point (x, y)"


def _is_one_point(shape: Shape) -> bool:
    return isinstance(shape, Box) and shape.x_min == shape.x_max and shape.y_min == shape.y_max


def _carried_shape(
    state: State, slot: int, held: Subscriptions, x: float, y: float, extent: NDArray[np.float64]
) -> Shape:
    """Return the region of a subscription whose centre goes to (x, y); note its width and height in `extent`."""
    if held.kind[0] != WITHIN:
        return Box(x, y, x, y)
    text = state.texts.get(slot)
    if text is not None and text.keeps_region:
        shape = text.region
    elif held.clause_start[0] == held.clause_start[1]:
        return Box(x, y, x, y)  # its query contradicts itself: an index need not know where nothing matches
    else:
        shape = held.regions.shape_of(0)
    if not isinstance(shape, Box):
        return moved_to(shape, x, y, state.index.space)
    width, height = state.movers.extent(slot) or extent_of(shape)
    extent[0] = width, height
    return _centred_box(width, height, x, y, state.index.space)


def _centred_box(width: float, height: float, x: float, y: float, space: Space) -> Box:
    west, east = x - width / 2, x + width / 2
    if space.is_earth:
        west, east = (-180.0, 180.0) if width >= 360.0 else (_wrapped(west), _wrapped(east))
    south, north = y - height / 2, y + height / 2
    if space.is_earth and max(-south, north) > 90.0:
        raise InvalidRegion(does_not_fit(height, y))
    return Box(west, south, east, north)


def _wrapped(lon: float) -> float:
    return lon - 360.0 if lon > 180.0 else lon + 360.0 if lon < -180.0 else lon


def does_not_fit(height: float, y: float) -> str:
    """Return why a box cannot be carried to a latitude."""
    return f"a box {height:g} degrees high does not fit around latitude {y:g}; give it another box"


def _text_at(state: State, slot: int, shape: Shape, space: Space) -> bytes | None:
    """Return the request text of a subscription that moves to a region, None if it stays as it is.

    It has the region where the index does not hold that as it was given.
    """
    text = state.texts.get(slot)
    if text is not None and (text.keeps_region or is_cut(shape, space)):
        return text._replace(keeps_region=True, region=shape).encoded()
    return None


#: Width and height of a box.
Extent = tuple[float, float]


def moved_row(
    held: Subscriptions, row: int, x: float, y: float, space: Space, extent: Extent | None
) -> tuple[Shape, Extent | None]:
    """Return the region of a stored subscription whose centre goes to (x, y), and the extent to carry further.

    `extent` is that of the box it was registered with or given last, None: of the region that is stored.
    """
    if held.kind[row] != WITHIN or held.clause_start[row] == held.clause_start[row + 1]:
        return Box(x, y, x, y), None
    shape = held.regions.shape_of(row)
    if isinstance(shape, Box):
        extent = extent or extent_of(shape)
        return _centred_box(*extent, x, y, space), extent
    return moved_to(shape, x, y, space), None


def extent_of(box: Box) -> Extent:
    """Return width and height of a box."""
    return box.x_max - box.x_min + (360.0 if box.x_max < box.x_min else 0.0), box.y_max - box.y_min


def moved_to(shape: Shape | None, x: float, y: float, space: Space) -> Shape:
    """Return a region whose centre goes to (x, y), None being anywhere; `InvalidInput` if it cannot go there."""
    if shape is None:
        raise InvalidSubscription(NOWHERE)
    if isinstance(shape, Circle):
        return Circle(x, y, shape.radius)
    if isinstance(shape, Area):
        raise InvalidRegion(POLYGON_STAYS)
    return _centred_box(*extent_of(shape), x, y, space)


# --- many at once -----------------------------------------------------------------------------------------------


def place_rows(
    state: State, slots: NDArray[np.int32], held: Subscriptions, points: NDArray[np.float64], regions: Regions
) -> tuple[MovePlaces, list[Fault]]:
    """Return where many subscriptions go, and the rows that cannot go there, whose place in the result means nothing.

    A row whose point (n, 2) is finite carries its region along, another one gets that of `regions`.
    """
    space = state.index.space
    is_carried = np.isfinite(points[:, 0]) & np.isfinite(points[:, 1])
    kind, values, extents = _carried_columns(state, slots, held, points)
    faults = _carry_faults(held, is_carried, kind, extents, values, space)
    faults += [
        (row, "place", _needs_point(state, int(slots[row])))
        for row in np.flatnonzero((held.kind != WITHIN) & ~is_carried & ~are_points(regions)).tolist()
    ]
    kind[[row for row, _, _ in faults]] = ANYWHERE
    kind[~is_carried] = ANYWHERE
    carried, more = Regions.from_arrays(space, kind, values)
    if is_carried.all():
        placed = carried
    else:
        rows = np.arange(len(slots))
        placed = Regions.concat([carried, regions]).take(np.where(is_carried, rows, rows + len(rows)))
    extents[~is_carried | (kind != BOX)] = np.nan
    bad = [*faults, *more]
    return MovePlaces(placed, extents, _texts(state, slots, placed, {row for row, _, _ in bad})), sorted(bad)


def are_points(regions: Regions) -> NDArray[np.bool_]:
    """Tell which regions are boxes of one point."""
    part = regions.part[regions.part_start[:-1]]
    found: NDArray[np.bool_] = (regions.kind == BOX) & (np.diff(regions.part_start) == 1)
    found &= (part[:, 0] == part[:, 2]) & (part[:, 1] == part[:, 3])
    return found


def _carried_columns(
    state: State, slots: NDArray[np.int32], held: Subscriptions, points: NDArray[np.float64]
) -> tuple[NDArray[np.uint8], NDArray[np.float64], NDArray[np.float64]]:
    """Return kind, numbers (as `Regions.from_arrays` takes them) and width and height of all regions, carried along."""
    base, x, y = held.regions, points[:, 0], points[:, 1]
    kind, values = base.kind.copy(), np.zeros((len(slots), 4))
    extents = _extents(state, slots, held)
    half = extents / 2
    values[:] = np.column_stack([x - half[:, 0], y - half[:, 1], x + half[:, 0], y + half[:, 1]])
    if state.index.space.is_earth:
        _wrap(values, extents[:, 0])
    circles = np.flatnonzero(kind == CIRCLE)
    values[circles, 0], values[circles, 1] = x[circles], y[circles]
    values[circles, 2], values[circles, 3] = base.circle[base.shape[circles], 2], 0.0
    to_point = np.flatnonzero((held.kind != WITHIN) | (np.diff(held.clause_start) == 0))
    kind[to_point] = BOX
    values[to_point] = np.column_stack([x, y, x, y])[to_point]
    extents[to_point] = 0.0
    for row, shape in _kept_regions(state, slots, held).items():
        _carry_kept(state, row, shape, points[row].tolist(), kind, values, extents, int(slots[row]))
    return kind, values, extents


def _extents(state: State, slots: NDArray[np.int32], held: Subscriptions) -> NDArray[np.float64]:
    """Return width and height of boxes as registered or given last; of other regions, anything."""
    movers, base = state.movers.of(slots), held.regions
    first, last = base.part_start[:-1], base.part_start[1:] - 1
    is_box = (base.kind == BOX) & (last >= first)
    extents = np.zeros((len(slots), 2))
    low, high = base.part[first[is_box]], base.part[last[is_box]]
    extents[is_box, 0] = high[:, 2] - low[:, 0] + np.where(high[:, 2] < low[:, 0], 360.0, 0.0)
    extents[is_box, 1] = high[:, 3] - low[:, 1]
    is_known = ~np.isnan(movers["width"])
    extents[is_known, 0], extents[is_known, 1] = movers["width"][is_known], movers["height"][is_known]
    return extents


def _wrap(values: NDArray[np.float64], width: NDArray[np.float64]) -> None:
    """Bring longitudes of boxes back to ±180, in place; a box as wide as the earth has all of them."""
    for side in (0, 2):
        lon = values[:, side]
        values[:, side] = np.where(lon > 180.0, lon - 360.0, np.where(lon < -180.0, lon + 360.0, lon))
    values[width >= 360.0, 0], values[width >= 360.0, 2] = -180.0, 180.0


def _kept_regions(state: State, slots: NDArray[np.int32], held: Subscriptions) -> dict[int, Shape | None]:
    """Return by row the regions that request texts hold: those of contradictions, and polygons over the dateline."""
    rows = np.flatnonzero(state.texts.are_json(slots) & (held.kind == WITHIN))
    texts = {row: state.texts.get(int(slots[row])) for row in rows.tolist()}
    return {row: text.region for row, text in texts.items() if text is not None and text.keeps_region}


def _carry_kept(
    state: State,
    row: int,
    shape: Shape | None,
    point: list[float],
    kind: NDArray[np.uint8],
    values: NDArray[np.float64],
    extents: NDArray[np.float64],
    slot: int,
) -> None:
    """Write the carried form of a region that a request text holds into the columns of its row."""
    if shape is None or isinstance(shape, Area):
        kind[row] = ANYWHERE if shape is None else POLYGON
    elif isinstance(shape, Circle):
        kind[row], values[row] = CIRCLE, (*point, shape.radius, 0.0)
    else:
        width, height = state.movers.extent(slot) or extent_of(shape)
        kind[row], extents[row] = BOX, (width, height)
        values[row] = point[0] - width / 2, point[1] - height / 2, point[0] + width / 2, point[1] + height / 2
        if state.index.space.is_earth:
            _wrap(values[row : row + 1], extents[row : row + 1, 0])


def _carry_faults(
    held: Subscriptions,
    is_carried: NDArray[np.bool_],
    kind: NDArray[np.uint8],
    extents: NDArray[np.float64],
    values: NDArray[np.float64],
    space: Space,
) -> list[Fault]:
    """Return the rows whose region cannot be carried along."""
    faults = [(row, "region", NOWHERE) for row in np.flatnonzero(is_carried & (kind == ANYWHERE)).tolist()]
    faults += [(row, "region", POLYGON_STAYS) for row in np.flatnonzero(is_carried & (kind == POLYGON)).tolist()]
    if space.is_earth:
        south, north = values[:, 1], values[:, 3]
        inside = np.abs(south + north) <= 180.0  # else the point itself lies beyond the pole, and is told so
        tall = is_carried & (kind == BOX) & (held.kind == WITHIN) & inside & ((south < -90.0) | (north > 90.0))
        faults += [
            (row, "lat", does_not_fit(float(extents[row, 1]), float((south[row] + north[row]) / 2)))
            for row in np.flatnonzero(tall).tolist()
        ]
    return faults


def _texts(state: State, slots: NDArray[np.int32], placed: Regions, bad: set[int]) -> dict[int, bytes]:
    """Return by row the request texts that hold a region, with the new one."""
    texts = {}
    for row in np.flatnonzero(state.texts.are_json(slots)).tolist():
        text = None if row in bad else state.texts.get(int(slots[row]))
        if text is not None and text.keeps_region:
            texts[row] = text._replace(region=placed.shape_of(row)).encoded()
    return texts


# --- noise ---------------------------------------------------------------------------------------------------------


def without_small_moves(
    state: State, slots: NDArray[np.int32], held: Subscriptions, item: Move, places: MovePlaces
) -> MovePlaces:
    """Return where rows go, those at their present place whose report lies nearer to it than their `min_move`."""
    if item.points is None or not len(state.movers):
        return places
    movers = state.movers.of(slots)
    is_placed = np.diff(held.regions.part_start) > 0  # what contradicts itself may have no part
    guarded = np.flatnonzero((movers["min_move"] > 0) & is_placed & ~np.isnan(item.points[:, 0]))
    if not len(guarded):
        return places
    x, y = _centres(held.regions, guarded)
    if state.index.space.is_earth:  # a box around the earth has no longitude: its place is a latitude
        x = np.where(_extents(state, slots, held)[guarded, 0] >= 360.0, item.points[guarded, 0], x)
    distance = state.index.space.distance(x, y, item.points[guarded, 0], item.points[guarded, 1])
    stay = guarded[np.asarray(distance) < movers["min_move"][guarded]]
    if not len(stay):
        return places
    rows = np.arange(len(slots))
    rows[stay] += len(slots)
    extents = places.extents.copy()
    extents[stay] = np.column_stack([movers["width"][stay], movers["height"][stay]])
    texts = {row: text for row, text in places.texts.items() if row not in set(stay.tolist())}
    return MovePlaces(Regions.concat([places.regions, held.regions]).take(rows), extents, texts)


def _centres(regions: Regions, rows: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the centres of boxes and circles."""
    low = regions.part[regions.part_start[rows]]
    high = regions.part[regions.part_start[rows + 1] - 1]
    x = low[:, 0] + (high[:, 2] - low[:, 0] + np.where(high[:, 2] < low[:, 0], 360.0, 0.0)) / 2
    x = np.where(x > 180.0, x - 360.0, x) if (high[:, 2] < low[:, 0]).any() else x
    y = (low[:, 1] + high[:, 3]) / 2
    is_circle = regions.kind[rows] == CIRCLE
    circles = regions.circle[regions.shape[rows[is_circle]]]
    x[is_circle], y[is_circle] = circles[:, 0], circles[:, 1]
    return x, y


# --- time -------------------------------------------------------------------------------------------------------


def late_reports(state: State, slots: NDArray[np.int32], times: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which reports are older than the last one of their subscription."""
    late: NDArray[np.bool_] = (times != NO_TIME) & (times < state.movers.of(slots)["time"])
    return late


def why_late_report(state: State, slot: int, time: int) -> str:
    """Return why a report of a place is refused."""
    return why_late(time, int(state.movers.of(np.array([slot]))["time"][0]))


def why_late(time: int, last: int) -> str:
    """Return why a report of a place is refused whose subscription has reported at `last`."""
    return f"time is {datetime_of(time)}, and the subscription reported at {datetime_of(last)} already; leave it out"


def clock_of(state: State, item: Move, n: int) -> NDArray[np.int64]:
    """Return event time at each of the n reports of a move: with a lifetime the largest so far, else what it is."""
    times = item.times if item.clock is None else item.clock
    if state.live is None or times is None:
        return np.full(n, state.now)
    clock: NDArray[np.int64] = np.maximum.accumulate(np.maximum(times, state.now))
    return clock


def slides_window(state: State, time: int) -> bool:
    """Tell whether a report of this time slides a window of time: an `Advance` goes before it, a step of its own."""
    if state.live is None or state.topk is None or not state.topk.window.is_by_time:
        return False
    return time > state.now


def next_event(state: State) -> int:
    """Return the event time from which on the clock itself may change subscriptions or answers.

    A report that takes event time there is a `Move` by itself.
    """
    moment = state.next_expiry
    if state.tell_expiry and state.live is not None:
        moment = min(moment, state.live.next_expiry)
    if state.topk is not None and state.topk.window.is_by_time:
        moment = min(moment, state.now + 1)
    return moment


def check_move(state: State, item: Move, slots: NDArray[np.int32]) -> None:
    """Raise `InvalidSubscription` if a report is older than the last one of its subscription.

    It is a `ValueError` if the clock would have to change more than the subscriptions that move.
    """
    if item.times is None:
        return
    if slides_window(state, int(item.times.max(initial=NO_TIME))):
        raise ValueError("reports take event time to where a window slides; advance to it first")
    late = np.flatnonzero(late_reports(state, slots, item.times))
    if len(late):
        row = int(late[0])
        raise InvalidSubscription(why_late_report(state, int(slots[row]), int(item.times[row])), field="time")
