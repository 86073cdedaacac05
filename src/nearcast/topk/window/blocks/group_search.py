"""Best-first search of `blocks` for a group of queries at once: those that share a word, and are neighbours.

The search takes a query's words in the order of its plan, as `search` does, but word by word: first all queries through
the lists of their first words, then through those of their second, and so on. Those that search the list of one word
go through it side by side, as the *lanes* of a group: a block is visited if it may have something for one of them, and
the words of its messages are read once for all. They give the text score of a message for each lane up to rounding,
where `search` has but a bound. Lanes do not meet their best messages first, so what is good enough waits, and is scored
exactly only if it is still among the best of its lane when the group is done or many wait.

Most of the time is spent on reading the words of messages, which lie all over the memory. So where they are is read
first for a whole block, then one word at each end for all of them: such reads do not wait for each other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.similarity import MARGIN, score_of
from nearcast.topk.window.best_heap import BestHeap, bar_of, new_kept, write_in_rank
from nearcast.topk.window.blocks.lists import BLOCK, BLOCKS, POSITIONS, POSTINGS, ROWS, RUNS
from nearcast.topk.window.blocks.search import bound_of, fill_greatest, find_list
from nearcast.topk.window.bounds import near_to_group
from nearcast.topk.window.frontier import pop, push
from nearcast.topk.window.scores import LENGTH, first_word, is_alive, n_words_of, near_to
from nearcast.topk.window.segment_search import begin_query
from nearcast.topk.window.single_messages import offer

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Queries in a group, at most.
LANES = 64
#: Takes a message out of a lane that has found it through an earlier word.
_FOUND_BEFORE = -1e9
_NUMBER_BITS = 32
#: Words whose bits share an int64.
_BIT_SHIFT = 5
_BIT_MASK = (1 << _BIT_SHIFT) - 1


class PlannedQueries(NamedTuple):
    """Queries of a join, in the order of `which`, with their plans and what they have found so far.

    Query n has the words `word[start[n]:start[n] + n_words[n]]` in the order of its plan, with the columns of
    `WordPlan`; `gain` is what a word adds to the text score for each time it is said, over the message's length. It
    keeps up to `first[n + 1] - first[n]` messages from `first[n]` on, of which it has `n_kept[n]`.
    """

    which: NDArray[np.int64]
    start: NDArray[np.int64]
    n_words: NDArray[np.int64]
    word: NDArray[np.int32]
    unit: NDArray[np.float64]
    rest: NDArray[np.float64]
    most: NDArray[np.float64]
    gain: NDArray[np.float64]
    first: NDArray[np.int64]
    n_kept: NDArray[np.int64]
    kept: BestHeap


class GroupLanes(NamedTuple):
    """The lanes of the group under way: its queries, and the arrays that are computed for all of them at once.

    `unit`, `rest`, `most` and `gain` are those of the word whose list is searched. A message must reach the `bar`, for
    which `text` times its weight must reach the `limit` in the block under way. The first `n_waiting` in a row of
    `waiting` are the positions of candidates, with their scores up to rounding.

    `head[word]` begins a chain of those lanes that have this word beside the one whose list is searched: the `lane`,
    and as `chained` what the word gains there; `after` is the next link, -1 the end. `is_chained` has a bit for each
    word that begins a chain: of most words of a message this is all that is read, and it fits the nearest cache.

    The words of the i-th message of the block under way are `said[first_said[i]:end_said[i]]` of the messages held, and
    `scale[i]` is 1 over its length. `touched` is of no use but that what was added up there had to be fetched.
    """

    query: NDArray[np.int64]
    cosine: NDArray[np.float64]
    text_weight: NDArray[np.float64]
    unit: NDArray[np.float64]
    rest: NDArray[np.float64]
    most: NDArray[np.float64]
    bar: NDArray[np.float64]
    limit: NDArray[np.float64]
    text: NDArray[np.float64]
    gain: NDArray[np.float64]
    n_waiting: NDArray[np.int64]
    waiting: NDArray[np.int64]
    waiting_score: NDArray[np.float64]
    is_chained: NDArray[np.int64]
    head: NDArray[np.int32]
    lane: NDArray[np.int32]
    chained: NDArray[np.float64]
    after: NDArray[np.int32]
    first_said: NDArray[np.int64]
    end_said: NDArray[np.int64]
    scale: NDArray[np.float64]
    touched: NDArray[np.int64]


def new_planned(which: NDArray[np.int64], n_words: NDArray[np.int64], keep: NDArray[np.int64]) -> PlannedQueries:
    """Return room for the plans of queries with so many words, and for so many messages of each."""
    start, first = np.append(0, np.cumsum(n_words)), np.append(0, np.cumsum(keep))
    n = int(start[-1])
    return PlannedQueries(
        which=which,
        start=start,
        n_words=np.zeros(len(which), np.int64),
        word=np.empty(n, np.int32),
        unit=np.empty(n),
        rest=np.empty(n),
        most=np.empty(n),
        gain=np.empty(n),
        first=first,
        n_kept=np.zeros(len(which), np.int64),
        kept=new_kept(int(first[-1])),
    )


def new_lanes(n_words: int, most_words: int, most_kept: int) -> GroupLanes:
    """Return lanes for queries of up to `most_words` of `n_words` words, which keep up to `most_kept` messages."""
    columns = [np.empty(LANES) for _ in range(9)]
    chains, room = LANES * most_words, 3 * most_kept + 64
    return GroupLanes(
        query=np.empty(LANES, np.int64),
        cosine=columns[0],
        text_weight=columns[1],
        unit=columns[2],
        rest=columns[3],
        most=columns[4],
        bar=columns[5],
        limit=columns[6],
        text=columns[7],
        gain=columns[8],
        n_waiting=np.zeros(LANES, np.int64),
        waiting=np.empty((LANES, room), np.int64),
        waiting_score=np.empty((LANES, room)),
        is_chained=np.zeros((n_words >> _BIT_SHIFT) + 1, np.int64),
        head=np.full(n_words, -1, np.int32),
        lane=np.empty(chains, np.int32),
        chained=np.empty(chains),
        after=np.empty(chains, np.int32),
        first_said=np.empty(BLOCK, np.int64),
        end_said=np.empty(BLOCK, np.int64),
        scale=np.empty(BLOCK),
        touched=np.zeros(1, np.int64),
    )


@hot_kernel
def plan_queries(request, lists, planned, plan):
    """Fill in the plans of all queries, and keep the best messages of the tail for each."""
    for n in range(planned.which.size):
        which = planned.which[n]
        if request.keep[which] <= 0:
            continue
        n_words, planned.n_kept[n] = begin_query(request, which, plan, _heap_of(planned, n))
        fill_greatest(lists, plan, n_words)
        length = math.sqrt(request.queries.own[which])
        for i in range(n_words):
            at = planned.start[n] + i
            planned.word[at], planned.unit[at] = plan.word[i], plan.unit[i]
            planned.rest[at], planned.most[at] = plan.rest[i], plan.most[i]
            planned.gain[at] = plan.unit[i] * plan.unit[i] * length
        planned.n_words[n] = n_words


@hot_kernel
def search_groups(request, lists, planned, nth, members, group, first, last, lanes, frontier, work):
    """Take the groups `first` to `last` through the lists of the `nth` word of their queries.

    Group g are the `members[group[g]:group[g + 1]]`, which have this word in common; no more than `LANES`.
    """
    for g in range(first, last):
        n_lanes = _board(request, planned, nth, members, group[g], group[g + 1], lanes)
        word = planned.word[planned.start[lanes.query[0]] + nth]
        n_open = _open_runs(request, lists, planned, word, lanes, n_lanes, frontier)
        n_segments = lists.segment.shape[0] - 1
        while n_open > 0 and frontier.bound[0] >= _lowest(lanes.bar, n_lanes):
            code = frontier.code[0]
            pop(frontier, n_open)
            n_open -= 1
            segment = (code >> _NUMBER_BITS) % n_segments
            number = (code & ((1 << _NUMBER_BITS) - 1)) >> 1
            if code & 1 == 0:
                n_open = _open_blocks(request, lists, planned, segment, number, lanes, n_lanes, frontier, n_open)
            else:
                _visit(request, lists, planned, word, segment, number, lanes, n_lanes, work)
        for lane in range(n_lanes):
            _sift(planned, lanes, lane)
            _keep_waiting(request, planned, lanes, lane)
        _leave(planned, lanes, n_lanes)


@hot_kernel
def write_answers(planned, row, score):
    """Write what all queries keep, best first, one after the other; the heaps are used up."""
    written = 0
    for n in range(planned.which.size):
        write_in_rank(_heap_of(planned, n), planned.n_kept[n], row, score, written)
        written += planned.n_kept[n]


@inlined
def _heap_of(planned, n):
    """Return where a query keeps its messages."""
    first, last = planned.first[n], planned.first[n + 1]
    return BestHeap(planned.kept.score[first:last], planned.kept.time[first:last], planned.kept.row[first:last])


@inlined
def _bar(request, planned, n):
    """Return the score that a bound must reach for a query to look further."""
    capacity = planned.first[n + 1] - planned.first[n]
    return bar_of(_heap_of(planned, n), planned.n_kept[n], capacity, request.floor[planned.which[n]]) - MARGIN


@inlined
def _lowest(values, n):
    lowest = np.inf
    for i in range(n):
        lowest = min(lowest, values[i])
    return lowest


@inlined
def _board(request, planned, nth, members, first, last, lanes):
    """Give each query of a group its lane, and chain up its other words; return how many lanes."""
    used = 0
    for lane in range(last - first):
        n = members[first + lane]
        which, begin = planned.which[n], planned.start[n]
        lanes.query[lane] = n
        y = request.queries.point[which, 1]
        lanes.cosine[lane] = max(math.cos(math.radians(y)) - 1e-15, 0.0) if request.is_earth else 0.0
        lanes.text_weight[lane] = request.queries.text_weight[which]
        lanes.unit[lane] = planned.unit[begin + nth]
        lanes.rest[lane] = planned.rest[begin + nth]
        lanes.most[lane] = planned.most[begin + nth]
        lanes.gain[lane] = planned.gain[begin + nth]
        lanes.bar[lane] = _bar(request, planned, n)
        lanes.n_waiting[lane] = 0
        for i in range(planned.n_words[n]):
            if i != nth:
                word = planned.word[begin + i]
                lanes.lane[used] = lane
                lanes.chained[used] = planned.gain[begin + i] if i > nth else _FOUND_BEFORE
                lanes.after[used], lanes.head[word] = lanes.head[word], used
                lanes.is_chained[word >> _BIT_SHIFT] |= 1 << (word & _BIT_MASK)
                used += 1
    return last - first


@inlined
def _leave(planned, lanes, n_lanes):
    """Take the chains of a group down."""
    for lane in range(n_lanes):
        n = lanes.query[lane]
        for i in range(planned.n_words[n]):
            word = planned.word[planned.start[n] + i]
            lanes.head[word], lanes.is_chained[word >> _BIT_SHIFT] = -1, 0


@inlined
def _most_of(request, planned, summary, at, lanes, n_lanes):
    """Return the best score that a message of these can have for a lane that it may be good enough for, else -inf."""
    most = -np.inf
    for lane in range(n_lanes):
        which = planned.which[lanes.query[lane]]
        bound = bound_of(
            summary,
            at,
            lanes.unit[lane],
            lanes.rest[lane],
            lanes.most[lane],
            request.queries.point[which, 0],
            request.queries.point[which, 1],
            lanes.cosine[lane],
            lanes.text_weight[lane],
            request.queries.max_distance[which],
            request.is_earth,
            request.alive,
        )
        if bound >= lanes.bar[lane] and bound > most:
            most = bound
    return most


@inlined
def _open_runs(request, lists, planned, word, lanes, n_lanes, frontier):
    """Put the runs of a word's lists into the frontier; return how many."""
    n_open = 0
    for g in range(lists.segment.shape[0] - 1):
        if lists.segment[g + 1, ROWS] <= request.alive.first or lists.segment[g, ROWS] >= request.alive.last:
            continue
        at = find_list(lists, g, word)
        if at < 0:
            continue
        for run in range(int(lists.run[at]), int(lists.run[at + 1])):
            bound = _most_of(request, planned, lists.run_summary, lists.segment[g, RUNS] + run, lanes, n_lanes)
            if bound > -np.inf:
                push(frontier, n_open, bound, (g << _NUMBER_BITS) | (run << 1))
                n_open += 1
    return n_open


