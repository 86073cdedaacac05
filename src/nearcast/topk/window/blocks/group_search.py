"""Search of `blocks` for a group of queries at once: those that share a word, and are neighbours.

The search takes a query's words in the order of its plan, as `search` does, but word by word: first all queries through
the lists of their first words, then through those of their second, and so on. Those that search the list of one word
go through it side by side, as the *lanes* of a group, twice:

1. Best block first, by what a message can have from this word and its place alone. That is a tight bound, so few blocks
   are visited, and in these the best messages of most lanes are found.
2. Block after block, for messages that have another word of a lane: there the bound must allow for all that the others
   might add, which few blocks rule out. But a posting has a bit for each word of its message; and if no word is said
   twice, which the sign of these bits tells, its u and the bits give what text can be. Few postings are left.

Only then is a message read. Its words give the text score up to rounding. Lanes do not meet their best messages first,
so what is good enough waits, and is scored exactly only if it is still among the best of its lane when the group is
done or many wait. Messages lie all over the memory: where their words are is read first for a whole block, then one
word at each end for all of them, so that such reads do not wait for each other.
"""

from __future__ import annotations

import math

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.topk.window.blocks.group_lanes import (
    BAR,
    BOUND,
    FOUND_BEFORE,
    GAIN,
    LANES,
    LIMIT,
    MOST,
    NEAR,
    OWN,
    REST,
    TEXT,
    TEXT_WEIGHT,
    WHOLE,
    begins_chain,
    board,
    fill_bounds,
    leave,
)
from nearcast.topk.window.blocks.lists import BLOCKS, POSITIONS, POSTINGS, ROUND_DOWN, ROWS, RUNS
from nearcast.topk.window.blocks.search import find_list
from nearcast.topk.window.blocks.waiting import keep_waiting, note_candidate, sift
from nearcast.topk.window.bounds import LAST_ROW, U_MAX, rest_of
from nearcast.topk.window.frontier import pop, push
from nearcast.topk.window.scores import LENGTH, first_word, n_words_of

_NUMBER_BITS = 32


@hot_kernel
def search_groups(request, lists, planned, nth, members, group, first, last, lanes, frontier, work):
    """Take the groups `first` to `last` through the lists of the `nth` word of their queries.

    Group g are the `members[group[g]:group[g + 1]]`, which have this word in common; no more than `LANES`.
    """
    for g in range(first, last):
        n_lanes = board(request, planned, nth, members, group[g], group[g + 1], lanes)
        word = planned.word[planned.start[lanes.query[0]] + nth]
        _search_by_word(request, lists, planned, word, lanes, n_lanes, frontier, work)
        _search_for_more_words(request, lists, planned, word, lanes, n_lanes, work)
        for lane in range(n_lanes):
            sift(planned, lanes, lane)
            keep_waiting(request, planned, lanes, lane)
        leave(planned, lanes, n_lanes)


# --- best block first, by this word alone -----------------------------------------------------------------------------


@inlined
def _search_by_word(request, lists, planned, word, lanes, n_lanes, frontier, work):
    """Visit runs and blocks of a word's lists, the best bound of any lane first, until none can gain by this word."""
    n_open = _open_runs(request, lists, word, lanes, n_lanes, frontier)
    while n_open > 0 and frontier.bound[0] >= _lowest_bar(lanes.fact, n_lanes):
        code = frontier.code[0]
        pop(frontier, n_open)
        n_open -= 1
        segment, number = code >> _NUMBER_BITS, (code & ((1 << _NUMBER_BITS) - 1)) >> 1
        if code & 1 == 0:
            n_open = _open_blocks(request, lists, segment, number, lanes, n_lanes, frontier, n_open)
        else:
            _visit_for_word(request, lists, planned, word, segment, number, lanes, n_lanes, work)


@inlined
def _lowest_bar(fact, n_lanes):
    lowest = np.inf
    for lane in range(n_lanes):
        lowest = min(lowest, fact[BAR + lane])
    return lowest


