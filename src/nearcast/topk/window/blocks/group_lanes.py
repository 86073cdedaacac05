"""The lanes of a group of queries: what bounds and scores need of each query, laid out for loops over all lanes.

All numbers of lanes are in one array, `fact`, a stretch of `LANES` for each: the compiler then knows that what a loop
writes is not what it reads, and computes several lanes at once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined
from nearcast.geo import EARTH_RADIUS_M
from nearcast.topk.window.blocks.lists import BLOCK
from nearcast.topk.window.blocks.planned_queries import query_bar
from nearcast.topk.window.bounds import (
    COSINE,
    ROOT_SLACK,
    U_MAX,
    U_MIN,
    X_MAX,
    X_MIN,
    Y_MAX,
    Y_MIN,
    rest_of,
)
from nearcast.topk.window.scores import mark_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Queries in a group, at most: a bit for each fits an int64 that is never negative.
LANES = 60
#: Candidates that wait in a lane beyond those it keeps, before they are sifted.
SPARE = 32
#: Takes a message out of a lane that has found it through an earlier word.
FOUND_BEFORE = -1e9
_BIT_SHIFT = 5
_BIT_MASK = (1 << _BIT_SHIFT) - 1
_HALF_RADIAN = math.pi / 360.0
_FULL_TURN = 360.0
#: Where a unit of distance takes off more than this, bounds are with this: they may be loose, not wrong.
MOST_PER_DISTANCE = 1e300

# Where the stretches of `fact` begin. Of the query: its place and the cosine of its latitude, what a unit of distance
# takes off its proximity, and the weights of space and text.
(_X, _Y, _LATITUDE_COSINE, PER_DISTANCE, _SPACE_WEIGHT, TEXT_WEIGHT) = range(0, 6 * LANES, LANES)
# Of the word whose list is searched, times the weight of text: `unit`, `rest` and `most` of the plan, the most that
# `unit` and `rest` give together, and what a message that says all words of the lane once gives for each unit of u;
# and its `gain`, not weighted.
(OWN, REST, MOST, _PEAK, WHOLE, GAIN) = range(6 * LANES, 12 * LANES, LANES)
# The score that a message must reach. For the messages of a block: what proximity gives at most, all that a message
# can have, and what text must give. For one message: what the other words of the lane give.
(BAR, NEAR, BOUND, LIMIT, TEXT) = range(12 * LANES, 17 * LANES, LANES)
_N_FACTS = 17


class GroupLanes(NamedTuple):
    """The lanes of the group under way, for the list of the word that its queries share.

    Lane l has the query `query[l]`; `later[l]` are the bits of its words behind that one in its plan, the i-th of which
    has the bit `later_mark[l, i]` and gives `later_gain[l, i]` for each unit of u to a message that says both once. The
    first `n_waiting[l]` in a row of `waiting` are the positions of candidates, with their scores up to rounding.

    `head[word]` begins a chain of those lanes that have this word beside the one whose list is searched: the `lane`,
    and as `chained` what the word gains there; `after` is the next link, -1 the end. `is_chained` has a bit for each
    word that begins a chain: of most words of a message this is all that is read, and it fits the nearest cache.

    `looked[b]` has a bit for each lane that has seen block b of the list.
    """

    fact: NDArray[np.float64]
    query: NDArray[np.int64]
    later: NDArray[np.int64]
    n_later: NDArray[np.int64]
    later_mark: NDArray[np.int64]
    later_gain: NDArray[np.float64]
    n_waiting: NDArray[np.int64]
    waiting: NDArray[np.int64]
    waiting_score: NDArray[np.float64]
    is_chained: NDArray[np.int64]
    head: NDArray[np.int32]
    lane: NDArray[np.int32]
    chained: NDArray[np.float64]
    after: NDArray[np.int32]
    looked: NDArray[np.int64]
    block: BlockUnderWay


class BlockUnderWay(NamedTuple):
    """The block that is looked at: the lanes that it may have something for, and the postings that may be enough.

    The words of the i-th posting in `chosen` are `said[first_said[i]:end_said[i]]` of the messages held, and `scale[i]`
    is 1 over its length; `touched` is of no use but that what was added up there had to be fetched. `summed` and
    `is_enough` are those of all postings. The lanes that the other words of a message belong to are `hit`; lane l is
    one of them if `seen[l]` is the number of messages looked at, which is the last of `seen`.
    """

    active: NDArray[np.int64]
    summed: NDArray[np.float64]
    is_enough: NDArray[np.int64]
    chosen: NDArray[np.int64]
    first_said: NDArray[np.int64]
    end_said: NDArray[np.int64]
    scale: NDArray[np.float64]
    touched: NDArray[np.int64]
    hit: NDArray[np.int64]
    seen: NDArray[np.int64]


def new_lanes(n_words: int, most_words: int, most_kept: int, n_blocks: int) -> GroupLanes:
    """Return lanes for queries of up to `most_words` of `n_words` words, which keep up to `most_kept` messages."""
    chains, room = LANES * most_words, most_kept + SPARE
    return GroupLanes(
        fact=np.zeros(_N_FACTS * LANES),
        query=np.empty(LANES, np.int64),
        later=np.zeros(LANES, np.int64),
        n_later=np.zeros(LANES, np.int64),
        later_mark=np.zeros((LANES, most_words), np.int64),
        later_gain=np.zeros((LANES, most_words)),
        n_waiting=np.zeros(LANES, np.int64),
        waiting=np.empty((LANES, room), np.int64),
        waiting_score=np.empty((LANES, room)),
        is_chained=np.zeros((n_words >> _BIT_SHIFT) + 1, np.int64),
        head=np.full(n_words, -1, np.int32),
        lane=np.empty(chains, np.int32),
        chained=np.empty(chains),
        after=np.empty(chains, np.int32),
        looked=np.zeros(n_blocks, np.int64),
        block=BlockUnderWay(
            active=np.empty(LANES, np.int64),
            summed=np.empty(BLOCK),
            is_enough=np.empty(BLOCK, np.int64),
            chosen=np.empty(BLOCK + 1, np.int64),
            first_said=np.empty(BLOCK, np.int64),
            end_said=np.empty(BLOCK, np.int64),
            scale=np.empty(BLOCK),
            touched=np.zeros(1, np.int64),
            hit=np.empty(LANES, np.int64),
            seen=np.zeros(LANES + 1, np.int64),
        ),
    )


@inlined
def board(request, planned, nth, members, first, last, lanes):
    """Give each query of a group its lane, and chain up its other words; return how many lanes."""
    used = 0
    for lane in range(last - first):
        n = members[first + lane]
        lanes.query[lane], lanes.n_waiting[lane] = n, 0
        _fill_facts(request, planned, n, nth, lane, lanes)
        used = _chain_words(planned, n, nth, lane, lanes, used)
    return last - first


@inlined
def leave(planned, lanes, n_lanes):
    """Take the chains of a group down."""
    for lane in range(n_lanes):
        n = lanes.query[lane]
        for i in range(planned.n_words[n]):
            word = planned.word[planned.start[n] + i]
            lanes.head[word], lanes.is_chained[word >> _BIT_SHIFT] = -1, 0


@inlined
def begins_chain(lanes, word):
    """Tell whether a lane has a word beside the one whose list is searched."""
    return word >= 0 and (lanes.is_chained[word >> _BIT_SHIFT] >> (word & _BIT_MASK)) & 1 != 0


@inlined
def _fill_facts(request, planned, n, nth, lane, lanes):
    """Fill in what is known of a query and of the n-th of its words."""
    fact, which, at = lanes.fact, planned.which[n], planned.start[n] + nth
    x, y = request.queries.point[which, 0], request.queries.point[which, 1]
    w, unit, rest = request.queries.text_weight[which], planned.unit[at], planned.rest[at]
    fact[_X + lane], fact[_Y + lane] = x, y
    fact[_LATITUDE_COSINE + lane] = max(math.cos(math.radians(y)) - 1e-15, 0.0) if request.is_earth else 0.0
    fact[PER_DISTANCE + lane] = min((1.0 - 1e-12) / request.queries.max_distance[which], MOST_PER_DISTANCE)
    fact[_SPACE_WEIGHT + lane], fact[TEXT_WEIGHT + lane] = 1.0 - w, w
    fact[OWN + lane], fact[REST + lane], fact[MOST + lane] = w * unit, w * rest, w * planned.most[at]
    fact[_PEAK + lane] = w * (math.sqrt(unit * unit + rest * rest) + ROOT_SLACK)
    fact[WHOLE + lane], fact[GAIN + lane] = w * unit, planned.gain[at]
    fact[BAR + lane] = query_bar(request, planned, n)


@inlined
def _chain_words(planned, n, nth, lane, lanes, used):
    """Chain up the words of a query but the n-th, and fill in what those behind it give; return how many links."""
    begin, n_later = planned.start[n], 0
    unit, w = planned.unit[begin + nth], lanes.fact[TEXT_WEIGHT + lane]
    lanes.later[lane] = 0
    for i in range(planned.n_words[n]):
        if i == nth:
            continue
        word, other = planned.word[begin + i], planned.unit[begin + i]
        if i > nth:
            # With every word said once, u is the weight of the n-th over the length: others are to it as their weights.
            gain = w * other * (other / unit) if unit > 0.0 else 0.0
            lanes.later[lane] |= mark_of(word)
            lanes.later_mark[lane, n_later], lanes.later_gain[lane, n_later] = mark_of(word), gain
            lanes.fact[WHOLE + lane] += gain
            n_later += 1
        lanes.lane[used] = lane
        lanes.chained[used] = planned.gain[begin + i] if i > nth else FOUND_BEFORE
        lanes.after[used], lanes.head[word] = lanes.head[word], used
        lanes.is_chained[word >> _BIT_SHIFT] |= 1 << (word & _BIT_MASK)
        used += 1
    lanes.n_later[lane] = n_later
    return used


@inlined
def fill_bounds(fact, n_lanes, summary, group, is_earth):
    """Fill in `NEAR` and `BOUND` of all lanes for the messages of a group; as `bounds` has it, without a branch."""
    if is_earth:
        _fill_near_on_earth(fact, n_lanes, summary, group)
    else:
        _fill_near_on_plane(fact, n_lanes, summary, group)
    u_min, u_max = summary[group, U_MIN], summary[group, U_MAX]
    low, high = rest_of(u_min), rest_of(u_max)
    for lane in range(n_lanes):
        own, rest = fact[OWN + lane], fact[REST + lane]
        at_least = own * u_min + rest * low if own * low <= rest * u_min else fact[_PEAK + lane]
        text = own * u_max + rest * high if own * high >= rest * u_max else at_least
        fact[BOUND + lane] = min(text, own * u_max + fact[MOST + lane]) + fact[NEAR + lane]


@inlined
def _fill_near_on_plane(fact, n_lanes, summary, group):
    x_min, x_max, y_min, y_max = (
        summary[group, X_MIN],
        summary[group, X_MAX],
        summary[group, Y_MIN],
        summary[group, Y_MAX],
    )
    for lane in range(n_lanes):
        x, y, scale = fact[_X + lane], fact[_Y + lane], fact[PER_DISTANCE + lane]
        # Scaled first: squares that are no numbers any more belong to distances that are all or nothing.
        up, across = max(y_min - y, y - y_max, 0.0) * scale, max(x_min - x, x - x_max, 0.0) * scale
        fact[NEAR + lane] = fact[_SPACE_WEIGHT + lane] * max(1.0 - math.sqrt(up * up + across * across), 0.0)


@inlined
def _fill_near_on_earth(fact, n_lanes, summary, group):
    x_min, x_max, y_min, y_max = (
        summary[group, X_MIN],
        summary[group, X_MAX],
        summary[group, Y_MIN],
        summary[group, Y_MAX],
    )
    cosine = summary[group, COSINE]
    for lane in range(n_lanes):
        x, y = fact[_X + lane], fact[_Y + lane]
        left, right = abs(x_min - x), abs(x_max - x)
        gap = min(left, _FULL_TURN - left, right, _FULL_TURN - right)
        across = 0.0 if x >= x_min and x <= x_max else gap
        north, east = _HALF_RADIAN * max(y_min - y, y - y_max, 0.0), _HALF_RADIAN * across
        north, east = north * (1.0 - north * north / 6.0), east * (1.0 - east * east / 6.0)
        h = north * north + fact[_LATITUDE_COSINE + lane] * cosine * east * east
        near = 1.0 - max(2.0 * EARTH_RADIUS_M * math.sqrt(h) - 1e-6, 0.0) * fact[PER_DISTANCE + lane]
        fact[NEAR + lane] = fact[_SPACE_WEIGHT + lane] * max(near, 0.0)


@inlined
def plane_nearness(fact, lane, card, position):
    """Return the proximity of a message to the query of a lane on a plane, up to rounding."""
    x, y, scale = fact[_X + lane], fact[_Y + lane], fact[PER_DISTANCE + lane]
    across = max(card[position, X_MIN] - x, x - card[position, X_MAX], 0.0) * scale
    up = max(card[position, Y_MIN] - y, y - card[position, Y_MAX], 0.0) * scale
    return max(1.0 - math.sqrt(up * up + across * across), 0.0)
