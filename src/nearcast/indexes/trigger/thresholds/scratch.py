"""What a search for top-k rows reads of messages, and its scratch space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast.indexes.trigger.thresholds.bounds import BUNDLE, CORNERS, GROUP
from nearcast.indexes.trigger.thresholds.frame import VIEW

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Fields of `ThresholdScratch.tally`. The last two tell of which messages the words have been prepared.
HITS, LOOKED_AT, VERIFIED, BLOCKS_TRIED, WAITING, SPANS, FIRST_PREPARED, LAST_PREPARED = 0, 1, 2, 3, 4, 5, 6, 7

#: Spans that are noted before their triggers are tried; those of one visit may exceed it.
SPANS_NOTED = 256
#: What a candidate was found through where it was not by a word.
ANY_WORD = -1


class ThresholdBatch(NamedTuple):
    """Messages as searches read them, and the weights of words; `earth` holds 1 on the earth."""

    term_start: NDArray[np.int64]
    terms: NDArray[np.int32]
    box: NDArray[np.float64]
    totals: NDArray[np.float64]
    weight: NDArray[np.float64]
    earth: NDArray[np.uint8]


class ThresholdScratch(NamedTuple):
    """Scratch space of one thread, for the messages that it searches for together; they are numbered from 0 here.

    `counts` tells how often one message says each term. The words of message m are those from `word_start[m]` on, in
    the order of all words. Of word w: the term `said[w]`, its message `message[w]`, what it adds to the `product` of
    the vectors of the message and of a row, its share `u` in the message's unit vector, the length of what comes
    `after` it, the signatures `bit` of itself and `bits` of those after it. While a message is scored, `place` is the
    place of each term, 0 for most, and `share` the product by place.
    `seen[m]` is where message m is seen from the frame. `visit` are words with the lists that they are looked up in.

    The first `tally[SPANS]` spans are triggers to be tried for a word: a block, or a list without blocks (-1), of as
    many triggers at most. The first `tally[WAITING]` candidates are rows that may be concerned, and the word `through`
    which each was found (-1: any). `candidate_in_order` are the same by message; those of message m end at
    `candidate_end[m]`. The first `tally[HITS]` hits are slot, score and message, by component.
    """

    counts: NDArray[np.float64]
    place: NDArray[np.int32]
    share: NDArray[np.float64]
    word_start: NDArray[np.int64]
    said: NDArray[np.int32]
    message: NDArray[np.int32]
    product: NDArray[np.float64]
    u: NDArray[np.float32]
    after: NDArray[np.float32]
    bit: NDArray[np.uint32]
    bits: NDArray[np.uint32]
    seen: NDArray[np.float64]
    visit: NDArray[np.int64]
    spare: NDArray[np.int64]
    digits: NDArray[np.int64]
    candidate: NDArray[np.int32]
    through: NDArray[np.int32]
    candidate_in_order: NDArray[np.int32]
    through_in_order: NDArray[np.int32]
    candidate_end: NDArray[np.int64]
    later: NDArray[np.float32]
    table: NDArray[np.float32]
    span_word: NDArray[np.int32]
    span_list: NDArray[np.int32]
    span_block: NDArray[np.int32]
    span_first: NDArray[np.int32]
    span_last: NDArray[np.int32]
    hit_slot: NDArray[np.int32]
    hit_score: NDArray[np.float64]
    hit_message: NDArray[np.int32]
    tally: NDArray[np.int64]


def new_scratch(n_terms: int, n_messages: int, n_words: int, room: int) -> ThresholdScratch:
    """Make scratch space for this many terms, messages, words of all of these, and candidates and hits."""
    n_spans = SPANS_NOTED + GROUP * BUNDLE
    return ThresholdScratch(
        counts=np.zeros(n_terms),
        place=np.zeros(n_terms, np.int32),
        share=np.zeros(n_words + 1),
        word_start=np.empty(n_messages + 1, np.int64),
        said=np.empty(n_words, np.int32),
        message=np.empty(n_words, np.int32),
        product=np.empty(n_words),
        u=np.empty(n_words, np.float32),
        after=np.empty(n_words, np.float32),
        bit=np.empty(n_words, np.uint32),
        bits=np.empty(n_words, np.uint32),
        seen=np.empty((n_messages, VIEW)),
        visit=np.empty(n_words, np.int64),
        spare=np.empty(n_words, np.int64),
        digits=np.empty(256, np.int64),
        candidate=np.empty(room, np.int32),
        through=np.empty(room, np.int32),
        candidate_in_order=np.empty(room, np.int32),
        through_in_order=np.empty(room, np.int32),
        candidate_end=np.empty(n_messages, np.int64),
        later=np.empty(GROUP, np.float32),
        table=np.empty(CORNERS, np.float32),
        span_word=np.empty(n_spans, np.int32),
        span_list=np.empty(n_spans, np.int32),
        span_block=np.empty(n_spans, np.int32),
        span_first=np.empty(n_spans, np.int32),
        span_last=np.empty(n_spans, np.int32),
        hit_slot=np.empty(room, np.int32),
        hit_score=np.empty(room),
        hit_message=np.empty(room, np.int32),
        tally=np.zeros(8, np.int64),
    )


_CANDIDATE_COLUMNS = ("candidate", "through", "candidate_in_order", "through_in_order")
_HIT_COLUMNS = ("hit_slot", "hit_score", "hit_message")


def with_more_candidates(scratch: ThresholdScratch, room: int) -> ThresholdScratch:
    """Return the scratch space with room for twice as many candidates, `room` at least; those it had are lost."""
    room = max(2 * len(scratch.candidate), room)
    columns: dict[str, Any] = {name: np.empty(room, np.int32) for name in _CANDIDATE_COLUMNS}
    return scratch._replace(**columns)


def with_room_for_hits(scratch: ThresholdScratch, more: int) -> ThresholdScratch:
    """Return the scratch space with room for so many more hits."""
    lacking = int(scratch.tally[HITS]) + more - len(scratch.hit_slot)
    if lacking <= 0:
        return scratch
    lacking = max(lacking, len(scratch.hit_slot))
    columns = {name: getattr(scratch, name) for name in _HIT_COLUMNS}
    return scratch._replace(**{name: np.append(old, np.empty(lacking, old.dtype)) for name, old in columns.items()})
