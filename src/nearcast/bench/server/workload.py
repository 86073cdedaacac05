"""Circles of one word for subscribers, ten each as a rule, and messages of one of these words, all by a seed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

#: Words of subscriptions, and what else a message says.
WORDS = 50
_FILLER = "seen near the old bridge tonight"
#: A rectangle of the earth, and its area.
_WEST, _SOUTH, _WIDTH, _HEIGHT = 10.0, 50.0, 1.5, 1.0
_AREA_M2 = (_HEIGHT * 111_195) * (_WIDTH * 111_195 * math.cos(math.radians(_SOUTH + _HEIGHT / 2)))
#: Registered in batches of so many.
_PORTION = 10_000


@dataclass(frozen=True)
class ServerSizes:
    """How many subscriptions, subscribers and open streams there are, and for how long each row is measured."""

    subscriptions: int = 1_000_000
    subscribers: int = 100_000
    streams: int = 10_000
    seconds: float = 5.0
    matches: int = 40
    batch: int = 1_000
    clients: int = 32
    endpoints: int = 200
    dead_endpoints: int = 1_000
    #: Messages in the log of a minute.
    minute: int = 120_000
    #: About how many deliveries there are when subscribers resume that missed theirs.
    deliveries: int = 10_000_000
    #: Subscribers whose events are compared.
    sample: int = 200

    @property
    def compared(self) -> int:
        """Return how many messages are published for that: enough for some 200 events."""
        reached = self.matches * min(self.sample, self.subscribers) / self.subscribers
        return max(1, min(2_000, round(200 / reached)))

    def to_json(self) -> dict[str, Any]:
        """Return the sizes as a job of the load generator has them."""
        return asdict(self)


def subscriber_name(number: int) -> str:
    """Return the name of a subscriber."""
    return f"user-{number}"


def subscription_tables(sizes: ServerSizes, seed: int) -> Iterator[pa.Table]:
    """Yield all subscriptions, some at a time."""
    random = np.random.default_rng(seed)
    radius = math.sqrt(sizes.matches * WORDS * _AREA_M2 / (math.pi * sizes.subscriptions))
    for first in range(0, sizes.subscriptions, _PORTION):
        numbers = range(first, min(first + _PORTION, sizes.subscriptions))
        n = len(numbers)
        yield pa.table(
            {
                "id": [f"s{number}" for number in numbers],
                "query": [f"w{word}" for word in random.integers(0, WORDS, n)],
                "lon": _WEST + random.random(n) * _WIDTH,
                "lat": _SOUTH + random.random(n) * _HEIGHT,
                "radius_m": np.full(n, radius),
                "subscriber": [subscriber_name(number % sizes.subscribers) for number in numbers],
            }
        )


class MessageMaker:
    """Makes messages whose ids count up from `first`: a job of the load generator has numbers of its own."""

    def __init__(self, seed: int, first: int):
        self._random, self.next = np.random.default_rng([seed, first]), first

    def table(self, n: int) -> pa.Table:
        """Return the next messages in columns."""
        random, ids = self._random, np.arange(self.next, self.next + n)
        self.next += n
        texts = [f"w{word} {_FILLER}" for word in random.integers(0, WORDS, n)]
        lon, lat = self.places(n)
        return pa.table({"id": ids, "text": texts, "lon": lon, "lat": lat})

    def places(self, n: int) -> tuple[Any, Any]:
        """Return some places."""
        return _WEST + self._random.random(n) * _WIDTH, _SOUTH + self._random.random(n) * _HEIGHT

    def features(self, n: int) -> list[bytes]:
        """Return the next messages as Features in JSON."""
        return [msgspec.json.encode(_feature(row)) for row in self.table(n).to_pylist()]

    def lines(self, n: int) -> bytes:
        """Return the next messages as lines of Features."""
        return b"\n".join(self.features(n))

    def arrow(self, n: int) -> bytes:
        """Return the next messages as an Arrow stream."""
        table, sink = self.table(n), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        found: bytes = sink.getvalue().to_pybytes()
        return found

    def locations(self, n: int, subscribers: int) -> bytes:
        """Return places of some subscribers, each at most once, as a list in JSON."""
        names = self._random.permutation(subscribers)[:n].tolist()
        places = zip(names, *(each.tolist() for each in self.places(len(names))), strict=True)
        return msgspec.json.encode([{"subscriber": subscriber_name(at), "lon": x, "lat": y} for at, x, y in places])


def _feature(row: dict[str, Any]) -> dict[str, Any]:
    geometry = {"type": "Point", "coordinates": [row["lon"], row["lat"]]}
    return {"type": "Feature", "id": row["id"], "geometry": geometry, "properties": {"text": row["text"]}}


def endpoint_subscription(name: str, number: int) -> dict[str, Any]:
    """Return a subscription to one word anywhere, for an endpoint of webhooks."""
    return {"id": name, "query": f"w{number % WORDS}", "subscriber": name}


def every_word(name: str) -> dict[str, Any]:
    """Return a subscription to all words anywhere."""
    return {"id": name, "query": " OR ".join(f"w{word}" for word in range(WORDS)), "subscriber": name}
