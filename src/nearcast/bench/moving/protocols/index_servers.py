"""Servers over an index of the subscriptions and its store of live messages: `always`, and `ap+-tree-safe`.

Both work with every registered index. With `always` the index holds the circles themselves, and a client reports at
every timestamp. With `ap+-tree-safe` a client holds a circle, of the store's safe distance around its last report, and
the index holds impact regions: circles that are larger than the safe ones by the radius. Footnote 17 of the paper takes
the nearest matching message less the radius; that is negative with a message inside and forgets those that go out. The
safe distance is min |distance − radius| over the messages whose words hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._arrow import numbers
from nearcast.bench.moving.protocols.scene import circles
from nearcast.bench.moving.protocols.server import ImpactHits, ProtocolServer, ToldChanges
from nearcast.columns import Messages
from nearcast.indexes import create
from nearcast.live.registry import live_store, store_name

if TYPE_CHECKING:
    from nearcast.bench.moving.protocols.scene import Floats, Rows, Scene

#: Impact regions are wider than they must be by more than rounding can do: by these shares of their radius and of the
#: coordinates, which on the earth are some millimetres.
_MARGIN, _PLACE_MARGIN, _MARGIN_M = 1e-9, 1e-12, 1e-3


class IndexServer(ProtocolServer):
    """Keeps subscriptions in an index and messages in its live store; every client reports at every timestamp."""

    name = "always"

    def __init__(self, scene: Scene, index: str = "trigger"):
        super().__init__(scene)
        self.index = create(index, scene.space)
        self.store = live_store(store_name("", self.index), scene.space, scene.words)
        self.store.use_index(self.index)
        self._next: Messages | None = None

    def register(self, now: int) -> ToldChanges:
        """Insert all clients, append the messages of the first timestamp, and find what is relevant."""
        scene, everyone = self.scene, np.arange(self.scene.n_clients)
        clients = scene.clients_at(everyone, self.known_x, self.known_y)
        self._slots = self.index.insert(clients)
        rows = scene.batch(0)
        self.prepare(rows)
        self._append(rows)
        found = self.store.relevant(clients, self.index.weights, np.full(len(clients), now))
        return ToldChanges.of_entries(found.rows(), found.arrival)

    def prepare(self, rows: Rows) -> None:
        """Give the messages that arrive next their words in the store's table."""
        messages = self.scene.messages.take(rows)
        known, at = np.unique(messages.terms, return_inverse=True)
        first = int(np.searchsorted(known, 0))  # before it stands -1, if anything
        ids = np.full(len(known), -1, np.int32)
        ids[first:] = self.store.word_table.ids_of_column(
            self.scene.words.words().take(numbers(known[first:].astype(np.int64))), add=True
        )
        fields = vars(messages) | {"live_terms": ids[at], "totals": np.zeros((len(rows), 3))}
        self._next = Messages(**fields)

    def expire(self, now: int) -> None:
        """Drop messages that are over from the store."""
        self.store.drop(now)

    def outside(self, x: Floats, y: Floats) -> Rows:
        """Return all clients."""
        return np.arange(self.scene.n_clients)

    def move(self, rows: Rows, x: Floats, y: Floats, now: int) -> ToldChanges:
        """Find the difference between the places before and now."""
        before = self.scene.clients_at(rows, self.known_x[rows], self.known_y[rows])
        after = before.with_regions(circles(self.scene.space, x, y, self.scene.radius[rows]))
        found = self.store.difference(before, after, self.index.weights, np.full(len(rows), now))
        self._note_places(rows, x, y)
        self._settle(rows, now)
        return ToldChanges(rows[found.rows()], found.arrival, found.enters.astype(np.int64))

    def arrive(self, rows: Rows, now: int) -> ImpactHits:
        """Match new messages with the index, and append them."""
        assert self._next is not None
        found = self.index.match(self._next)
        self._append(rows)
        client = np.searchsorted(self._slots, found.slots)
        return ImpactHits(client, rows[found.rows()])

    def entered(self, hits: ImpactHits) -> ToldChanges:
        """Return all pairs: the index holds the circles themselves."""
        return ToldChanges.of_entries(*hits)

    def resettle(self, rows: Rows, x: Floats, y: Floats, now: int) -> None:
        """Do nothing: who was hit has reported."""

    def has_region(self, rows: Rows) -> Rows:
        """Return 0 for all."""
        return np.zeros(len(rows), np.int64)

    def n_bytes(self) -> int:
        """Return the bytes of index and store."""
        return int(self.index.stats()["bytes"] + self.store.stats()["bytes"])

    def _append(self, rows: Rows) -> None:
        assert self._next is not None
        self.store.append(self._next, rows, self.scene.messages.expires[rows])
        self._next = None
        self.store.tidy()

    def _settle(self, rows: Rows, now: int) -> None:
        """Put clients into the index where they are known to be."""
        if not len(rows):
            return
        space, radius = self.scene.space, self.scene.radius[rows]
        self.index.move(self._slots[rows], circles(space, self.known_x[rows], self.known_y[rows], radius))


class SafeCircleServer(IndexServer):
    """Gives each client a circle as its safe region, and keeps the impact regions in the index."""

    name = "ap+-tree-safe"

    def __init__(self, scene: Scene, index: str = "trigger"):
        super().__init__(scene, index)
        self._safe = np.zeros(scene.n_clients)
        self._longest = scene.longest

    def register(self, now: int) -> ToldChanges:
        """Insert all clients, find what is relevant, and give everyone a region."""
        told = super().register(now)
        self._settle(np.arange(self.scene.n_clients), now)
        return told

    def outside(self, x: Floats, y: Floats) -> Rows:
        """Return the clients that are farther from their last report than their safe distance, or have none."""
        gone = np.asarray(self.scene.space.distance(self.known_x, self.known_y, x, y))
        return np.flatnonzero((gone > self._safe) | (self._safe <= 0.0))

    def entered(self, hits: ImpactHits) -> ToldChanges:
        """Return those of the pairs that are relevant at the place that is known."""
        return ProtocolServer.entered(self, hits)

    def resettle(self, rows: Rows, x: Floats, y: Floats, now: int) -> None:
        """Give the clients that were hit new safe regions."""
        self._note_places(rows, x, y)
        self._settle(rows, now)

    def has_region(self, rows: Rows) -> Rows:
        """Return 1 for clients with a safe distance above 0."""
        return (self._safe[rows] > 0.0).astype(np.int64)

    def n_bytes(self) -> int:
        """Return the bytes of index, store and safe distances."""
        return super().n_bytes() + self._safe.nbytes

    def _settle(self, rows: Rows, now: int) -> None:
        """Find safe distances, and put impact regions into the index."""
        if not len(rows):
            return
        x, y, radius = self.known_x[rows], self.known_y[rows], self.scene.radius[rows]
        clients = self.scene.clients_at(rows, x, y)
        safe = self.store.safe_distance(clients, self.index.weights, np.full(len(rows), now))
        self._safe[rows] = np.minimum(safe, self._longest)
        reach = (self._safe[rows] + radius) * (1.0 + _MARGIN)
        reach += _MARGIN_M if self.scene.space.is_earth else _PLACE_MARGIN * (np.abs(x) + np.abs(y))
        self.index.move(self._slots[rows], circles(self.scene.space, x, y, reach))
