"""Keeper: the window, the buffers and the thresholds of all top-k subscriptions of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast.indexes import Matches
from nearcast.indexes.shared.scores import scored_of
from nearcast.indexes.topk_options import TopKOptions
from nearcast.text.message_words import MessageWords, distinct_words
from nearcast.text.weights import squared_lengths
from nearcast.topk.buffers.fill import BufferFill, fill
from nearcast.topk.buffers.holders import NOBODY, Holders, relink_all
from nearcast.topk.buffers.pool import Slabs, bytes_cut, grown, new_slabs
from nearcast.topk.buffers.walk import walk
from nearcast.topk.buffers.walk_state import (
    DONE,
    MORE_SLABS,
    N_EVENTS,
    N_SHORT,
    N_UNTOLD,
    NEEDED,
    SEARCH,
    STEP,
    WalkProgress,
    WalkSteps,
    new_progress,
)
from nearcast.topk.events import Events, Tops, difference, entries_of, tops_of
from nearcast.topk.holder_numbers import HolderTable
from nearcast.topk.progress import events_of, with_room
from nearcast.topk.refill import BufferSearcher, FoundRows, KnownRows, window_queries
from nearcast.topk.short_buffers import CountingRows, counting_rows, cut_at_steps, steps_of_some
from nearcast.topk.undo_point import DroppedRows, UndoPoint
from nearcast.topk.window.registry import LiveRows, MessageIndex, WindowBatch, WindowQueries, message_index
from nearcast.topk.window.sliding import SlidingWindow
from nearcast.window import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages, Subscriptions
    from nearcast.indexes import Index
    from nearcast.text.weights import TermWeights
    from nearcast.text.words import WordTable

#: Messages that go through all buffers between two settings of the index's thresholds.
BATCH = 512
#: Window words that may be unused beside as many as are in use.
_SPARE_WORDS = 100_000
#: New subscriptions searched for at once.
_SLICE = 1 << 16


#: Ids of messages, and the numbers of the steps at which they arrived.
Named = tuple["NDArray[np.object_]", "NDArray[np.int64]"]


class KeeperNumbers(NamedTuple):
    """What a keeper knows by slot and by term: the holders of slots, and which words of the window the terms are."""

    holding: HolderTable
    words: MessageWords


class Keeper:
    """Keeps the top-k of every subscription of kind `topk` in `index`, over one window.

    A holder is the number of a top-k subscription here; numbers are used again. All methods return what was delivered
    as `Events`, whose steps count from 0 within the call.
    """

    def __init__(self, index: Index, window: Window, words: WordTable, options: TopKOptions):
        self.index, self.options = index, options
        self.sliding = SlidingWindow(window)
        self.words = MessageWords(words)
        self.messages = message_index(options.messages, index.space, window.is_by_time)
        self._weights = np.empty(0)
        #: Up to so many words of the window there is no need to ask which are in use.
        self._word_limit = _SPARE_WORDS
        self.holding = HolderTable()
        self.slabs: Slabs = new_slabs()
        self._searcher = BufferSearcher(options)
        self._progress = new_progress(1 << 10, 1 << 12, 1 << 12, 1)
        self.n_searches = 0

    def __len__(self) -> int:
        return len(self.holding)

    @property
    def holders(self) -> Holders:
        """Return the numbers of all holders."""
        return self.holding.columns

    @property
    def window(self) -> Window:
        """Return how many messages count, or for how long."""
        return self.sliding.window

    @property
    def n_messages(self) -> int:
        """Return how many messages of the window count."""
        return self.sliding.n_live

    @property
    def next_row(self) -> int:
        """Return the row of the next message: how many have arrived."""
        return self.sliding.next_row

    @property
    def word_table(self) -> WordTable:
        """Return the words of the window, by whose numbers messages give their `window_terms`."""
        return self.words.table

    @property
    def nbytes(self) -> int:
        """Return the memory of buffers and numbers by subscription; that of the window apart."""
        return bytes_cut(self.slabs) + self.holding.nbytes

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes."""
        return {
            "window": str(self.window),
            "messages": self.n_messages,
            "message_bytes": self.sliding.nbytes + self.messages.nbytes + self.words.table.nbytes,
            "subscriptions": len(self),
            "entries": int(self.holders.size.sum()),
            "bytes": self.nbytes,
            "searches": self.n_searches,
            "buffer": self.options.buffer,
            "message_index": self.options.messages,
        }

    # Subscriptions

    def hold(self, slots: NDArray[np.int32], k: NDArray[np.int32], weights: TermWeights, threads: int = 1) -> Events:
        """Take new or changed subscriptions in, each a step; return how their top-k differ from what they had."""
        self.holding.take(slots)
        return self.look_again(slots, weights, threads, k)

    def release(self, slots: NDArray[np.int32]) -> None:
        """Forget the subscriptions of these slots, as far as they are of kind `topk`."""
        self.holding.release(slots, self.slabs, self.sliding.rows)

    def release_again(self, slots: NDArray[np.int32]) -> None:
        """Complete a `release` of these slots that was interrupted; may be called again."""
        self.holding.release_again(slots, self.slabs, self.sliding.rows)

    def put_back(self, others: NDArray[np.int32], held: NDArray[np.int32], k: NDArray[np.int32]) -> None:
        """Undo `hold` or `look_again`, also where it was interrupted, when the index is as before; may be called again.

        `others` were not held before. Those of `held` want `k` messages again, and are searched for.
        """
        self.release_again(others)
        holders = self.holding.of_slots(held)
        self.holders.k[holders] = k
        self._fill_again(holders)

    def _fill_again(self, holders: NDArray[np.int32]) -> None:
        """Search the window for these holders, and set their thresholds."""
        for first in range(0, len(holders), _SLICE):
            part = holders[first : first + _SLICE]
            self._search(part, self._alive(self.sliding.next_row - 1))
            self.tell_index(part)

    def move(self, slots: NDArray[np.int32], weights: TermWeights) -> Events:
        """Search the window for subscriptions that have moved, as `look_again` does, beginning with what they have."""
        return self.look_again(slots, weights, have_moved=True)

    def look_again(
        self,
        slots: NDArray[np.int32],
        weights: TermWeights,
        threads: int = 1,
        k: NDArray[np.int32] | None = None,
        *,
        have_moved: bool = False,
    ) -> Events:
        """Search the window for these subscriptions; return how their top-k differ from what they had, each a step.

        `k` is how many they want from now on, where that is another number.
        """
        self.follow_words(weights)
        events = []
        for first in range(0, len(slots), _SLICE):
            part = slots[first : first + _SLICE]
            holders = self.holding.of_slots(part)
            old = self._tops_of(holders)
            known = self._known(holders) if have_moved else None
            if k is not None:
                self.holders.k[holders] = k[first : first + _SLICE]
            self._search(holders, self._alive(self.sliding.next_row - 1), threads, known)
            self.tell_index(holders)
            found = difference(old, self._tops_of(holders), part)
            events.append(found.at_steps(found.step + first))
        return Events.concat(events)

    def _known(self, holders: NDArray[np.int32]) -> KnownRows:
        """Return the messages of the buffers of these holders."""
        held = entries_of(self.holders, self.slabs, self.sliding.rows, holders, self.holders.size[holders])
        return KnownRows(held.start, held.row)

    def _tops_of(self, holders: NDArray[np.int32]) -> Tops:
        return tops_of(self.holders, self.slabs, self.sliding.rows, holders)

    def look_again_at_all(self, weights: TermWeights, threads: int = 1) -> Events:
        """Reweigh all messages and search the window for every holder, in the order of registration, in one step."""
        self._reweigh(weights)
        slots = self.holding.slots()
        events = self.look_again(slots, weights, threads)
        return events.at_steps(np.zeros(len(events), np.int64))

    def holds(self, slot: int) -> bool:
        """Tell whether a slot is a top-k subscription."""
        return bool(self._holders_of(slot)[0] != NOBODY)

    def is_held(self, slots: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Tell which slots are top-k subscriptions."""
        is_held: NDArray[np.bool_] = self.holding.of_slots(slots) != NOBODY
        return is_held

    def slots(self) -> NDArray[np.int32]:
        """Return the slots of all top-k subscriptions, in the order of registration."""
        return self.holding.slots()

    def numbers_after(self, old: NDArray[np.int32], terms: WordTable | None = None) -> KeeperNumbers:
        """Return the numbers for an index that gave slot `old[i]` the number i, and for terms of another table."""
        words = self.words if terms is None else self.words.with_terms_of(terms)
        return KeeperNumbers(self.holding.renumbered(old), words)

    def use_numbers(self, numbers: KeeperNumbers, index: Index | None = None) -> None:
        """Go by these numbers from now on, and by another index where one is given; may be called again."""
        self.__dict__.update(  # in one step
            index=self.index if index is None else index, holding=numbers.holding, words=numbers.words
        )

    def _holders_of(self, slot: int) -> NDArray[np.int32]:
        """Return the one holder of a slot, NOBODY if it is of another kind."""
        return self.holding.of_slots(np.array([slot], np.int32))

    def k_of(self, slot: int) -> int:
        """Return how many messages a subscription wants."""
        return int(self.holders.k[self._holders_of(slot)[0]])

    def top_at(self, slot: int, held: Subscriptions, time: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the rows and scores of the top-k as it would be with a message of this time, that message apart.

        `held` is the subscription of the slot, at its present place or at another.
        """
        k = self.holders.k[self._holders_of(slot)]
        row = self.sliding.next_row
        first, after = self.sliding.first_alive(row, max(self.sliding.now, time))
        found = self.messages.best(self._queries(held), k, LiveRows(first, row, after))
        return found.row, found.score

    def thresholds(self, slots: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return from which score on a message concerns these subscriptions."""
        theta: NDArray[np.float64] = self.holders.theta[self.holding.of_slots(slots)]
        return theta

    def by_holder(self, by_slot: NDArray[np.float64], *, raised: bool) -> NDArray[np.float64]:
        """Return a column by slot as one by holder, 0 for numbers that are free.

        With `raised`, a value is the holder's threshold where that is higher.
        """
        slot = self.holders.slot
        column = np.where(slot >= 0, by_slot[np.maximum(slot, 0)], 0.0)
        if raised:
            column[slot >= 0] = np.maximum(column, self.holders.theta)[slot >= 0]
        return column

    def has_fallen_below(self, by_holder: NDArray[np.float64]) -> bool:
        """Tell whether a threshold is lower than the value of its holder; holders beyond the column do not count."""
        theta = self.holders.theta[: len(by_holder)]
        return bool((theta < by_holder[: len(theta)]).any())

    def fallen_below(self, by_slot: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return the slots whose threshold is lower than this column by slot, in the order of registration."""
        slot = self.holders.slot
        # The free ones are compared with the last value, which is no matter.
        below = (slot != NOBODY) & (self.holders.theta < by_slot[slot])
        fallen: NDArray[np.int32] = np.sort(slot[below])
        return fallen

    def current(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the rows and scores of the top-k of a subscription, best first."""
        tops = self._tops_of(self._holders_of(slot))
        return tops.row, tops.score

    def names(self, rows: NDArray[np.int64]) -> Named:
        """Return the ids of messages of the window, and the numbers of the steps at which they arrived."""
        at = rows & (len(self.sliding.time) - 1)
        return self.sliding.ids[at], self.sliding.number[at]

    def times(self, rows: NDArray[np.int64]) -> list[int]:
        """Return the times of messages of the window."""
        return self.sliding.times(rows)

    # Words

    def search_in(self, messages: MessageIndex, words: MessageWords, weights: TermWeights) -> None:
        """Search these messages from now on, whose words have the numbers of `words`; they have the rows of before."""
        self.messages, self.words, self._weights = messages, words, np.empty(0)
        self.follow_words(weights)

    def follow_words(self, weights: TermWeights) -> None:
        """Let the index of messages know what new words weigh."""
        self.words.follow()
        known, n = len(self._weights), len(self.words.table)
        if n > known:
            all_weights = np.concatenate([self._weights, weights.of_table(self.words.table, known)])
            self.messages.set_weights(all_weights)
            self._weights = all_weights  # last: what is told twice does no harm

    def _reweigh(self, weights: TermWeights) -> None:
        """Weigh all words of the window by another vocabulary."""
        self.words.follow()
        self._weights = weights.of_table(self.words.table, 0)
        self.messages.set_weights(self._weights)
        first, last = max(self.sliding.first_row, self.messages.first_held), self.sliding.next_row
        if last > first:
            held = self.messages.messages(np.arange(first, last))
            lengths = squared_lengths(held.word_start, held.word, held.count, self.words.table, self._weights)
            self.messages.relength(first, lengths)

    def forget_words(self, weights: TermWeights) -> None:
        """Forget the words that no message of the window has, when they are most of those known.

        Words get other ids by that: to be called when no messages are encoded that are still to be published.
        """
        if len(self.words.table) <= self._word_limit:
            return
        self.follow_words(weights)
        is_used = np.zeros(len(self.words.table), np.bool_)
        used = self.messages.used_words()
        is_used[: len(used)] = used[: len(is_used)]
        if 2 * int(is_used.sum()) + _SPARE_WORDS < len(is_used):
            words, new_of_old = self.words.kept(is_used)
            weight = self._weights[is_used]
            messages = self.messages.with_words(new_of_old, weight)
            self.__dict__.update(words=words, messages=messages, _weights=weight)  # in one step: all or none
        self._word_limit = 2 * len(self.words.table) + _SPARE_WORDS

    # Messages

    def publish(
        self,
        messages: Messages,
        matches: Matches,
        numbers: NDArray[np.int64],
        clock: NDArray[np.int64],
        ids: list[Any],
        weights: TermWeights,
        threads: int = 1,
    ) -> tuple[Events, Named]:
        """Add messages to the window, one step each, at these times of the clock; `matches` are the slots they concern.

        Returns the events with the ids of their messages, some of which the next `forget`, which is to follow, drops.
        """
        self.follow_words(weights)
        assert messages.window_terms is not None
        assert messages.totals is not None
        start, word, count = distinct_words(messages.term_start, messages.window_terms)
        lengths = np.ascontiguousarray(messages.totals[:, 2])
        self.messages.append(WindowBatch(start, word, count, messages.box, lengths, messages.time))
        rows = self.sliding.append(ids, messages.time, numbers)
        holder = self.holding.of_slots(matches.slots)
        return self._walk(rows, clock, numbers, matches.start, holder, matches.score, threads)

    def advance(self, clock: int, number: int) -> tuple[Events, Named]:
        """Let the clock alone move on."""
        nothing, none = np.zeros(2, np.int64), np.empty(0, np.int32)
        row, now = np.array([NOBODY], np.int64), np.array([clock])
        return self._walk(row, now, np.array([number]), nothing, none, np.empty(0))

    def without_topk(self, matches: Matches) -> Matches:
        """Return the matches of all other subscriptions."""
        if not len(self):
            return matches
        others = self.holding.of_slots(matches.slots) == NOBODY
        start = np.append(0, np.cumsum(others))[matches.start]
        return Matches(start, matches.slots[others], matches.score[others], matches.candidates, matches.verified)

    def _walk(
        self,
        rows: NDArray[np.int64],
        clock: NDArray[np.int64],
        numbers: NDArray[np.int64],
        start: NDArray[np.int64],
        holder: NDArray[np.int32],
        score: NDArray[np.float64],
        threads: int = 1,
    ) -> tuple[Events, Named]:
        """Take all buffers through these steps."""
        before, self.sliding.now = self.sliding.now, int(clock[-1])
        expiries = self.sliding.slide(rows, clock)
        score = np.require(score, requirements=["C", "W"])  # `walk` is compiled once: boolean matches share one number
        steps = WalkSteps(numbers, rows, *expiries, start, holder, score)
        progress, in_order = self._new_progress(), None
        policy, ratio = self.options.policy, self._searcher.ratio
        while True:
            code = walk(self.holders, self.slabs, self.sliding.rows, steps, progress, policy, ratio)
            if code == DONE:
                break
            if code == SEARCH:
                in_order = int(progress.at[N_EVENTS]) if in_order is None else in_order
                counting = counting_rows(self.sliding, rows, clock, before)
                steps = self._search_for_short(steps, progress, counting, threads)
            elif code == MORE_SLABS:
                self.slabs = grown(self.slabs, 2 * int(progress.at[NEEDED]))
            else:
                progress = with_room(progress, code)
        self._progress = progress
        self._tell_untold(progress)
        events = events_of(progress, in_order)
        return events, self.names(events.row)

    def forget(self, kept: UndoPoint | None = None) -> None:
        """Drop the messages that no longer count; those that an undo point may need are copied there first."""
        if kept is not None:
            first, last = self.sliding.first_row, min(self.sliding.first_counting, kept.window.next_row)
            if last > first:
                held = np.arange(max(first, self.messages.first_held), last)
                kept.dropped.append(DroppedRows(self.sliding.named(first, last), self.messages.messages(held)))
        self.sliding.forget()
        self.messages.drop_before(self.sliding.first_row)

    def undo_point(self, number: int) -> UndoPoint:
        """Return what `roll_back` needs to undo the steps from this number on."""
        return UndoPoint(self.sliding.mark(), number, [])

    def roll_back(self, before: UndoPoint) -> None:
        """Bring window, buffers and thresholds back to an undo point, from wherever steps were interrupted.

        The window is restored; the buffers that a step has touched are filled from it again. May be called again.
        """
        mark, dropped = before.window, before.dropped
        self.__dict__.update(  # in one step: both or neither
            sliding=self.sliding.rolled_back(mark, [each.names for each in dropped]),
            messages=self.messages.rolled_back(mark.first_row, mark.next_row, [each.batch for each in dropped]),
        )
        holders = self.holders
        touched = np.flatnonzero((holders.step >= before.number) & (holders.slot != NOBODY)).astype(np.int32)
        holders.size[touched] = 0
        holders.is_untold[:] = 0
        relink_all(holders, self.sliding.rows, self.slabs)
        self._fill_again(touched)
        holders.step[touched] = NOBODY  # last: until then they are touched

    def _new_progress(self) -> WalkProgress:
        progress = self._progress
        progress.at[:] = 0
        if len(progress.untold) < len(self.holders.slot):
            progress = progress._replace(untold=np.empty(len(self.holders.slot), np.int32))
        return progress

    def _tell_untold(self, progress: WalkProgress) -> None:
        """Set the thresholds that changed."""
        untold = progress.untold[: progress.at[N_UNTOLD]].copy()
        self.holders.is_untold[untold] = 0
        changed = untold[self.holders.theta[untold] != self.holders.told[untold]]
        if len(changed):
            self.tell_index(changed)

    def tell_index(self, holders: NDArray[np.int32]) -> None:
        """Set the thresholds of these holders."""
        theta = self.holders.theta[holders]
        self.index.set_thresholds(self.holders.slot[holders], theta)
        self.holders.told[holders] = theta

    # Searching

    def _alive(self, row: int, now: int | None = None) -> LiveRows:
        first, after = self.sliding.first_alive(row, self.sliding.now if now is None else now)
        return LiveRows(first, row + 1, after)

    def _search(
        self, holders: NDArray[np.int32], alive: LiveRows, threads: int = 1, known: KnownRows | None = None
    ) -> None:
        """Fill the buffers of holders with what the window has for them."""
        self._fill(holders, self._found(holders, alive, threads, known))

    def _found(
        self,
        holders: NDArray[np.int32],
        alive: LiveRows,
        threads: int = 1,
        known: KnownRows | None = None,
        more: int = 0,
    ) -> FoundRows:
        """Return as much of what the window has for holders as their policy wants, and `more`."""
        self.n_searches += len(holders)
        k, work = self.holders.k[holders], self.holders.work[holders]
        most, arriving = max(self.sliding.n_live, 1), self.sliding.arriving
        asked = self._asked(holders)
        found = self._searcher.search(self.messages, asked, k, work, alive, most, arriving, threads, known, more)
        self.holders.work[holders] = np.minimum(found.work, np.iinfo(np.int32).max)
        return found.filling

    def _fill(self, holders: NDArray[np.int32], found: FoundRows) -> None:
        """Make the buffers of holders from what was found."""
        filling = BufferFill(holders, *found, np.empty(len(found.row), np.int64))
        done = 0
        while done < len(holders):
            done = fill(self.holders, self.slabs, self.sliding.rows, filling, done, self.options.policy)
            if done < len(holders):
                longest = int(np.diff(found.start).max(initial=0))
                self.slabs = grown(self.slabs, 4 * longest + 1024)

    def _asked(self, holders: NDArray[np.int32]) -> WindowQueries:
        return self._queries(self.index.subscriptions(self.holders.slot[holders]))

    def _queries(self, held: Subscriptions) -> WindowQueries:
        return window_queries(scored_of(held, self.index.weights), self.words)

    def _search_for_short(
        self, steps: WalkSteps, progress: WalkProgress, counting: CountingRows, threads: int
    ) -> WalkSteps:
        """Fill the buffers that the walk has set aside, as they were then; return the rest of the steps for them."""
        untold = progress.untold[: progress.at[N_UNTOLD]]
        short = untold[self.holders.slab[untold] < 0]
        step = np.searchsorted(steps.number, self.holders.step[short])
        progress.at[STEP], progress.at[N_SHORT] = step.min(), 0
        alive, cuts, more = counting.from_step(int(step.min())), [], 1
        while len(short):
            found, k = self._found(short, alive, threads, more=more), self.holders.k[short]
            cut = cut_at_steps(found, short, k, step, counting, self.sliding.time_of(found.row))
            self._fill(short[cut.is_enough], cut.filling)
            cuts.append(cut)
            short, step = short[~cut.is_enough], step[~cut.is_enough]
            more = 2 * more + int(k.max())  # so much of what was found has expired, or was still to come
        return steps_of_some(steps, cuts)
