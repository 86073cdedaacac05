"""From dicts with the interchange columns, GeoJSON Features and `__geo_interface__` to messages and subscriptions."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nearcast.errors import InvalidInput, InvalidMessage, InvalidRegion, InvalidSubscription, NearcastError
from nearcast.geo.shapes import Shape, as_float, box_from, check_position, circle_from, is_number, shape_from, shorten
from nearcast.geo.space import Space
from nearcast.model.places import place_of_feature
from nearcast.model.spelling import did_you_mean, nearest, one_edit_away
from nearcast.model.values import Message, Similar, Subscription, TopK, Within

_EARTH = Space.earth()

_MESSAGE_EARTH = ("lon", "lat", "lon_max", "lat_max")
_MESSAGE_PLANE = ("x", "y", "x_max", "y_max")
_MESSAGE_FIELDS = ("id", "text", "terms", "time", "expires")
_MESSAGE_NAMES = (*_MESSAGE_FIELDS, *_MESSAGE_EARTH, *_MESSAGE_PLANE)

#: Every complete way to write a region, by the names it takes.
_EARTH_REGIONS = (("west", "south", "east", "north"), ("lon", "lat", "radius_m"))
_PLANE_REGIONS = (("x_min", "y_min", "x_max", "y_max"), ("x", "y", "radius"))
_REGION_FORMS = (*_EARTH_REGIONS, ("region",), *_PLANE_REGIONS)
_EARTH_NAMES = ("lon", "lat", "west", "south", "east", "north", "radius_m", "max_distance_m", "min_move_m")
_PLANE_NAMES = ("x", "y", "x_min", "y_min", "x_max", "y_max", "radius", "max_distance", "min_move")

_SUBSCRIPTION_FIELDS = (
    *("id", "kind", "query", "terms", "radius_m", "max_distance_m"),
    *("text_weight", "threshold", "similarity", "k", "expires"),
)
_SCORED_FIELDS = {
    "similar": ("query", "terms", "text_weight", "threshold", "similarity", "expires"),
    "topk": ("query", "terms", "text_weight", "k", "expires"),
}
_SUBSCRIPTION_NAMES = (*_SUBSCRIPTION_FIELDS, "region", "place", *_EARTH_NAMES, *_PLANE_NAMES)
_SCORED = ("similar", "topk")
_KINDS = ("within", *_SCORED)
#: The kinds that use a name which not all use.
KINDS_OF = {
    **dict.fromkeys(("terms", "text_weight", "max_distance_m", "max_distance"), _SCORED),
    **dict.fromkeys(("threshold", "similarity"), ("similar",)),
    "k": ("topk",),
}
#: The same for values, which may have a place instead of coordinates.
_KINDS_OF_VALUES = (*KINDS_OF.items(), ("place", _SCORED))


def read_message(value: Any, space: Space | None = None) -> Message:
    """Return the message of a dict, a Feature or an object with `__geo_interface__`."""
    row, feature = _row_and_feature(value, _MESSAGE_FIELDS, InvalidMessage)
    given = {name: row[name] for name in _MESSAGE_FIELDS if row.get(name) is not None}
    _require_id(given, InvalidMessage)
    used: tuple[str, ...] = ()
    if feature is not None:
        place = place_of_feature(feature, InvalidMessage, space or _EARTH)
    else:
        place, used = _message_place(row)
        if space is not None and used == (_MESSAGE_PLANE if space.is_earth else _MESSAGE_EARTH):
            other = _MESSAGE_EARTH if space.is_earth else _MESSAGE_PLANE
            raise InvalidMessage(
                f"{used[0]} and {used[1]} do not belong to the {space.kind}; give {other[0]} and {other[1]}",
                field=used[0],
            )
    nested = row.get("attributes")
    attributes = dict(nested) if isinstance(nested, Mapping) else {}
    taken = {*_MESSAGE_FIELDS, *used, *(["attributes"] if isinstance(nested, Mapping) else [])}
    attributes.update((name, each) for name, each in row.items() if name not in taken)
    message = Message(place=place, attributes=attributes, **given)
    if feature is not None or used == _MESSAGE_EARTH:
        message.check(space or _EARTH)
    return message


def _message_place(row: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """Return the place and the names of the columns it was written in."""
    forms = [names for names in (_MESSAGE_EARTH, _MESSAGE_PLANE, ("place",)) if _given(row, names)]
    if not forms:
        hint = _hint(row, (*_MESSAGE_EARTH, *_MESSAGE_PLANE, "place"))
        raise InvalidMessage(f"the message has no place; give lon and lat, or x and y on a plane{hint}", field="place")
    if len(forms) > 1:
        both = ", ".join(name for form in forms for name in _given(row, form))
        raise InvalidMessage(f"{both} are given together; use lon, lat on the earth or x, y on a plane", field="place")
    names = forms[0]
    if names == ("place",):
        return row["place"], names
    wanted = names if _given(row, names[2:]) else names[:2]
    missing = [name for name in wanted if row.get(name) is None]
    if missing:
        present = ", ".join(_given(row, names))
        raise InvalidMessage(
            f"{present} given without {', '.join(missing)}; give all of them{_hint(row, missing)}", field=missing[0]
        )
    _check_corners(wanted, [row[name] for name in wanted])
    return tuple(row[name] for name in wanted), names


def _hint(row: Mapping[str, Any], missing: Iterable[str]) -> str:
    """Return a question about an attribute that looks like a name that is missing, or nothing."""
    for name in row:
        meant = nearest(name, missing) if isinstance(name, str) and name not in _MESSAGE_NAMES else None
        if meant is not None:
            return f"; is {name} meant as {meant}?"
    return ""


def _check_corners(names: tuple[str, ...], values: list[Any]) -> None:
    """Refuse by the names of their columns what `Message` would refuse as a place."""
    for name, value in zip(names, values, strict=True):
        if not is_number(value) or not math.isfinite(as_float(value)):
            raise InvalidMessage(f"{name} is {shorten(value)}; expected a finite number", field=name)
    if len(values) == 4 and values[1] > values[3]:
        raise InvalidMessage(f"{names[3]} {values[3]} is below {names[1]} {values[1]}; swap them", field=names[3])


def read_subscription(value: Any, given: Space | None = None) -> Subscription:
    """Return the subscription of a dict, a Feature or an object with `__geo_interface__`."""
    row, feature = _row_and_feature(value, _SUBSCRIPTION_FIELDS, InvalidSubscription)
    _refuse_unknown(row, is_feature=feature is not None)
    row = _with_geometry(row, feature, given or _EARTH) if feature is not None else row
    kind = row.get("kind")
    kind = "within" if kind is None else kind
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidSubscription(f"kind is {shorten(kind)}; expected within, similar or topk", field="kind")
    _require_id(row, InvalidSubscription)
    _refuse_of_other_kinds(row, kind)
    earth, plane = _given(row, _EARTH_NAMES), _given(row, _PLANE_NAMES)
    if earth and plane:
        raise InvalidSubscription(
            f"{earth[0]} belongs to the earth and {plane[0]} to a plane; use one or the other", field=plane[0]
        )
    foreign = () if given is None else plane if given.is_earth else earth
    if given is not None and foreign:
        raise InvalidSubscription(f"{foreign[0]} does not belong to the {given.kind}", field=foreign[0])
    space = _EARTH if earth or (feature is not None and given is None) else Space.plane() if plane else given
    return _read_within(row, space) if kind == "within" else _read_scored(kind, row, space)


def _refuse_unknown(row: Mapping[str, Any], *, is_feature: bool) -> None:
    """Refuse names that mean nothing; properties of a Feature may have any that do not look misspelt."""
    for name, value in row.items():
        if name in _SUBSCRIPTION_NAMES or value is None:
            continue
        if is_feature and (not isinstance(name, str) or one_edit_away(name, _SUBSCRIPTION_NAMES) is None):
            continue
        hint = did_you_mean(name, _SUBSCRIPTION_NAMES) if isinstance(name, str) else ""
        raise InvalidSubscription(f"{shorten(name)} means nothing in a subscription{hint}", field=str(name))


def _refuse_of_other_kinds(row: Mapping[str, Any], kind: str) -> None:
    for name, kinds in _KINDS_OF_VALUES:
        if row.get(name) is not None and kind not in kinds:
            known = f"kind {kind} does not use" if row.get("kind") else "a subscription without kind does not use"
            raise InvalidSubscription(
                f"{name} is given, which {known}; give kind {' or '.join(kinds)}, or leave it out", field=name
            )


def _read_within(row: Mapping[str, Any], space: Space | None) -> Within:
    query = row.get("query")
    region = _region(row, space)
    return Within(
        row["id"], "" if query is None else query, region, expires=row.get("expires"), min_move=_min_move(row)
    )


def _min_move(row: Mapping[str, Any]) -> Any:
    """Return how far a move must go to count; errors call it as its column is called."""
    for name in _given(row, ("min_move_m", "min_move")):
        return row[name]
    return None


def _region(row: Mapping[str, Any], space: Space | None) -> Shape | None:
    """Return the region of the one form that is given, None for none; half a form or two are refused."""
    begun = [form for form in _REGION_FORMS if _given(row, form)]
    if not begun:
        return None
    if len(begun) > 1:
        forms = " and ".join(", ".join(_given(row, form)) for form in begun)
        raise InvalidSubscription(f"two regions are given: {forms}; keep one", field="region")
    form = begun[0]
    missing = [name for name in form if row.get(name) is None]
    if missing:
        present = ", ".join(_given(row, form))
        raise InvalidSubscription(f"{present} given without {', '.join(missing)}; give all of them", field=missing[0])
    if form == ("region",):
        return shape_from(row["region"], space)
    values = [row[name] for name in form]
    return shape_from(box_from(values, space) if len(values) == 4 else circle_from(values, space), space)


def _read_scored(kind: str, row: Mapping[str, Any], space: Space | None) -> Similar | TopK:
    place = _scored_place(row)
    if space is _EARTH and isinstance(place, tuple):
        _check_on_earth(place)
    given = {name: row[name] for name in _SCORED_FIELDS[kind] if row.get(name) is not None}
    for name in _given(row, ("max_distance_m", "max_distance")):
        given["max_distance"] = row[name]
    given["min_move"] = _min_move(row)
    if kind == "topk":
        return TopK(row["id"], place=place, **given)
    if "threshold" not in given:
        raise InvalidSubscription(
            "a similar subscription has no threshold; give one above 0, up to 1", field="threshold"
        )
    return Similar(row["id"], place=place, **given)


def _scored_place(row: Mapping[str, Any]) -> Any:
    extra = [name for form in _REGION_FORMS for name in _given(row, form) if name not in ("lon", "lat", "x", "y")]
    if extra:
        raise InvalidSubscription(
            f"{extra[0]} is given, but this kind has a point and a max_distance; use kind within for a region",
            field=extra[0],
        )
    forms = [form for form in (("lon", "lat"), ("x", "y"), ("place",)) if _given(row, form)]
    if len(forms) != 1 or len(_given(row, forms[0])) != len(forms[0]):
        raise InvalidSubscription("the place is incomplete or given twice; give lon and lat, or x and y", field="place")
    return row["place"] if forms[0] == ("place",) else tuple(row[name] for name in forms[0])


def _check_on_earth(place: tuple[Any, ...]) -> None:
    try:
        check_position(*place)
    except InvalidRegion as error:
        raise InvalidSubscription(str(error), field=error.field) from None
    except TypeError:
        return  # no numbers: the constructor says so better


# --- GeoJSON ----------------------------------------------------------------------------------------------------


#: What bulk readers say about Features that `has_two_ids`.
TWO_IDS = "Features have an id of their own and another one among their properties, which counts"


def has_two_ids(value: Any) -> bool:
    """Tell whether a value is a Feature with an id of its own and another one among its properties, which counts."""
    if not isinstance(value, Mapping) or value.get("type") != "Feature" or value.get("id") is None:
        return False
    properties = value.get("properties")
    return isinstance(properties, Mapping) and properties.get("id") not in (None, value["id"])


def _forms(value: Any, error: type[InvalidInput]) -> str:
    """Say what is taken in place of a value that is none of it."""
    is_message = error is InvalidMessage
    values = "a Message" if is_message else "Within, Similar, TopK"
    forms = f"expected a dict, {values}, a GeoJSON Feature or an object with __geo_interface__"
    if isinstance(value, list | tuple):
        forms += f"; {'publish_many' if is_message else 'subscribe_many'} takes a list"
    return forms


def _row_and_feature(
    value: Any, names: tuple[str, ...], error: type[InvalidInput]
) -> tuple[dict[str, Any], Mapping[str, Any] | None]:
    """Return the named fields of a value and, if it is GeoJSON, the Feature that holds its geometry."""
    attributes: dict[str, Any] = {}
    if not isinstance(value, Mapping):
        if not hasattr(value, "__geo_interface__"):
            raise error(f"got {shorten(value)}; {_forms(value, error)}")
        attributes = {name: getattr(value, name) for name in names if getattr(value, name, None) is not None}
        value = value.__geo_interface__
        if value.get("type") != "Feature":
            return attributes, {"type": "Feature", "geometry": value}
    if value.get("type") != "Feature" or not ("geometry" in value or "bbox" in value):
        return dict(value), None
    properties = value.get("properties") or {}
    if not isinstance(properties, Mapping):
        raise error(f"properties is {shorten(properties)}; expected an object", field="properties")
    row = {**attributes, **properties}
    if value.get("id") is not None and row.get("id") is None:
        row["id"] = value["id"]
    return row, value


def _with_geometry(row: dict[str, Any], feature: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return the properties of a subscription's Feature with its geometry under the name of its column."""
    geometry = feature.get("geometry")
    if isinstance(geometry, Mapping) and geometry.get("type") == "Point":
        place = place_of_feature(feature, InvalidSubscription, space)
        return {**row, **dict(zip(("lon", "lat") if space.is_earth else ("x", "y"), place, strict=True))}
    if geometry is None:
        bbox = feature.get("bbox")
        return row if bbox is None else {**row, "region": place_of_feature(feature, InvalidSubscription, space)}
    return {**row, "region": geometry}