@inlined
def _open_runs(request, lists, word, lanes, n_lanes, frontier):
    """Put the runs of a word's lists into the frontier; return how many."""
    n_open = 0
    for g in range(lists.segment.shape[0] - 1):
        at = _list_in(request, lists, g, word)
        if at < 0:
            continue
        for run in range(int(lists.run[at]), int(lists.run[at + 1])):
            bound = _most_by_word(request, lists.run_summary, lists.segment[g, RUNS] + run, lanes, n_lanes)
            if bound > -np.inf:
                push(frontier, n_open, bound, (g << _NUMBER_BITS) | (run << 1))
                n_open += 1
    return n_open


@inlined
def _open_blocks(request, lists, segment, number, lanes, n_lanes, frontier, n_open):
    """Put the blocks of a run into the frontier; return how many are open then."""
    run = lists.segment[segment, RUNS] + number
    for b in range(int(lists.run_block[run]), int(lists.run_block[run + 1])):
        at = lists.segment[segment, BLOCKS] + b
        bound = _most_by_word(request, lists.block_summary, at, lanes, n_lanes)
        if bound > -np.inf:
            push(frontier, n_open, bound, (segment << _NUMBER_BITS) | (b << 1) | 1)
            n_open += 1
    return n_open


@inlined
def _list_in(request, lists, g, word):
    """Return where the list of a word stands in a segment, -1 if it has none or nothing in it is alive."""
    if lists.segment[g + 1, ROWS] <= request.alive.first or lists.segment[g, ROWS] >= request.alive.last:
        return -1
    return find_list(lists, g, word)


@inlined
def _most_by_word(request, summary, group, lanes, n_lanes):
    """Return the best score by this word alone that a message can have for a lane that it is enough for, else -inf."""
    fact, most = lanes.fact, -np.inf
    if summary[group, LAST_ROW] < request.alive.first:
        return most
    fill_bounds(fact, n_lanes, summary, group, request.is_earth)
    for lane in range(n_lanes):
        bound = fact[NEAR + lane] + fact[OWN + lane] * summary[group, U_MAX]
        if bound >= fact[BAR + lane] and bound > most:
            most = bound
    return most


@inlined
def _visit_for_word(request, lists, planned, word, segment, number, lanes, n_lanes, work):
    """Look at the messages of a block for all lanes that it may have something for."""
    block, fact, under_way = lists.segment[segment, BLOCKS] + number, lanes.fact, lanes.block
    begin, end = _postings_of(lists, segment, block)
    fill_bounds(fact, n_lanes, lists.block_summary, block, request.is_earth)
    n_active = 0
    for lane in range(n_lanes):
        if fact[NEAR + lane] + fact[OWN + lane] * lists.block_summary[block, U_MAX] >= fact[BAR + lane]:
            n_active = _activate(planned, lane, lanes, n_active, end - begin, work)
            lanes.looked[block] |= 1 << lane
    n_chosen = _choose(lists, begin, end, lanes, n_active, False) if n_active > 0 else 0
    first_position = lists.segment[segment, POSITIONS]
    _fetch_words(request.held, lists, first_position, n_chosen, under_way)
    for i in range(n_chosen):
        for a in range(n_active):
            fact[TEXT + under_way.active[a]] = 0.0
        said = _sum_other_words(request.held, i, word, lanes)
        for a in range(n_active):
            lane = under_way.active[a]
            _offer_text(request, lists, planned, first_position, i, said, lane, lanes)


# --- block after block, for messages with another word ----------------------------------------------------------------


@inlined
def _search_for_more_words(request, lists, planned, word, lanes, n_lanes, work):
    """Visit all blocks of a word's lists where a message with another word of a lane may be enough for it."""
    later = 0
    for lane in range(n_lanes):
        later |= lanes.later[lane]
    for g in range(lists.segment.shape[0] - 1):
        at = _list_in(request, lists, g, word)
        if at < 0:
            continue
        first_run, first_block = lists.segment[g, RUNS], lists.segment[g, BLOCKS]
        for run in range(first_run + lists.run[at], first_run + lists.run[at + 1]):
            is_open = later != 0 and _is_enough_for_any(request, lists.run_summary, run, lanes, n_lanes)
            for block in range(first_block + lists.run_block[run], first_block + lists.run_block[run + 1]):
                if is_open and _is_enough_for_any(request, lists.block_summary, block, lanes, n_lanes):
                    _visit_for_more_words(request, lists, planned, word, g, block, lanes, n_lanes, work)
                lanes.looked[block] = 0


