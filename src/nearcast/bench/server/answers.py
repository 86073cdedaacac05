"""Events that a server hands over beside what a hub in memory delivers, for a sample of subscribers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from nearcast._ids import Id
from nearcast.bench.server.workload import MessageMaker, ServerSizes, subscription_tables
from nearcast.errors import NearcastError


def check_events(found: dict[str, Any], sizes: ServerSizes, seed: int) -> int:
    """Return how many events there were; raise unless they are those of a hub in memory."""
    events = sorted(map(tuple, found["events"]))
    wanted = sorted(_expected(sizes, seed, found["first"]))
    if events != wanted:
        differing = sorted(set(events) ^ set(wanted))[:1] or "some events twice"
        raise NearcastError(
            f"the server handed over {len(events):,} events, a hub in memory {len(wanted):,}; they differ in "
            f"{differing}; there are no figures"
        )
    return len(events)


def _expected(sizes: ServerSizes, seed: int, first: int) -> list[tuple[Id, Id]]:
    from nearcast.hub import Hub

    hub = Hub("earth")
    hub.subscribe_many(_sampled(sizes, seed))
    found = []
    for at in range(0, sizes.compared, sizes.batch):
        table = MessageMaker(seed, first + at).table(min(sizes.batch, sizes.compared - at))
        found += [(each.subscription_id, each.message_id) for each in hub.publish_many(table)]
    return found


def _sampled(sizes: ServerSizes, seed: int) -> pa.Table:
    """Return the subscriptions of the first subscribers."""
    number, parts = 0, []
    for table in subscription_tables(sizes, seed):
        owners = np.arange(number, number + len(table)) % sizes.subscribers
        number += len(table)
        parts.append(table.filter(pa.array(owners < sizes.sample)).drop_columns(["subscriber"]))
    return pa.concat_tables(parts)
