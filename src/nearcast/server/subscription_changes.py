"""A change of a subscription in `server.db` and in the hub: `subscription_rows` says what a crash in between does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from nearcast.errors import HubStopped, NearcastError
from nearcast.server.subscription_rows import Intent, SubscriptionRow, with_next_version
from nearcast.server.tenants import Tenant

#: The rows of subscriptions as they were before a change, by id; None where there was none.
RowsBefore = dict[str, SubscriptionRow | None]


def intent_of(row: SubscriptionRow) -> Intent:
    """Return what the hub should do with a subscription."""
    return "release" if row.is_paused else "hold"


async def make_change(tenant: Tenant, row: SubscriptionRow, before: SubscriptionRow | None, intent: Intent) -> None:
    """Write the intent, let the hub make it, and take the intent away; the subscription's lock is held."""
    if intent == "hold":

        async def hold() -> Collection[str]:
            await tenant.call(tenant.hold, row)
            return ()

        await hold_rows(tenant, [row], {row.id: before}, hold)
        return
    if intent != "forget":
        tenant.check_not_half_erased(row.subscriber)
    await tenant.write(tenant.rows.intend(row, intent, before))
    try:
        await tenant.call(tenant.release, row.id)
    except HubStopped:  # its log may have the change: the intent stays, and the next start makes it
        raise
    except NearcastError:
        await tenant.write(tenant.rows.bring_back(row, before))
        raise
    await tenant.write(tenant.rows.settle(row, intent))


async def hold_rows(
    tenant: Tenant,
    rows: Sequence[SubscriptionRow],
    before: RowsBefore,
    hold: Callable[[], Awaitable[Collection[str]]],
) -> None:
    """Write intents, let the hub hold all rows, and take the intents away; the locks of the subscriptions are held.

    `hold` returns the ids that the hub refused: of these, and of all if it raises, row and count are as before.
    """
    for row in rows:
        tenant.check_not_half_erased(row.subscriber)
    changes = {row.id: tenant.limits.begin(row) for row in rows}
    refused: Collection[str] = set(changes)

    def intend(connection: Any) -> None:
        for row in rows:
            tenant.rows.intend(row, "hold", before[row.id], limit=changes[row.id].earlier)(connection)
            changes[row.id].write(connection)

    def settle(connection: Any) -> None:
        for row in rows:
            if row.id in refused:
                tenant.rows.bring_back(row, before[row.id])(connection)
                changes[row.id].take_back(connection)
            else:
                tenant.rows.settle(row, "hold")(connection)

    try:
        await tenant.write(intend)
        try:
            refused = await hold()
        except HubStopped:  # as above
            raise
        except NearcastError:
            await tenant.write(settle)
            raise
        await tenant.write(settle)
    finally:
        ends = [tenant.limits.end(change, is_made=id_ not in refused) for id_, change in changes.items()]
        tenant.look_again([name for names in ends for name in names])


async def end_subscription(tenant: Tenant, subscription_id: str) -> None:
    """Forget a subscription that had all its events, unless it was registered anew meanwhile."""
    async with tenant.lock(subscription_id):
        row = tenant.rows.get(subscription_id)
        if row is not None and row.max_events is not None and tenant.limits.has_ended(subscription_id):
            await make_change(tenant, with_next_version(row, row), row, "forget")
