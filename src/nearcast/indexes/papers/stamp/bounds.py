"""The bounds of the paper as functions of numbers: how much text is left, how near it must be, how far that reaches.

Every step works on one subscription, a row of `ScoredColumns`. Distances take the place of the paper's spatial
similarities, because `max_distance` is each subscription's own: a message may be up to

    reach(s | t) = (1 - LSB(s | t)) · max_distance

away, at any distance where LSB is 0. Reaches are float32, rounded up. Where all share one `max_distance`, comparing
distances with reaches is comparing similarities with LSB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.indexes.shared.word_order import comes_before
from nearcast.similarity import counts_weights, most_text, near_needed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.shared.scores import ScoredColumns

#: Prefixes that are told apart: SIG is level 0, SIG+k level k. Words that would come later are not listed.
LEVELS = 16
NO_LEVEL = -1
#: The level up to which a subscription is listed when some of its words are not.
ENDLESS = 255
#: Reaches above this are any distance: a float32 cannot hold them.
_LARGEST = 3e38


class PrefixWords(NamedTuple):
    """The words of one subscription in the paper's order, heaviest first, equals by term.

    `tail[j]` is the share of the whole that word j and all behind it make up (UTB, Eq. 3), `head[k]` the share of the
    first k words. Both have one more element than there are words.
    """

    term: NDArray[np.int32]
    tail: NDArray[np.float64]
    head: NDArray[np.float64]


def room_for_words(longest: int) -> PrefixWords:
    """Return arrays for subscriptions of up to `longest` words."""
    return PrefixWords(np.empty(longest, np.int32), np.empty(longest + 1), np.empty(longest + 1))


@inlined
def amount_of(weight, function, term):
    """Return what a word counts for in a text function."""
    return weight[term] if counts_weights(function) else 1.0


@inlined
def fill_words(scored, row, words):
    """Write the words of a row, in order, and their shares; return how many there are."""
    first = scored.term_start[row]
    n = scored.term_start[row + 1] - first
    for i in range(n):
        term, j = scored.term[first + i], i
        while j > 0 and comes_before(scored.weight, term, words.term[j - 1]):
            words.term[j] = words.term[j - 1]
            j -= 1
        words.term[j] = term
    own = scored.own[row]
    words.head[0] = 0.0
    words.tail[n] = 0.0
    for i in range(n):
        share = amount_of(scored.weight, scored.similarity[row], words.term[i]) / own if own > 0.0 else 0.0
        words.head[i + 1] = words.head[i] + share
    for i in range(n - 1, -1, -1):
        share = amount_of(scored.weight, scored.similarity[row], words.term[i]) / own if own > 0.0 else 0.0
        words.tail[i] = words.tail[i + 1] + share
    return n


@inlined
def near_for_share(scored, row, share):
    """Return LSB: how near a message must be that has at most this share of the words (Eq. 4, 12 and 15)."""
    most = most_text(scored.similarity[row], min(share, 1.0))
    return near_needed(scored.text_weight[row], scored.threshold[row], most)


@inlined
def reach_of(near, max_distance):
    """Return how far a message may be that must be this near: inf for any distance, -1 for none.

    A value that a float32 holds, no smaller than the exact one.
    """
    if near > 1.0:
        return -1.0
    reach = (1.0 - near) * max_distance
    if near <= 0.0 or reach > _LARGEST:
        return np.inf
    rounded = np.float32(reach)
    if np.float64(rounded) < reach:
        rounded = np.nextafter(rounded, np.float32(np.inf))
    return np.float64(rounded)


@inlined
def reach_for_share(scored, row, share):
    """Return how far a message may be that has at most this share of the words."""
    return reach_of(near_for_share(scored, row, share), scored.max_distance[row])


@inlined
def level_of(scored, row, words, j, gap):
    """Return (level, reach) of word j for messages that are at least `gap` away.

    Level 0 is the prefix: SIG(s) for gap 0 (Eq. 2), the region-aware SIG(s, R̃) for the way out of the region (Eq. 10).
    Level k is SIG+k (Eq. 14): with the k heaviest words the rest from j on is enough, with k - 1 it is not.
    """
    for k in range(min(j + 1, LEVELS)):
        reach = reach_for_share(scored, row, words.head[k] + words.tail[j])
        if reach >= gap:
            return k, reach
    return NO_LEVEL, -1.0


@inlined
def cost_of_filtering(cost_of_verifying, n_candidates, listed, listed_in_region):
    """Return COST_F (Section V-C): walking `listed` entries, and verifying the share of candidates found on them."""
    return listed + (cost_of_verifying - n_candidates) * (listed / listed_in_region)


class Prefix(NamedTuple):
    """One subscription's words in order, the last being the dummy `*` as -1, with what the paper says of each.

    `share` is UTB and `near` LSB, each of the word's own level; `level` is -1 where the word is in no prefix.
    """

    term: NDArray[np.int32]
    share: NDArray[np.float64]
    near: NDArray[np.float64]
    level: NDArray[np.int64]


def prefix_of(scored: ScoredColumns, row: int, gap: float = 0.0) -> Prefix:
    """Return the prefixes of a row for messages at least `gap` away, for people and tests to look at."""
    n = int(scored.term_start[row + 1] - scored.term_start[row]) + 1
    prefix = Prefix(np.empty(n, np.int32), np.empty(n), np.empty(n), np.empty(n, np.int64))
    _fill_prefix(scored, row, gap, room_for_words(n), prefix)
    return prefix


@kernel
def _fill_prefix(scored, row, gap, words, prefix):
    n = fill_words(scored, row, words)
    for j in range(n + 1):
        level, share = NO_LEVEL, words.tail[j]
        if j < n:
            level, _ = level_of(scored, row, words, j, gap)
            share += words.head[level] if level > 0 else 0.0
        elif reach_for_share(scored, row, 0.0) >= gap:
            level = 0
        prefix.term[j] = words.term[j] if j < n else -1
        prefix.share[j], prefix.near[j], prefix.level[j] = share, near_for_share(scored, row, share), level
