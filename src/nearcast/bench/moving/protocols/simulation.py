"""Runs a protocol over a scene, timestamp by timestamp, and counts what clients and server send each other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.bench.moving.protocols.server import ToldChanges

if TYPE_CHECKING:
    from nearcast.bench.moving.protocols.server import ProtocolServer


class SentCounts(NamedTuple):
    """What was sent: reports of places by clients; revocations, safe regions and results by the server."""

    reports: int = 0
    revocations: int = 0
    regions: int = 0
    results: int = 0

    @property
    def total(self) -> int:
        """All that was sent, in either direction."""
        return sum(self)

    def __add__(self, other: object) -> SentCounts:
        if not isinstance(other, SentCounts):
            return NotImplemented
        return SentCounts(*(ours + theirs for ours, theirs in zip(self, other, strict=True)))


class Timestamp(NamedTuple):
    """What happened at a timestamp: its number, what was sent, the results, and the server's CPU seconds."""

    number: int
    traffic: SentCounts
    told: ToldChanges
    seconds: float


@dataclass
class ServerClock:
    """Adds up the CPU time of a server, all threads of the process together."""

    seconds: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let what is inside the `with` statement count."""
        began = time.process_time()
        try:
            yield
        finally:
            self.seconds += time.process_time() - began


def simulate(server: ProtocolServer) -> Iterator[Timestamp]:
    """Run a protocol; yield each timestamp, the first of which registers all clients.

    A client sends one report at a timestamp, and is sent one region, at most.
    """
    scene = server.scene
    clock, everyone = ServerClock(), np.arange(scene.n_clients)
    with clock.running():
        told = server.register(int(scene.times[0]))
    regions = int(server.has_region(everyone).sum())
    yield Timestamp(0, SentCounts(len(everyone), 0, regions, len(told.client)), told, clock.seconds)
    for t in range(1, len(scene.times)):
        yield _timestamp(server, t)


def _timestamp(server: ProtocolServer, t: int) -> Timestamp:
    scene, clock = server.scene, ServerClock()
    now, x, y, arrivals = int(scene.times[t]), scene.x[t], scene.y[t], scene.batch(t)
    with clock.running():
        server.expire(now)
    server.prepare(arrivals)
    left = server.outside(x, y)
    with clock.running():
        moved = server.move(left, x[left], y[left], now)
        hits = server.arrive(arrivals, now)
        hit = np.unique(hits.client)
        # Those who reported just now need not be asked: the server knows where they are.
        server.resettle(hit, x[hit], y[hit], now)
        entered = server.entered(hits)
    told = ToldChanges.concat([moved, entered])
    asked = np.setdiff1d(hit, left, assume_unique=True)
    regions = int(server.has_region(np.union1d(left, hit)).sum())
    traffic = SentCounts(len(left) + len(asked), len(asked), regions, len(told.client))
    return Timestamp(t, traffic, told, clock.seconds)
