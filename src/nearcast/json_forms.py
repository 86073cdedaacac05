"""Subscriptions and messages as JSON: the interchange columns of docs/columns.md, and GeoJSON Features."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from nearcast.geo import Box, Circle, Space
from nearcast.geo.shapes import Shape
from nearcast.model import Message, Similar, Subscription, TopK, Within

_EARTH = {"point": ("lon", "lat"), "radius": "radius_m", "box": ("west", "south", "east", "north"), "unit": "_m"}
_PLANE = {"point": ("x", "y"), "radius": "radius", "box": ("x_min", "y_min", "x_max", "y_max"), "unit": ""}


def rfc_3339(moment: datetime | None) -> str | None:
    """Return a time as text."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def subscription_json(value: Subscription, space: Space) -> dict[str, Any]:
    """Return a subscription in the columns that `subscription_from` reads, without those that were not given."""
    names: dict[str, Any] = _EARTH if space.is_earth else _PLANE
    found: dict[str, Any] = {"id": value.id, "kind": value.kind, "query": value.query}
    if isinstance(value, Within):
        found |= region_json(value.region, space)
    else:
        found |= dict(zip(names["point"], value.place, strict=True))
        found |= _score_columns(value, names["unit"])
    found["expires"] = rfc_3339(value.expires)
    found[f"min_move{names['unit']}"] = value.min_move
    return {name: each for name, each in found.items() if each is not None}


def region_json(region: Shape | None, space: Space) -> dict[str, Any]:
    """Return a region in its columns: four sides, a centre with a radius, or `region` as GeoJSON."""
    names: dict[str, Any] = _EARTH if space.is_earth else _PLANE
    if region is None:
        return {}
    if isinstance(region, Box):
        return dict(zip(names["box"], (region.x_min, region.y_min, region.x_max, region.y_max), strict=True))
    if isinstance(region, Circle):
        return dict(zip((*names["point"], names["radius"]), (region.x, region.y, region.radius), strict=True))
    return {"region": region.to_geojson()}


def _score_columns(value: Similar | TopK, unit: str) -> dict[str, Any]:
    found: dict[str, Any] = {"text_weight": value.text_weight, f"max_distance{unit}": value.max_distance}
    if value.terms is not None:
        found["terms"] = list(value.terms)
    if isinstance(value, TopK):
        return {**found, "k": value.k}
    return {**found, "threshold": value.threshold, "similarity": value.similarity}


def subscription_feature(columns: dict[str, Any]) -> dict[str, Any]:
    """Return a subscription's columns as a GeoJSON Feature; a circle is its centre, with `radius_m` as a property."""
    properties = dict(columns)
    geometry: dict[str, Any] | None = None
    if "region" in properties:
        geometry = properties.pop("region")
    elif "west" in properties:
        geometry = Box(*(properties.pop(name) for name in _EARTH["box"])).to_geojson()
    elif "lon" in properties:
        geometry = {"type": "Point", "coordinates": [properties.pop("lon"), properties.pop("lat")]}
    return {"type": "Feature", "id": properties.pop("id"), "geometry": geometry, "properties": properties}


def message_feature(message: Message) -> dict[str, Any]:
    """Return a message as a GeoJSON Feature; a rectangle is a polygon."""
    place = message.place
    if len(place) == 2:
        geometry: dict[str, Any] = {"type": "Point", "coordinates": list(place)}
    else:
        geometry = Box(*place).to_geojson()
    properties: dict[str, Any] = dict(message.attributes)
    for name in ("text", "terms", "time", "expires"):
        value = getattr(message, name)
        if value is not None:
            properties[name] = rfc_3339(value) if isinstance(value, datetime) else value
    return {"type": "Feature", "id": message.id, "geometry": geometry, "properties": properties}
