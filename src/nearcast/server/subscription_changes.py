"""A change of a subscription in `server.db` and in the hub: `subscription_rows` says what a crash in between does."""

from __future__ import annotations

from typing import Any

from nearcast.errors import HubStopped, NearcastError
from nearcast.server.event_limits import EventLimit
from nearcast.server.subscription_rows import Intent, SubscriptionRow, with_next_version
from nearcast.server.tenants import Tenant


def intent_of(row: SubscriptionRow) -> Intent:
    """Return what the hub should do with a subscription."""
    return "release" if row.is_paused else "hold"


async def make_change(tenant: Tenant, row: SubscriptionRow, before: SubscriptionRow | None, intent: Intent) -> None:
    """Write the intent, let the hub make it, and take the intent away; the subscription's lock is held."""
    limit = tenant.limits.of(row.id)
    begin = tenant.limits.begin(row) if intent == "hold" else None

    def write(connection: Any) -> None:
        tenant.rows.intend(row, intent, before)(connection)
        if begin is not None:
            begin(connection)

    await tenant.write(write)
    try:
        if intent == "hold":
            await tenant.call(tenant.hold, row)
        else:
            await tenant.call(tenant.release, row.id)
    except HubStopped:  # its log may have the change: the intent stays, and the next start makes it
        raise
    except NearcastError:
        await tenant.write(lambda connection: bring_back(tenant, connection, row, before, limit))
        raise
    await tenant.write(tenant.rows.settle(row, intent))


def bring_back(
    tenant: Tenant, connection: Any, row: SubscriptionRow, before: SubscriptionRow | None, limit: EventLimit | None
) -> None:
    """Write a subscription's row and its count of events as they were before a change that the hub refused."""
    tenant.rows.bring_back(row, before)(connection)
    tenant.limits.bring_back(row.id, limit)(connection)


async def end_subscription(tenant: Tenant, subscription_id: str) -> None:
    """Forget a subscription that had all its events."""
    async with tenant.lock(subscription_id):
        row = tenant.rows.get(subscription_id)
        if row is not None and row.max_events is not None:
            await make_change(tenant, with_next_version(row, row), row, "forget")