@inlined
def _open_blocks(request, lists, planned, segment, number, lanes, n_lanes, frontier, n_open):
    """Put the blocks of a run into the frontier; return how many are open then."""
    run = lists.segment[segment, RUNS] + number
    for b in range(int(lists.run_block[run]), int(lists.run_block[run + 1])):
        at = lists.segment[segment, BLOCKS] + b
        bound = _most_of(request, planned, lists.block_summary, at, lanes, n_lanes)
        if bound > -np.inf:
            push(frontier, n_open, bound, (segment << _NUMBER_BITS) | (b << 1) | 1)
            n_open += 1
    return n_open


@inlined
def _visit(request, lists, planned, word, segment, number, lanes, n_lanes, work):
    """Look at the messages of a block for all lanes that it may have something for."""
    block = lists.segment[segment, BLOCKS] + number
    first_posting = lists.segment[segment, POSTINGS]
    begin, end = first_posting + lists.block_posting[block], first_posting + lists.block_posting[block + 1]
    if not _set_limits(request, lists, planned, block, lanes, n_lanes, end - begin, work):
        return
    held, first_position = request.held, lists.segment[segment, POSITIONS]
    _fetch_words(held, lists, first_position, begin, end, lanes)
    for j in range(begin, end):
        position = first_position + lists.position[j]
        said = _sum_other_words(held, j - begin, word, lanes, n_lanes)
        reached = 0
        for lane in range(n_lanes):
            lanes.text[lane] += lanes.gain[lane] * said
            reached |= int(lanes.text[lane] * lanes.text_weight[lane] >= lanes.limit[lane])
        if reached != 0 and is_alive(held, position, request.alive):
            _note_candidate(request, planned, position, lanes, n_lanes)


