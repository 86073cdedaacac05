"""How far `near` reaches in a benchmark: a distance, or a share of the data's diameter."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from nearcast.errors import InvalidColumns
from nearcast.geo import EARTH_RADIUS_M, Space

if TYPE_CHECKING:
    from nearcast.bench.data.workloads import Workload

#: The share of the diameter unless something is said, of similar subscriptions.
DEFAULT_SHARE = 0.05


@dataclass(frozen=True)
class MaxDistance:
    """What the command line says about `max_distance`: a distance, a share of the diameter, or nothing.

    With nothing said, subscriptions keep what they have, and those that have none get the `usual_share`.
    """

    distance: float | None = None
    share: float | None = None
    usual_share: float = DEFAULT_SHARE

    def applied(self, workload: Workload) -> Workload:
        """Return the workload with the distance in its own column, and in what is told about it."""
        table = workload.subscriptions
        space, across = diameter(table)
        name = "max_distance_m" if space.is_earth else "max_distance"
        share = self.share or self.usual_share
        value = share * across if self.distance is None else self.distance
        keeps_own = self.distance is None and self.share is None and name in table.column_names
        if keeps_own:
            column = pc.fill_null(table[name], value)
            table = table.set_column(table.column_names.index(name), name, column)
        else:
            if name in table.column_names:
                table = table.drop_columns([name])
            table = table.append_column(name, pc.add(pa.nulls(table.num_rows, pa.float64()).fill_null(0.0), value))
        about = {"diameter": round(across, 3), "max_distance": None if keeps_own else round(value, 3)}
        return replace(workload, about=workload.about | about, subscriptions=table)


def diameter(subscriptions: pa.Table) -> tuple[Space, float]:
    """Return the space of places in a table and the diagonal of the box around them, in metres or units.

    On the earth a box of more than half the longitudes has no diagonal that is the longest way: then it is half the
    circumference, beyond which nothing lies.
    """
    given = subscriptions.column_names
    names = next((names for names in (("lon", "lat"), ("x", "y")) if set(names) <= set(given)), None)
    if names is None:
        has = ", ".join(given)
        raise InvalidColumns(f"the subscriptions have the columns {has}; scored ones need lon and lat, or x and y")
    (west, east), (south, north) = (pc.min_max(subscriptions[name]).as_py().values() for name in names)
    if west is None or south is None:
        raise InvalidColumns(f"the subscriptions have no {names[0]} and {names[1]} in any row")
    space = Space.earth() if names[0] == "lon" else Space.plane()
    if space.is_earth and east - west > 180:
        return space, math.pi * EARTH_RADIUS_M
    return space, float(space.distance(west, south, east, north))
