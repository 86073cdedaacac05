"""Sorts the slots that searches found into `Matches`: ascending, each once, in message order."""

from __future__ import annotations

import numpy as np

from nearcast._jit import bit_count, hot_kernel, inlined

#: Below this many, an insertion sort beats counting digits.
_SHORT = 32
_ONE = np.uint64(1)


@inlined
def _sort_short(values, first, n):
    for i in range(first + 1, first + n):
        value, j = values[i], i
        while j > first and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


@inlined
def _sort_by_digits(values, first, n, n_bits, spare, digits):
    """Sort non-negative integers below 2^n_bits, eight bits at a time."""
    shift, in_spare = 0, False
    while shift < n_bits:
        for d in range(256):
            digits[d] = 0
        for i in range(n):
            value = spare[i] if in_spare else values[first + i]
            digits[(value >> shift) & 255] += 1
        total = 0
        for d in range(256):
            total, digits[d] = total + digits[d], total
        for i in range(n):
            value = spare[i] if in_spare else values[first + i]
            d = (value >> shift) & 255
            if in_spare:
                values[first + digits[d]] = value
            else:
                spare[digits[d]] = value
            digits[d] += 1
        in_spare = not in_spare
        shift += 8
    if in_spare:
        for i in range(n):
            values[first + i] = spare[i]


@inlined
def sort_slots(values, first, n, n_bits, spare, digits):
    """Sort `values[first:first + n]`; `spare` holds n, `digits` 256."""
    if n < _SHORT:
        _sort_short(values, first, n)
    else:
        _sort_by_digits(values, first, n, n_bits, spare, digits)


@inlined
def sort_by_low_bits(values, n, n_bits, spare, digits):
    """Sort the first n values by their low bits, those of equal ones in the order they had."""
    if n >= _SHORT:
        _sort_by_digits(values, 0, n, n_bits, spare, digits)
        return
    mask = (1 << n_bits) - 1
    for i in range(1, n):
        value, j = values[i], i
        while j > 0 and values[j - 1] & mask > value & mask:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


@inlined
def _drop_repeats(values, first, last):
    """Move the distinct ones of sorted `values[first:last]` to its front; return where they end."""
    kept = first
    for i in range(first, last):
        if i == first or values[i] != values[kept - 1]:
            values[kept] = values[i]
            kept += 1
    return kept


@hot_kernel
def sort_distinct(slots, n_bits, spare, digits):
    """Sort slots in place, each once; return how many there are."""
    sort_slots(slots, 0, slots.size, n_bits, spare, digits)
    return _drop_repeats(slots, 0, slots.size)


@hot_kernel
def merge_found(found, starts, first, last, n_bits, spare, digits, out, counts):
    """Join what each search found for the messages at positions first to last; return the number of slots written.

    Search k found `found[starts[k, i]:starts[k, i + 1]]` for position i. `out` gets the slots of all
    positions end to end, `counts[i]` how many there are.
    """
    at = 0
    for i in range(first, last):
        begin = at
        for k in range(starts.shape[0]):
            for j in range(starts[k, i], starts[k, i + 1]):
                out[at] = found[j]
                at += 1
        sort_slots(out, begin, at - begin, n_bits, spare, digits)
        at = _drop_repeats(out, begin, at)
        counts[i] = at - begin
    return at


@hot_kernel
def place_in_message_order(sorted_slots, order, counts, first, last, start, slots):
    """Copy the slots of positions first to last to where their messages' lists begin."""
    at = 0
    for i in range(first, last):
        to = start[order[i]]
        for j in range(counts[i]):
            slots[to + j] = sorted_slots[at + j]
        at += counts[i]


@hot_kernel
def place_scores_in_message_order(sorted_scores, order, counts, first, last, start, scores):
    """Do with scores what `place_in_message_order` does with slots."""
    at = 0
    for i in range(first, last):
        to = start[order[i]]
        for j in range(counts[i]):
            scores[to + j] = sorted_scores[at + j]
        at += counts[i]


@inlined
def _sort_short_scored(slots, scores, first, n):
    for i in range(first + 1, first + n):
        slot, score, j = slots[i], scores[i], i
        while j > first and slots[j - 1] > slot:
            slots[j], scores[j] = slots[j - 1], scores[j - 1]
            j -= 1
        slots[j], scores[j] = slot, score


