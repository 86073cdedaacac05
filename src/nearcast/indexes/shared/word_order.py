"""The global order of words that prefixes are cut by: the heaviest first, of equals the lower term.

Heavy words are rare, so this is the papers' increasing order of frequency, fixed by the weights.
"""

from __future__ import annotations

from nearcast._jit import inlined


@inlined
def comes_before(weight, term, other):
    """Tell whether a term stands before another in the global order."""
    return weight[term] > weight[other] or (weight[term] == weight[other] and term < other)
