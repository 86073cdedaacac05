"""Undo and redo records: how an engine keeps every change whole, whatever interrupts it.

A change that takes several writes first stores a record in `State.torn`, and its last write, which is one step, takes
the record away. Whoever finds a record there, be it the call that was interrupted or the next one, lets it `mend` the
state: a change that had not come to its end is undone, one that cannot be undone any more is completed. Mending may be
interrupted as well, so all of it can be done again. Calls of an index are whole by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from nearcast.columns import NO_TIME, TOPK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast._ids import IdTable, Kinds
    from nearcast.columns import Subscriptions
    from nearcast.engine import State
    from nearcast.engine.movers import Movers
    from nearcast.indexes import Index
    from nearcast.request_texts import RequestTexts
    from nearcast.text.weights import TermWeights
    from nearcast.topk.keeper import Keeper, KeeperNumbers
    from nearcast.topk.undo_point import UndoPoint


class ChangeRecord(Protocol):
    """A record of a change under way: enough to undo it, or to complete it."""

    def mend(self, state: State) -> None:
        """Undo the change or complete it, and take the record away in the last step."""


class StoringUndo(NamedTuple):
    """Undo record of subscriptions stored or moved: new ids are removed, known ones get back what they had.

    `n_slots` and `n_live` are those of the index before, `kinds` those of the ids. `held` is what the slots `replaced`
    held, `expires` when that expires, None where nothing does, `texts` where its request texts lie, and `movers` what
    it reported.
    """

    n_slots: int
    n_live: int
    new_ids: pa.Array
    kinds: Kinds
    replaced: NDArray[np.int32]
    held: Subscriptions | None
    expires: NDArray[np.int64] | None
    texts: NDArray[np.int64]
    movers: NDArray[Any]

    @classmethod
    def before(
        cls,
        state: State,
        new_ids: pa.Array,
        replaced: NDArray[np.int32],
        held: Subscriptions | None = None,
        movers: NDArray[Any] | None = None,
    ) -> StoringUndo:
        """Return the record of a change that is about to begin; `held` and `movers` save a look where known."""
        if held is None and len(replaced):
            held = state.index.subscriptions(replaced)
        expires = None
        if len(state.expires):
            expires, has_expiry = np.full(len(replaced), NO_TIME), replaced < len(state.expires)
            expires[has_expiry] = state.expires[replaced[has_expiry]]
        return cls(
            n_slots=state.index.n_slots,
            n_live=len(state.index),
            new_ids=new_ids,
            kinds=state.ids.kinds,
            replaced=replaced,
            held=held,
            expires=expires,
            texts=state.texts.spans(replaced),
            movers=state.movers.of(replaced) if movers is None else movers,
        )

    def mend(self, state: State) -> None:
        """Undo the change."""
        index = state.index
        added = np.arange(self.n_slots, index.n_slots, dtype=np.int32)
        if len(index) > self.n_live:
            index.remove(added)
        if self.held is not None:
            index.replace(self.replaced, self.held)
        if len(self.new_ids):
            state.ids.unbind(self.new_ids, self.kinds)
        state.expires[added[added < len(state.expires)]] = NO_TIME
        has_expiry = self.replaced < len(state.expires)
        state.expires[self.replaced[has_expiry]] = NO_TIME if self.expires is None else self.expires[has_expiry]
        state.texts.put_back(self.replaced, self.texts)
        if len(state.movers):
            state.movers.begin(added, None)
            state.movers.put(self.replaced, self.movers)
        if state.topk is not None:
            self._put_back(state.topk, added)
        state.commit(torn=None)

    def _put_back(self, topk: Keeper, added: NDArray[np.int32]) -> None:
        """Let the same slots be top-k subscriptions as before, with the k they had."""
        is_topk, k = np.zeros(len(self.replaced), np.bool_), np.empty(0, np.int32)
        if self.held is not None and self.held.scoring is not None:
            is_topk = self.held.kind == TOPK
            k = self.held.scoring.k[is_topk]
        topk.put_back(np.append(added, self.replaced[~is_topk]), self.replaced[is_topk], k)


@dataclass(frozen=True)
class ArrivalUndo:
    """Undo record of messages that arrive in a window, or of a window whose clock moves."""

    before: UndoPoint

    def mend(self, state: State) -> None:
        """Undo the change."""
        assert state.topk is not None
        state.topk.roll_back(self.before)
        state.commit(torn=None)


@dataclass(frozen=True)
class WeighingUndo:
    """Undo record of a change of vocabulary: the weights of before."""

    weights: TermWeights

    def mend(self, state: State) -> None:
        """Undo the change."""
        if state.n_weighed:
            state.index.set_weights(self.weights.from_term(0))
        if state.topk is not None:
            state.topk.look_again_at_all(self.weights)
        state.commit(torn=None)


@dataclass(frozen=True)
class RemovalRedo:
    """Redo record of subscriptions that go: when the index has removed them, the rest follows.

    `n_live` is that of the index before, -1 if it is not to remove anything; `then` are attributes of the state to be
    set in the last step.
    """

    slots: NDArray[np.int32]
    n_live: int
    then: dict[str, Any] = field(default_factory=dict)

    def mend(self, state: State) -> None:
        """Complete the change if the index has made its part of it, else drop it."""
        if len(state.index) == self.n_live:
            state.commit(torn=None)
            return
        if state.topk is not None:
            state.topk.release_again(self.slots)
        if self.n_live >= 0:
            state.ids.release_again(self.slots)
            state.expires[self.slots[self.slots < len(state.expires)]] = NO_TIME
        state.commit(torn=None, **self.then)


@dataclass(frozen=True)
class RenumberingRedo:
    """Redo record of slots that get other numbers: when the index has them, everything else follows in one step.

    `n_slots` is that of the index before; the rest is as it is to be afterwards, `topk` the numbers of a keeper.
    """

    n_slots: int
    ids: IdTable
    texts: RequestTexts
    movers: Movers
    topk: KeeperNumbers | None
    expires: NDArray[np.int64]
    by_slot: dict[str, NDArray[Any]]

    def mend(self, state: State) -> None:
        """Complete the change if the index has made its part of it, else drop it."""
        if state.index.n_slots == self.n_slots:
            state.commit(torn=None)
            return
        if state.topk is not None and self.topk is not None:
            state.topk.use_numbers(self.topk)
        state.commit(
            torn=None,
            ids=self.ids,
            texts=self.texts,
            movers=self.movers,
            expires=self.expires,
            by_slot=self.by_slot,
        )


@dataclass(frozen=True)
class CompactionRedo:
    """Redo record of a compaction of the word table: what was built beside the state takes the place of what it had.

    `then` are all attributes of the state that change; `topk` are the numbers of a keeper.
    """

    index: Index
    topk: KeeperNumbers | None
    then: dict[str, Any]

    def mend(self, state: State) -> None:
        """Complete the change."""
        if state.topk is not None and self.topk is not None:
            state.topk.use_numbers(self.topk, self.index)
        if state.live is not None:
            state.live.use_terms(self.then["words"])
            state.live.use_index(self.index)
        state.commit(torn=None, index=self.index, **self.then)
