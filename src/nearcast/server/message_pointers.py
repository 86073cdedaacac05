"""Where in a message, as it was given, a field stands: as a Feature it has places of its own for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from nearcast.tables.names import EARTH_PLACE, PLANE_PLACE

_PLACE = {*EARTH_PLACE, *PLANE_PLACE, "place"}
#: Members of a Feature that are in no property.
_MEMBERS = ("id", "geometry", "bbox")


def names_of(message: Any, field: str | None, *, is_earth: bool) -> tuple[str, ...]:
    """Return the names on the way from a message to a field of it; a field that is not there has those it would."""
    if field is None:
        return ()
    if isinstance(message, msgspec.Struct):
        return names_in_feature({"geometry"}, (), field)
    if isinstance(message, Mapping):
        given = message.get("properties")
        properties = given if isinstance(given, Mapping) else {}
        has_place = not message.keys().isdisjoint({"geometry", "bbox"})
        if message.get("type") == "Feature" and (has_place or field in properties):
            return names_in_feature(message, properties, field)
        if field == "place" and "place" not in message:
            return (EARTH_PLACE[0] if is_earth else PLANE_PLACE[0],)
    return (field,)


def names_in_feature(members: Any, properties: Any, field: str) -> tuple[str, ...]:
    """Return the names on the way to a field of a Feature with these members and properties."""
    if field in _PLACE and field not in properties:
        return ("geometry", "coordinates") if "geometry" in members else ("bbox",)
    if field in _MEMBERS and not (field in properties and field not in members):
        return (field,)
    return ("properties", field)


def field_of(names: tuple[str | int, ...]) -> str | None:
    """Return the field of a message that a place in it belongs to."""
    if len(names) > 1 and names[0] == "properties":
        names = names[1:]
    return str(names[0]) if names else None
