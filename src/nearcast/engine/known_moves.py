"""What a caller of a `Move` has looked up already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.geo import Regions


class MovePlaces(NamedTuple):
    """Where the rows of a `Move` go: their regions, the boxes' widths and heights (n, 2), and their request texts.

    An extent is NaN where the index's own region tells it. `texts` are those that change, by row.
    """

    regions: Regions
    extents: NDArray[np.float64]
    texts: dict[int, bytes]

    def take(self, rows: NDArray[np.int64]) -> MovePlaces:
        """Return these rows, in this order."""
        texts = {at: self.texts[row] for at, row in enumerate(rows.tolist()) if row in self.texts} if self.texts else {}
        return MovePlaces(self.regions.take(rows), self.extents[rows], texts)


class KnownMove(NamedTuple):
    """What a caller of `Move` has looked up already: slots, what the index holds there, and where they go.

    `reports` are the rows of `Movers` of these slots, as they are before the move.
    """

    slots: NDArray[np.int32]
    held: Subscriptions
    placement: MovePlaces
    reports: NDArray[Any]

    def take(self, rows: NDArray[np.int64]) -> KnownMove:
        """Return these rows, in this order."""
        return KnownMove(self.slots[rows], self.held.take(rows), self.placement.take(rows), self.reports[rows])
