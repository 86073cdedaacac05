"""Coordinate reference systems of geometries: is it the one of the space?"""

import json
from typing import Any

import pyarrow as pa

from nearcast.errors import InvalidColumns
from nearcast.geo.space import Space

_EARTH = ("EPSG:4326", "OGC:CRS84")


def crs_of_extension(field: pa.Field) -> Any:
    """Return the reference system that the metadata of a GeoArrow column names, None if it names none."""
    if isinstance(field.type, pa.BaseExtensionType):
        serialized = field.type.__arrow_ext_serialize__()
    else:
        serialized = (field.metadata or {}).get(b"ARROW:extension:metadata") or b""
    try:
        about = json.loads(serialized or b"{}")
    except ValueError:
        return None
    return about.get("crs") if isinstance(about, dict) else None


def check_crs(crs: Any, space: Space, what: str) -> None:
    """Raise `InvalidColumns` unless a reference system, if one is named, is longitude and latitude on the earth."""
    if crs is None:
        return
    if not space.is_earth:
        raise InvalidColumns(
            f"{what} has the reference system {name_of_crs(crs)}, which is one of the earth; a plane has none:"
            " use set_crs(None, allow_override=True), or the space earth",
            field="geometry",
        )
    if not is_lon_lat(crs):
        raise InvalidColumns(
            f"{what} has the reference system {name_of_crs(crs)}; the earth has longitude and latitude, EPSG:4326:"
            " use to_crs(4326)",
            field="geometry",
        )


def is_lon_lat(crs: Any) -> bool:
    """Tell whether a reference system, as PROJJSON, as text or of pyproj, is WGS 84 in degrees."""
    return name_of_crs(crs).upper() in _EARTH or "WGS 84 (CRS84)" in name_of_crs(crs)


def name_of_crs(crs: Any) -> str:
    """Return authority and code of a reference system, else its name."""
    if hasattr(crs, "to_json_dict"):
        crs = crs.to_json_dict()
    if isinstance(crs, str):
        try:
            crs = json.loads(crs)
        except ValueError:
            return "EPSG:4326" if crs.rstrip().endswith('ID["EPSG",4326]]') else crs[:60]
    if not isinstance(crs, dict):
        return str(crs)[:60]
    about = crs.get("id")
    if isinstance(about, dict):
        return f"{about.get('authority')}:{about.get('code')}"
    return str(crs.get("name", crs))[:60]
