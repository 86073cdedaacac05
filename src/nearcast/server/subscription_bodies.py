"""A subscription as a request gives it: the columns of docs/columns.md, and what the server keeps beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nearcast.errors import InvalidSubscription
from nearcast.geo import Area, Space
from nearcast.geo.shapes import shorten
from nearcast.json_forms import subscription_json
from nearcast.model import Subscription, Within, subscription_from
from nearcast.server.ids import new_id
from nearcast.server.problems import OverLimit
from nearcast.server.query_limits import check_query, check_written_query
from nearcast.server.settings import LimitSettings
from nearcast.server.subscription_rows import SubscriptionRow
from nearcast.server.tokens import checked_name

#: What a body may have beside the columns of a subscription; `version` is told, and not taken.
OWN_FIELDS = ("subscriber", "labels", "max_events", "paused", "version")
_MOST_LABELS, _MOST_LABEL_CHARS = 32, 200


def read_row(
    given: dict[str, Any],
    space: Space,
    limits: LimitSettings,
    make_id: Callable[[], str] = new_id,
    *,
    is_known: bool = False,
) -> tuple[SubscriptionRow, Subscription]:
    """Return the row of a body, and the subscription in it, checked but for what only the hub knows.

    `make_id` is called where the body has no id. A query that `is_known` is that of a subscription which is stored: the
    limits may have been others then.
    """
    columns, own = _parted(given)
    if columns.get("id") is None and columns.get("type") != "Feature":
        columns["id"] = make_id()
    elif columns.get("type") == "Feature" and columns.get("id") is None:
        columns = {**columns, "id": (columns.get("properties") or {}).get("id") or make_id()}
    held = columns.get("properties") if columns.get("type") == "Feature" else columns
    if not is_known:
        check_written_query(held.get("query") if isinstance(held, dict) else None, limits)
    value = subscription_from(columns, space)
    checked_name(value.id, "id")
    value.check(space)
    if not is_known:
        check_query(value, limits)
    _check_vertices(value, limits)
    row = SubscriptionRow(
        id=str(value.id),
        subscriber=None if own.get("subscriber") is None else checked_name(own["subscriber"], "subscriber"),
        labels=_labels(own.get("labels")),
        max_events=_max_events(own.get("max_events")),
        is_paused=_flag(own.get("paused")),
        body=subscription_json(value, space),
    )
    return row, value


def _parted(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns of a subscription and the server's own fields, which in a Feature are properties."""
    held = given.get("properties") if given.get("type") == "Feature" else given
    if not isinstance(held, dict):
        return given, {}
    own = {name: held[name] for name in OWN_FIELDS if name in held}
    columns = {name: value for name, value in held.items() if name not in OWN_FIELDS}
    return ({**given, "properties": columns}, own) if held is not given else (columns, own)


def names_in_subscription(given: Any, field: str | None) -> tuple[str, ...]:
    """Return the names on the way from a subscription, as it was given, to a field of it."""
    if field is None:
        return ()
    if not isinstance(given, dict) or given.get("type") != "Feature":
        return (field,)
    properties = given.get("properties")
    if isinstance(properties, dict) and field in properties:
        return ("properties", field)
    return ("geometry",) if field in ("region", "lon", "lat", "x", "y") else (field,)


def _check_vertices(value: Subscription, limits: LimitSettings) -> None:
    if not isinstance(value, Within) or not isinstance(value.region, Area):
        return
    import shapely

    n = int(shapely.get_num_coordinates(value.region.geometry))
    if n > limits.vertices:
        reason = f"region has {n:,} vertices; limits.vertices allows {limits.vertices:,}, simplify it"
        raise OverLimit(reason, field="region", limit="limits.vertices", given=n, allowed=limits.vertices)


def _labels(given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, dict) or len(given) > _MOST_LABELS:
        raise InvalidSubscription(
            f"labels is {shorten(given)}; expected an object of at most {_MOST_LABELS} texts", field="labels"
        )
    for name, value in given.items():
        if not isinstance(value, str) or not name or len(name) + len(value) > _MOST_LABEL_CHARS or ":" in name:
            raise InvalidSubscription(
                f"label {shorten(name)} is {shorten(value)}; expected text of at most {_MOST_LABEL_CHARS} characters, "
                "and no ':' in the name",
                field="labels",
            )
    return given


def _max_events(given: Any) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given < 1 << 53:
        raise InvalidSubscription(
            f"max_events is {shorten(given)}; expected a whole number above 0", field="max_events"
        )
    return given


def _flag(given: Any) -> bool:
    if given is None or isinstance(given, bool):
        return bool(given)
    raise InvalidSubscription(f"paused is {shorten(given)}; expected true or false", field="paused")


def merged(before: Any, patch: Any) -> Any:
    """Return a value after a merge patch (RFC 7396): null takes a key away."""
    if not isinstance(patch, dict):
        return patch
    found = dict(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value)
    return found
