"""The contract of a protocol's server: it hears reports and messages, and keeps clients told of what is relevant.

At each timestamp, in this order:

1. `expire(now)`: messages that are over leave. Clients know `expires` and forget them by themselves.
2. `outside(x, y)` is the clients' own work: who is not in the safe region it holds, or holds none. These report.
3. `move(rows, x, y, now)` takes the reports and returns what changed for these clients over the messages so far.
4. `arrive(rows, now)` takes the new messages and returns the pairs (client, message) whose impact region holds the
   message. A client among them that has not reported is asked: its safe region is revoked, and it reports.
5. `resettle(rows, x, y, now)` takes the places of the clients that were hit, and gives them new regions. In a safe
   region no answer differs, so the messages from before change nothing for them.

A client that holds no region reports at every timestamp. What `move` returned, and those of the pairs that lie within
the radius at the present place, are the results of the timestamp.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from nearcast.geo import touches

if TYPE_CHECKING:
    from nearcast.bench.moving.protocols.scene import Floats, Rows, Scene


class ToldChanges(NamedTuple):
    """Results sent: client `client[i]` is told that `message[i]` came in (`enters` 1) or went out (0)."""

    client: Rows
    message: Rows
    enters: Rows

    @classmethod
    def none(cls) -> ToldChanges:
        """Return no results."""
        empty = np.zeros(0, np.int64)
        return cls(empty, empty, empty)

    @classmethod
    def of_entries(cls, client: Rows, message: Rows) -> ToldChanges:
        """Return results that all came in."""
        return cls(client, message, np.ones(len(client), np.int64))

    @classmethod
    def concat(cls, pieces: list[ToldChanges]) -> ToldChanges:
        """Return all results of all pieces, in order."""
        return cls(*map(np.concatenate, zip(*pieces, strict=True)))


class ImpactHits(NamedTuple):
    """Pairs of a client and a new message that lies in its impact region."""

    client: Rows
    message: Rows


class ProtocolServer(ABC):
    """The contract of a protocol's server; the module's docstring says what each method does, and when."""

    name: ClassVar[str]

    def __init__(self, scene: Scene):
        self.scene = scene
        #: The places the server knows: those of the last reports.
        self.known_x, self.known_y = scene.x[0].copy(), scene.y[0].copy()

    @abstractmethod
    def register(self, now: int) -> ToldChanges:
        """Take all clients at the places of the first timestamp, with its messages; return what is relevant."""

    @abstractmethod
    def expire(self, now: int) -> None:
        """Forget messages that are over."""

    @abstractmethod
    def outside(self, x: Floats, y: Floats) -> Rows:
        """Return the clients that hold no safe region with their place in it, ascending."""

    @abstractmethod
    def move(self, rows: Rows, x: Floats, y: Floats, now: int) -> ToldChanges:
        """Take reports of places; return what they change."""

    @abstractmethod
    def arrive(self, rows: Rows, now: int) -> ImpactHits:
        """Take new messages; return whose impact regions they lie in."""

    @abstractmethod
    def resettle(self, rows: Rows, x: Floats, y: Floats, now: int) -> None:
        """Take the places of clients that were hit."""

    @abstractmethod
    def has_region(self, rows: Rows) -> Rows:
        """Return 1 for those of some clients that hold a safe region, else 0."""

    @abstractmethod
    def n_bytes(self) -> int:
        """Return how many bytes the server's structures take up."""

    def prepare(self, rows: Rows) -> None:  # noqa: B027 - most need no preparation
        """Encode the messages that arrive next; not part of the protocol, and not timed."""

    def entered(self, hits: ImpactHits) -> ToldChanges:
        """Return those of the pairs that are relevant at the place that is known."""
        clients, at = np.unique(hits.client, return_inverse=True)
        there = self.scene.clients_at(clients, self.known_x[clients], self.known_y[clients])
        inside = touches(there.regions, at, self.scene.messages.box[hits.message], self.scene.space)
        return ToldChanges.of_entries(hits.client[inside], hits.message[inside])

    def _note_places(self, rows: Rows, x: Floats, y: Floats) -> None:
        self.known_x[rows], self.known_y[rows] = x, y
