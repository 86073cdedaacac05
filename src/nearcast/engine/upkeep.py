"""Upkeep: mending a state after an interruption, renumbering its slots, compacting its words. No answer changes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from nearcast.engine.expiry import forget_expired
from nearcast.engine.life import settle
from nearcast.engine.recovery import CompactionRedo, RenumberingRedo
from nearcast.engine.state import State

#: Dead slots tolerated beside as many as are alive.
SPARE_SLOTS = 1 << 20
#: Words that no subscription uses, tolerated beside as many as are in use.
SPARE_WORDS = 100_000

_Given = ParamSpec("_Given")
_Returned = TypeVar("_Returned")


def make_good(state: State) -> None:
    """Mend a state: undo or complete a change that was interrupted, and remove what has expired since then."""
    if state.torn is not None:
        state.torn.mend(state)
    if state.live_undo is not None:
        settle(state)
    if state.now >= state.next_expiry:
        forget_expired(state)


def whole(
    change: Callable[Concatenate[State, _Given], _Returned],
) -> Callable[Concatenate[State, _Given], _Returned]:
    """Decorate a function that changes a state: it begins with a mended state, and leaves one when it raises."""

    @functools.wraps(change)
    def call(state: State, /, *given: _Given.args, **options: _Given.kwargs) -> _Returned:
        make_good(state)
        try:
            return change(state, *given, **options)
        except BaseException:
            make_good(state)
            raise

    return call


@whole
def renumber_if_sparse(state: State) -> None:
    """Renumber the slots in use from 0 on when most slots are dead, so that arrays by slot do not grow for ever."""
    if state.index.n_slots <= 2 * len(state.index) + SPARE_SLOTS:
        return
    old = state.ids.in_use()
    record = RenumberingRedo(
        state.index.n_slots,
        state.ids.renumbered(old),
        state.texts.renumbered(old),
        state.movers.renumbered(old),
        None if state.topk is None else state.topk.numbers_after(old),
        state.expires[old[old < len(state.expires)]],
        {name: column[old] for name, column in state.by_slot.items()},  # as long as there were slots
    )
    state.torn = record
    state.index.renumber()
    record.mend(state)


@whole
def compact_words(state: State) -> None:
    """Forget the words that no subscription uses any more, when they are most of those known.

    Words get other numbers by that: to be called when nothing is encoded that is still to be stored or published. Words
    in use are counted when there are twice as many in all as the last time, so that most calls cost nothing.
    """
    if len(state.words) <= 2 * state.n_words_counted + SPARE_WORDS:
        return
    from nearcast.engine.word_compaction import compacted, used_words

    try:
        is_used = used_words(state)
        if len(is_used) > 2 * int(is_used.sum()) + SPARE_WORDS:
            _put_in_place(state, compacted(state, is_used))
    except MemoryError:
        pass  # there is no room for a second index: the words stay until the next count
    state.n_words_counted = len(state.words)


def _put_in_place(state: State, record: CompactionRedo) -> None:
    replaced = state.index
    state.torn = record
    make_good(state)
    replaced.abandon()


@whole
def purge(state: State) -> None:
    """Build the state again without anything of subscriptions that are gone: rows, words, texts and ids.

    As `compact_words`, to be called when nothing is encoded that is still to be stored; takes as long as filling an
    index does.
    """
    from nearcast.engine.word_compaction import compacted, used_words

    _put_in_place(state, compacted(state, used_words(state)))
    state.n_words_counted = len(state.words)
    for table in (state.ids, *state.names.values()):
        table.drop_released()
    state.texts.compact(state.ids.in_use())
