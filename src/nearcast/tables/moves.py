"""Reads a table of moves into the new places of subscriptions."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearcast.geo import Regions
from nearcast.geo.space import Space
from nearcast.tables.cells import Floats, TableRows, as_mask
from nearcast.tables.geometries import with_places
from nearcast.tables.names import EARTH_BOX, EARTH_CIRCLE, GEOMETRY_COLUMN, PLANE_BOX, PLANE_CIRCLE
from nearcast.tables.rejected_rows import Mask, Rejected
from nearcast.tables.scored_rows import subscription_names
from nearcast.tables.subscriptions import check_columns, read_regions


@dataclass(frozen=True)
class Moves:
    """Where subscriptions go, one per row: a point that carries the old region along, or another region."""

    ids: pa.Array
    is_point: Mask
    point: Floats
    regions: Regions

    def __len__(self) -> int:
        return len(self.is_point)

    def take(self, rows: np.ndarray) -> "Moves":
        """Return these rows, in this order."""
        return Moves(self.ids.take(pa.array(rows)), self.is_point[rows], self.point[rows], self.regions.take(rows))


def read_moves(
    table: pa.Table, space: Space, *, source: str = "changes", first_row: int = 0, rejected: Rejected
) -> Moves:
    """Return the good rows of a table of moves, in order; the others are added to `rejected`.

    A row gives a point, `lon` and `lat` (on a plane `x` and `y`) alone, or a region as a subscription does.
    """
    table = with_places(table, space, source=source, first_row=first_row, rejected=rejected)
    rows = TableRows(table, source, first_row)
    check_columns(rows, space)
    ids = rows.ids()
    is_point, point = _points(rows, space)
    regions = Regions.anywhere(len(rows))
    others = np.flatnonzero(~is_point)
    if len(others):
        part = rows.part(others, subscription_names(space))
        found, is_bounded = read_regions(part, space)
        part.faults.add_where(~is_bounded, "region", "no place is given; give a point or a region to move to")
        rows.faults.add_part(part.faults, others)
        order = np.argsort(np.concatenate([np.flatnonzero(is_point), others]))
        regions = Regions.concat([Regions.anywhere(int(is_point.sum())), found]).take(order)
    _check_points(rows, is_point, point, space)
    rows.report(rejected, ids)
    moves = Moves(ids, is_point, point, regions)
    good = rows.faults.good_rows()
    return moves if good is None else moves.take(good)


def _points(rows: TableRows, space: Space) -> tuple[Mask, Floats]:
    """Return which rows give a point and nothing else, and the points."""
    form = EARTH_CIRCLE if space.is_earth else PLANE_CIRCLE
    is_point, point = np.zeros(len(rows), np.bool_), np.zeros((len(rows), 2))
    if not (rows.has(form[0]) and rows.has(form[1])):
        return is_point, point
    (x, has_x), (y, has_y) = rows.numbers_of(form[0]), rows.numbers_of(form[1])
    is_point = has_x & has_y
    if rows.has(form[2]):
        is_point &= ~rows.numbers_of(form[2])[1]
    point[is_point, 0], point[is_point, 1] = x[is_point], y[is_point]
    return is_point & ~_has_other_region(rows, space), point


def _has_other_region(rows: TableRows, space: Space) -> Mask:
    """Tell which rows give a box or a GeoJSON region, or a part of one."""
    has = np.zeros(len(rows), np.bool_)
    for name in EARTH_BOX if space.is_earth else PLANE_BOX:
        if rows.has(name):
            has |= rows.numbers_of(name)[1]
    for name in ("region", "geometry", GEOMETRY_COLUMN):
        if rows.has(name):
            has |= as_mask(rows.column(name).is_valid())
    return has


def _check_points(rows: TableRows, is_point: Mask, point: Floats, space: Space) -> None:
    names = (EARTH_CIRCLE if space.is_earth else PLANE_CIRCLE)[:2]
    limits = (180.0, 90.0) if space.is_earth else (np.inf, np.inf)
    for at, (name, limit) in enumerate(zip(names, limits, strict=True)):
        values = point[:, at]
        wrong = is_point & ~(np.isfinite(values) & (np.abs(values) <= limit))
        for row in np.flatnonzero(wrong).tolist():
            rows.faults.add(row, name, f"{name} is {values[row]:g}; expected {_range(limit)}")


def _range(limit: float) -> str:
    return f"-{limit:g} to {limit:g}" if np.isfinite(limit) else "a finite number"
