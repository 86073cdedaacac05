"""GeoParquet: what a file says of its columns of geometries, put on the columns themselves in the way of GeoArrow."""

import json
from typing import Any

import pyarrow as pa

#: Without a word about it, coordinates are longitude and latitude (GeoParquet 1.1, "crs").
_USUAL_CRS = "OGC:CRS84"


def with_geometries_marked(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows of a Parquet file with its geometries marked, the primary one under the name `geometry`.

    `schema` is that of the file; one that is not GeoParquet marks nothing.
    """
    about = _about(schema)
    fields = [_marked(field, about["columns"].get(field.name)) for field in table.schema]
    primary = about.get("primary_column")
    if primary in about["columns"] and not {"geometry", "region"} & set(table.column_names):
        fields = [field.with_name("geometry") if field.name == primary else field for field in fields]
    return pa.table(table.columns, pa.schema(fields)) if about["columns"] else table


def _about(schema: pa.Schema) -> dict[str, Any]:
    try:
        about = json.loads((schema.metadata or {}).get(b"geo", b"{}"))
    except ValueError:
        about = {}
    is_told = isinstance(about, dict) and isinstance(about.get("columns"), dict)
    return about if is_told else {"columns": {}}


def _marked(field: pa.Field, about: Any) -> pa.Field:
    if not isinstance(about, dict):
        return field
    kind = f"geoarrow.{str(about.get('encoding')).lower()}"
    crs = json.dumps({"crs": about.get("crs", _USUAL_CRS)})
    mark = {b"ARROW:extension:name": kind.encode(), b"ARROW:extension:metadata": crs.encode()}
    return field.with_metadata({**(field.metadata or {}), **mark})