@inlined
def _scatter_scored(from_slots, from_scores, from_first, to_slots, to_scores, to_first, n, shift, digits):
    """Move n pairs in stable order of the eight bits at `shift`."""
    for d in range(256):
        digits[d] = 0
    for i in range(n):
        digits[(from_slots[from_first + i] >> shift) & 255] += 1
    total = 0
    for d in range(256):
        total, digits[d] = total + digits[d], total
    for i in range(n):
        slot = from_slots[from_first + i]
        d = (slot >> shift) & 255
        to = to_first + digits[d]
        to_slots[to], to_scores[to] = slot, from_scores[from_first + i]
        digits[d] += 1


@inlined
def search_each(search_one, index, most, batch, scratch, found, n_bits, first, counts):
    """Search for the messages from `first` on, as long as `most` answers fit; return the first not searched for.

    `search_one`, inlined, writes the answers to one message from a place on and returns how many. Answers
    are written one message after the other, in order of their slots; `counts` gets how many each has.
    """
    # A plain 0 is a type of its own to Numba, and all that is inlined would be compiled for it as well.
    at = np.int64(0)
    message = first
    while message < counts.size and found.slots.size - at >= most:
        n = search_one(index, batch, scratch, found, message, at)
        sort_scored(found.slots, found.scores, at, n, n_bits, scratch.spare_slots, scratch.spare_scores, scratch.digits)
        counts[message] = n
        at += n
        message += 1
    return message


@inlined
def sort_scored(slots, scores, first, n, n_bits, spare_slots, spare_scores, digits):
    """Sort `slots[first:first + n]` and their scores along; the spare arrays hold n, `digits` 256."""
    if n < _SHORT:
        _sort_short_scored(slots, scores, first, n)
        return
    shift = 0
    while shift < n_bits:
        _scatter_scored(slots, scores, first, spare_slots, spare_scores, 0, n, shift, digits)
        if shift + 8 < n_bits:
            _scatter_scored(spare_slots, spare_scores, 0, slots, scores, first, n, shift + 8, digits)
        else:
            for i in range(n):
                slots[first + i], scores[first + i] = spare_slots[i], spare_scores[i]
        shift += 16


@inlined
def drop_repeats_scored(slots, scores, first, last):
    """Do what `_drop_repeats` does with scores along; a slot found twice has the same score both times."""
    kept = first
    for i in range(first, last):
        if i == first or slots[i] != slots[kept - 1]:
            slots[kept], scores[kept] = slots[i], scores[i]
            kept += 1
    return kept


@hot_kernel
def sort_found(slots, scores, n, n_bits, spare_slots, spare_scores, digits):
    """Sort the first n slots and their scores along, each slot once; return how many there are."""
    sort_scored(slots, scores, 0, n, n_bits, spare_slots, spare_scores, digits)
    return drop_repeats_scored(slots, scores, 0, n)


@hot_kernel
def merge_hits(hit_slot, hit_score, hit_message, begin, n_bits, spare, spare_score, digits, out, score):
    """Sort hits, each a slot, its score and a message, in no order; return the number of slots written.

    `out` and `score` get the hits of all messages end to end. Those of message l begin at `begin[l]`, whose last place
    is the end of them all.
    """
    n = begin.size - 1
    begin[:] = 0
    for h in range(hit_slot.size):
        begin[hit_message[h] + 1] += 1
    for i in range(n):
        begin[i + 1] += begin[i]
    # While lists are filled, begin[l] is where list l has come to; at the end that is where l + 1 began.
    for h in range(hit_slot.size):
        at = begin[hit_message[h]]
        out[at], score[at] = hit_slot[h], hit_score[h]
        begin[hit_message[h]] = at + 1
    first = end = 0
    for i in range(n):
        last = begin[i]
        sort_scored(out, score, first, last - first, n_bits, spare, spare_score, digits)
        kept = drop_repeats_scored(out, score, first, last) - first
        for j in range(kept if end < first else 0):
            out[end + j], score[end + j] = out[first + j], score[first + j]
        begin[i] = end
        first, end = last, end + kept
    begin[n] = end
    return end


@inlined
def mark_slots(slots, first, last, marks):
    """Set the bits of `slots[first:last]` in `marks`, 64 slots to a word."""
    for j in range(first, last):
        marks[slots[j] >> 6] |= _ONE << np.uint64(slots[j] & 63)


@inlined
def rank_marks(marks, rank):
    """Write how many bits are set before each word of `marks`; return how many are set."""
    n = 0
    for w in range(marks.size):
        rank[w] = n
        n += bit_count(marks[w])
    return n


@inlined
def rank_of(slot, marks, rank):
    """Return how many marked slots are below a slot."""
    w = slot >> 6
    return rank[w] + bit_count(marks[w] & ((_ONE << np.uint64(slot & 63)) - _ONE))
