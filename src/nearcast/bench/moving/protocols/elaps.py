"""The server of `elaps`: safe regions of grid cells, after Guo et al., "Location-Aware Pub/Sub System" (SIGMOD 2015).

The paper was not at hand; what is known of it comes from the AP-Tree paper (§5.2) and from its own summary: regions of
grid cells around the subscriber, an impact region around them, growth by a cost model, with and without direction, a
quadtree of events with lists inside. What was decided here:

- **Cells.** The diagonal of the scene is as long as 256 sides of cells, and a region lies in the 32 × 32 cells around
  the client's. A cell is safe if no circle of the radius around a message with the words cuts it: that counts what
  goes out as well as what comes in. Regions hang together by sides of cells. A client whose own cell is cut has none.
- **Order.** Without direction cells are added by their distance from the client; with direction those ahead count as up
  to half as far and those behind as up to half as far again.
- **When to stop.** While leaving is likelier than an arrival: speed / border > rate × area. The border is the nearest
  cell that is not in the region, or with direction the way straight ahead to the outside. The speed is that between the
  last two reports, without limit before there are two. The rate is what arrives on the average, in proportion to the
  messages with the words around the window (half a message more, so that none is not never). The area of the impact
  region is taken to be cells + circumference × radius + π radius².
- **Impact regions** are held in an index of the subscriptions, as the rectangles around them, and candidates are
  verified cell by cell. So the index is the same as for the other protocols, and time tells of the protocols alone.
- **Messages** lie in a quadtree of their own (`structures.message_quadtree`), which answers reports and finds what
  cuts cells.

It wants a plane, points, and words that are all required: on the earth cells of degrees have no farthest point that is
cheap to tell, and a map of a town is a plane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.bench.moving.protocols.scene import boxes, circles
from nearcast.bench.moving.protocols.server import ImpactHits, ProtocolServer, ToldChanges
from nearcast.bench.moving.protocols.structures.cell_regions import (
    CellRegions,
    Travellers,
    grow,
    margins,
    within_impact,
)
from nearcast.bench.moving.protocols.structures.message_quadtree import MessageForest, WordQueries
from nearcast.errors import NotSupported
from nearcast.geo import touches
from nearcast.indexes import create

if TYPE_CHECKING:
    from nearcast.bench.moving.protocols.scene import Floats, Rows, Scene

#: How many sides of cells the diagonal of the scene is long, and the most cells of a region.
CELLS, MOST_CELLS = 256, 1024
#: Clients whose regions grow together.
_CHUNK = 8192


class ElapsServer(ProtocolServer):
    """Gives each client a safe region of grid cells; keeps impact regions in an index and messages in quadtrees."""

    name = "elaps"
    has_direction = False

    def __init__(self, scene: Scene, index: str = "trigger", *, cells: int = CELLS, most_cells: int = MOST_CELLS):
        super().__init__(scene)
        _must_suit(scene)
        self.index = create(index, scene.space)
        self._forest = MessageForest(scene.messages, len(scene.words))
        self._regions = CellRegions(scene.n_clients, (scene.longest or 1.0) / cells)
        self._most_cells = most_cells
        self._began, self._arrived = int(scene.times[0]), 0
        self._reported = np.full(scene.n_clients, self._began)
        self._x_speed, self._y_speed = np.zeros(scene.n_clients), np.zeros(scene.n_clients)
        self._speed = np.full(scene.n_clients, np.inf)

    def register(self, now: int) -> ToldChanges:
        """File the messages of the first timestamp, find what is relevant, and give everyone a region."""
        scene, everyone = self.scene, np.arange(self.scene.n_clients)
        rows = scene.batch(0)
        self._queries = _rarest_first(scene, rows)
        self._forest.append(rows)
        told = self._difference(everyone, None, (self.known_x, self.known_y))
        self._grant(everyone, now)
        clients = scene.clients.with_regions(boxes(scene.space, self._regions.impact))
        self._slots = self.index.insert(clients)
        return told

    def expire(self, now: int) -> None:
        """Drop messages that are over from the trees."""
        self._forest.drop(now)

    def outside(self, x: Floats, y: Floats) -> Rows:
        """Return the clients that are in no cell of their region."""
        return np.flatnonzero(~self._regions.hold(x, y))

    def move(self, rows: Rows, x: Floats, y: Floats, now: int) -> ToldChanges:
        """Find the difference between the places before and now, and give new regions."""
        told = self._difference(rows, (self.known_x[rows], self.known_y[rows]), (x, y))
        self.resettle(rows, x, y, now)
        return told

    def arrive(self, rows: Rows, now: int) -> ImpactHits:
        """Match new messages with the rectangles around impact regions, verify, and file the messages."""
        scene = self.scene
        found = self.index.match(scene.messages.take(rows))
        client, message = np.searchsorted(self._slots, found.slots), rows[found.rows()]
        place = (self.known_x[client], self.known_y[client])
        at = np.ascontiguousarray(scene.messages.box[message, :2])
        inside = within_impact(self._regions, client, place, scene.radius[client], at)
        self._forest.append(rows)
        self._arrived += len(rows)
        return ImpactHits(client[inside], message[inside])

    def resettle(self, rows: Rows, x: Floats, y: Floats, now: int) -> None:
        """Take places, learn speeds from them, and give new regions."""
        if not len(rows):
            return
        passed = now - self._reported[rows]
        again = rows[passed > 0]
        for speed, known, place in ((self._x_speed, self.known_x, x), (self._y_speed, self.known_y, y)):
            speed[again] = (place[passed > 0] - known[again]) / passed[passed > 0]
        self._speed[again] = np.hypot(self._x_speed[again], self._y_speed[again])
        self._reported[rows] = now
        self._note_places(rows, x, y)
        self._grant(rows, now)
        self.index.move(self._slots[rows], boxes(self.scene.space, self._regions.impact[rows]))

    def has_region(self, rows: Rows) -> Rows:
        """Return 1 for clients whose region has cells."""
        return self._regions.is_there(rows)

    def n_bytes(self) -> int:
        """Return the bytes of index, trees and regions."""
        return int(self.index.stats()["bytes"]) + self._forest.nbytes + self._regions.nbytes

    def _difference(
        self, rows: Rows, before: tuple[Floats, Floats] | None, after: tuple[Floats, Floats]
    ) -> ToldChanges:
        """Return what came in and went out between two places of clients; before may be nowhere."""
        there = self._inside(rows, after, before)
        came = ToldChanges.of_entries(*there)
        if before is None:
            return came
        client, message = self._inside(rows, before, after)
        return ToldChanges.concat([ToldChanges(client, message, np.zeros(len(client), np.int64)), came])

    def _inside(
        self, rows: Rows, place: tuple[Floats, Floats], other: tuple[Floats, Floats] | None
    ) -> tuple[Rows, Rows]:
        """Return the pairs (client, message) within the radius of one place and not of the other."""
        scene, radius = self.scene, self.scene.radius[rows]
        x, y = place
        reach = radius + margins(x, y, radius, self._regions.side)
        query, message = self._forest.search(
            self._queries.take(rows), np.column_stack([x - reach, y - reach, x + reach, y + reach])
        )
        at = scene.messages.box[message]
        wanted = touches(circles(scene.space, x, y, radius), query, at, scene.space)
        if other is not None:
            wanted &= ~touches(circles(scene.space, *other, radius), query, at, scene.space)
        return rows[query[wanted]], message[wanted]

    def _grant(self, rows: Rows, now: int) -> None:
        """Grow new regions around the places that are known, some clients at a time."""
        live, passed = max(len(self._forest), 1), max(now - self._began, 1)
        for first in range(0, len(rows), _CHUNK):
            some = rows[first : first + _CHUNK]
            x, y, radius = self.known_x[some], self.known_y[some], self.scene.radius[some]
            window = self._regions.windows(x, y, radius)
            query, message = self._forest.search(self._queries.take(some), window)
            start = np.searchsorted(query, np.arange(len(some) + 1))
            area = (window[:, 2] - window[:, 0]) * (window[:, 3] - window[:, 1])
            who = Travellers(
                x=x,
                y=y,
                radius=radius,
                x_speed=self._x_speed[some],
                y_speed=self._y_speed[some],
                speed=self._speed[some],
                rate=self._arrived / passed * (np.diff(start) + 0.5) / live / area,
            )
            at = np.ascontiguousarray(self.scene.messages.box[message, :2])
            grow(self._regions, some, who, start, at, has_direction=self.has_direction, most_cells=self._most_cells)


class DirectedElapsServer(ElapsServer):
    """Prefers cells that lie ahead of a client."""

    name = "elaps-direction"
    has_direction = True


def _must_suit(scene: Scene) -> None:
    """Raise `NotSupported` for a scene that regions of cells are not made for."""
    box, clients = scene.messages.box, scene.clients
    if scene.space.is_earth:
        raise NotSupported("elaps works on a plane, this is the earth; project the places, or use another protocol")
    if (box[:, :2] != box[:, 2:]).any():
        raise NotSupported("elaps takes messages that are points; a message here is a rectangle")
    is_plain = len(clients.clause_start) == len(clients.code_start) and (np.diff(clients.clause_start) == 1).all()
    if not is_plain or (clients.code < 0).any() or (np.diff(clients.code_start) == 0).any():
        raise NotSupported("elaps takes clients that want all of some words; a query here has OR, NOT or a phrase")


def _rarest_first(scene: Scene, rows: Rows) -> WordQueries:
    """Return the words of the clients, that of the fewest messages first."""
    terms, start = scene.messages.take(rows).terms, scene.clients.code_start
    count = np.bincount(terms[terms >= 0], minlength=len(scene.words))
    client = np.repeat(np.arange(scene.n_clients), np.diff(start))
    word = scene.clients.code
    return WordQueries(np.ascontiguousarray(start - start[0]), word[np.lexsort((word, count[word], client))])
