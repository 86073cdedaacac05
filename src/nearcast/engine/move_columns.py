"""Where many subscriptions are after they moved: regions carried along, column by column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.columns import WITHIN
from nearcast.engine.known_moves import MovePlaces
from nearcast.engine.moves import NOWHERE, POLYGON_STAYS, does_not_fit, extent_of, needs_point
from nearcast.geo import ANYWHERE, BOX, CIRCLE, POLYGON, Area, Circle, Regions, Shape, Space

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.engine.moves import Fault
    from nearcast.engine.state import State


def place_rows(
    state: State,
    slots: NDArray[np.int32],
    held: Subscriptions,
    reports: NDArray[Any],
    points: NDArray[np.float64],
    regions: Regions,
    written: Mapping[int, Shape] | None = None,
) -> tuple[MovePlaces, list[Fault]]:
    """Return where many subscriptions go, and the rows that cannot go there, whose place in the result means nothing.

    A row whose point (n, 2) is finite carries its region along, another one gets that of `regions`. `reports` are the
    rows of `Movers` of these slots; `written` has the polygons that are cut in `regions`, as they were given.
    """
    space = state.index.space
    is_carried = np.isfinite(points[:, 0]) & np.isfinite(points[:, 1])
    kind, values, extents = _carried_columns(state, slots, held, reports, points)
    faults = _carry_faults(held, is_carried, kind, extents, values, space)
    faults += [
        (row, "place", needs_point(state, int(slots[row])))
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
    texts = _texts(state, slots, placed, written or {}, {row for row, _, _ in bad})
    return MovePlaces(placed, extents, texts), sorted(bad)


def are_points(regions: Regions) -> NDArray[np.bool_]:
    """Tell which regions are boxes of one point."""
    part = regions.part[regions.part_start[:-1]]
    found: NDArray[np.bool_] = (regions.kind == BOX) & (np.diff(regions.part_start) == 1)
    found &= (part[:, 0] == part[:, 2]) & (part[:, 1] == part[:, 3])
    return found


def _carried_columns(
    state: State,
    slots: NDArray[np.int32],
    held: Subscriptions,
    reports: NDArray[Any],
    points: NDArray[np.float64],
) -> tuple[NDArray[np.uint8], NDArray[np.float64], NDArray[np.float64]]:
    """Return kind, numbers (as `Regions.from_arrays` takes them) and width and height of all regions, carried along."""
    base, x, y = held.regions, points[:, 0], points[:, 1]
    kind, values = base.kind.copy(), np.zeros((len(slots), 4))
    extents = extents_of(held, reports)
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


def extents_of(held: Subscriptions, reports: NDArray[Any]) -> NDArray[np.float64]:
    """Return width and height of boxes as registered or given last; of other regions, anything."""
    base = held.regions
    first, last = base.part_start[:-1], base.part_start[1:] - 1
    is_box = (base.kind == BOX) & (last >= first)
    extents = np.zeros((len(held), 2))
    low, high = base.part[first[is_box]], base.part[last[is_box]]
    extents[is_box, 0] = high[:, 2] - low[:, 0] + np.where(high[:, 2] < low[:, 0], 360.0, 0.0)
    extents[is_box, 1] = high[:, 3] - low[:, 1]
    is_known = ~np.isnan(reports["width"])
    extents[is_known, 0], extents[is_known, 1] = reports["width"][is_known], reports["height"][is_known]
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


def _texts(
    state: State, slots: NDArray[np.int32], placed: Regions, written: Mapping[int, Shape], bad: set[int]
) -> dict[int, bytes]:
    """Return by row the request texts that hold a region, with the new one: as it was written, where it was cut."""
    texts = {}
    for row in {*np.flatnonzero(state.texts.are_json(slots)).tolist(), *written} - bad:
        text = state.texts.get(int(slots[row]))
        if text is not None and (text.keeps_region or row in written):
            region = written[row] if row in written else placed.shape_of(row)
            texts[row] = text._replace(keeps_region=True, region=region).encoded()
    return texts
