"""The search for top-k rows: looks messages up in lists of triggers, or in a delta, and scores what bounds let pass.

Lists are searched for up to some hundred messages at a time, list by list: what one message has read of a list is still
in the processor's cache for the next. The candidates are then put in order of messages and scored.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.shared.gather import sort_by_low_bits
from nearcast.indexes.shared.scores import count_words, forget_words
from nearcast.indexes.shared.word_order import comes_before
from nearcast.indexes.trigger.thresholds.bounds import (
    BLOCK,
    BUNDLE,
    GROUP,
    STALE,
    STALE_BUNDLE,
    box_of_block,
    box_of_frame,
    fill_bundle,
    fill_later,
    fill_table,
    live_blocks,
    live_entries,
    lowest_bit,
)
from nearcast.indexes.trigger.thresholds.frame import set_view
from nearcast.indexes.trigger.thresholds.layout import list_of, signature_bit
from nearcast.indexes.trigger.thresholds.scoring import score
from nearcast.indexes.trigger.thresholds.scratch import (
    ANY_WORD,
    BLOCKS_TRIED,
    FIRST_PREPARED,
    HITS,
    LAST_PREPARED,
    LOOKED_AT,
    SPANS,
    SPANS_NOTED,
    WAITING,
)

_NO_BLOCK = -1
#: A visit is (word << _LIST_BITS) | list.
_LIST_BITS = 32
_LIST = (1 << _LIST_BITS) - 1


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

    Returns their signature.
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
        scratch.product[i] = batch.weight[term] * share
        u_squared = share * share / total if total > 0.0 else 0.0
        scratch.message[i] = number
        scratch.u[i] = min(1.0, np.sqrt(u_squared))
        scratch.after[i] = min(1.0, np.sqrt(squares))
        scratch.bit[i], scratch.bits[i] = signature_bit(term), bits
        squares += u_squared
        bits |= scratch.bit[i]
    forget_words(batch.terms, batch.term_start[message], batch.term_start[message + 1], scratch.counts)
    return bits


@inlined
def _prepare(lists, batch, first, last, scratch):
    """Prepare the words of the messages first to last, unless another component has, and their views."""
    tally = scratch.tally
    if tally[FIRST_PREPARED] != first or tally[LAST_PREPARED] != last:
        scratch.word_start[0] = 0
        for message in range(first, last):
            _prepare_words(batch, message, scratch, message - first)
        tally[FIRST_PREPARED], tally[LAST_PREPARED] = first, last
    for message in range(first, last):
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
def live_triggers(entries, first, n_here, u, scratch, begin, end, bits, after, is_lenient, frame, view, box):
    """Return a bit for each of up to 32 triggers from `first` on that may fire; later words are those from `begin` on.

    As many are tried at any rate, some before `first` if there are too few behind it: loops of one length have no rest
    that is done one by one.
    """
    n, later = entries.row.size, scratch.later
    if n < GROUP:
        fill_later(entries, first, n_here, scratch, begin, end, bits, after, later)
        return live_entries(entries, first, n_here, u, later, bits, is_lenient, frame, view, box)
    tried = min(first, n - GROUP)
    fill_later(entries, tried, GROUP, scratch, begin, end, bits, after, later)
    live = live_entries(entries, tried, GROUP, u, later, bits, is_lenient, frame, view, box)
    return (live >> (first - tried)) & ((1 << n_here) - 1)


@inlined
def _keep_candidates(entries, first, live, word, scratch):
    """Collect the rows of the triggers whose bits are set, from `first` on; False for want of room."""
    kept = scratch.tally[WAITING]
    if kept + GROUP > scratch.candidate.size:
        return False
    while live != 0:
        scratch.candidate[kept], scratch.through[kept] = entries.row[first + lowest_bit(live)], word
        live &= live - 1
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
        live = live_triggers(
            lists.entries,
            first,
            n_here,
            scratch.u[word],
            scratch,
            word + 1,
            scratch.word_start[scratch.message[word] + 1],
            scratch.bits[word],
            scratch.after[word],
            True,
            lists.frame,
            view,
            box,
        )
        if live == 0:
            _make_table_anew(lists, span, scratch)
        elif not _keep_candidates(lists.entries, first, live, word, scratch):
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
                if scratch.tally[SPANS] >= SPANS_NOTED and not _try_spans(lists, scratch):
                    return False
                _add_spans(lists, number, scratch.visit[v] >> _LIST_BITS, group, scratch)
        begin = end
    return _try_spans(lists, scratch)


@inlined
def _try_delta(entries, n_rows, frame, bits, scratch):
    """Collect those of all rows of a delta that a message may concern; there is room for all of them."""
    scratch.tally[LOOKED_AT] += n_rows
    scratch.tally[WAITING] = 0
    box, view, end = box_of_frame(frame), scratch.seen[0], scratch.word_start[1]
    none, all_ = np.float32(0.0), np.float32(1.0)
    for group in range(0, n_rows, GROUP):
        n_here = min(GROUP, n_rows - group)
        live = live_triggers(entries, group, n_here, none, scratch, 0, end, bits, all_, False, frame, view, box)
        if live != 0:
            _keep_candidates(entries, group, live, np.int32(ANY_WORD), scratch)


@hot_kernel
def search_delta(rows, entries, n_rows, frame, batch, first, last, scratch):
    """Find the rows of a delta that the messages first to last concern; return the first that had no room, or `last`.

    The first `n_rows` rows have one entry each. There is room if all may be candidates, and hits.
    """
    scratch.tally[LAST_PREPARED] = 0
    for message in range(first, last):
        if scratch.tally[HITS] + n_rows > scratch.hit_slot.size:
            return message
        scratch.word_start[0] = 0
        bits = _prepare_words(batch, message, scratch, 0)
        set_view(batch.earth[0] == 1, frame, batch.box, message, scratch.seen[0])
        _try_delta(entries, n_rows, frame, bits, scratch)
        n = scratch.tally[WAITING]
        score(rows, batch, message, 0, scratch.candidate, scratch.through, np.int64(0), n, n, scratch)
    return last
