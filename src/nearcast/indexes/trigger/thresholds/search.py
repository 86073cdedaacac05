"""The search for top-k rows: looks messages up in lists of triggers, or in a delta, and scores what bounds let pass.

Lists are searched for up to some hundred messages at a time, list by list: what one message has read of a list is still
in the processor's cache for the next. The candidates are then put in order of messages and scored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.shared.gather import sort_by_low_bits
from nearcast.indexes.shared.scores import count_words, forget_words
from nearcast.indexes.shared.word_order import comes_before
from nearcast.indexes.trigger.thresholds.bounds import (
    BLOCK,
    BUNDLE,
    CORNERS,
    GROUP,
    STALE,
    STALE_BUNDLE,
    box_of_block,
    box_of_frame,
    fill_bundle,
    fill_table,
    live_blocks,
    live_entries,
    lowest_bit,
    still_fires,
)
from nearcast.indexes.trigger.thresholds.frame import VIEW, set_view
from nearcast.indexes.trigger.thresholds.layout import list_of, signature_bit
from nearcast.indexes.trigger.thresholds.rows import FIRST, THRESHOLD, exact_score, shares_earlier

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Fields of `ThresholdScratch.tally`.
HITS, LOOKED_AT, VERIFIED, BLOCKS_TRIED, WAITING, SPANS = 0, 1, 2, 3, 4, 5

#: Candidates whose rows are fetched side by side.
_FETCHED = 1024
#: Spans that are noted before their triggers are tried; those of one visit may exceed it.
_SPANS_NOTED = 256
_ANY_WORD = -1
_NO_BLOCK = -1
#: A trigger is tested again if no more than so many words of the message come after its own.
_WORTH_ASKING = 64
#: A visit is (word << _LIST_BITS) | list.
_LIST_BITS = 32
_LIST = (1 << _LIST_BITS) - 1


class ThresholdBatch(NamedTuple):
    """Messages as searches read them, and the weights of words; `earth` holds 1 on the earth."""

    term_start: NDArray[np.int64]
    terms: NDArray[np.int32]
    box: NDArray[np.float64]
    totals: NDArray[np.float64]
    weight: NDArray[np.float64]
    earth: NDArray[np.uint8]


class ThresholdScratch(NamedTuple):
    """Scratch space of one thread, for the messages that it searches for together; they are numbered from 0 here.

    `counts` tells how often one message says each term. The words of message m are those from `word_start[m]` on, in
    the order of all words. Of word w: the term `said[w]`, its message `message[w]`, its share `u` in the message's unit
    vector, the length of what comes `after` it, the signatures `bit` of itself and `bits` of those after it.
    `seen[m]` is where message m is seen from the frame. `visit` are words with the lists that they are looked up in.

    The first `tally[SPANS]` spans are triggers to be tried for a word: a block, or a list without blocks (-1), of as
    many triggers at most. The first `tally[WAITING]` candidates are rows that may be concerned, and the word `through`
    which each was found (-1: any). `candidate_in_order` are the same by message; those of message m end at
    `candidate_end[m]`. The first `tally[HITS]` hits are slot, score and message, by component.
    """

    counts: NDArray[np.float64]
    word_start: NDArray[np.int64]
    said: NDArray[np.int32]
    message: NDArray[np.int32]
    u: NDArray[np.float32]
    after: NDArray[np.float32]
    bit: NDArray[np.uint32]
    bits: NDArray[np.uint32]
    seen: NDArray[np.float64]
    visit: NDArray[np.int64]
    spare: NDArray[np.int64]
    digits: NDArray[np.int64]
    candidate: NDArray[np.int32]
    through: NDArray[np.int32]
    candidate_in_order: NDArray[np.int32]
    through_in_order: NDArray[np.int32]
    candidate_end: NDArray[np.int64]
    first: NDArray[np.int64]
    touched: NDArray[np.int32]
    slot: NDArray[np.int32]
    table: NDArray[np.float32]
    span_word: NDArray[np.int32]
    span_list: NDArray[np.int32]
    span_block: NDArray[np.int32]
    span_first: NDArray[np.int32]
    span_last: NDArray[np.int32]
    hit_slot: NDArray[np.int32]
    hit_score: NDArray[np.float64]
    hit_message: NDArray[np.int32]
    tally: NDArray[np.int64]


def new_scratch(n_terms: int, n_messages: int, n_words: int, room: int) -> ThresholdScratch:
    """Make scratch space for this many terms, messages, words of all of these, and candidates and hits."""
    n_spans = _SPANS_NOTED + GROUP * BUNDLE
    return ThresholdScratch(
        counts=np.zeros(n_terms),
        word_start=np.empty(n_messages + 1, np.int64),
        said=np.empty(n_words, np.int32),
        message=np.empty(n_words, np.int32),
        u=np.empty(n_words, np.float32),
        after=np.empty(n_words, np.float32),
        bit=np.empty(n_words, np.uint32),
        bits=np.empty(n_words, np.uint32),
        seen=np.empty((n_messages, VIEW)),
        visit=np.empty(n_words, np.int64),
        spare=np.empty(n_words, np.int64),
        digits=np.empty(256, np.int64),
        candidate=np.empty(room, np.int32),
        through=np.empty(room, np.int32),
        candidate_in_order=np.empty(room, np.int32),
        through_in_order=np.empty(room, np.int32),
        candidate_end=np.empty(n_messages, np.int64),
        first=np.empty(_FETCHED, np.int64),
        touched=np.empty(_FETCHED, np.int32),
        slot=np.empty(_FETCHED, np.int32),
        table=np.empty(CORNERS, np.float32),
        span_word=np.empty(n_spans, np.int32),
        span_list=np.empty(n_spans, np.int32),
        span_block=np.empty(n_spans, np.int32),
        span_first=np.empty(n_spans, np.int32),
        span_last=np.empty(n_spans, np.int32),
        hit_slot=np.empty(room, np.int32),
        hit_score=np.empty(room),
        hit_message=np.empty(room, np.int32),
        tally=np.zeros(6, np.int64),
    )


_CANDIDATE_COLUMNS = ("candidate", "through", "candidate_in_order", "through_in_order")
_HIT_COLUMNS = ("hit_slot", "hit_score", "hit_message")


def with_more_candidates(scratch: ThresholdScratch, room: int) -> ThresholdScratch:
    """Return the scratch space with room for twice as many candidates, `room` at least; those it had are lost."""
    room = max(2 * len(scratch.candidate), room)
    columns: dict[str, Any] = {name: np.empty(room, np.int32) for name in _CANDIDATE_COLUMNS}
    return scratch._replace(**columns)


def with_room_for_hits(scratch: ThresholdScratch, more: int) -> ThresholdScratch:
    """Return the scratch space with room for so many more hits."""
    lacking = int(scratch.tally[HITS]) + more - len(scratch.hit_slot)
    if lacking <= 0:
        return scratch
    lacking = max(lacking, len(scratch.hit_slot))
    columns = {name: getattr(scratch, name) for name in _HIT_COLUMNS}
    return scratch._replace(**{name: np.append(old, np.empty(lacking, old.dtype)) for name, old in columns.items()})


# Words


@inlined
def _list_words(batch, message, scratch, first):
    """Write the distinct words that subscriptions may use to `scratch.said` from `first` on; return where they end."""
    n = first
    for i in range(batch.term_start[message], batch.term_start[message + 1]):
        term = batch.terms[i]
        if 0 <= term < scratch.counts.size and scratch.counts[term] > 0.0:
            # A word said often is listed once: its count is made negative until all are listed.
            scratch.said[n] = term
            scratch.counts[term] = -scratch.counts[term]
            n += 1
    for i in range(first, n):
        scratch.counts[scratch.said[i]] = -scratch.counts[scratch.said[i]]
    return n


@inlined
def _sort_words(said, first, last, weight):
    """Put words into the order of all words; a Shell sort, since a message may have thousands."""
    gap = (last - first) // 2
    while gap > 0:
        for i in range(first + gap, last):
            term, j = said[i], i
            while j >= first + gap and comes_before(weight, term, said[j - gap]):
                said[j] = said[j - gap]
                j -= gap
            said[j] = term
        gap //= 2


@inlined
def _prepare_words(batch, message, scratch, number):
    """Count and order the words of a message and fill in what the bounds need, as those of message `number` here.

    Returns the length of them all in the unit vector of the message, and their signature.
    """
    count_words(batch.terms, batch.term_start[message], batch.term_start[message + 1], scratch.counts)
    first = scratch.word_start[number]
    last = _list_words(batch, message, scratch, first)
    scratch.word_start[number + 1] = last
    _sort_words(scratch.said, first, last, batch.weight)
    total = batch.totals[message, 2]
    squares, bits = 0.0, np.uint32(0)
    for back in range(last - first):
        i = last - 1 - back
        term = scratch.said[i]
        share = scratch.counts[term] * batch.weight[term]
        u_squared = share * share / total if total > 0.0 else 0.0
        scratch.message[i] = number
        scratch.u[i] = min(1.0, np.sqrt(u_squared))
        scratch.after[i] = min(1.0, np.sqrt(squares))
        scratch.bit[i], scratch.bits[i] = signature_bit(term), bits
        squares += u_squared
        bits |= scratch.bit[i]
    return np.float32(min(1.0, np.sqrt(squares))), bits


@inlined
def _prepare(lists, batch, first, last, scratch):
    """Prepare the words and the views of the messages first to last."""
    scratch.word_start[0] = 0
    for message in range(first, last):
        _prepare_words(batch, message, scratch, message - first)
        forget_words(batch.terms, batch.term_start[message], batch.term_start[message + 1], scratch.counts)
        set_view(batch.earth[0] == 1, lists.frame, batch.box, message, scratch.seen[message - first])


@inlined
def _plan_visits(lists, n_words, scratch):
    """Write which words are looked up in which lists, in the order of lists; return how many."""
    n, n_bits = 0, 0
    for word in range(n_words):
        number = list_of(lists, scratch.said[word])
        if number >= 0:
            scratch.visit[n] = (np.int64(word) << _LIST_BITS) | number
            n += 1
    while lists.start.size >> n_bits > 0:
        n_bits += 8
    sort_by_low_bits(scratch.visit, n, n_bits, scratch.spare, scratch.digits)
    return n


# Candidates


@inlined
def _later_length(scratch, word, end, signature):
    """Return the length of those words of the message after one that a signature may hold."""
    squares = np.float32(0.0)
    for j in range(word + 1, end):
        if signature & scratch.bit[j]:
            squares += scratch.u[j] * scratch.u[j]
    return np.float32(min(1.0, np.sqrt(squares)))


@inlined
def _keep_candidates(entries, first, live, word, scratch, frame, view, box):
    """Collect the rows of the triggers whose bits are set, from `first` on; False for want of room.

    Those found through a word are tested once more, with only the later words that their signatures may hold.
    """
    kept = scratch.tally[WAITING]
    if kept + GROUP > scratch.candidate.size:
        return False
    end = scratch.word_start[scratch.message[word] + 1] if word != _ANY_WORD else 0
    ask_again = word != _ANY_WORD and end - word <= _WORTH_ASKING
    while live != 0:
        at = first + lowest_bit(live)
        live &= live - 1
        if ask_again:
            after = _later_length(scratch, word, end, entries.signature[at])
            if not still_fires(entries, at, scratch.u[word], after, frame, view, box):
                continue
        scratch.candidate[kept], scratch.through[kept] = entries.row[at], word
        kept += 1
    scratch.tally[WAITING] = kept
    return True


@inlined
def _add_span(scratch, word, number, block, first, last):
    """Note triggers of a list to be tried for a word: a block, or a list that has none (-1)."""
    n = scratch.tally[SPANS]
    scratch.span_word[n], scratch.span_list[n], scratch.span_block[n] = word, number, block
    scratch.span_first[n], scratch.span_last[n] = first, last
    scratch.tally[SPANS] = n + 1


@inlined
def _add_blocks(lists, number, word, view, first, last, scratch):
    """Note those of the blocks first to last of a list that may fire for a word; return how many."""
    begun, first_block = scratch.tally[SPANS], lists.first_block[number]
    scratch.tally[BLOCKS_TRIED] += last - first
    for group in range(first, last, GROUP):
        n_here = min(GROUP, last - group)
        live = live_blocks(lists.blocks, group, n_here, scratch.u[word], scratch.after[word], lists.frame, view)
        while live != 0:
            block = group + lowest_bit(live)
            live &= live - 1
            begin = lists.start[number] + BLOCK * (block - first_block)
            _add_span(scratch, word, number, block, begin, min(begin + BLOCK, lists.start[number + 1]))
    return scratch.tally[SPANS] - begun


@inlined
def _add_bundles(lists, number, word, view, first_bundle, n_here, scratch):
    """Note the blocks of up to 32 bundles that may fire for a word."""
    bundles, last_block = lists.bundles, lists.first_block[number + 1]
    begin = lists.first_block[number] - BUNDLE * lists.first_bundle[number]
    scratch.tally[BLOCKS_TRIED] += n_here
    live = live_blocks(bundles, first_bundle, n_here, scratch.u[word], scratch.after[word], lists.frame, view)
    while live != 0:
        bundle = first_bundle + lowest_bit(live)
        live &= live - 1
        first = begin + BUNDLE * bundle
        last = min(first + BUNDLE, last_block)
        n_live = _add_blocks(lists, number, word, view, first, last, scratch)
        if n_live == 0 and bundles.stale[bundle] >= min(STALE_BUNDLE, last - first):
            fill_bundle(lists.blocks, bundles, bundle, first, last)


@inlined
def _n_groups(lists, number):
    """Return how many groups of bundles a list has, 1 if it has no bundles."""
    return max(1, (lists.first_bundle[number + 1] - lists.first_bundle[number] + GROUP - 1) // GROUP)


@inlined
def _add_spans(lists, number, word, group, scratch):
    """Note the triggers in one group of bundles of a list, or in all of a list without, that are tried for a word."""
    view = scratch.seen[scratch.message[word]]
    first_block, last_block = lists.first_block[number], lists.first_block[number + 1]
    first_bundle, last_bundle = lists.first_bundle[number] + GROUP * group, lists.first_bundle[number + 1]
    if first_bundle < last_bundle:
        n_here = min(GROUP, last_bundle - first_bundle)
        _add_bundles(lists, number, word, view, first_bundle, n_here, scratch)
    elif first_block < last_block:
        _add_blocks(lists, number, word, view, first_block, last_block, scratch)
    else:
        _add_span(scratch, word, number, _NO_BLOCK, lists.start[number], lists.start[number + 1])


@inlined
def _make_table_anew(lists, span, scratch):
    """Make the table of a block that was tried in vain, if enough of its thresholds have risen."""
    block, number = scratch.span_block[span], scratch.span_list[span]
    if block == _NO_BLOCK or lists.blocks.stale[block] < STALE:
        return
    fill_table(lists.entries, lists.blocks, block, scratch.span_first[span], scratch.span_last[span], scratch.table)
    if lists.first_bundle[number] < lists.first_bundle[number + 1]:
        bundle = lists.first_bundle[number] + (block - lists.first_block[number]) // BUNDLE
        if lists.bundles.stale[bundle] < 255:
            lists.bundles.stale[bundle] += 1


@inlined
def _try_spans(lists, scratch):
    """Try the triggers that were noted, and note none of them any more; False for want of room."""
    around = box_of_frame(lists.frame)
    n, scratch.tally[SPANS] = scratch.tally[SPANS], 0
    for span in range(n):
        word, block = scratch.span_word[span], scratch.span_block[span]
        view = scratch.seen[scratch.message[word]]
        first, n_here = scratch.span_first[span], scratch.span_last[span] - scratch.span_first[span]
        box = box_of_block(lists.blocks, block) if block != _NO_BLOCK else around
        scratch.tally[LOOKED_AT] += n_here
        live = live_entries(
            lists.entries,
            first,
            n_here,
            scratch.u[word],
            scratch.after[word],
            scratch.bits[word],
            True,
            lists.frame,
            view,
            box,
        )
        if live == 0:
            _make_table_anew(lists, span, scratch)
        elif not _keep_candidates(lists.entries, first, live, word, scratch, lists.frame, view, box):
            return False
    return True


@inlined
def _end_of_list(scratch, first, n_visits):
    """Return where the visits to the list that visit `first` goes to end."""
    last = first + 1
    while last < n_visits and scratch.visit[last] & _LIST == scratch.visit[first] & _LIST:
        last += 1
    return last


@hot_kernel
def collect_candidates(lists, batch, first, last, scratch):
    """Collect the rows that the messages first to last may concern, list by list; False for want of room.

    All messages that have the word of a long list go through some of its bundles before they come to the next.
    """
    scratch.tally[WAITING] = scratch.tally[SPANS] = 0
    _prepare(lists, batch, first, last, scratch)
    n_visits = _plan_visits(lists, scratch.word_start[last - first], scratch)
    begin = np.int64(0)
    while begin < n_visits:
        number, end = scratch.visit[begin] & _LIST, _end_of_list(scratch, begin, n_visits)
        for group in range(_n_groups(lists, number)):
            for v in range(begin, end):
                if scratch.tally[SPANS] >= _SPANS_NOTED and not _try_spans(lists, scratch):
                    return False
                _add_spans(lists, number, scratch.visit[v] >> _LIST_BITS, group, scratch)
        begin = end
    return _try_spans(lists, scratch)


# Scores


@inlined
def _put_in_order(scratch, n_messages):
    """Write the candidates by message."""
    end = scratch.candidate_end
    end[:n_messages] = 0
    for c in range(scratch.tally[WAITING]):
        end[scratch.message[scratch.through[c]]] += 1
    total = np.int64(0)
    for message in range(n_messages):
        total, end[message] = total + end[message], total
    # While they are written, the end of a message is where it has come to.
    for c in range(scratch.tally[WAITING]):
        message = scratch.message[scratch.through[c]]
        scratch.candidate_in_order[end[message]] = scratch.candidate[c]
        scratch.through_in_order[end[message]] = scratch.through[c]
        end[message] += 1


@inlined
def _touch_candidates(rows, candidate, begin, n, scratch):
    """Read a little of every candidate: the processor waits for all of their memory at once, not for one by one."""
    for c in range(n):
        scratch.first[c] = int(rows.record[candidate[begin + c], FIRST])
    for c in range(n):
        scratch.touched[c] = rows.term[min(scratch.first[c], rows.term.size - 1)]
    for c in range(n):
        scratch.slot[c] = rows.slot[candidate[begin + c]]


@inlined
def _score(rows, batch, message, candidate, through, begin, end, scratch):
    """Score the candidates of a message that are found through their first common word; there is room for the hits."""
    for some in range(begin, end, _FETCHED):
        n = min(_FETCHED, end - some)
        _touch_candidates(rows, candidate, some, n, scratch)
        for c in range(n):
            row, word = candidate[some + c], through[some + c]
            if word != _ANY_WORD and shares_earlier(rows, row, scratch.said[word], batch.weight, scratch.counts):
                continue
            scratch.tally[VERIFIED] += 1
            score = exact_score(
                rows, row, batch.weight, scratch.counts, batch.totals, batch.earth[0] == 1, batch.box, message
            )
            if score >= 0.0 and score >= rows.record[row, THRESHOLD]:
                at = scratch.tally[HITS]
                scratch.hit_slot[at], scratch.hit_score[at], scratch.hit_message[at] = scratch.slot[c], score, message
                scratch.tally[HITS] = at + 1


@hot_kernel
def score_candidates(rows, batch, first, last, scratch):
    """Score the rows that were collected for the messages first to last; there is room for as many hits."""
    _put_in_order(scratch, last - first)
    begin = np.int64(0)
    for message in range(first, last):
        end = scratch.candidate_end[message - first]
        if begin < end:
            count_words(batch.terms, batch.term_start[message], batch.term_start[message + 1], scratch.counts)
            _score(rows, batch, message, scratch.candidate_in_order, scratch.through_in_order, begin, end, scratch)
            forget_words(batch.terms, batch.term_start[message], batch.term_start[message + 1], scratch.counts)
        begin = end


@inlined
def _try_delta(entries, n_rows, frame, length, bits, scratch):
    """Collect those of all rows of a delta that a message may concern; there is room for all of them."""
    scratch.tally[LOOKED_AT] += n_rows
    scratch.tally[WAITING] = 0
    box, view = box_of_frame(frame), scratch.seen[0]
    for group in range(0, n_rows, GROUP):
        n_here = min(GROUP, n_rows - group)
        live = live_entries(entries, group, n_here, np.float32(0.0), length, bits, False, frame, view, box)
        if live != 0:
            _keep_candidates(entries, group, live, np.int32(_ANY_WORD), scratch, frame, view, box)


@hot_kernel
def search_delta(rows, entries, n_rows, frame, batch, first, last, scratch):
    """Find the rows of a delta that the messages first to last concern; return the first that had no room, or `last`.

    The first `n_rows` rows have one entry each. There is room if all may be candidates, and hits.
    """
    for message in range(first, last):
        if scratch.tally[HITS] + n_rows > scratch.hit_slot.size:
            return message
        scratch.word_start[0] = 0
        length, bits = _prepare_words(batch, message, scratch, 0)
        set_view(batch.earth[0] == 1, frame, batch.box, message, scratch.seen[0])
        _try_delta(entries, n_rows, frame, length, bits, scratch)
        n = scratch.tally[WAITING]
        _score(rows, batch, message, scratch.candidate, scratch.through, np.int64(0), n, scratch)
        forget_words(batch.terms, batch.term_start[message], batch.term_start[message + 1], scratch.counts)
    return last
