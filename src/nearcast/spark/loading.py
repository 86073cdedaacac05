"""The subscriptions a partition begins with: those of a file, or its share of what other partitions had."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast import engine
from nearcast.columns import NO_TIME, TOPK
from nearcast.spark.carried import Carried
from nearcast.topk.saved import adopt, taken_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.spark.partition import Partition


@dataclass(frozen=True)
class Share:
    """Subscriptions by registration, each with its number, its home and who holds copies of it.

    `kept` is what their keepers held for those of kind `topk`, as `topk.saved.taken_out` returns it, in the same order;
    None where their answers are still to be found.
    """

    subscriptions: Carried
    number: NDArray[np.int64]
    home: NDArray[np.int32]
    copies: NDArray[np.uint64] | None
    placed: NDArray[np.float64]
    kept: dict[str, NDArray[Any]] | None = None

    def __len__(self) -> int:
        return len(self.number)

    def of_partition(self, number: int) -> Share:
        """Return what a partition holds: what is at home there, and copies."""
        holds = self.home == number
        if self.copies is not None:
            holds = holds | ((self.copies & np.uint64(1 << number)) != 0)
        return self.take(np.flatnonzero(holds))

    def take(self, rows: NDArray[np.int64]) -> Share:
        """Return some of the subscriptions, in this order."""
        kept = None
        if self.kept is not None:
            is_topk = self.subscriptions.subscriptions.kind == TOPK
            kept = chosen(self.kept, (np.cumsum(is_topk) - 1)[rows[is_topk[rows]]])
        return Share(
            self.subscriptions.take(rows),
            self.number[rows],
            self.home[rows],
            None if self.copies is None else self.copies[rows],
            self.placed[rows],
            kept,
        )

    def into(self, partition: Partition) -> None:
        """Store everything in a partition that holds nothing yet."""
        state = partition.state
        subscriptions = self.subscriptions.into(state.words)
        is_home = self.home == partition.number
        is_topk = subscriptions.kind == TOPK
        to_engine = np.flatnonzero(is_home | ~is_topk)
        stored = subscriptions.take(to_engine)
        if self.kept is None:
            engine.subscribe(state, stored)
            slots = state.ids.slots(stored.ids)
        else:
            slots = engine.adopt(state, stored)
        alive = slots >= 0
        copies = np.zeros(len(self), np.uint64) if self.copies is None else self.copies
        partition.note(
            slots[alive],
            number=self.number[to_engine][alive],
            home=self.home[to_engine][alive],
            copies=copies[to_engine][alive],
            placed=self.placed[to_engine][alive],
        )
        if self.kept is not None and state.topk is not None:
            self._adopt(partition, slots, to_engine, is_topk)
        to_detector = np.flatnonzero(~is_home & is_topk)
        if len(to_detector):
            partition.detector.put(
                subscriptions.take(to_detector),
                state.words,
                state.weights,
                self.number[to_detector],
                self.home[to_detector],
            )

    def _adopt(
        self,
        partition: Partition,
        slots: NDArray[np.int32],
        to_engine: NDArray[np.int64],
        is_topk: NDArray[np.bool_],
    ) -> None:
        """Give the top-k subscriptions that are at home here their buffers."""
        assert self.kept is not None
        assert partition.state.topk is not None
        here = is_topk[to_engine]
        of_topk = np.cumsum(is_topk) - 1
        kept = chosen(self.kept, of_topk[to_engine[here]])
        adopt(partition.state.topk, slots[here], kept)


def share_of(partition: Partition) -> Share:
    """Return all subscriptions that are at home in a partition, with what is kept for them."""
    state = partition.state
    by_slot = state.by_slot
    slots = state.ids.in_use()
    slots = slots[by_slot["home"][slots] == partition.number]
    expires = np.full(len(slots), NO_TIME)
    known = slots < len(state.expires)
    expires[known] = state.expires[slots[known]]
    ids = state.ids.snapshot()
    subscriptions = replace(state.index.subscriptions(slots), ids=ids.ids_of(ids.keys(slots)), expires=expires)
    kept = None if state.topk is None else taken_out(state.topk, slots[subscriptions.kind == TOPK])
    carried = Carried.of(subscriptions, state.words)
    number, home, copies, placed = (by_slot[name][slots] for name in ("number", "home", "copies", "placed"))
    return Share(carried, number, home, copies, placed, kept)


def chosen(kept: dict[str, NDArray[Any]], rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return what is kept for some of the subscriptions."""
    size = kept["holder_size"].astype(np.int64)
    end = np.cumsum(size)
    positions = np.concatenate([np.empty(0, np.int64), *(np.arange(end[r] - size[r], end[r]) for r in rows.tolist())])
    entries = ("entry_score", "entry_tag")
    return {name: column[positions if name in entries else rows] for name, column in kept.items()}