def _given(row: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    return [name for name in names if row.get(name) is not None]


def _require_id(row: Mapping[str, Any], error: type[InvalidInput]) -> None:
    if row.get("id") is None:
        raise error("there is no id; give a str or an int", field="id")


def message_from(value: Any, space: Space | None = None) -> Message:
    """Return the message that `value` describes; raise `InvalidMessage` where it cannot be one.

    Takes a Message; a dict with the columns `id`, `text`, `terms`, `lon`, `lat` (or `x`, `y`), for a rectangle also
    `lon_max`, `lat_max` (or `x_max`, `y_max`), `time`, `expires`, all others becoming attributes; a GeoJSON Feature of
    a Point, of a Polygon that is a rectangle along the axes, or of a `bbox` alone; or anything with
    `__geo_interface__`. None means not given. Names tell the space: positions on the earth are checked, and names that
    contradict `space` are refused.

    >>> message_from({"id": 7, "text": "free coffee", "lon": 13.4, "lat": 52.5, "shop": "Roast"})
    Message(id=7, text='free coffee', place=(13.4, 52.5), attributes={'shop': 'Roast'})
    """
    if isinstance(value, Message):
        return value
    with _odd_objects_as(InvalidMessage):
        return read_message(value, space)


def subscription_from(value: Any, space: Space | None = None) -> Subscription:
    """Return the subscription that `value` describes; raise `InvalidSubscription` where it cannot be one.

    Takes a subscription; a dict with `id`, `kind` (`within` unless given), `query`, and for `within` one complete
    region form or none: `west`, `south`, `east`, `north`; `lon`, `lat`, `radius_m`; `region` (GeoJSON); on a plane
    `x_min`, `y_min`, `x_max`, `y_max`; `x`, `y`, `radius`. For `similar` and `topk`: `lon`, `lat`, `max_distance_m` or
    `x`, `y`, `max_distance`, with `text_weight`, `threshold`, `similarity`, `k`, `terms`. Or a GeoJSON Feature with
    these as properties, or anything with `__geo_interface__`. None means not given; other names are refused,
    except among the properties of a Feature, and so are names of another kind and of another space than `space`.

    >>> subscription_from({"id": "s1", "query": "coffee", "lon": 13.4, "lat": 52.5, "radius_m": 800})
    Within(id='s1', query='coffee', region=Circle(x=13.4, y=52.5, radius=800.0))
    """
    if isinstance(value, Within | Similar | TopK):
        return value
    with _odd_objects_as(InvalidSubscription):
        return read_subscription(value, space)


@contextmanager
def _odd_objects_as(error: type[InvalidInput]) -> Iterator[None]:
    """Turn what the methods of a user's object raise into an error about the value: bulk calls go on after it."""
    try:
        yield
    except (NearcastError, MemoryError):
        raise
    except Exception as reason:
        said = " ".join(str(reason).split())
        raise error(f"it cannot be read ({type(reason).__name__}: {said}); give plain values") from reason
