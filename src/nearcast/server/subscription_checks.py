"""What a caller may store as a subscription: the limits of its tenant, and the subscriber that its token is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nearcast.errors import InvalidInput
from nearcast.server.access import Caller
from nearcast.server.ids import new_id
from nearcast.server.problems import Problem, at, problem_of
from nearcast.server.subscription_bodies import names_in_subscription, read_row
from nearcast.server.subscription_rows import SubscriptionRow
from nearcast.server.tenants import Tenant


def checked_for(
    caller: Caller, given: dict[str, Any], make_id: Callable[[], str] = new_id, *, is_known: bool = False
) -> SubscriptionRow:
    """Return the row of a body, as `row_for` does; its problem has a pointer into the body."""
    try:
        return row_for(caller, given, make_id, is_known=is_known)
    except InvalidInput as error:
        raise problem_of(error, names=names_in_subscription(given, error.field)) from None


def row_for(
    caller: Caller, given: dict[str, Any], make_id: Callable[[], str], *, is_known: bool = False
) -> SubscriptionRow:
    """Return the row of a body; whoever is bound to a subscriber makes subscriptions of that one."""
    tenant = caller.tenant
    tenant.check_disk()
    row, _ = read_row(given, tenant.hub.space, tenant.settings.limits, make_id, is_known=is_known)
    if row.subscriber is None and caller.token.subscriber is not None:
        row = replace(row, subscriber=caller.token.subscriber)
    caller.check_subscriber(row.subscriber)
    if row.max_events is not None and row.subscriber is None:
        raise Problem(
            422, "invalid-subscription", "max_events needs a subscriber", [at("/max_events", "needs a subscriber")]
        )
    return row


def check_room(tenant: Tenant) -> None:
    """Raise if the tenant has as many subscriptions as it may."""
    if room_in(tenant) <= 0:
        raise Problem(403, "too-many-subscriptions", "the tenant has as many subscriptions as it may; delete some")


def room_in(tenant: Tenant) -> int:
    """Return how many subscriptions a tenant may still have."""
    return tenant.settings.limits.subscriptions - len(tenant.hub)
