"""Places: the space, the shapes people write, and regions as columns.

Order is always longitude before latitude, x before y. Borders are inside.

- A **box** compares coordinates as written: west ≤ lon ≤ east, or for west > east (over the dateline) lon ≥ west or
  lon ≤ east. So a box that ends at 180 does not hold a point written as -180; one that crosses holds both.
- A **circle** holds what lies within its radius by haversine distance, so the dateline and the poles need no care.
- A **polygon** has straight edges in longitude and latitude. A ring that jumps more than 180° of longitude between
  neighbours goes the short way round and is cut at the dateline; one that touches ±180 is taken as written.
"""

from nearcast.geo.parts import ANYWHERE, BOX, CIRCLE, POLYGON
from nearcast.geo.regions import Regions, polygons_touch, touches
from nearcast.geo.shapes import Area, Box, Circle, Shape, shape_from
from nearcast.geo.space import (
    EARTH_RADIUS_M,
    Space,
    box_distance,
    circle_holds,
    cos_latitude,
    haversine,
    haversine_by_cosines,
    place_distance,
)

__all__ = [
    "ANYWHERE",
    "BOX",
    "CIRCLE",
    "EARTH_RADIUS_M",
    "POLYGON",
    "Area",
    "Box",
    "Circle",
    "Regions",
    "Shape",
    "Space",
    "box_distance",
    "circle_holds",
    "cos_latitude",
    "haversine",
    "haversine_by_cosines",
    "place_distance",
    "polygons_touch",
    "shape_from",
    "touches",
]
