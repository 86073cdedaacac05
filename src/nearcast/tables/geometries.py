"""Columns of geometries (WKB, GeoArrow) → the columns of places that the readers of tables know.

Reads `geometry` and `region` where they are binary or marked as GeoArrow; writes points as `lon`, `lat` (`x`, `y` on a
plane), other geometries as GeoJSON. That is what the readers of GeoJSON files write, too.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast.errors import InvalidColumns
from nearcast.geo.space import Space
from nearcast.tables.cells import joined, plain
from nearcast.tables.crs import check_crs, crs_of_extension
from nearcast.tables.names import EARTH_PLACE, GEOMETRY_COLUMN, PLANE_PLACE, ROW_COLUMN
from nearcast.tables.rejected_rows import Mask, Rejected

Geometries = npt.NDArray[np.object_]

#: GeoArrow's types that are read, by how many lists their coordinates are in.
_LEVELS = {"geoarrow.point": 0, "geoarrow.polygon": 2, "geoarrow.multipolygon": 3}
_NAME, _METADATA = b"ARROW:extension:name", b"ARROW:extension:metadata"
_POINT = 0


def with_places(
    table: pa.Table, space: Space, *, source: str, first_row: int = 0, is_message: bool = False, rejected: Rejected
) -> pa.Table:
    """Return the table with its columns of geometries decoded; rows whose geometry cannot be read are rejected.

    A table of messages with the columns of a point has its places there, and its `geometry` is an attribute. Raises
    `InvalidColumns` where the coordinates are of another reference system than the space.
    """
    place = EARTH_PLACE if space.is_earth else PLANE_PLACE
    if is_message and place[0] in table.column_names:
        return table
    for name in ("geometry", "region"):
        if name not in table.column_names or (is_message and name == "region"):
            continue
        kind = _encoding(table.schema.field(name))
        if kind is not None:
            check_crs(crs_of_extension(table.schema.field(name)), space, f"{source}: column {name}")
            table = _Decoder(table, name, kind, source, first_row, rejected).decoded(place)
    return table


def _encoding(field: pa.Field) -> str | None:
    """Return how the geometries of a column are written, None for columns that hold none."""
    name = _extension_name(field)
    if name is not None and name.startswith("geoarrow."):
        if name != "geoarrow.wkb" and name not in _LEVELS:
            known = ", ".join(["geoarrow.wkb", *_LEVELS])
            raise InvalidColumns(f"column {field.name} is of type {name}; expected one of {known}", field=field.name)
        return name
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return "geoarrow.wkb" if any(test(field.type) for test in tests) else None


def _extension_name(field: pa.Field) -> str | None:
    if isinstance(field.type, pa.BaseExtensionType):
        return str(field.type.extension_name)
    name = (field.metadata or {}).get(_NAME)
    return None if name is None else str(name.decode())


class _Decoder:
    """Decodes one column of geometries of a table."""

    def __init__(self, table: pa.Table, name: str, kind: str, source: str, first_row: int, rejected: Rejected):
        self._name, self._kind, self._source, self._rejected = name, kind, source, rejected
        if ROW_COLUMN not in table.column_names:
            numbers = np.arange(first_row, first_row + table.num_rows)
            table = table.append_column(ROW_COLUMN, _arrow.numbers(numbers))
        self._table = table

    def decoded(self, place: tuple[str, ...]) -> pa.Table:
        """Return the table with columns of places instead, without the rows that cannot be read."""
        import shapely

        column = joined(plain(self._table[self._name]))
        geometries = _from_wkb(column) if self._kind == "geoarrow.wkb" else _from_geoarrow(column, self._kind)
        bad = _arrow.array_of(column.is_valid()) & ~_is_usable(geometries)
        self._reject(bad, "cannot be read; expected a point, a polygon or several, in well-known binary or GeoArrow")
        geometries[bad] = None
        is_point = shapely.get_type_id(geometries) == _POINT
        table = self._table.drop_columns([self._name])
        if self._name == "geometry":
            twice = is_point & self._has(table, place[0])
            self._reject(twice, f"is a point, and {place[0]} is given as well; keep one")
            table = _with_points(table, place, geometries, is_point & ~twice)
            bad |= twice
        name = GEOMETRY_COLUMN if self._name == "geometry" else "region"
        others = _geojson(geometries, ~is_point if self._name == "geometry" else np.ones(len(bad), np.bool_))
        table = table.append_column(pa.field(name, pa.string()), others)
        return table.filter(pa.array(~bad)) if bad.any() else table

    @staticmethod
    def _has(table: pa.Table, name: str) -> Mask:
        if name not in table.column_names:
            return np.zeros(table.num_rows, np.bool_)
        has: Mask = _arrow.array_of(table[name].is_valid())
        return has

    def _reject(self, bad: Mask, reason: str) -> None:
        for row in np.flatnonzero(bad).tolist():
            given = self._table["id"][row].as_py() if "id" in self._table.column_names else None
            given = given if isinstance(given, str | int) else None
            number = self._table[ROW_COLUMN][row].as_py()
            self._rejected.add(self._source, number, given, self._name, f"{self._name} {reason}")


def _is_usable(geometries: Geometries) -> Mask:
    import shapely

    usable: Mask = ~shapely.is_missing(geometries) & ~shapely.is_empty(geometries)
    return usable


def _with_points(table: pa.Table, place: tuple[str, ...], geometries: Geometries, is_point: Mask) -> pa.Table:
    """Return the table with the coordinates of points in the columns of places, beside what these hold."""
    import shapely

    for name, get in zip(place, (shapely.get_x, shapely.get_y), strict=False):
        values = pa.array(get(geometries), mask=~is_point)
        if name not in table.column_names:
            table = table.append_column(name, values)
        elif is_point.any():
            held = plain(table[name]).cast(pa.float64(), safe=False)
            table = table.set_column(table.column_names.index(name), name, pc.if_else(pa.array(is_point), values, held))
    return table


def _geojson(geometries: Geometries, which: Mask) -> pa.Array:
    import shapely

    chosen = geometries.copy()
    chosen[~which] = None
    texts = shapely.to_geojson(chosen)
    return pa.array(texts.tolist(), pa.string())


# --- encodings --------------------------------------------------------------------------------------------------


def _from_wkb(column: pa.Array) -> Geometries:
    """Return the geometries of well-known binary, None for what is none."""
    import shapely

    values = np.empty(len(column), object)
    values[:] = column.to_pylist()
    with np.errstate(invalid="ignore", over="ignore"):
        found: Geometries = shapely.force_2d(shapely.from_wkb(values, on_invalid="ignore"))
    return found


def _from_geoarrow(column: pa.Array, kind: str) -> Geometries:
    """Return the geometries of nested lists of coordinates, None for what is none."""
    import shapely

    found = _ragged(column, kind)
    if found is None:  # one bad ring spoils all of them, so each is asked for itself
        found = np.full(len(column), None, object)
        for row in range(len(column)):
            one = _ragged(column.slice(row, 1), kind)
            found[row] = None if one is None else one[0]
    found[~_arrow.array_of(column.is_valid())] = None
    flat: Geometries = shapely.force_2d(found)
    return flat


def _ragged(column: pa.Array, kind: str) -> Geometries | None:
    import shapely

    offsets: list[npt.NDArray[np.int64]] = []
    for _ in range(_LEVELS[kind]):
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
            return None
        start = _arrow.array_of(column.offsets).astype(np.int64)
        column = column.values.slice(int(start[0]), int(start[-1] - start[0]))
        offsets.insert(0, start - start[0])
    types = (shapely.GeometryType.POINT, None, shapely.GeometryType.POLYGON, shapely.GeometryType.MULTIPOLYGON)
    try:
        found: Geometries = shapely.from_ragged_array(
            types[_LEVELS[kind]], _coordinates(column), tuple(offsets) or None
        )
    except (ValueError, TypeError, shapely.errors.ShapelyError):
        return None
    return found


def _coordinates(column: pa.Array) -> npt.NDArray[np.float64]:
    """Return x and y of vertices, which are structs of numbers or lists of two to four numbers."""
    if pa.types.is_struct(column.type):
        parts: list[Any] = [column.field(name).cast(pa.float64()) for name in ("x", "y")]
        return np.column_stack([_arrow.array_of(part, null=np.nan) for part in parts])
    size = column.type.list_size
    flat = column.values.slice(column.offset * size, len(column) * size).cast(pa.float64())
    return np.ascontiguousarray(_arrow.array_of(flat, null=np.nan).reshape(-1, size)[:, :2])
