"""The moves of a batch in one partition, looked up once: for the routes, which come first, and for the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast import _arrow
from nearcast.engine.known_moves import KnownMove
from nearcast.engine.move_columns import place_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.engine import State
    from nearcast.pipeline.batch.changes import BatchChanges


class CarriedMoves(NamedTuple):
    """Moves of stored subscriptions: the rows of a batch, ascending, what is stored, and where each move takes it.

    `n_ids` is how many subscriptions the state had. `is_whole` tells that no subscription comes twice and no move is
    refused, so that a move may be made as it stands here.
    """

    rows: NDArray[np.int64]
    known: KnownMove
    n_ids: int
    is_whole: bool

    @classmethod
    def of(cls, state: State, changes: BatchChanges, rows: NDArray[np.int64]) -> CarriedMoves:
        """Look up these moves of a batch, before any of its changes is applied; those that are unknown are left out."""
        slots = state.ids.slots(changes.ids.take(_arrow.numbers(rows)))
        if (slots < 0).any():
            rows, slots = rows[slots >= 0], slots[slots >= 0]
        distinct, place = np.unique(slots, return_inverse=True)
        is_once = len(distinct) == len(slots)
        held = state.index.subscriptions(slots) if is_once else state.index.subscriptions(distinct).take(place)
        reports, moves = state.movers.of(slots), changes.moves.take(changes.at[rows])
        placement, faults = place_rows(state, slots, held, reports, moves.points(), moves.regions)
        return cls(rows, KnownMove(slots, held, placement, reports), len(state.ids), is_once and not faults)

    @property
    def is_unconditional(self) -> bool:
        """Tell whether each subscription will be where its move takes it: none is refused, repeated, or maybe noise."""
        return self.is_whole and not self.known.reports["min_move"].any()

    def still_known(self, state: State, group: NDArray[np.int64]) -> KnownMove | None:
        """Return what is known of some rows of the batch, None where it no longer holds or nobody has looked.

        Other moves of the batch may have been made since, but no other changes; of those that have expired the number
        of subscriptions tells. What is scored is looked up again: arrivals move thresholds.
        """
        if not self.is_whole or len(state.ids) != self.n_ids or self.known.held.scoring is not None:
            return None
        if len(group) == len(self.rows) and (group == self.rows).all():
            return self.known
        at = np.minimum(np.searchsorted(self.rows, group), len(self.rows) - 1)
        return self.known.take(at) if len(self.rows) and (self.rows[at] == group).all() else None
