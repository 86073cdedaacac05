"""The state of an engine: its index, ids, words, weights, window and clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast._ids import IdTable
from nearcast.columns import NO_TIME
from nearcast.engine.movers import Movers
from nearcast.errors import UnknownSubscription
from nearcast.live.registry import live_store, store_name
from nearcast.request_texts import RequestTexts
from nearcast.text import Analyzer, Vocabulary
from nearcast.text.weights import TermWeights
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from nearcast._ids import Id
    from nearcast.deliveries import Piece
    from nearcast.engine.lifetime import Lifetime
    from nearcast.engine.live_undo import LiveUndo
    from nearcast.engine.recovery import ChangeRecord
    from nearcast.indexes import Index
    from nearcast.live.contract import LiveStore
    from nearcast.topk.keeper import Keeper
    from nearcast.window import Window

#: Later than any time.
NEVER = np.iinfo(np.int64).max


@dataclass
class State:
    """Subscriptions in an index under ids, the words they use, the weights of words, and event time.

    `needs_totals` tells that a text function among the subscriptions reads all words of a message: whoever encodes
    messages works out their `totals` with `weights`. With a `window` there are top-k subscriptions, which `topk` keeps:
    then every message needs its `totals` and its `window_terms`. With a `lifetime` messages are stored in `live` until
    they expire: then they need their `totals` and their `live_terms`. With either, every changed subscription is a
    step, as every message is.
    """

    index: Index
    words: WordTable = field(default_factory=WordTable)
    analyzer: Analyzer = field(default_factory=Analyzer)
    vocabulary: Vocabulary = field(default_factory=lambda: Vocabulary().snapshot())
    ids: IdTable = field(default_factory=IdTable)
    now: int = NO_TIME
    next_step: int = 0
    published: int = 0
    #: When each slot expires, NO_TIME for never; as long as the last slot that does.
    expires: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    #: No slot expires before this; it may lie too early, after a slot has gone by another way.
    next_expiry: int = NEVER
    #: Columns by slot of whoever runs the engine; they are renumbered with the slots.
    by_slot: dict[str, NDArray[Any]] = field(default_factory=dict)
    #: Tables of names of whoever runs the engine, to which columns by slot may refer.
    names: dict[str, IdTable] = field(default_factory=dict)
    #: Reports of places by slot.
    movers: Movers = field(default_factory=Movers)
    #: Request texts by slot, where subscriptions are given back as values.
    texts: RequestTexts = field(default_factory=RequestTexts)
    #: Whether `Subscribe` renumbers sparse slots; else the caller does, with `renumber_if_sparse`.
    renumbers: bool = True
    window: Window | None = None
    topk: Keeper | None = field(init=False, default=None)
    lifetime: Lifetime | None = None
    #: The name of the store of live messages, where there is a lifetime; none for that of the index.
    live_store: str = ""
    #: Whether the expiry of messages is delivered.
    tell_expiry: bool = False
    live: LiveStore | None = field(init=False, default=None)
    #: The undo record of the store of live messages, while a step is under way.
    live_undo: LiveUndo | None = None
    weights: TermWeights = field(init=False)
    #: The index knows the weights of the terms below this; none while nothing is scored.
    n_weighed: int = 0
    needs_totals: bool = False
    #: How many words there were when `compact_words` last counted those in use.
    n_words_counted: int = 0
    #: Deliveries that no call has returned yet; None where the caller takes what `step` returns.
    waiting: list[Piece] | None = None
    #: The record of a change under way, or of one that was interrupted.
    torn: ChangeRecord | None = None

    def __post_init__(self) -> None:
        self.vocabulary = self.vocabulary.snapshot()
        self.weights = TermWeights(self.words, self.vocabulary)
        if self.window is not None:
            # Here, as in the other places: `import nearcast` should not pay for what a hub without a window never uses.
            from nearcast.indexes.topk_options import TopKOptions
            from nearcast.topk.keeper import Keeper

            self.topk = Keeper(self.index, self.window, self.words, TopKOptions.of(self.index.topk_options))
            self.needs_totals = True
        self.live_store = store_name(self.live_store, self.index)
        if self.lifetime is not None:
            self.live = live_store(self.live_store, self.index.space, self.words)
            self.live.use_index(self.index)
            self.needs_totals = True

    @property
    def has_steps(self) -> bool:
        """Tell whether every change is a step; else only messages are."""
        return self.topk is not None or self.live is not None

    def commit(self, pieces: list[Piece] | None = None, **changes: Any) -> None:
        """Set attributes and append to the deliveries that wait, in one step that nothing can interrupt."""
        if pieces and self.waiting is not None:
            changes["waiting"] = [*self.waiting, *pieces]
        self.__dict__.update(changes)

    def slot(self, subscription_id: str | int) -> int:
        """Return the slot of an id, or raise `UnknownSubscription`."""
        slot = self.ids.slot(subscription_id)
        if slot < 0:
            raise UnknownSubscription(f"there is no subscription {subscription_id!r}")
        return slot

    def slots(self, ids: pa.Array | tuple[Id]) -> NDArray[np.int32]:
        """Return the slots of ids, or raise `UnknownSubscription` if one of them is not known."""
        if isinstance(ids, tuple):
            return np.array([self.slot(ids[0])], np.int32)
        slots = self.ids.slots(ids)
        if (slots < 0).any():
            raise UnknownSubscription(f"there is no subscription {ids[int(np.argmin(slots))].as_py()!r}")
        return slots
