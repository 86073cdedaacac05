"""What bulk calls are given → an Arrow table, or values one by one."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from nearcast.errors import InvalidColumns
from nearcast.geo.space import Space
from nearcast.tables.crs import check_crs


def table_or_values(given: Any, space: Space) -> pa.Table | Iterable[Any]:
    """Return what speaks Arrow as a table, a FeatureCollection as its Features, other iterables as they are.

    Raises `InvalidColumns` for what only looks like one of these.
    """
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if hasattr(given, "iterfeatures") and hasattr(given, "to_arrow"):
        return _geo_table(given, space)
    if hasattr(given, "__arrow_c_stream__"):
        try:
            return pa.table(given)
        except pa.ArrowException as error:
            said = str(error).splitlines()[0]
            raise InvalidColumns(
                f"the {type(given).__name__} has a column that is no Arrow column: {said}; give plain columns"
            ) from None
    if isinstance(given, Mapping) and given.get("type") == "FeatureCollection":
        features = given.get("features")
        if not isinstance(features, Iterable) or isinstance(features, str | bytes | Mapping):
            raise InvalidColumns("the FeatureCollection has no list of features; expected Features in it")
        return features
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidColumns(f"{type(given).__name__} was given; expected a table or a list of values")
    return given


def _geo_table(frame: Any, space: Space) -> pa.Table:
    """Return the columns of a GeoDataFrame, its active geometry in well-known binary under the name `geometry`."""
    if frame.crs is None and space.is_earth:
        raise InvalidColumns(
            "the GeoDataFrame has no reference system; if it has longitude and latitude, use set_crs(4326)",
            field="geometry",
        )
    check_crs(frame.crs, space, "the GeoDataFrame")
    table = pa.table(frame.to_arrow(index=False, geometry_encoding="WKB"))
    active = frame.geometry.name
    if active in ("geometry", "region"):
        return table
    others = [name for name in table.column_names if name != "geometry"]
    table = table.select(others)
    return table.rename_columns(["geometry" if name == active else name for name in others])
