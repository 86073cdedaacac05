"""The search for top-k rows: looks messages up in lists of triggers, or in a delta, and scores what bounds let pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
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

#: Candidates that are collected before they are scored.
_CANDIDATES = 1024
_ANY_WORD = -1
_NO_BLOCK = -1
#: A trigger is tested again if no more than so many words of the message come after its own.
_WORTH_ASKING = 64


class ThresholdBatch(NamedTuple):
    """Messages as searches read them, and the weights of words; `earth` holds 1 on the earth."""

    term_start: NDArray[np.int64]
    terms: NDArray[np.int32]
    box: NDArray[np.float64]
    totals: NDArray[np.float64]
    weight: NDArray[np.float64]
    earth: NDArray[np.uint8]


class ThresholdScratch(NamedTuple):
    """Scratch space of one thread.

    `counts` tells how often the message says each term. The first of `said`, `u`, `after` and `bits` are its words in
    the order of all words: the share of each in the message's unit vector, the length of what comes after it, and the
    signature of that. The first `tally[WAITING]` candidates are rows that may be concerned and the word each was found
    through (-1: any). The first `tally[SPANS]` spans are triggers to be tried for a word: a block, or a list without
    blocks (-1), of as many triggers at most. The first `tally[HITS]` hits are slot, score and message, by component.
    """

    counts: NDArray[np.float64]
    said: NDArray[np.int32]
    u: NDArray[np.float32]
    after: NDArray[np.float32]
    bits: NDArray[np.uint32]
    seen: NDArray[np.float64]
    candidate: NDArray[np.int32]
    through: NDArray[np.int32]
    first: NDArray[np.int64]
    touched: NDArray[np.int32]
    slot: NDArray[np.int32]
    table: NDArray[np.float32]
    span_word: NDArray[np.int32]
    span_block: NDArray[np.int32]
    span_first: NDArray[np.int32]
    span_last: NDArray[np.int32]
    hit_slot: NDArray[np.int32]
    hit_score: NDArray[np.float64]
    hit_message: NDArray[np.int32]
    tally: NDArray[np.int64]


def new_scratch(n_terms: int, longest: int, n_blocks: int, room: int) -> ThresholdScratch:
    """Make scratch space for this many terms, words of a message, blocks, and hits."""
    n_spans = n_blocks + longest
    return ThresholdScratch(
        counts=np.zeros(n_terms),
        said=np.empty(longest, np.int32),
        u=np.empty(longest, np.float32),
        after=np.empty(longest, np.float32),
        bits=np.empty(longest, np.uint32),
        seen=np.empty(VIEW),
        candidate=np.empty(_CANDIDATES, np.int32),
        through=np.empty(_CANDIDATES, np.int32),
        first=np.empty(_CANDIDATES, np.int64),
        touched=np.empty(_CANDIDATES, np.int32),
        slot=np.empty(_CANDIDATES, np.int32),
        table=np.empty(CORNERS, np.float32),
        span_word=np.empty(n_spans, np.int32),
        span_block=np.empty(n_spans, np.int32),
        span_first=np.empty(n_spans, np.int32),
        span_last=np.empty(n_spans, np.int32),
        hit_slot=np.empty(room, np.int32),
        hit_score=np.empty(room),
        hit_message=np.empty(room, np.int32),
        tally=np.zeros(6, np.int64),
    )


@inlined
def _list_words(batch, message, scratch):
    """Write the distinct words that subscriptions may use to `scratch.said`; return how many."""
    n = 0
    for i in range(batch.term_start[message], batch.term_start[message + 1]):
        term = batch.terms[i]
        if 0 <= term < scratch.counts.size and scratch.counts[term] > 0.0:
            # A word said often is listed once: its count is made negative until all are listed.
            scratch.said[n] = term
            scratch.counts[term] = -scratch.counts[term]
            n += 1
    for i in range(n):
        scratch.counts[scratch.said[i]] = -scratch.counts[scratch.said[i]]
    return n


@inlined
def _sort_words(said, n, weight):
    """Put words into the order of all words; a Shell sort, since a message may have thousands."""
    gap = n // 2
    while gap > 0:
        for i in range(gap, n):
            term, j = said[i], i
            while j >= gap and comes_before(weight, term, said[j - gap]):
                said[j] = said[j - gap]
                j -= gap
            said[j] = term
        gap //= 2


@inlined
def prepare_words(batch, message, scratch):
    """Count and order the words of a message and fill in what the bounds need; return how many words, and the length
    of them all in the unit vector of the message."""
    count_words(batch.terms, batch.term_start[message], batch.term_start[message + 1], scratch.counts)
    n = _list_words(batch, message, scratch)
    _sort_words(scratch.said, n, batch.weight)
    total = batch.totals[message, 2]
    squares, bits = 0.0, np.uint32(0)
    for back in range(n):
        i = n - 1 - back
        term = scratch.said[i]
        share = scratch.counts[term] * batch.weight[term]
        u_squared = share * share / total if total > 0.0 else 0.0
        scratch.u[i] = min(1.0, np.sqrt(u_squared))
        scratch.after[i] = min(1.0, np.sqrt(squares))
        scratch.bits[i] = bits
        squares += u_squared
        bits |= signature_bit(term)
    return n, np.float32(min(1.0, np.sqrt(squares))), bits


@inlined
def _touch_candidates(rows, scratch):
    """Read a little of every candidate: the processor waits for all of their memory at once, not for one by one."""
    for c in range(scratch.tally[WAITING]):
        scratch.first[c] = int(rows.record[scratch.candidate[c], FIRST])
    for c in range(scratch.tally[WAITING]):
        scratch.touched[c] = rows.term[min(scratch.first[c], rows.term.size - 1)]
    for c in range(scratch.tally[WAITING]):
        scratch.slot[c] = rows.slot[scratch.candidate[c]]


@inlined
def _score_candidates(rows, batch, message, scratch):
    """Score the candidates that are found through their first common word; False for want of room for the hits."""
    _touch_candidates(rows, scratch)
    n, scratch.tally[WAITING] = scratch.tally[WAITING], 0
    for c in range(n):
        row, term = scratch.candidate[c], scratch.through[c]
        if term != _ANY_WORD and shares_earlier(rows, row, term, batch.weight, scratch.counts):
            continue
        scratch.tally[VERIFIED] += 1
        score = exact_score(
            rows, row, batch.weight, scratch.counts, batch.totals, batch.earth[0] == 1, batch.box, message
        )
        if score >= 0.0 and score >= rows.record[row, THRESHOLD]:
            at = scratch.tally[HITS]
            if at == scratch.hit_slot.size:
                return False
            scratch.hit_slot[at], scratch.hit_score[at], scratch.hit_message[at] = scratch.slot[c], score, message
            scratch.tally[HITS] = at + 1
    return True


@inlined
def _later_length(scratch, i, n_words, signature):
    """Return the length of those words after word i of the message that a signature may hold."""
    squares = np.float32(0.0)
    for j in range(i + 1, n_words):
        if signature & signature_bit(scratch.said[j]):
            squares += scratch.u[j] * scratch.u[j]
    return np.float32(min(1.0, np.sqrt(squares)))


@inlined
def _keep_candidates(rows, entries, first, live, i, n_words, batch, message, scratch, frame, box):
    """Collect the rows of the triggers whose bits are set, from `first` on; False for want of room for hits.

    Those found through word i are tested once more, with only the later words that their signatures may hold.
    """
    if scratch.tally[WAITING] + GROUP > _CANDIDATES and not _score_candidates(rows, batch, message, scratch):
        return False
    kept = scratch.tally[WAITING]
    ask_again = i != _ANY_WORD and n_words - i <= _WORTH_ASKING
    while live != 0:
        at = first + lowest_bit(live)
        live &= live - 1
        if ask_again:
            after = _later_length(scratch, i, n_words, entries.signature[at])
            if not still_fires(entries, at, scratch.u[i], after, frame, scratch.seen, box):
                continue
        scratch.candidate[kept], scratch.through[kept] = (
            entries.row[at],
            scratch.said[i] if i != _ANY_WORD else _ANY_WORD,
        )
        kept += 1
    scratch.tally[WAITING] = kept
    return True


@inlined
def _add_span(scratch, i, block, first, last):
    """Note triggers to be tried for word i of the message: a block, or a list that has none (-1)."""
    n = scratch.tally[SPANS]
    scratch.span_word[n], scratch.span_block[n] = i, block
    scratch.span_first[n], scratch.span_last[n] = first, last
    scratch.tally[SPANS] = n + 1


@inlined
def _add_blocks(lists, number, i, first, last, scratch):
    """Note those of the blocks first to last of a list that may fire for word i of the message; return how many."""
    begun, first_block = scratch.tally[SPANS], lists.first_block[number]
    scratch.tally[BLOCKS_TRIED] += last - first
    for group in range(first, last, GROUP):
        n_here = min(GROUP, last - group)
        live = live_blocks(lists.blocks, group, n_here, scratch.u[i], scratch.after[i], lists.frame, scratch.seen)
        while live != 0:
            block = group + lowest_bit(live)
            live &= live - 1
            begin = lists.start[number] + BLOCK * (block - first_block)
            _add_span(scratch, i, block, begin, min(begin + BLOCK, lists.start[number + 1]))
    return scratch.tally[SPANS] - begun


@inlined
def _add_bundles(lists, number, i, scratch):
    """Note the blocks of a list that may fire for word i of the message, looking for them in bundles."""
    bundles, first_bundle = lists.bundles, lists.first_bundle[number]
    first_block, last_block = lists.first_block[number], lists.first_block[number + 1]
    scratch.tally[BLOCKS_TRIED] += lists.first_bundle[number + 1] - first_bundle
    for group in range(first_bundle, lists.first_bundle[number + 1], GROUP):
        n_here = min(GROUP, lists.first_bundle[number + 1] - group)
        live = live_blocks(bundles, group, n_here, scratch.u[i], scratch.after[i], lists.frame, scratch.seen)
        while live != 0:
            bundle = group + lowest_bit(live)
            live &= live - 1
            first = first_block + BUNDLE * (bundle - first_bundle)
            last = min(first + BUNDLE, last_block)
            n_live = _add_blocks(lists, number, i, first, last, scratch)
            if n_live == 0 and bundles.stale[bundle] >= min(STALE_BUNDLE, last - first):
                fill_bundle(lists.blocks, bundles, bundle, first, last)


@inlined
def _find_spans(lists, n_words, scratch):
    """Note all triggers to be tried for the words of the message."""
    scratch.tally[SPANS] = 0
    for i in range(n_words):
        number = list_of(lists, scratch.said[i])
        if number < 0:
            continue
        first_block, last_block = lists.first_block[number], lists.first_block[number + 1]
        if lists.first_bundle[number] < lists.first_bundle[number + 1]:
            _add_bundles(lists, number, i, scratch)
        elif first_block < last_block:
            _add_blocks(lists, number, i, first_block, last_block, scratch)
        else:
            _add_span(scratch, i, _NO_BLOCK, lists.start[number], lists.start[number + 1])


@inlined
def _make_table_anew(lists, span, scratch):
    """Make the table of a block that was tried in vain, if enough of its thresholds have risen."""
    block, i = scratch.span_block[span], scratch.span_word[span]
    if block == _NO_BLOCK or lists.blocks.stale[block] < STALE:
        return
    fill_table(lists.entries, lists.blocks, block, scratch.span_first[span], scratch.span_last[span], scratch.table)
    number = list_of(lists, scratch.said[i])
    if lists.first_bundle[number] < lists.first_bundle[number + 1]:
        bundle = lists.first_bundle[number] + (block - lists.first_block[number]) // BUNDLE
        if lists.bundles.stale[bundle] < 255:
            lists.bundles.stale[bundle] += 1


@inlined
def _try_spans(rows, lists, batch, message, n_words, scratch):
    """Try the triggers that were noted; False for want of room."""
    around = box_of_frame(lists.frame)
    for span in range(scratch.tally[SPANS]):
        i, block = scratch.span_word[span], scratch.span_block[span]
        first, n_here = scratch.span_first[span], scratch.span_last[span] - scratch.span_first[span]
        box = box_of_block(lists.blocks, block) if block != _NO_BLOCK else around
        scratch.tally[LOOKED_AT] += n_here
        live = live_entries(
            lists.entries,
            first,
            n_here,
            scratch.u[i],
            scratch.after[i],
            scratch.bits[i],
            True,
            lists.frame,
            scratch.seen,
            box,
        )
        if live == 0:
            _make_table_anew(lists, span, scratch)
        elif not _keep_candidates(
            rows, lists.entries, first, live, i, n_words, batch, message, scratch, lists.frame, box
        ):
            return False
    return _score_candidates(rows, batch, message, scratch)


@hot_kernel
def search_lists(rows, lists, batch, first, last, scratch):
    """Find the rows that the messages first to last concern; return the message that room ran out for, else `last`.

    What was found for that message is forgotten again.
    """
    for message in range(first, last):
        begun = scratch.tally[HITS]
        n_words, _, _ = prepare_words(batch, message, scratch)
        set_view(batch.earth[0] == 1, lists.frame, batch.box, message, scratch.seen)
        _find_spans(lists, n_words, scratch)
        done = _try_spans(rows, lists, batch, message, n_words, scratch)
        forget_words(batch.terms, batch.term_start[message], batch.term_start[message + 1], scratch.counts)
        if not done:
            scratch.tally[HITS], scratch.tally[WAITING] = begun, 0
            return message
    return last


@inlined
def _try_delta(rows, entries, n_rows, frame, batch, message, length, bits, scratch):
    scratch.tally[LOOKED_AT] += n_rows
    box = box_of_frame(frame)
    for group in range(0, n_rows, GROUP):
        n_here = min(GROUP, n_rows - group)
        live = live_entries(entries, group, n_here, np.float32(0.0), length, bits, False, frame, scratch.seen, box)
        if live != 0 and not _keep_candidates(
            rows, entries, group, live, _ANY_WORD, 0, batch, message, scratch, frame, box
        ):
            return False
    return _score_candidates(rows, batch, message, scratch)


@hot_kernel
def search_delta(rows, entries, n_rows, frame, batch, first, last, scratch):
    """Do what `search_lists` does in a delta, whose first `n_rows` rows have one entry each."""
    for message in range(first, last):
        begun = scratch.tally[HITS]
        _, length, bits = prepare_words(batch, message, scratch)
        set_view(batch.earth[0] == 1, frame, batch.box, message, scratch.seen)
        done = _try_delta(rows, entries, n_rows, frame, batch, message, length, bits, scratch)
        forget_words(batch.terms, batch.term_start[message], batch.term_start[message + 1], scratch.counts)
        if not done:
            scratch.tally[HITS], scratch.tally[WAITING] = begun, 0
            return message
    return last
