"""What durability costs: the same messages through a hub in memory, one with a log, and one with an outbox as well."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast.bench.aims import Aim, AimedFigure

if TYPE_CHECKING:
    from nearcast.durable import DurableHub
    from nearcast.hub import Hub

_WORDS, _SIDE = 50, 1_000.0
#: How many subscribers resume, and how many deliveries each has missed.
_RESUMED, _MISSED = 20, 100
#: Threads that publish single messages at the same time.
_THREADS = 8
#: The least share of memory-only speed that batches shall have, and how many single publishes an fsync.
_SHARE, _PER_FSYNC = 0.8, 5.0


@dataclass(frozen=True)
class DurableSizes:
    """How many subscriptions and subscribers there are, batches of how many messages, and matches of a message."""

    subscriptions: int = 1_000_000
    subscribers: int = 100_000
    batches: int = 100
    batch: int = 1_000
    matches: int = 40


def run_durable(sizes: DurableSizes, *, seed: int, folder: Path | None, command: str) -> dict[str, Any]:
    """Return messages and deliveries a second of the three hubs, bytes a delivery, and milliseconds to resume.

    The hubs take each batch in turn. The time of the outbox is up to when all of it is in files. At last eight threads
    publish single messages. `aims` has what the project aims at beside what was seen.
    """
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    own = Path(tempfile.mkdtemp(prefix="nearcast-bench-", dir=folder))
    try:
        return {"command": command, **_run(sizes, np.random.default_rng(seed), own)}
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _run(sizes: DurableSizes, random: np.random.Generator, folder: Path) -> dict[str, Any]:
    from nearcast.durable import DurableHub
    from nearcast.hub import Hub

    table = _subscriptions(sizes, random)
    outbox = DurableHub(folder / "outbox", "plane")
    hubs: dict[str, Hub] = {"memory": Hub("plane"), "log": DurableHub(folder / "log", "plane"), "outbox": outbox}
    for name, hub in hubs.items():
        hub.subscribe_many(table if name == "outbox" else table.drop_columns(["subscriber"]))
        hub.publish_many(_messages(sizes, random, -1))
    taken, delivered = _publish(hubs, sizes, random)
    began = time.perf_counter()
    outbox._outbox.flush()
    taken["outbox"] += time.perf_counter() - began
    stats = outbox.stats()["outbox"]
    per_fsync = _singles_per_fsync(hubs["log"], _messages(sizes, random, sizes.batches).to_pylist())
    for hub in hubs.values():
        hub.close()
    n = sizes.batches * sizes.batch
    share = {name: round(taken["memory"] / seconds, 3) for name, seconds in taken.items()}
    return {
        "subscriptions": sizes.subscriptions,
        "subscribers": sizes.subscribers,
        "messages": n,
        "deliveries": delivered,
        "messages_per_s": {name: round(n / seconds) for name, seconds in taken.items()},
        "deliveries_per_s": {name: round(delivered / seconds) for name, seconds in taken.items()},
        "share_of_memory": share,
        "singles_per_fsync": per_fsync,
        "bytes_per_delivery": round(stats["bytes"] / max(stats["deliveries"], 1), 1),
        "resume_ms": _resume(folder / "outbox", sizes),
        "aims": [
            _aimed("publish_many, share of memory-only speed", share["log"], _SHARE),
            _aimed(f"single publishes of {_THREADS} threads an fsync", per_fsync, _PER_FSYNC),
        ],
    }


def _aimed(figure: str, value: float, least: float) -> dict[str, Any]:
    """Return a share or a count, which have no unit, beside its aim."""
    found = AimedFigure(figure, value, "", Aim.at_least(least)).to_json()
    return {name: found[name] for name in ("figure", "value", "aim", "is_met")}


def _singles_per_fsync(hub: Hub, messages: list[dict[str, Any]]) -> float:
    """Publish messages one by one from several threads; return how many there were for each transaction of the log."""
    before = hub.stats()["log"]["transactions"]
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(hub.publish, messages))
    n_transactions: int = hub.stats()["log"]["transactions"] - before
    return round(len(messages) / n_transactions, 2)


def _subscriptions(sizes: DurableSizes, random: np.random.Generator) -> pa.Table:
    n = sizes.subscriptions
    radius = _SIDE * math.sqrt(sizes.matches * _WORDS / (math.pi * n))
    words = pa.array([f"w{word}" for word in range(_WORDS)])
    names = pa.array([f"subscriber {number}" for number in range(sizes.subscribers)])
    return pa.table(
        {
            "id": np.arange(n),
            "query": words.take(pa.array(random.integers(0, _WORDS, n))),
            "x": random.random(n) * _SIDE,
            "y": random.random(n) * _SIDE,
            "radius": np.full(n, radius),
            "subscriber": names.take(pa.array(random.integers(0, sizes.subscribers, n))),
        }
    )


def _messages(sizes: DurableSizes, random: np.random.Generator, number: int) -> pa.Table:
    n = sizes.batch
    words = pa.array([f"w{word}" for word in range(_WORDS)])
    return pa.table(
        {
            "id": np.arange(number * n, (number + 1) * n),
            "text": words.take(pa.array(random.integers(0, _WORDS, n))),
            "x": random.random(n) * _SIDE,
            "y": random.random(n) * _SIDE,
        }
    )


def _publish(hubs: dict[str, Hub], sizes: DurableSizes, random: np.random.Generator) -> tuple[dict[str, float], int]:
    """Return the seconds that each hub took for all batches, and how many deliveries there were."""
    taken, delivered = dict.fromkeys(hubs, 0.0), 0
    for number in range(sizes.batches):
        table = _messages(sizes, random, number)
        for name, hub in hubs.items():
            began = time.perf_counter()
            found = hub.publish_many(table)
            taken[name] += time.perf_counter() - began
        delivered += len(found)
    return taken, delivered


def _resume(folder: Path, sizes: DurableSizes) -> dict[str, float]:
    """Return how long subscribers wait for what they missed, in a hub that was just opened."""
    from nearcast.durable import DurableHub

    with DurableHub.open(folder) as hub:
        taken = [_resumed_ms(hub, f"subscriber {number}") for number in range(min(_RESUMED, sizes.subscribers))]
    return {"median": round(median(taken), 2), "largest": round(max(taken), 2)}


def _resumed_ms(hub: DurableHub, name: str) -> float:
    events = hub.events(name, after="0-0", limit=1 << 30)
    after = events[-_MISSED - 1].cursor if len(events) > _MISSED else "0-0"
    hub._outbox.cache = type(hub._outbox.cache)()  # what was just read would be at hand
    began = time.perf_counter()
    hub.events(name, after=after)
    return (time.perf_counter() - began) * 1e3
