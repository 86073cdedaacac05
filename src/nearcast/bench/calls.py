"""What single calls of a hub cost: CPU microseconds a call, and a row of what comes out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from nearcast.deliveries import Deliveries
    from nearcast.hub import Hub

_WORDS, _SIDE, _RADIUS = 5_000, 1_000.0, 5.0
#: Subscriptions that one message of those for `deliveries` reaches, and how many such messages there are.
_REACHED, _BROADCASTS = 1_000, 100


def run_calls(n_subscriptions: int, n_calls: int, *, seed: int, command: str) -> dict[str, Any]:
    """Return CPU microseconds per `subscribe`, `move`, `publish`, delivery iterated over, and row of `to_table`.

    The hub holds circles with two words each on a plane. Every kind of call is made some times before it is timed.
    """
    random = np.random.default_rng(seed)
    hub, rows = _hub(n_subscriptions, random)
    changes = [rows[at] for at in random.integers(0, len(rows), n_calls)]
    taken = {
        "subscribe": _per_call(lambda row: hub.subscribe(row | {"id": f"new {row['id']}"}), changes),
        "move": _per_call(lambda row: hub.move(row["id"], (row["y"], row["x"])), changes),
        "publish": _per_call(lambda row: hub.publish(_message(row)), changes),
    }
    hub.close()
    taken |= _deliveries_us(hub)
    return {
        "command": command,
        "subscriptions": n_subscriptions,
        "calls": n_calls,
        "us": {name: round(us, 3) for name, us in taken.items()},
    }


def _hub(n: int, random: np.random.Generator) -> tuple[Hub, list[dict[str, Any]]]:
    from nearcast.hub import Hub

    words = random.integers(0, _WORDS, (n, 2)).tolist()
    place, radius = (random.random((n, 2)) * _SIDE).tolist(), (random.random(n) * _RADIUS).tolist()
    rows = [
        {"id": f"s{i}", "query": f"w{a} w{b}", "x": x, "y": y, "radius": reach}
        for i, ((a, b), (x, y), reach) in enumerate(zip(words, place, radius, strict=True))
    ]
    hub = Hub("plane")
    hub.subscribe_many(pa.Table.from_pylist(rows))
    hub.subscribe_many([{"id": f"all{i}", "query": "broadcast"} for i in range(_REACHED)])
    hub.close()
    return hub, rows


def _message(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": row["id"], "text": row["query"], "x": row["x"], "y": row["y"]}


def _per_call(call: Callable[[dict[str, Any]], Any], rows: Sequence[dict[str, Any]]) -> float:
    for row in rows[:10]:
        call(row)
    return _cpu_us(lambda: [call(row) for row in rows]) / len(rows)


def _deliveries_us(hub: Hub) -> dict[str, float]:
    message = {"id": "m", "text": "broadcast", "x": 0.0, "y": 0.0, "time": "2026-01-01T00:00:00Z"}
    found: Deliveries = hub.publish_many([message] * _BROADCASTS)
    found.to_table()
    list(found[:10])
    return {
        "delivery": _cpu_us(lambda: sum(1 for _ in found)) / len(found),
        "table row": _cpu_us(found.to_table) / len(found),
    }


def _cpu_us(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1e6
