"""From slots found in any order, by several searches, to `Matches`: ascending, each once, in message order."""

from __future__ import annotations

from nearcast._jit import hot_kernel, step

#: Below this many, an insertion sort beats counting digits.
_SHORT = 32


@step
def _sort_short(values, first, n):
    for i in range(first + 1, first + n):
        value, j = values[i], i
        while j > first and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


@step
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


@step
def sort_slots(values, first, n, n_bits, spare, digits):
    """Sort `values[first:first + n]`; `spare` holds n, `digits` 256."""
    if n < _SHORT:
        _sort_short(values, first, n)
    else:
        _sort_by_digits(values, first, n, n_bits, spare, digits)


@step
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