@inlined
def _set_limits(request, lists, planned, block, lanes, n_lanes, n_postings, work):
    """Fill in what text must give in each lane for a message of a block; tell whether there is one where it can."""
    is_any = False
    for lane in range(n_lanes):
        which = planned.which[lanes.query[lane]]
        x, y = request.queries.point[which, 0], request.queries.point[which, 1]
        cosine, w, far = lanes.cosine[lane], lanes.text_weight[lane], request.queries.max_distance[which]
        unit, rest, most = lanes.unit[lane], lanes.rest[lane], lanes.most[lane]
        is_earth, summary = request.is_earth, lists.block_summary
        bound = bound_of(summary, block, unit, rest, most, x, y, cosine, w, far, is_earth, request.alive)
        lanes.limit[lane] = np.inf
        if bound >= lanes.bar[lane]:
            near = near_to_group(is_earth, x, y, cosine, far, summary, block)
            lanes.limit[lane] = lanes.bar[lane] - score_of(w, 0.0, near)
            work[which] += n_postings
            is_any = True
    return is_any


@inlined
def _fetch_words(held, lists, first_position, begin, end, lanes):
    """Fill in where the words of these postings' messages are, and read the first and the last of each."""
    for j in range(begin, end):
        position, i = first_position + lists.position[j], j - begin
        length = held.card[position, LENGTH]
        lanes.scale[i] = 1.0 / math.sqrt(length) if length > 0.0 else 0.0
        lanes.first_said[i] = first_word(held, position)
        lanes.end_said[i] = lanes.first_said[i] + n_words_of(held, position)
    touched = 0
    for i in range(end - begin):
        touched += held.said[lanes.first_said[i], 0] + held.said[lanes.end_said[i] - 1, 0]
    lanes.touched[0] = touched


