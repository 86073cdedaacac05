"""Scores the candidates of a search, message by message.

The words of a message are numbered by their places: 1 is the last in the order of all words, 0 no word of it. So one
pass over the words of a row tells both its product with the message, to which place 0 adds nothing, and the first of
its words that the message has.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import hot_kernel, inlined, prefetch
from nearcast.geo import place_distance
from nearcast.indexes.trigger.thresholds.rows import (
    FIRST,
    LAST,
    MAX_DISTANCE,
    OWN,
    RECORD_SIZE,
    TEXT_WEIGHT,
    THRESHOLD,
    X,
    Y,
)
from nearcast.indexes.trigger.thresholds.scratch import ANY_WORD, HITS, VERIFIED, WAITING
from nearcast.similarity import near_of, score_of, tfidf_of

#: For how many candidates ahead the record is asked for, and for how many the words and the slot.
_RECORDS_AHEAD, _WORDS_AHEAD = 24, 12


@inlined
def put_in_order(scratch, n_messages):
    """Write the candidates by message."""
    end = scratch.candidate_end
    end[:n_messages] = 0
    for c in range(scratch.tally[WAITING]):
        end[scratch.message[scratch.through[c]]] += 1
    total = np.int64(0)
    for message in range(n_messages):
        total, end[message] = total + end[message], total
    # While they are written, the end of a message is where it has come to.
    for c in range(scratch.tally[WAITING]):
        message = scratch.message[scratch.through[c]]
        scratch.candidate_in_order[end[message]] = scratch.candidate[c]
        scratch.through_in_order[end[message]] = scratch.through[c]
        end[message] += 1


@inlined
def _number_words(scratch, number):
    """Write the places of the words of message `number` here, and what each adds to a product."""
    end = scratch.word_start[number + 1]
    for word in range(scratch.word_start[number], end):
        scratch.place[scratch.said[word]] = end - word
        scratch.share[end - word] = scratch.product[word]


@inlined
def _forget_words(scratch, number):
    for word in range(scratch.word_start[number], scratch.word_start[number + 1]):
        scratch.place[scratch.said[word]] = 0


@inlined
def _fetch_ahead(rows, candidate, c, end):
    """Ask for what is read of candidates a little later: none of them waits for its memory."""
    if c + _RECORDS_AHEAD < end:
        prefetch(rows.record, np.int64(candidate[c + _RECORDS_AHEAD]) * RECORD_SIZE)
    if c + _WORDS_AHEAD < end:
        row = candidate[c + _WORDS_AHEAD]
        prefetch(rows.term, int(rows.record[row, FIRST]))
        prefetch(rows.slot, row)


@inlined
def _product(rows, row, scratch):
    """Return the product of the vectors of a row and the message, summed as `tfidf_common` does, and the first place.

    That is the highest of all places of the row's words, 0 if it shares none.
    """
    common, foremost = 0.0, np.int64(0)
    for i in range(int(rows.record[row, FIRST]), int(rows.record[row, LAST])):
        place = np.int64(scratch.place[rows.term[i]])
        common += scratch.share[place]
        foremost = max(foremost, place)
    return common, foremost


@inlined
def _score_of(rows, row, batch, message, common):
    """Return what `scores.topk_score` returns: the same functions of the same numbers, read from the record."""
    record, box = rows.record, batch.box
    text = tfidf_of(common, record[row, OWN], batch.totals[message, 2])
    distance = place_distance(
        batch.earth[0] == 1,
        record[row, X],
        record[row, Y],
        box[message, 0],
        box[message, 1],
        box[message, 2],
        box[message, 3],
    )
    return score_of(record[row, TEXT_WEIGHT], text, near_of(distance, record[row, MAX_DISTANCE]))


@inlined
def score(rows, batch, message, number, candidate, through, begin, end, last, scratch):
    """Score the candidates of a message, `number` here, that are found through their first common word.

    There is room for the hits. The candidates up to `last` are scored next.
    """
    _number_words(scratch, number)
    after = scratch.word_start[number + 1]
    for c in range(begin, end):
        _fetch_ahead(rows, candidate, c, last)
        row, word = candidate[c], through[c]
        common, foremost = _product(rows, row, scratch)
        if foremost == 0 or (word != ANY_WORD and foremost != after - word):
            continue
        scratch.tally[VERIFIED] += 1
        reached = _score_of(rows, row, batch, message, common)
        if reached >= rows.record[row, THRESHOLD]:
            at = scratch.tally[HITS]
            scratch.hit_slot[at], scratch.hit_score[at], scratch.hit_message[at] = rows.slot[row], reached, message
            scratch.tally[HITS] = at + 1
    _forget_words(scratch, number)


@hot_kernel
def score_candidates(rows, batch, first, last, scratch):
    """Score the rows that were collected for the messages first to last; there is room for as many hits."""
    put_in_order(scratch, last - first)
    begin, total = np.int64(0), scratch.tally[WAITING]
    candidate, through = scratch.candidate_in_order, scratch.through_in_order
    for message in range(first, last):
        end = scratch.candidate_end[message - first]
        if begin < end:
            score(rows, batch, message, message - first, candidate, through, begin, end, total, scratch)
        begin = end
