"""Groups of list entries sorted by kScore*, with suffix bounds from each entry on, maintained while thresholds move.

Within a group (Section 5.2.2) entry e has, of all entries from e to the end: the least kScore*, the greatest weight
that a member still has from the group's word on, and the greatest α*. All three bound the entries behind e whatever
order these are in, so a threshold that changes need not move its entry at once:

- one that falls lowers the least kScore* of the entries before it, as far back as that is not low enough already;
- one that rises leaves it too low, which is safe and only prunes less.

A group is sorted again when a quarter of its entries has changed and a message comes to it.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.papers.skype.bounds import member_key
from nearcast.similarity import near_needed

#: Columns of `SkypeSegment.field`; the first three are also those of `SkypeSegment.head`. Over all entries from this
#: one to the end of the group: least kScore*, greatest weight, greatest α*. Of this entry alone: kScore*, α*, the sum
#: of the member's unit vector from this word on, how far the member is from the rim of its cell,its `max_distance`.
#: An entry fills one cache line.
SUFFIX_KEY, SUFFIX_MOST, SUFFIX_ALPHA, KEY, ALPHA, WORDS_SUM, INNER, REACH = range(8)
N_FIELDS = 8

#: Columns of `SkypeSegment.word`: a word's part of the unit vector, and sum, greatest and length of the vector from it
#: on.
PART, SUM, MOST, NORM = range(4)

#: A group or cell is worked out anew when changes are more than one in so many of its entries or members.
_CHANGED_ONE_IN = 4


@inlined
def _swap(segment, a, b):
    field, member, word_of = segment.field, segment.member, segment.word_of
    for k in range(N_FIELDS):
        held = field[a, k]
        field[a, k] = field[b, k]
        field[b, k] = held
    held_member, held_word = member[a], word_of[a]
    member[a], word_of[a] = member[b], word_of[b]
    member[b], word_of[b] = held_member, held_word
    segment.entry_of[word_of[a]] = a
    segment.entry_of[word_of[b]] = b


@inlined
def sort_entries(segment, first, last, column):
    """Sort entries by a column of `field`, in shrinking steps: needs no memory, and is quick where all but sorted."""
    gap = last - first
    while gap > 1:
        gap = gap * 5 // 11 if gap > 2 else 1
        for i in range(first + gap, last):
            j = i
            while j - gap >= first and segment.field[j - gap, column] > segment.field[j, column]:
                _swap(segment, j - gap, j)
                j -= gap


@inlined
def settle_group(segment, g):
    """Sort a group by kScore* and work out anew what holds from each entry on (Equations 6 and 7)."""
    first, last = segment.group_start[g], segment.group_start[g + 1]
    sort_entries(segment, first, last, KEY)
    key, most, alpha = np.inf, 0.0, 0.0
    for e in range(last - 1, first - 1, -1):
        key = min(key, segment.field[e, KEY])
        most = max(most, segment.word[segment.word_of[e], MOST])
        alpha = max(alpha, segment.field[e, ALPHA])
        segment.field[e, SUFFIX_KEY], segment.field[e, SUFFIX_MOST] = key, most
        segment.field[e, SUFFIX_ALPHA] = alpha
    segment.head[g, SUFFIX_KEY], segment.head[g, SUFFIX_MOST], segment.head[g, SUFFIX_ALPHA] = key, most, alpha
    segment.loose[g] = 0


@inlined
def tidy_group(segment, g):
    """Sort a group again if much of it has changed."""
    if segment.loose[g] * _CHANGED_ONE_IN > segment.group_start[g + 1] - segment.group_start[g]:
        settle_group(segment, g)


@inlined
def tidy_cell(segment, scored, c):
    """Work out anew how near a message must be to concern anyone in a cell, if much of it has changed."""
    first, last = segment.cell_start[c], segment.cell_start[c + 1]
    if segment.changed[c] * _CHANGED_ONE_IN > last - first:
        need = np.inf
        for i in range(first, last):
            row, word = segment.row[i], segment.word_start[i]
            if word < segment.word_start[i + 1] and segment.field[segment.entry_of[word], KEY] < np.inf:
                need = min(need, near_needed(scored.text_weight[row], scored.threshold[row], 1.0))
        segment.need[c], segment.changed[c] = need, 0


@inlined
def _set_key(segment, e, key, by_groups):
    """Give an entry another kScore*, and let the entries before it know if it fell."""
    segment.field[e, KEY] = key
    if by_groups:
        g = segment.group_of[e]
        segment.loose[g] += 1
        first, at = segment.group_start[g], e
        while at >= first and segment.field[at, SUFFIX_KEY] > key:
            segment.field[at, SUFFIX_KEY] = key
            at -= 1
        segment.head[g, SUFFIX_KEY] = segment.field[first, SUFFIX_KEY]


@inlined
def _set_keys_of(segment, i, key, by_groups):
    for w in range(segment.word_start[i], segment.word_start[i + 1]):
        _set_key(segment, segment.entry_of[w], key, by_groups)
    segment.changed[segment.cell[i]] += 1


@hot_kernel
def set_keys(segment, scored, members, by_groups):
    """Bring these members in line with their thresholds."""
    for k in range(members.size):
        i = members[k]
        row, c = segment.row[i], segment.cell[i]
        _set_keys_of(segment, i, member_key(scored, row), by_groups)
        need = near_needed(scored.text_weight[row], scored.threshold[row], 1.0)
        segment.need[c] = min(segment.need[c], need)


@hot_kernel
def drop_members(segment, members, by_groups):
    """Put these members out of reach of every message."""
    for k in range(members.size):
        _set_keys_of(segment, members[k], np.inf, by_groups)