@inlined
def _is_enough_for_any(request, summary, group, lanes, n_lanes):
    """Tell whether a message of a group may be good enough for a lane; fills in the bounds."""
    if summary[group, LAST_ROW] < request.alive.first:
        return False
    fill_bounds(lanes.fact, n_lanes, summary, group, request.is_earth)
    reached = 0
    for lane in range(n_lanes):
        reached |= int(lanes.fact[BOUND + lane] >= lanes.fact[BAR + lane])
    return reached != 0


@inlined
def _visit_for_more_words(request, lists, planned, word, segment, block, lanes, n_lanes, work):
    """Look at those messages of a block that have another word of a lane, for lanes that have not seen the block."""
    fact, under_way = lanes.fact, lanes.block
    begin, end = _postings_of(lists, segment, block)
    n_active, is_active = 0, 0
    for lane in range(n_lanes):
        is_new = (lanes.looked[block] >> lane) & 1 == 0
        if is_new and lanes.later[lane] != 0 and fact[BOUND + lane] >= fact[BAR + lane]:
            n_active = _activate(planned, lane, lanes, n_active, end - begin, work)
            is_active |= 1 << lane
    n_chosen = _choose(lists, begin, end, lanes, n_active, True) if n_active > 0 else 0
    first_position = lists.segment[segment, POSITIONS]
    _fetch_words(request.held, lists, first_position, n_chosen, under_way)
    for i in range(n_chosen):
        said, n_hit = _sum_hit_lanes(request.held, i, word, is_active, lanes)
        for a in range(n_hit):
            _offer_text(request, lists, planned, first_position, i, said, under_way.hit[a], lanes)


# --- a block ----------------------------------------------------------------------------------------------------------


@inlined
def _postings_of(lists, segment, block):
    first = lists.segment[segment, POSTINGS]
    return first + lists.block_posting[block], first + lists.block_posting[block + 1]


@inlined
def _activate(planned, lane, lanes, n_active, n_postings, work):
    """Let a lane take part in the block under way; return how many do."""
    lanes.fact[LIMIT + lane] = lanes.fact[BAR + lane] - lanes.fact[NEAR + lane]
    lanes.block.active[n_active] = lane
    work[planned.which[lanes.query[lane]]] += n_postings
    return n_active + 1


@inlined
def _choose(lists, begin, end, lanes, n_active, is_for_more):
    """Fill in the postings that may be good enough for an active lane, by u and the bits of words; return how many.

    `is_for_more`: only those with another word of the lane.
    """
    fact, is_enough, n = lanes.fact, lanes.block.is_enough, end - begin
    mark, u = lists.mark[begin:end], lists.u[begin:end]
    marks, u_max = 0, 0.0
    for j in range(n):
        is_enough[j] = 0
        marks |= mark[j]
        u_max = max(u_max, float(u[j]))
    for a in range(n_active):
        lane = lanes.block.active[a]
        if marks >= 0 and fact[WHOLE + lane] * u_max < fact[LIMIT + lane]:
            continue
        _choose_for_lane(mark, u, n, lane, lanes, is_for_more)
        if marks < 0:
            _choose_repeating(mark, u, n, lane, lanes)
    n_chosen = 0
    for j in range(n):
        lanes.block.chosen[n_chosen] = begin + j
        n_chosen += is_enough[j]
    return n_chosen


@inlined
def _choose_for_lane(mark, u, n, lane, lanes, is_for_more):
    """Mark the postings that are enough for a lane if each word is said once, with the words whose bits they have."""
    summed, is_enough = lanes.block.summed, lanes.block.is_enough
    own, limit = lanes.fact[OWN + lane], lanes.fact[LIMIT + lane]
    for j in range(n):
        summed[j] = own
    later = lanes.later[lane] if is_for_more else -1
    for i in range(lanes.n_later[lane]):
        bit, gain = lanes.later_mark[lane, i], lanes.later_gain[lane, i]
        for j in range(n):
            summed[j] += gain if mark[j] & bit != 0 else 0.0
    for j in range(n):
        is_enough[j] |= int(summed[j] * float(u[j]) >= limit) & int(mark[j] & later != 0)