@inlined
def _sum_other_words(held, nth, word, lanes, n_lanes):
    """Fill in what the other words of each lane give for the nth message of a block.

    Returns how often it says `word`, over its length. A lane that has found the message through an earlier word gets
    far less than nothing.
    """
    for lane in range(n_lanes):
        lanes.text[lane] = 0.0
    scale, said = lanes.scale[nth], 0.0
    for i in range(lanes.first_said[nth], lanes.end_said[nth]):
        other = held.said[i, 0]
        if other == word:
            said = held.said[i, 1] * scale
        if other >= 0 and (lanes.is_chained[other >> _BIT_SHIFT] >> (other & _BIT_MASK)) & 1 != 0:
            at = lanes.head[other]
            while at >= 0:
                is_before = lanes.chained[at] < 0.0
                gained = _FOUND_BEFORE if is_before else lanes.chained[at] * held.said[i, 1] * scale
                lanes.text[lanes.lane[at]] += gained
                at = lanes.after[at]
    return said


@inlined
def _approximate_nearness(request, which, position):
    """Return the proximity of a message to a query up to rounding."""
    queries, held = request.queries, request.held
    if request.is_earth:
        return near_to(queries, which, held, position, True)
    # A card begins as a summary does: with the box around its place.
    x, y, far = queries.point[which, 0], queries.point[which, 1], queries.max_distance[which]
    return near_to_group(False, x, y, 0.0, far, held.card, position)


