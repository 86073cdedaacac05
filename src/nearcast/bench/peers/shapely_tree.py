"""shapely: an STRtree over the boxes, and a set test for every box around a message."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.bench.peers.contract import Pairs, Peer, PeerSettings, TimedPairs, timed, timed_singly

if TYPE_CHECKING:
    from nearcast.bench.peers.workload import BoxSubscriptions, PointMessages

#: Messages asked of the tree with one call: each may lie in thousands of boxes, and all pairs are in memory.
_AT_ONCE = 100


class ShapelyPeer(Peer):
    """A packed R-tree in GEOS, asked for all boxes around points; words are Python sets."""

    name = "shapely"
    about = "shapely's STRtree over the boxes, then Python sets"

    def __init__(self, settings: PeerSettings) -> None:
        super().__init__(settings)
        self._tree: Any = None
        self._asked: list[frozenset[str]] = []

    def why_missing(self) -> str | None:
        """Return None: shapely is a dependency of nearcast."""
        return None

    def version(self) -> str:
        """Return the versions of shapely and of the library below it."""
        import shapely

        return f"shapely {shapely.__version__}, GEOS {shapely.geos_version_string}"

    def load(self, subscriptions: BoxSubscriptions) -> float:
        """Pack the tree, and make a set of words for each subscription."""
        import shapely

        began = time.perf_counter()
        self._tree = shapely.STRtree(shapely.box(*subscriptions.box.T))
        self._asked = [frozenset(words) for words in subscriptions.words.to_pylist()]
        self._tree.query(shapely.Point(0, 0))  # it is built when it is first asked
        return time.perf_counter() - began

    def match(self, messages: PointMessages, *, singly: bool) -> TimedPairs:
        """Ask the tree for all boxes around the points, then compare words."""
        return timed_singly(messages, self._found) if singly else timed(lambda: self._found(messages))

    def close(self) -> None:
        """Let go of the tree and the sets."""
        self._tree, self._asked = None, []

    def _found(self, messages: PointMessages) -> Pairs:
        import shapely

        pieces, said = [], [set(words) for words in messages.words.to_pylist()]
        for first in range(0, len(messages), _AT_ONCE):
            points = shapely.points(messages.place[first : first + _AT_ONCE])
            # Without a predicate the tree compares envelopes, borders included: of boxes they are all there is.
            at, row = self._tree.query(points)
            at += first
            asked = self._asked
            pairs = zip(at.tolist(), row.tolist(), strict=True)
            holds = np.fromiter((asked[box] <= said[message] for message, box in pairs), np.bool_, len(at))
            pieces.append(Pairs(at[holds], row[holds]))
        return Pairs.joined(pieces)
