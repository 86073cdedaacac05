"""The names of the interchange columns, in the one place where they stand."""

import pyarrow as pa

#: Where a message is: a point, then the far corner of a rectangle.
EARTH_PLACE = ("lon", "lat", "lon_max", "lat_max")
PLANE_PLACE = ("x", "y", "x_max", "y_max")

#: Forms of a subscription's region; the third is `region`, GeoJSON.
EARTH_BOX, EARTH_CIRCLE = ("west", "south", "east", "north"), ("lon", "lat", "radius_m")
PLANE_BOX, PLANE_CIRCLE = ("x_min", "y_min", "x_max", "y_max"), ("x", "y", "radius")

#: All names that belong to one space, in messages or subscriptions.
EARTH_NAMES = tuple(dict.fromkeys((*EARTH_PLACE, *EARTH_BOX, *EARTH_CIRCLE, "max_distance_m", "min_move_m")))
PLANE_NAMES = tuple(dict.fromkeys((*PLANE_PLACE, *PLANE_BOX, *PLANE_CIRCLE, "max_distance", "min_move")))

NUMBER_NAMES = (*EARTH_NAMES, *PLANE_NAMES, "text_weight", "threshold", "k")
TIME_NAMES = ("time", "expires")
TEXT_NAMES = ("text", "kind", "similarity", *TIME_NAMES)

#: Columns that readers of files add: the number of each row in its file, and the geometry of a GeoJSON Feature.
ROW_COLUMN, GEOMETRY_COLUMN = "nearcast.row", "nearcast.geometry"

#: Field metadata of columns without a type, and its values: cells are text, or each is JSON text of its own.
CELLS = b"nearcast.cells"
CSV_CELLS, JSON_CELLS = b"csv", b"json"

#: The columns of deliveries; where all ids are integers, theirs are int64. The key of a delivery is `step`, `arrival`,
#: `change` and `subscription_id`.
DELIVERY_SCHEMA = pa.schema(
    [
        ("subscription_id", pa.string()),
        ("message_id", pa.string()),
        ("change", pa.string()),
        ("score", pa.float64()),
        ("rank", pa.int32()),
        ("cause_id", pa.string()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("step", pa.int64()),
        ("arrival", pa.int64()),
        ("version", pa.string()),
    ]
)
