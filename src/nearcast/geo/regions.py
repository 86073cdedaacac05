"""Regions as columns: what an index stores, and the exact test of a message's place against them."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel
from nearcast.errors import InvalidRegion
from nearcast.geo.parts import (
    ANYWHERE,
    BOX,
    CIRCLE,
    POLYGON,
    Fault,
    covering_parts,
    enter_shape,
    number_faults,
    only_part,
    read_polygons,
)
from nearcast.geo.shapes import Area, Box, Circle, Shape
from nearcast.geo.space import Floats, Space, circle_holds, place_distance

# GEOS builds the search structure of a prepared geometry at its first use, without a lock of its own.
PREPARED_LOCK = threading.Lock()


#: Columns without rows.
_NO_CIRCLES, _NO_POLYGONS = np.empty((0, 3)), np.empty(0, object)
#: Columns of one row, which all regions of one row share: nobody writes into the columns of regions.
_ONE_PART, _NO_SHAPE, _ONE_SHAPE = np.array([0, 1]), np.array([-1], np.int32), np.array([0], np.int32)
_ONE_KIND = [np.array([kind], np.uint8) for kind in (ANYWHERE, BOX, CIRCLE, POLYGON)]


@dataclass(eq=False)
class Regions:
    """Where each of n subscriptions listens, in flat columns.

    Row `i` owns the boxes `part[part_start[i]:part_start[i + 1]]` (x_min, y_min, x_max, y_max). Parts never cross the
    dateline and together cover the region; for a BOX they are the region, for ANYWHERE there is one of ±inf.
    `shape` is the row in `circle` (x, y, radius) or in `geometry` (shapely), else -1.

    >>> regions = Regions.from_shapes([Box(170, -20, -170, -10), None], Space.earth())
    >>> regions.part.tolist()
    [[170.0, -20.0, 180.0, -10.0], [-180.0, -20.0, -170.0, -10.0], [-inf, -inf, inf, inf]]
    """

    kind: npt.NDArray[np.uint8]
    part_start: npt.NDArray[np.int64]
    part: Floats
    shape: npt.NDArray[np.int32]
    circle: Floats
    geometry: npt.NDArray[np.object_]

    def __len__(self) -> int:
        return self.kind.size

    def __repr__(self) -> str:
        counts = np.bincount(self.kind, minlength=4).tolist()
        named = zip(("anywhere", "boxes", "circles", "polygons"), counts, strict=True)
        return f"Regions({len(self)} rows: {', '.join(f'{n} {name}' for name, n in named if n) or 'empty'})"

    @classmethod
    def anywhere(cls, n: int) -> "Regions":
        """Return `n` rows that hold every place."""
        part = np.empty((n, 4))
        part[:] = -np.inf, -np.inf, np.inf, np.inf
        return _assembled(np.zeros(n), np.arange(n + 1), part, np.full(n, -1), np.empty((0, 3)), np.empty(0, object))

    @classmethod
    def of_one_part(
        cls, kind: int, part: Floats, *, circle: Floats | None = None, geometry: npt.NDArray[np.object_] | None = None
    ) -> "Regions":
        """Return one row that one box covers; a circle or polygon is given as the one row of its column."""
        return cls(
            _ONE_KIND[kind],
            _ONE_PART,
            part,
            _NO_SHAPE if circle is None and geometry is None else _ONE_SHAPE,
            _NO_CIRCLES if circle is None else circle,
            _NO_POLYGONS if geometry is None else geometry,
        )

    @classmethod
    def from_shapes(cls, shapes: Sequence[Shape | None], space: Space) -> "Regions":
        """Return one row for each shape, None meaning anywhere; raise `InvalidRegion` for one that does not fit."""
        if len(shapes) == 1 and (part := only_part(shapes[0], space)) is not None:
            if isinstance(only := shapes[0], Circle):
                return cls.of_one_part(CIRCLE, part, circle=np.array([[only.x, only.y, only.radius]]))
            return cls.of_one_part(BOX, part)
        kinds, values = np.zeros(len(shapes), np.uint8), np.zeros((len(shapes), 4))
        geometries: dict[int, Any] = {}
        for row, shape in enumerate(shapes):
            kinds[row] = enter_shape(shape, row, values, geometries)
        regions, faults = cls.from_arrays(space, kinds, values, geometries)
        if faults:
            row, field, reason = faults[0]
            raise InvalidRegion(f"region {row}: {reason}" if len(shapes) > 1 else reason, field=field)
        return regions

    @classmethod
    def from_arrays(
        cls, space: Space, kind: npt.ArrayLike, values: npt.ArrayLike, geometries: Mapping[int, Any] | None = None
    ) -> tuple["Regions", list[Fault]]:
        """Return the regions of whole columns, and the (row, field, reason) of the rows that cannot be used.

        `values` (n, 4) holds a box as given or the x, y, radius of a circle; `geometries` maps the rows of kind
        POLYGON to anything `shape_from` takes. A row that cannot be used becomes ANYWHERE: drop it.
        """
        kinds = np.array(kind, np.uint8).reshape(-1)
        numbers = np.array(values, np.float64).reshape(-1, 4)
        unknown = np.flatnonzero(kinds > POLYGON).tolist()
        polygons, faults = read_polygons(space, kinds, numbers, geometries or {})
        faults += number_faults(space, kinds, numbers)
        faults += [(row, "region", f"kind {kinds[row]} is unknown; expected 0 to {POLYGON}") for row in unknown]
        kinds[[row for row, _, _ in faults]] = ANYWHERE
        return _built(space, kinds, numbers, polygons), sorted(faults)

    def take(self, rows: npt.ArrayLike) -> "Regions":
        """Return the regions of these rows, in this order; a row may come more than once."""
        chosen = np.asarray(rows)
        if chosen.dtype == np.bool_:
            chosen = np.flatnonzero(chosen)
        chosen = chosen.astype(np.int64)
        part_start, at = _gathered(self.part_start, chosen)
        kind, shape = self.kind[chosen], self.shape[chosen].copy()
        is_circle, is_polygon = kind == CIRCLE, kind == POLYGON
        circle, geometry = self.circle[shape[is_circle]], self.geometry[shape[is_polygon]]
        shape[is_circle], shape[is_polygon] = np.arange(len(circle)), np.arange(len(geometry))
        return _assembled(kind, part_start, self.part[at], shape, circle, geometry)

    @staticmethod
    def concat(regions: Sequence["Regions"]) -> "Regions":
        """Return the rows of all of them, one after the other."""
        if not regions:
            return Regions.anywhere(0)
        part_starts, shapes = [np.zeros(1, np.int64)], []
        parts = circles = geometries = 0
        for each in regions:
            part_starts.append(each.part_start[1:] - each.part_start[0] + parts)
            offset = np.where(each.kind == CIRCLE, circles, np.where(each.kind == POLYGON, geometries, 0))
            shapes.append(each.shape + offset)
            parts, circles, geometries = (
                parts + len(each.part),
                circles + len(each.circle),
                geometries + len(each.geometry),
            )
        return _assembled(
            np.concatenate([each.kind for each in regions]),
            np.concatenate(part_starts),
            np.concatenate([each.part for each in regions]),
            np.concatenate(shapes),
            np.concatenate([each.circle for each in regions]),
            np.concatenate([each.geometry for each in regions]),
        )

    def shape_of(self, row: int) -> Shape | None:
        """Return the shape of one row, None for anywhere; a polygon comes cut at the dateline."""
        kind, shape = self.kind[row], self.shape[row]
        if kind == CIRCLE:
            return Circle(*self.circle[shape].tolist())
        if kind == POLYGON:
            return Area(self.geometry[shape])
        if kind == BOX:
            parts = self.part[self.part_start[row] : self.part_start[row + 1]].tolist()
            return Box(*parts[0][:2], *parts[-1][2:])
        return None

    def distance_to(self, row: int, place: npt.ArrayLike, space: Space) -> float:
        """Return how far a message's place (x_min, y_min, x_max, y_max) lies outside the region, 0 if they touch.

        On the earth the distance to a polygon is found by sampling its edges and good to about a millionth.
        A box may be 0 m away and not touch: at the dateline, where it compares longitudes as written.
        """
        box = np.ascontiguousarray(place, np.float64).reshape(1, 4)
        if touches(self, np.array([row]), box, space)[0]:
            return 0.0
        shape = self.shape_of(row)
        if isinstance(shape, Circle):
            distance = place_distance(space.is_earth, shape.x, shape.y, *box[0].tolist())
            return float(max(distance - shape.radius, 0.0))
        if isinstance(shape, Area):
            return _polygon_distance(shape.geometry, box[0], space)
        parts = self.part[self.part_start[row] : self.part_start[row + 1]]
        return min(_box_to_box(part, half, space) for part in parts for half in _halves(box[0], space))


def _assembled(
    kind: Any, part_start: Any, part: Any, shape: Any, circle: Any, geometry: npt.NDArray[np.object_]
) -> Regions:
    """Fix the types and the order of the columns in the one place where they are made."""
    return Regions(
        np.ascontiguousarray(kind, np.uint8),
        np.ascontiguousarray(part_start, np.int64),
        np.ascontiguousarray(part, np.float64).reshape(-1, 4),
        np.ascontiguousarray(shape, np.int32),
        np.ascontiguousarray(circle, np.float64).reshape(-1, 3),
        geometry,
    )


def _gathered(start: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> tuple[Any, Any]:
    """Return the starts of the chosen rows packed together, and where their items were before."""
    counts = start[rows + 1] - start[rows]
    if (counts == 1).all():
        return np.arange(rows.size + 1), start[rows]
    packed = np.concatenate([[0], np.cumsum(counts)])
    return packed, np.arange(packed[-1]) + np.repeat(start[rows] - packed[:-1], counts)


def _built(space: Space, kinds: npt.NDArray[np.uint8], values: Floats, polygons: Mapping[int, Any]) -> Regions:
    rows = [row for row in sorted(polygons) if kinds[row] == POLYGON]
    geometry = np.empty(len(rows), object)
    geometry[:] = [polygons[row] for row in rows]
    part_start, part = covering_parts(space, kinds, values, {row: polygons[row] for row in rows})
    circle_rows = np.flatnonzero(kinds == CIRCLE)
    shape = np.full(kinds.size, -1, np.int32)
    shape[circle_rows] = np.arange(circle_rows.size)
    shape[rows] = np.arange(len(rows))
    return _assembled(kinds, part_start, part, shape, values[circle_rows, :3], geometry)


# --- the definition of touching ---------------------------------------------------------------------------------


def touches(regions: Regions, rows: npt.ArrayLike, boxes: npt.ArrayLike, space: Space) -> npt.NDArray[np.bool_]:
    """Return for each pair (rows[i], boxes[i]) whether the region and the message's place share a point.

    This is the definition that every index must agree with. Borders are inside; a place is a box as given, on the
    earth crossing the dateline where x_max < x_min, and a point where both corners are equal.
    """
    chosen = np.require(rows, np.int64, ["C", "W"]).reshape(-1)  # writable: one signature for the kernel
    places = np.require(boxes, np.float64, ["C", "W"]).reshape(-1, 4)
    out = np.zeros(chosen.size, np.bool_)
    columns = (regions.kind, regions.part_start, regions.part, regions.shape, regions.circle)
    _touch_plain(space.is_earth, *columns, chosen, places, out)
    polygons = np.flatnonzero(regions.kind[chosen] == POLYGON) if regions.geometry.size else chosen[:0]
    if polygons.size:
        geometry = regions.geometry[regions.shape[chosen[polygons]]]
        out[polygons] = polygons_touch(geometry, places[polygons], space)
    return out


@kernel
def _touch_plain(is_earth, kind, part_start, part, shape, circle, rows, boxes, out):
    """Decide every pair whose region is no polygon."""
    for i in range(rows.size):
        row = rows[i]
        if kind[row] == ANYWHERE:
            out[i] = True
        elif kind[row] == BOX:
            for p in range(part_start[row], part_start[row + 1]):
                out[i] |= _overlap(
                    is_earth, part[p, 0], part[p, 1], part[p, 2], part[p, 3],
                    boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3],
                )  # fmt: skip
        elif kind[row] == CIRCLE:
            at = shape[row]
            out[i] = circle_holds(
                is_earth, circle[at, 0], circle[at, 1], circle[at, 2],
                boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3],
            )  # fmt: skip


@kernel
def _overlap(is_earth, a_x_min, a_y_min, a_x_max, a_y_max, b_x_min, b_y_min, b_x_max, b_y_max):
    """Return whether part a and place b share a point; only b may cross the dateline."""
    if a_y_min > b_y_max or b_y_min > a_y_max:
        return False
    if is_earth and b_x_max < b_x_min:
        return a_x_max >= b_x_min or a_x_min <= b_x_max
    return a_x_min <= b_x_max and b_x_min <= a_x_max


def polygons_touch(geometry: npt.NDArray[np.object_], boxes: npt.ArrayLike, space: Space) -> npt.NDArray[np.bool_]:
    """Return for each pair whether the shapely geometry and the place share a point, borders included."""
    import shapely

    places = np.asarray(boxes, np.float64).reshape(-1, 4)
    out = np.zeros(len(places), np.bool_)
    is_point = (places[:, 0] == places[:, 2]) & (places[:, 1] == places[:, 3])
    is_over = places[:, 0] > places[:, 2] if space.is_earth else np.zeros(len(places), np.bool_)
    east, west = places.copy(), places[is_over]
    east[is_over, 2], west[:, 0] = 180.0, -180.0
    with PREPARED_LOCK:
        shapely.prepare(geometry)
        out[is_point] = shapely.intersects_xy(geometry[is_point], places[is_point, 0], places[is_point, 1])
        out[~is_point] = shapely.intersects(geometry[~is_point], _box_geometries(east[~is_point]))
        out[is_over] |= shapely.intersects(geometry[is_over], _box_geometries(west))
    return out


def _box_geometries(boxes: Floats) -> npt.NDArray[np.object_]:
    """Return shapely rectangles, or line strings where a box has no width or height: GEOS wants polygons with area."""
    import shapely

    found = np.asarray(shapely.box(boxes[:, 0], boxes[:, 1], boxes[:, 2], boxes[:, 3]), object).reshape(-1)
    flat = np.flatnonzero((boxes[:, 0] == boxes[:, 2]) | (boxes[:, 1] == boxes[:, 3]))
    if flat.size:
        found[flat] = shapely.linestrings(boxes[flat].reshape(-1, 2, 2))
    return found


# --- distances for explain --------------------------------------------------------------------------------------


def _halves(box: Floats, space: Space) -> list[Floats]:
    if space.is_earth and box[0] > box[2]:
        return [np.array([box[0], box[1], 180.0, box[3]]), np.array([-180.0, box[1], box[2], box[3]])]
    return [box]


def _box_to_box(one: Floats, other: Floats, space: Space) -> float:
    """Return the distance of two boxes that do not overlap: some corner of one is a nearest point."""
    corner_x, corner_y = [0, 2, 0, 2], [1, 1, 3, 3]
    there = space.distance_to_box(one[corner_x], one[corner_y], other)
    back = space.distance_to_box(other[corner_x], other[corner_y], one)
    return float(min(np.min(there), np.min(back)))


def _polygon_distance(geometry: Any, place: Floats, space: Space) -> float:
    import shapely

    if not space.is_earth:
        return float(shapely.distance(geometry, _box_geometries(place[None])[0]))
    starts, ends = _edges(geometry)
    low, high = np.zeros(len(starts)), np.ones(len(starts))
    for _ in range(6):
        steps = low[:, None] + np.linspace(0.0, 1.0, 33) * (high - low)[:, None]
        lon = starts[:, :1] + steps * (ends - starts)[:, :1]
        lat = starts[:, 1:] + steps * (ends - starts)[:, 1:]
        distances = np.asarray(space.distance_to_box(lon, lat, place))
        edge, step = divmod(int(np.argmin(distances)), 33)
        # Look again around the best sample only, sixteen times finer.
        low, high = steps[[edge], max(step - 1, 0)], steps[[edge], min(step + 1, 32)]
        starts, ends = starts[[edge]], ends[[edge]]
    return float(distances.min())


def _edges(geometry: Any) -> tuple[Floats, Floats]:
    """Return the start and end points of all edges."""
    import shapely

    rings = shapely.get_rings(shapely.get_parts(geometry))
    points, ring = shapely.get_coordinates(rings, return_index=True)
    same = ring[1:] == ring[:-1]
    return points[:-1][same], points[1:][same]
