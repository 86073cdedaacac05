"""Times a hub around an index: what ids, tables and single calls add to matching."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from nearcast.bench.timing import PASSES, Say, cpu_us, singles_within, spread

if TYPE_CHECKING:
    from nearcast.bench.data.workloads import Workload
    from nearcast.bench.encoding import EncodedWorkload
    from nearcast.geo import Space
    from nearcast.hub import Hub
    from nearcast.model import Message

#: Single messages published for each rate, PASSES times over; fewer where they take long.
SINGLES = 5_000


def measure_hub(workload: Workload, columns: EncodedWorkload, spec: str, n_messages: int, say: Say) -> dict[str, Any]:
    """Return what a hub takes: to subscribe a table, to publish one, and to publish messages one by one.

    `n_messages` of the workload are published. `publish_many_us_per_message` is CPU time, from a table with its words
    to deliveries, best of `PASSES`. The rates are messages a second by the wall clock, from `Message` values made
    before to how many deliveries, also the best.
    """
    from nearcast.hub import Hub

    say(f"subscribing at a hub with {spec}")
    hub = Hub(columns.space, index=spec, vocabulary=columns.vocabulary)
    began = time.perf_counter()
    hub.subscribe_many(workload.subscriptions)
    subscribe_s = time.perf_counter() - began
    table = workload.messages.take(spread(workload.messages.num_rows, n_messages))
    say(f"publishing {table.num_rows:,} messages at once, then singly")
    hub.publish_many(table)
    passes = [cpu_us(lambda: hub.publish_many(table)) / table.num_rows for _ in range(PASSES)]
    count = min(singles_within(SINGLES, min(passes)), table.num_rows)
    with_terms, with_text = _messages(table.take(spread(table.num_rows, count)).to_pylist(), columns.space)
    return {
        "index": spec,
        "subscribe_many_s": round(subscribe_s, 3),
        "publish_many_us_per_message": round(min(passes), 3),
        "publish_per_s_from_terms": round(max(_per_second(hub, with_terms) for _ in range(PASSES))),
        "publish_per_s_from_text": round(max(_per_second(hub, with_text) for _ in range(PASSES))),
    }


def _messages(rows: list[dict[str, Any]], space: Space) -> tuple[list[Message], list[Message]]:
    """Return the rows as messages with given words, and as messages whose text has the same words."""
    from nearcast.model import Message

    x, y = ("lon", "lat") if space.is_earth else ("x", "y")
    with_terms, with_text = [], []
    for row in rows:
        words = tuple(row.get("terms") or (row.get("text") or "").split())
        with_terms.append(Message(row["id"], place=(row[x], row[y]), terms=words))
        with_text.append(Message(row["id"], " ".join(words), (row[x], row[y])))
    return with_terms, with_text


def _per_second(hub: Hub, messages: list[Message]) -> float:
    for message in messages[:10]:
        hub.publish(message)
    began = time.perf_counter()
    for message in messages:
        len(hub.publish(message))
    return len(messages) / (time.perf_counter() - began)
