"""Reads a table of moves into the new places of subscriptions."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast._ids import ids_column, kinds_of
from nearcast.errors import InvalidInput
from nearcast.geo import Box, Circle, Regions, Shape, shape_from
from nearcast.geo.shapes import as_float, is_number, shorten
from nearcast.geo.space import Space
from nearcast.model import checked_time
from nearcast.nesting import is_encodable
from nearcast.tables.cells import Floats, TableRows, Times, as_mask, is_id
from nearcast.tables.column_names import check_subscription_names
from nearcast.tables.geometries import with_places
from nearcast.tables.names import EARTH_BOX, EARTH_CIRCLE, GEOMETRY_COLUMN, PLANE_BOX, PLANE_CIRCLE, ROW_COLUMN
from nearcast.tables.rejected_rows import Mask, Rejected, Rows
from nearcast.tables.requests import cut_areas
from nearcast.tables.scored_rows import subscription_names
from nearcast.tables.subscriptions import check_columns, read_regions


@dataclass(frozen=True)
class Moves:
    """Where subscriptions go, one per row: a point that carries the old region along, or another region.

    `time` is that of the report and `number` the row's in its source; None where the caller knows them by himself.
    `written` has by row the polygons that `regions` has cut at the dateline, as they were given.
    """

    ids: pa.Array
    is_point: Mask
    point: Floats
    regions: Regions
    time: Times | None = None
    number: Rows | None = None
    written: Mapping[int, Shape] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.is_point)

    def take(self, rows: np.ndarray) -> "Moves":
        """Return these rows, in this order."""
        if len(rows) == len(self) and (rows == np.arange(len(rows))).all():
            return self
        return Moves(
            self.ids.take(pa.array(rows)),
            self.is_point[rows],
            self.point[rows],
            self.regions.take(rows),
            None if self.time is None else self.time[rows],
            None if self.number is None else self.number[rows],
            {to: self.written[of] for to, of in enumerate(rows.tolist()) if of in self.written} if self.written else {},
        )

    def points(self) -> Floats:
        """Return the points (n, 2) that regions are carried to, NaN where a row gives another region."""
        return np.where(self.is_point[:, None], self.point, np.nan)


def read_moves(
    table: pa.Table,
    space: Space,
    *,
    source: str = "changes",
    first_row: int = 0,
    strict: bool = False,
    rejected: Rejected,
) -> Moves:
    """Return the good rows of a table of moves, in order; the others are added to `rejected`.

    A row gives a point, `lon` and `lat` (on a plane `x` and `y`) alone, or a region as a subscription does, and the
    `time` of the report where that is known. A column whose name is one edit away from one of changes is a warning,
    with `strict` an error.
    """
    table = with_places(table, space, source=source, first_row=first_row, rejected=rejected)
    rows = TableRows(table, source, first_row)
    check_columns(rows, space)
    check_subscription_names(table.column_names, space, source, rejected, strict=strict)
    ids = rows.ids()
    is_point, point = _points(rows, space)
    regions, written = Regions.anywhere(len(rows)), dict[int, Shape]()
    others = np.flatnonzero(~is_point)
    if len(others):
        part = rows.part(others, subscription_names(space))
        found, is_bounded = read_regions(part, space)
        part.faults.add_where(~is_bounded, "region", "no place is given; give a point or a region to move to")
        written = {int(others[row]): shape for row, shape in cut_areas(part, found, space).items()}
        rows.faults.add_part(part.faults, others)
        order = np.argsort(np.concatenate([np.flatnonzero(is_point), others]))
        regions = Regions.concat([Regions.anywhere(int(is_point.sum())), found]).take(order)
    _check_points(rows, is_point, point, space)
    time = rows.times("time")
    rows.report(rejected, ids)
    moves = Moves(ids, is_point, point, regions, time, rows.numbers, written)
    good = rows.faults.good_rows()
    return moves if good is None else moves.take(good)


def moves_table(values: Iterable[Any], space: Space, *, source: str, rejected: Rejected) -> pa.Table:
    """Return a table of moves given as dicts, each with `id`, a point or a region, and maybe `time`."""
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    for number, value in enumerate(values):
        try:
            rows.append(_plain_row(value, space))
            numbers.append(number)
        except InvalidInput as error:
            id_ = value.get("id") if isinstance(value, Mapping) else None
            rejected.add(source, number, id_ if is_id(id_) else None, error.field, str(error))
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: pa.array([row.get(name) for row in rows]) for name in names if name != "id"}
    ids = [row["id"] for row in rows]
    return pa.table({"id": ids_column(ids, kinds_of(ids)), **columns, ROW_COLUMN: pa.array(numbers, pa.int64())})


_PLACE_NAMES = {True: frozenset({*EARTH_BOX, *EARTH_CIRCLE}), False: frozenset({*PLANE_BOX, *PLANE_CIRCLE})}
_OTHER_NAMES = frozenset({"id", "time", "region"})


def _plain_row(value: Any, space: Space) -> dict[str, Any]:
    """Return a move as a row that a table can hold."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"a move is {shorten(value)}; expected a dict with id, a place and maybe time")
    names = _PLACE_NAMES[space.is_earth]
    unknown = [name for name in value if name not in names and name not in _OTHER_NAMES]
    if unknown:
        raise InvalidInput(f"a move has no {unknown[0]}; expected id, a place and maybe time", field=str(unknown[0]))
    if not is_id(value.get("id")) or not is_encodable(str(value["id"])):
        raise InvalidInput(f"id is {shorten(value.get('id'))}; expected a str or an int of 64 bits", field="id")
    row: dict[str, Any] = {"id": value["id"], "time": checked_time(value.get("time"), "time")}
    for name in names & value.keys():
        if value[name] is not None and not is_number(value[name]):
            raise InvalidInput(f"{name} is {shorten(value[name])}; expected a number", field=name)
        row[name] = None if value[name] is None else as_float(value[name])
    if value.get("region") is not None:
        row["region"] = region_text(shape_from(value["region"], space), space)
    return row


def region_text(shape: Shape, space: Space) -> str:
    """Return a region as the JSON that `shape_from` reads."""
    if isinstance(shape, Box):
        return json.dumps([shape.x_min, shape.y_min, shape.x_max, shape.y_max])
    return json.dumps(shape.to_geojson(space) if isinstance(shape, Circle) else shape.to_geojson())


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
