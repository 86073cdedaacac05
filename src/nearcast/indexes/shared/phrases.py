"""String matching of long phrases in a message's terms: the two-way algorithm, linear time and no memory.

M. Crochemore, D. Perrin: Two-way string-matching, Journal of the ACM 38 (1991). A phrase is cut where its local period
is its period (the critical factorization, by two maximal suffixes). Its right part is compared from left to right and
then its left part from right to left; a mismatch on the right shifts by what was compared, one on the left by the
period. Comparing at every place from the start instead takes time proportional to the product of both lengths where
words repeat.
"""

from __future__ import annotations

from nearcast._jit import hot_kernel

#: Up to this many words a phrase is compared at every place: at most so many comparisons a word, without preparation.
SHORT_PHRASE = 8


@hot_kernel
def long_phrase_occurs(code, first, length, terms, m_first, m_last):
    """Tell whether `code[first:first + length]` stands in this order, without gaps, in `terms[m_first:m_last]`."""
    cut, period = _maximal_suffix(code, first, length, 1)
    other_cut, other_period = _maximal_suffix(code, first, length, -1)
    if other_cut > cut:
        cut, period = other_cut, other_period
    is_periodic = True
    for i in range(cut):
        if code[first + i] != code[first + period + i]:
            is_periodic = False
            break
    if not is_periodic:
        period = max(cut, length - cut) + 1
    known = 0  # so many words at the front of the phrase are known to stand at `at`
    at = m_first
    while at + length <= m_last:
        i = max(cut, known)
        while i < length and code[first + i] == terms[at + i]:
            i += 1
        if i < length:
            at += i - cut + 1
            known = 0
            continue
        i = cut - 1
        while i >= known and code[first + i] == terms[at + i]:
            i -= 1
        if i < known:
            return True
        at += period
        known = length - period if is_periodic else 0
    return False


@hot_kernel
def _maximal_suffix(code, first, length, sign):
    """Return where the largest suffix of a phrase begins, and its period; `sign` -1 turns the order of terms round."""
    begin, at, k, period = 0, 1, 0, 1
    while at + k < length:
        ours, theirs = sign * code[first + at + k], sign * code[first + begin + k]
        if ours < theirs:
            at += k + 1
            k = 0
            period = at - begin
        elif ours > theirs:
            begin = at
            at, k, period = begin + 1, 0, 1
        elif k + 1 == period:
            at += period
            k = 0
        else:
            k += 1
    return begin, period
