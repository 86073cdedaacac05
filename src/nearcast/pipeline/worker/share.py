"""The subscriptions a partition begins with: those of a file, or its share of what other partitions had."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow, engine
from nearcast._ids import INTEGER_MARK
from nearcast.columns import NO_TIME, TOPK, Subscriptions, gathered
from nearcast.geo import Regions, Space
from nearcast.pipeline.batch.portable_subscriptions import PortableSubscriptions
from nearcast.text.words import WordTable
from nearcast.topk.saved_keeper import adopt, taken_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.pipeline.worker.partition import Partition
    from nearcast.plans import Placement


@dataclass(frozen=True)
class SharePart:
    """A file that holds a share, with what a plan is learned from: its words, and a sample of its subscriptions.

    `number` and `threshold` are those of the sample.
    """

    name: str
    words: pa.Array
    sample: PortableSubscriptions
    number: NDArray[np.int64]
    threshold: NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """Subscriptions by registration, each with its number, its home and who holds copies of it.

    `kept` is what their keepers held for those of kind `topk`, as `saved_keeper.taken_out` returns it: a row for each
    of these, in the order of the subscriptions. None where there is no window, or their answers are still to be found.
    """

    subscriptions: PortableSubscriptions
    number: NDArray[np.int64]
    home: NDArray[np.int32]
    copies: NDArray[np.uint64] | None
    placed: NDArray[np.float64]
    #: Their reports of places, rows of type `MOVER`; None: there were none yet.
    movers: NDArray[Any] | None = None
    kept: dict[str, NDArray[Any]] | None = None

    def __len__(self) -> int:
        return len(self.number)

    @classmethod
    def joined(cls, shares: list[Share]) -> Share:
        """Return all shares as one, by number."""
        words = WordTable()
        columns = Subscriptions.concat([share.subscriptions.into(words) for share in shares])
        copies = [share.copies for share in shares if share.copies is not None]
        movers = [share.movers for share in shares if share.movers is not None]
        kept = [share.kept for share in shares if share.kept is not None]
        number = np.concatenate([share.number for share in shares])
        whole = cls(
            PortableSubscriptions(columns, words.words()),
            number,
            np.concatenate([share.home for share in shares]),
            np.concatenate(copies) if copies else None,
            np.concatenate([share.placed for share in shares]),
            np.concatenate(movers) if movers else None,
            {name: np.concatenate([each[name] for each in kept]) for name in kept[0]} if kept else None,
        )
        return whole if (np.diff(number) > 0).all() else whole.take(np.argsort(number))

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """The score from which on a message concerns each subscription of kind `topk`; 0 for others."""
        thresholds = np.zeros(len(self))
        if self.kept is not None:
            thresholds[self.subscriptions.subscriptions.kind == TOPK] = self.kept["holder_theta"]
        return thresholds

    def placed_by(self, placement: Placement) -> Share:
        """Return the same subscriptions in the places that a plan gives them."""
        return replace(self, home=placement.home, copies=placement.copies, placed=placement.threshold)

    def of_partition(self, number: int) -> Share:
        """Return what a partition holds: what is at home there, and copies."""
        holds = self.home == number
        if self.copies is not None:
            holds = holds | ((self.copies & np.uint64(1 << number)) != 0)
        return self.take(np.flatnonzero(holds))

    def part(self, name: str, every: int) -> SharePart:
        """Return what a driver must know of the file with this share; every so many subscriptions are its sample."""
        rows = np.arange(0, len(self), every)
        return SharePart(
            name, self.subscriptions.words, self.subscriptions.take(rows), self.number[rows], self.thresholds[rows]
        )

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
            None if self.movers is None else self.movers[rows],
            kept,
        )

    def into(self, partition: Partition) -> None:
        """Store everything in a partition that holds nothing yet."""
        state = partition.state
        subscriptions = self.subscriptions.into(state.words)
        is_home = self.home == partition.number
        is_topk = subscriptions.kind == TOPK
        to_engine = np.flatnonzero(is_home | ~is_topk)
        for stored in _by_kind_of_id(subscriptions.take(to_engine)):
            if self.kept is None and state.topk is not None:
                engine.step(state, engine.Subscribe(stored))  # their lists are still to be found
            else:
                engine.adopt(state, stored)
        ids = subscriptions.ids.take(_arrow.numbers(to_engine))
        slots = state.ids.slots(ids) if pa.types.is_integer(ids.type) else state.ids.slots_of_keys(ids)
        to_engine, slots = to_engine[slots >= 0], slots[slots >= 0]  # what had expired already is gone again
        if self.movers is not None:
            state.movers.put(slots, self.movers[to_engine])
        copies = np.zeros(len(self), np.uint64) if self.copies is None else self.copies
        partition.note(
            slots,
            number=self.number[to_engine],
            home=self.home[to_engine],
            copies=copies[to_engine],
            placed=self.placed[to_engine],
        )
        if self.kept is not None and state.topk is not None:
            here = is_topk[to_engine]
            adopt(state.topk, slots[here], chosen(self.kept, (np.cumsum(is_topk) - 1)[to_engine[here]]))
        self._into_detector(partition, subscriptions, np.flatnonzero(~is_home & is_topk))

    def _into_detector(self, partition: Partition, subscriptions: Subscriptions, rows: NDArray[np.int64]) -> None:
        """Store copies of top-k subscriptions that have their home elsewhere, with the thresholds known of them."""
        state, done = partition.state, 0
        for copies in _by_kind_of_id(subscriptions.take(rows)):
            part = rows[done : done + len(copies)]
            partition.detector.put(copies, state.words, state.weights, self.number[part], self.home[part])
            done += len(part)
        partition.detector.set_thresholds(self.number[rows], self.thresholds[rows])


def _by_kind_of_id(subscriptions: Subscriptions) -> list[Subscriptions]:
    """Return subscriptions in order, in runs whose ids are all integers or all text; their ids may be given as keys."""
    ids = subscriptions.ids
    if not len(ids) or pa.types.is_integer(ids.type):
        return [subscriptions] if len(ids) else []
    is_integer = _arrow.array_of(pc.starts_with(ids, INTEGER_MARK)).astype(np.bool_)
    cuts = [0, *(np.flatnonzero(np.diff(is_integer)) + 1).tolist(), len(ids)]
    runs = []
    for first, last in pairwise(cuts):
        run = subscriptions if last - first == len(ids) else subscriptions.take(np.arange(first, last))
        if is_integer[first]:
            run = replace(run, ids=pc.replace_substring(run.ids, INTEGER_MARK, "").cast(pa.int64()))
        runs.append(run)
    return runs


def share_of(partition: Partition) -> Share:
    """Return all subscriptions that are at home in a partition, with what is kept for them; ids are keys of `_ids`."""
    state = partition.state
    by_slot = state.by_slot
    slots = state.ids.in_use()
    slots = slots[by_slot["home"][slots] == partition.number]
    expires = np.full(len(slots), NO_TIME)
    known = slots < len(state.expires)
    expires[known] = state.expires[slots[known]]
    keys = state.ids.snapshot().keys(slots)
    held = state.index.subscriptions(slots)
    movers = state.movers.of(slots)
    min_move = np.ascontiguousarray(movers["min_move"])
    subscriptions = replace(
        held,
        ids=keys,
        expires=expires,
        regions=_with_places(held.regions, state.index.space),
        min_move=min_move if min_move.any() else None,
    )
    kept = None if state.topk is None else taken_out(state.topk, slots[subscriptions.kind == TOPK])
    carried = PortableSubscriptions.of(subscriptions, state.words)
    number, home, copies, placed = (by_slot[name][slots] for name in ("number", "home", "copies", "placed"))
    return Share(carried, number, home, copies, placed, movers, kept)


def _with_places(regions: Regions, space: Space) -> Regions:
    """Return regions that have parts: an index need not know where a query that contradicts itself listens."""
    rows = np.where(np.diff(regions.part_start) == 0, len(regions), np.arange(len(regions)))
    return Regions.concat([regions, Regions.from_shapes([None], space)]).take(rows)


def chosen(kept: dict[str, NDArray[Any]], rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return what is kept for some of the subscriptions."""
    start = np.zeros(len(kept["holder_size"]) + 1, np.int64)
    np.cumsum(kept["holder_size"], out=start[1:])
    _, positions = gathered(start, rows)
    entries = ("entry_score", "entry_tag")
    return {name: column[positions if name in entries else rows] for name, column in kept.items()}
