"""Where a subscription is after it moved: a region replaces the old one, a point carries it along.

The width and height of a box that is carried are those of the box that was registered or given last, which `Movers`
keeps. Those of the box that was carried last would drift: each move rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.columns import WITHIN
from nearcast.engine.known_moves import MovePlaces
from nearcast.errors import InvalidRegion, InvalidSubscription
from nearcast.geo import BOX, Area, Box, Circle, Regions, Shape, Space, shape_from
from nearcast.geo.shapes import as_float, check_position, finite_number, is_number, shorten
from nearcast.tables.requests import is_cut

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.engine.state import State

_MOST = float(np.finfo(np.float64).max)
NOWHERE = "the subscription listens anywhere and has no place to move; give it a region"
POLYGON_STAYS = "a polygon cannot follow a point; move it to another polygon"

#: (row, field, reason) of a move that cannot be made.
Fault = tuple[int, str, str]


# --- the place of a move ----------------------------------------------------------------------------------------


def point_of(place: Any) -> tuple[float, float] | None:
    """Return a place that is a point as (x, y), None if it is anything else."""
    if type(place) is tuple and len(place) == 2 and type(place[0]) is float and type(place[1]) is float:
        return place  # what nearly every single move gives
    geometry = getattr(place, "__geo_interface__", place)
    if isinstance(geometry, Mapping):
        geometry = geometry.get("coordinates") if geometry.get("type") == "Point" else None
    if isinstance(geometry, (bytes, bytearray)):  # a sequence of numbers, and no place
        return None
    if isinstance(geometry, (Sequence, np.ndarray)) and len(geometry) == 2 and all(map(is_number, geometry)):
        return as_float(geometry[0]), as_float(geometry[1])
    return None


def place_at(state: State, slot: int, held: Subscriptions, place: Any) -> MovePlaces:
    """Return where one subscription goes that moves to a place as people write it: a region, or a point (x, y).

    `held` is what the index holds at the slot. Raises `InvalidInput` if it cannot go there.
    """
    space, point = state.index.space, point_of(place)
    if point is not None and (carried := _carried_box(state, slot, held, *point)) is not None:
        return carried
    extent = np.array([[np.nan, np.nan]])
    if point is None:
        shape = shape_of_place(place, space)
    else:
        _check_point(*point, space)
        shape = _carried_shape(state, slot, held, *point, extent)
    if held.kind[0] != WITHIN and not _is_one_point(shape):
        raise InvalidSubscription(needs_point(state, slot), field="place")
    shape.check(space)
    text = _text_at(state, slot, shape, space)
    return MovePlaces(Regions.from_shapes([shape], space), extent, {} if text is None else {0: text})


def _carried_box(state: State, slot: int, held: Subscriptions, x: float, y: float) -> MovePlaces | None:
    """Return where a box goes whose centre goes to (x, y), if it is one and crosses no border of the earth.

    This is what nearly every single move is, and needs no shape to be made.
    """
    base = held.regions
    if held.kind[0] != WITHIN or not held.clause_start[1] or len(base.part) != 1 or base.kind[0] != BOX:
        return None
    if state.texts.is_json(slot):  # it may hold another region
        return None
    x_min, y_min, x_max, y_max = base.part[0].tolist()
    width, height = state.movers.extent(slot) or (x_max - x_min, y_max - y_min)
    west, south, east, north = x - width / 2, y - height / 2, x + width / 2, y + height / 2
    most_x, most_y = (180.0, 90.0) if state.index.space.is_earth else (_MOST, _MOST)
    if not (-most_x <= west and east <= most_x and -most_y <= south and north <= most_y and width < 2 * most_x):
        return None
    box = Regions.of_one_part(BOX, np.array([[west, south, east, north]]))
    return MovePlaces(box, np.array([[width, height]]), {})


def shape_of_place(place: Any, space: Space) -> Shape:
    """Return the shape of a place that is no point; raise `InvalidRegion` if it is none."""
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


def needs_point(state: State, slot: int) -> str:
    """Return why a scored subscription cannot move to a region."""
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
