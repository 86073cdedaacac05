"""Where a subscription is after it moved: a region replaces the old one, a point carries it along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.columns import WITHIN
from nearcast.errors import InvalidRegion, InvalidSubscription
from nearcast.geo import Area, Box, Circle, Shape, Space, shape_from
from nearcast.geo.shapes import is_number
from nearcast.tables.requests import is_cut

if TYPE_CHECKING:
    from nearcast.columns import Subscriptions
    from nearcast.engine.state import State


def moved_shape(state: State, slot: int, held: Subscriptions, place: Any, space: Space) -> Shape:
    """Return the region of a subscription that moves to a place as people write it: a region, or a point (x, y).

    `held` is what the index holds at the slot; its request text may know the region better.
    """
    point = _point(place)
    if point is None:
        return shape_from(place, space)
    text = state.texts.get(slot) if held.kind[0] == WITHIN else None
    if text is not None and text.region is not None:
        return moved_to(text.region, *point, space)
    return moved_row(held, 0, *point, space)


def moved_text(state: State, slot: int, shape: Shape, space: Space) -> bytes | None:
    """Return the request text of a subscription that moves to a region, None if it stays as it is.

    It has the region where the index does not hold that as it was given.
    """
    text = state.texts.get(slot)
    if text is not None and (text.keeps_region or is_cut(shape, space)):
        return text._replace(keeps_region=True, region=shape).encoded()
    return None


def _point(place: Any) -> tuple[float, float] | None:
    """Return a place that is a point as (x, y), None if it is anything else."""
    geometry = getattr(place, "__geo_interface__", place)
    if isinstance(geometry, Mapping):
        geometry = geometry.get("coordinates") if geometry.get("type") == "Point" else None
    if isinstance(geometry, (Sequence, np.ndarray)) and len(geometry) == 2 and all(map(is_number, geometry)):
        return float(geometry[0]), float(geometry[1])
    return None


def moved_row(held: Subscriptions, row: int, x: float, y: float, space: Space) -> Shape:
    """Return the region of a subscription whose centre goes to (x, y); `InvalidInput` if it cannot go there."""
    if held.kind[row] != WITHIN:
        return Box(x, y, x, y)
    if held.clause_start[row] == held.clause_start[row + 1]:
        return Box(x, y, x, y)  # its query contradicts itself: an index need not know where nothing matches
    return moved_to(held.regions.shape_of(row), x, y, space)


def moved_to(shape: Shape | None, x: float, y: float, space: Space) -> Shape:
    """Return a region whose centre goes to (x, y), None being anywhere; `InvalidInput` if it cannot go there."""
    if shape is None:
        raise InvalidSubscription("the subscription listens anywhere and has no place to move; give it a region")
    if isinstance(shape, Circle):
        return Circle(x, y, shape.radius)
    if isinstance(shape, Area):
        raise InvalidRegion("a polygon cannot follow a point; move it to another polygon")
    return _centred_box(shape, x, y, space)


def _centred_box(box: Box, x: float, y: float, space: Space) -> Box:
    width = box.x_max - box.x_min + (360.0 if box.x_max < box.x_min else 0.0)
    height = box.y_max - box.y_min
    west, east = x - width / 2, x + width / 2
    if space.is_earth:
        west, east = (-180.0, 180.0) if width >= 360.0 else (_wrapped(west), _wrapped(east))
    south, north = y - height / 2, y + height / 2
    if space.is_earth and max(-south, north) > 90.0:
        raise InvalidRegion(f"a box {height:g} degrees high does not fit around latitude {y:g}; give it another box")
    return Box(west, south, east, north)


def _wrapped(lon: float) -> float:
    return lon - 360.0 if lon > 180.0 else lon + 360.0 if lon < -180.0 else lon
