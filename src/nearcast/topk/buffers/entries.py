"""Changes of one buffer: a slab of entries in rank order, with the number of dominators of each."""

from __future__ import annotations

from nearcast._jit import inlined

#: How many bits of a tag count dominators; the rest is the row of the message.
DOMINATOR_BITS = 16
DOMINATORS = (1 << DOMINATOR_BITS) - 1


@inlined
def row_of(tag):
    """Return the message of an entry."""
    return tag >> DOMINATOR_BITS


@inlined
def is_newer(rows, row, other):
    """Tell whether a message of the window is newer than another: by time where time counts, then by arrival."""
    if rows.by_time:
        time, other_time = rows.time[row & rows.mask], rows.time[other & rows.mask]
        if time != other_time:
            return time > other_time
    return row > other


@inlined
def ranks_before(rows, score, row, other_score, other):
    """Tell whether a message ranks before another: higher score, then newer."""
    if score != other_score:
        return score > other_score
    return is_newer(rows, row, other)


@inlined
def position_in(rows, score, tag, first, size, new_score, new_row):
    """Return at which position a message belongs."""
    position = size
    while position > 0 and ranks_before(
        rows, new_score, new_row, score[first + position - 1], row_of(tag[first + position - 1])
    ):
        position -= 1
    return position


@inlined
def put(score, tag, first, size, position, new_score, new_tag):
    """Insert an entry at its position; return the new size."""
    for i in range(first + size, first + position, -1):
        score[i], tag[i] = score[i - 1], tag[i - 1]
    score[first + position], tag[first + position] = new_score, new_tag
    return size + 1


@inlined
def dominators_before(rows, tag, first, position, row):
    """Return how many of the entries before `position` are newer than a message, and so dominate it."""
    count = 0
    for i in range(first, first + position):
        if is_newer(rows, row_of(tag[i]), row):
            count += 1
    return count


@inlined
def dominate(rows, score, tag, first, position, size, row, k):
    """Count a message at `position` as a dominator of the older entries from there on; drop those that have k now.

    Returns the new size.
    """
    kept = first + position
    for i in range(first + position, first + size):
        held = tag[i]
        if is_newer(rows, row, row_of(held)):
            held += 1
        if held & DOMINATORS < k:
            score[kept], tag[kept] = score[i], held
            kept += 1
    return kept - first


@inlined
def drop_row(score, tag, first, size, row):
    """Remove the entry of a message, if there is one; return the new size.

    An expiring message is older than all others and dominates none: no count changes.
    """
    for i in range(first, first + size):
        if row_of(tag[i]) == row:
            for j in range(i, first + size - 1):
                score[j], tag[j] = score[j + 1], tag[j + 1]
            return size - 1
    return size


@inlined
def oldest_of(rows, tag, first, size):
    """Return the oldest message of a buffer, -1 if it is empty."""
    oldest = -1
    for i in range(first, first + size):
        row = row_of(tag[i])
        if oldest < 0 or is_newer(rows, oldest, row):
            oldest = row
    return oldest
