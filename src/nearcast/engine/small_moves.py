"""Small moves, which are noise: a report nearer to the present place than its subscription's `min_move`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.engine.known_moves import MovePlaces
from nearcast.engine.move_columns import extents_of
from nearcast.geo import CIRCLE, Regions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.engine.items import Move
    from nearcast.engine.state import State


def without_small_moves(
    state: State, held: Subscriptions, movers: NDArray[Any], item: Move, places: MovePlaces
) -> MovePlaces:
    """Return where rows go, those at their present place whose report lies nearer to it than their `min_move`.

    `movers` are the rows of `Movers` of the subscriptions.
    """
    if item.points is None or not _any_guarded(movers):
        return places
    is_placed = np.diff(held.regions.part_start) > 0  # what contradicts itself may have no part
    guarded = np.flatnonzero((movers["min_move"] > 0) & is_placed & ~np.isnan(item.points[:, 0]))
    if not len(guarded):
        return places
    x, y = _centres(held.regions, guarded)
    if state.index.space.is_earth:  # a box around the earth has no longitude: its place is a latitude
        x = np.where(extents_of(held, movers)[guarded, 0] >= 360.0, item.points[guarded, 0], x)
    distance = state.index.space.distance(x, y, item.points[guarded, 0], item.points[guarded, 1])
    stay = guarded[np.asarray(distance) < movers["min_move"][guarded]]
    if not len(stay):
        return places
    rows = np.arange(len(held))
    rows[stay] += len(held)
    extents = places.extents.copy()
    extents[stay] = np.column_stack([movers["width"][stay], movers["height"][stay]])
    texts = {row: text for row, text in places.texts.items() if row not in set(stay.tolist())}
    return MovePlaces(Regions.concat([places.regions, held.regions]).take(rows), extents, texts)


def _any_guarded(movers: NDArray[Any]) -> bool:
    """Tell whether a row of `Movers` has a `min_move`."""
    if len(movers) == 1:
        _, _, _, min_move = movers.item()
        return bool(min_move)
    return bool(movers["min_move"].any())


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