@inlined
def _note_candidate(request, planned, position, lanes, n_lanes):
    """Let a message wait in those lanes that it is good enough for."""
    for lane in range(n_lanes):
        w, text = lanes.text_weight[lane], lanes.text[lane]
        if text < 0.0 or w * text < lanes.limit[lane]:
            continue
        n = lanes.query[lane]
        score = score_of(w, text, _approximate_nearness(request, planned.which[n], position))
        if score < lanes.bar[lane]:
            continue
        at = lanes.n_waiting[lane]
        lanes.waiting[lane, at], lanes.waiting_score[lane, at] = position, score
        lanes.n_waiting[lane] = at + 1
        if at + 1 == lanes.waiting.shape[1]:
            _sift(planned, lanes, lane)
            if 4 * lanes.n_waiting[lane] > 3 * lanes.waiting.shape[1]:
                _keep_waiting(request, planned, lanes, lane)


@inlined
def _sift(planned, lanes, lane):
    """Drop those waiting in a lane that as many others as it keeps are better than, and raise its bar."""
    n, n_waiting = lanes.query[lane], lanes.n_waiting[lane]
    capacity = planned.first[n + 1] - planned.first[n]
    if n_waiting <= capacity:
        return
    score, position = lanes.waiting_score[lane], lanes.waiting[lane]
    _select(score, position, n_waiting, capacity - 1)
    _raise_bar(lanes, lane, score[capacity - 1] - MARGIN)
    left = capacity
    for i in range(capacity, n_waiting):
        if score[i] >= lanes.bar[lane]:
            score[left], position[left] = score[i], position[i]
            left += 1
    lanes.n_waiting[lane] = left


@inlined
def _select(score, position, n, nth):
    """Put the nth greatest score in its place, greater ones before it and lesser ones behind; Hoare's selection."""
    low, high = 0, n - 1
    while low < high:
        pivot = score[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while score[i] > pivot:
                i += 1
            while score[j] < pivot:
                j -= 1
            if i <= j:
                score[i], score[j] = score[j], score[i]
                position[i], position[j] = position[j], position[i]
                i += 1
                j -= 1
        if nth <= j:
            high = j
        elif nth >= i:
            low = i
        else:
            break


@inlined
def _raise_bar(lanes, lane, bar):
    if bar > lanes.bar[lane]:
        lanes.limit[lane] += bar - lanes.bar[lane]
        lanes.bar[lane] = bar


@inlined
def _keep_waiting(request, planned, lanes, lane):
    """Score those waiting in a lane exactly, and keep the best."""
    n = lanes.query[lane]
    which, capacity = planned.which[n], planned.first[n + 1] - planned.first[n]
    for i in range(lanes.n_waiting[lane]):
        if lanes.waiting_score[lane, i] < lanes.bar[lane]:
            continue
        position = lanes.waiting[lane, i]
        planned.n_kept[n] = offer(
            request.queries,
            which,
            request.held,
            position,
            near_to(request.queries, which, request.held, position, request.is_earth),
            request.floor[which],
            request.by_time,
            _heap_of(planned, n),
            planned.n_kept[n],
            capacity,
        )
        _raise_bar(lanes, lane, _bar(request, planned, n))
    lanes.n_waiting[lane] = 0
