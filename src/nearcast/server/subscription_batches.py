"""Many subscriptions in one request: one transaction of intents, one input of the hub, one end of them.

A known id is replaced, as in `Hub.subscribe_many`. What cannot be stored is rejected with its row and stops no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from nearcast.errors import InvalidInput, NearcastError
from nearcast.server.access import Caller
from nearcast.server.bodies import decoded_items, decoded_lines, lines_in
from nearcast.server.message_pointers import field_of
from nearcast.server.problems import Problem, at, names_of_pointer, pointer_to, problem_of
from nearcast.server.subscription_bodies import names_in_subscription
from nearcast.server.subscription_changes import RowsBefore, hold_rows
from nearcast.server.subscription_checks import room_in, row_for
from nearcast.server.subscription_rows import SubscriptionRow, with_next_version
from nearcast.server.tenants import Tenant


class GivenItems(NamedTuple):
    """The subscriptions of a request that may have several, and the JSON pointer to their list; None: it is one."""

    items: list[Any] | None
    value: Any = None
    holder: str = ""


def items_of(body: bytes, *, is_lines: bool, most: int) -> GivenItems:
    """Return the subscriptions of a body, or the one `value` that it has."""
    found = GivenItems(lines_in(body)) if is_lines else _of_json(body)
    n = len(found.items or ())
    if n > most:
        raise Problem(413, "too-many-items", f"{n:,} subscriptions in one request; send at most {most:,}")
    return GivenItems(decoded_lines(found.items or [])) if is_lines else found


def _of_json(body: bytes) -> GivenItems:
    given = decoded_items(body)
    if isinstance(given, list):
        return GivenItems(given)
    if isinstance(given, dict) and given.get("type") == "FeatureCollection":
        items = given.get("features")
        if not isinstance(items, list):
            raise Problem(422, "invalid-content", "features is not a list", [at("/features", "expected a list")])
        return GivenItems(items, holder="/features")
    return GivenItems(None, given)


_NO_ROOM = "the tenant has as many subscriptions as it may; delete some"
#: Makes the id of an item that has none, by its row.
MakeId = Callable[[int], str]


async def post_many(caller: Caller, given: GivenItems, make_id: MakeId) -> Response:
    """Store subscriptions; answer how many were, and which were not."""
    rejected: list[dict[str, Any]] = []
    items = given.items or []
    rows = await caller.tenant.call(_read, caller, items, rejected, make_id)
    if rows:
        rejected += await _stored(caller, rows)
    rejected.sort(key=lambda each: each["row"])
    for each in rejected:
        names = names_in_subscription(items[each["row"]], each["field"])
        pointer = each.get("pointer") or pointer_to(*names)
        each["pointer"] = f"{given.holder}/{each['row']}{pointer}"
    caller.tenant.metrics.rejected.inc(len(rejected))
    answer = {"accepted": len(items) - len(rejected), "rejected": rejected}
    return Response(msgspec.json.encode(answer), 200, media_type="application/json")


def _read(
    caller: Caller, items: list[Any], rejected: list[dict[str, Any]], make_id: MakeId
) -> dict[int, SubscriptionRow]:
    """Return the rows of the items that can be used, by their number; in a thread."""
    found: dict[int, SubscriptionRow] = {}
    ids: set[str] = set()
    for number, item in enumerate(items):
        try:
            if isinstance(item, Problem):
                raise item
            if not isinstance(item, dict):
                raise InvalidInput("a subscription must be an object")
            row = row_for(caller, item, partial(make_id, number))
            if row.id in ids:
                raise InvalidInput("another subscription of the request has the id; leave one out", field="id")
            if row.is_paused:
                raise InvalidInput("paused is for single subscriptions; leave it out", field="paused")
            known = caller.tenant.rows.get(row.id)
            if known is not None:
                caller.check_subscriber(known.subscriber)
        except (NearcastError, Problem) as error:
            rejected.append(_rejected(number, item, error))
        else:
            ids.add(row.id)
            found[number] = row
    return found


def _rejected(number: int, item: Any, error: Exception) -> dict[str, Any]:
    problem = error if isinstance(error, Problem) else problem_of(error)
    id_ = item.get("id") if isinstance(item, dict) else None
    found = {"row": number, "id": id_ if isinstance(id_, str) else None, "reason": problem.detail}
    if isinstance(error, InvalidInput):  # whose column may have another place in what was given
        return {**found, "field": error.field}
    names = names_of_pointer(problem.errors[0]["pointer"]) if problem.errors else ()
    return {**found, "field": field_of(names), "pointer": pointer_to(*names)}


async def _stored(caller: Caller, given: dict[int, SubscriptionRow]) -> list[dict[str, Any]]:
    """Store rows in both places; return those that the hub rejected."""
    tenant = caller.tenant
    async with AsyncExitStack() as stack:
        for lock in tenant.locks(row.id for row in given.values()):
            await stack.enter_async_context(lock)
        before = {row.id: tenant.rows.get(row.id) for row in given.values()}
        for known in before.values():  # made by somebody else since the rows were read
            if known is not None:
                caller.check_subscriber(known.subscriber)
        rows = {number: with_next_version(row, before[row.id]) for number, row in given.items()}
        refused = _without_room(tenant, rows, before)
        if not rows:
            return list(refused.values())

        async def hold() -> Collection[str]:
            found = await tenant.call(_subscribed, tenant, rows)
            refused.update(found)
            return {rows[number].id for number in found}

        await hold_rows(tenant, list(rows.values()), before, hold)
    return list(refused.values())


def _without_room(tenant: Tenant, rows: dict[int, SubscriptionRow], before: RowsBefore) -> dict[int, dict[str, Any]]:
    """Take away rows for which the tenant has no room, the last first; return them as rejected, by their number."""
    held = (before[row.id] for row in rows.values())
    n_new = sum(row is None or row.is_paused for row in held)
    refused: dict[int, dict[str, Any]] = {}
    for number in sorted(rows, reverse=True):
        known = before[rows[number].id]
        if n_new <= room_in(tenant):
            break
        if known is None or known.is_paused:
            n_new -= 1
            refused[number] = _rejected(number, {"id": rows.pop(number).id}, InvalidInput(_NO_ROOM))
    return refused


def _subscribed(tenant: Tenant, rows: dict[int, SubscriptionRow]) -> dict[int, dict[str, Any]]:
    """Let the hub hold all rows, by one input; return those that it rejected, by their number."""
    numbers = list(rows)
    values = [{**row.body, "subscriber": row.subscriber} for row in rows.values()]
    try:
        rejected = list(tenant.hub.subscribe_many(values))
    except InvalidInput as error:
        return {number: _rejected(number, {"id": row.id}, error) for number, row in rows.items()}
    return {
        numbers[each.row]: {"row": numbers[each.row], "id": each.id, "field": each.field, "reason": each.reason}
        for each in rejected
    }