@inlined
def _choose_repeating(mark, u, n, lane, lanes):
    """Mark the postings that may be enough for a lane among those whose message says a word more than once."""
    fact = lanes.fact
    for j in range(n):
        if mark[j] < 0 and mark[j] & lanes.later[lane] != 0:
            own = float(u[j])
            others = min(fact[REST + lane] * rest_of(own * ROUND_DOWN), fact[MOST + lane])
            lanes.block.is_enough[j] |= int(fact[OWN + lane] * own + others >= fact[LIMIT + lane])


@inlined
def _fetch_words(held, lists, first_position, n_chosen, block):
    """Fill in where the words of the chosen messages are, and read the first and the last of each."""
    for i in range(n_chosen):
        position = first_position + lists.position[block.chosen[i]]
        length = held.card[position, LENGTH]
        block.scale[i] = 1.0 / math.sqrt(length) if length > 0.0 else 0.0
        block.first_said[i] = first_word(held, position)
        block.end_said[i] = block.first_said[i] + n_words_of(held, position)
    touched = 0
    for i in range(n_chosen):
        touched += held.said[block.first_said[i], 0] + held.said[block.end_said[i] - 1, 0]
    block.touched[0] = touched


@inlined
def _sum_other_words(held, nth, word, lanes):
    """Add what the other words of each lane give for the nth of the chosen messages; return how often it says `word`.

    That is over its length. A lane that has found the message through an earlier word gets far less than nothing.
    """
    scale, said = lanes.block.scale[nth], 0.0
    for i in range(lanes.block.first_said[nth], lanes.block.end_said[nth]):
        other = held.said[i, 0]
        if other == word:
            said = held.said[i, 1] * scale
        elif begins_chain(lanes, other):
            at = lanes.head[other]
            while at >= 0:
                lanes.fact[TEXT + lanes.lane[at]] += _gained(lanes.chained[at], held.said[i, 1] * scale)
                at = lanes.after[at]
    return said


@inlined
def _sum_hit_lanes(held, nth, word, is_active, lanes):
    """Do as `_sum_other_words` for active lanes that have one of the other words; return how many these are, too."""
    block, scale, said, n_hit = lanes.block, lanes.block.scale[nth], 0.0, 0
    block.seen[LANES] += 1
    for i in range(block.first_said[nth], block.end_said[nth]):
        other = held.said[i, 0]
        if other == word:
            said = held.said[i, 1] * scale
        elif begins_chain(lanes, other):
            at = lanes.head[other]
            while at >= 0:
                lane = int(lanes.lane[at])
                if (is_active >> lane) & 1 != 0:
                    if block.seen[lane] != block.seen[LANES]:
                        block.seen[lane], lanes.fact[TEXT + lane] = block.seen[LANES], 0.0
                        block.hit[n_hit] = lane
                        n_hit += 1
                    lanes.fact[TEXT + lane] += _gained(lanes.chained[at], held.said[i, 1] * scale)
                at = lanes.after[at]
    return said, n_hit


@inlined
def _gained(chained, said):
    """Return what a word of a lane that is said so often gives; one that was searched before rules the message out."""
    return FOUND_BEFORE if chained < 0.0 else chained * said


@inlined
def _offer_text(request, lists, planned, first_position, nth, said, lane, lanes):
    """Let the nth of the chosen messages wait in a lane if its text is good enough there."""
    text = lanes.fact[TEXT + lane] + lanes.fact[GAIN + lane] * said
    if text >= 0.0 and text * lanes.fact[TEXT_WEIGHT + lane] >= lanes.fact[LIMIT + lane]:
        position = first_position + lists.position[lanes.block.chosen[nth]]
        note_candidate(request, planned, position, text, lane, lanes)
