"""The predicates every index shares, on flat arrays: does this subscription want this message?

A message's words are two things to a kernel: `has[term] == 1` for each of its terms while it is looked at,
and its list of terms in text order, for phrases.
"""

from __future__ import annotations

from nearcast._jit import inlined
from nearcast.indexes.shared.phrases import SHORT_PHRASE, long_phrase_occurs
from nearcast.query import NOT, PHRASE

#: The code of a shape that is its own rectangle; circles are 2·row, polygons 2·row + 1.
NO_SHAPE = -1


@inlined
def mark_terms(terms, first, last, has, mark):
    """Set `has` to 1 for the terms of one message, or back to 0; terms beyond it are words of no subscription."""
    for i in range(first, last):
        term = terms[i]
        if 0 <= term < has.size:
            has[term] = mark


@inlined
def phrase_occurs(code, first, length, terms, m_first, m_last):
    """Tell whether `code[first:first + length]` stands in this order, without gaps, in the message."""
    if length > SHORT_PHRASE:
        return long_phrase_occurs(code, first, length, terms, m_first, m_last)
    for start in range(m_first, m_last - length + 1):
        same = 0
        while same < length and terms[start + same] == code[first + same]:
            same += 1
        if same == length:
            return True
    return False


@inlined
def clause_holds(code, first, last, terms, m_first, m_last, has):
    """Tell whether a message, its terms marked in `has`, satisfies the clause `code[first:last]`."""
    i = first
    while i < last:
        op = code[i]
        if op >= 0:
            if op >= has.size or has[op] == 0:
                return False
            i += 1
        elif op == NOT:
            term = code[i + 1]
            if term < has.size and has[term] == 1:
                return False
            i += 2
        else:
            length = code[i + 1]
            if phrase_occurs(code, i + 2, length, terms, m_first, m_last) != (op == PHRASE):
                return False
            i += 2 + length
    return True


@inlined
def boxes_overlap(part, row, x_min, y_min, x_max, y_max):
    """Tell whether rectangle `row` of `part` and a rectangle share a point, borders included."""
    return part[row, 0] <= x_max and part[row, 2] >= x_min and part[row, 1] <= y_max and part[row, 3] >= y_min


@inlined
def message_parts(box, row, parts):
    """Write the one or two rectangles of message `row` to `parts`, cut at the dateline; return how many."""
    for k in range(4):
        parts[0, k] = box[row, k]
    if box[row, 0] <= box[row, 2]:
        return 1
    for k in range(4):
        parts[1, k] = box[row, k]
    parts[0, 2] = 180.0
    parts[1, 0] = -180.0
    return 2
