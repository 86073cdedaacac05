"""A batch of messages as searches read it, and the scratch space they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.shared.filters import term_bit
from nearcast.indexes.trigger.places import empty_stack

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Entries that may wait for verification at once.
WAITING = 1024

# Fields of `TriggerScratch.tally`.
FOUND, LOOKED_AT, VERIFIED, PENDING, MARKED, HITS, RUNS = range(7)

#: Most messages in a chunk that is searched for scored rows: one bit each in a row of `TriggerScratch.masks`.
SCORED_CHUNK = 512


#: Message i is bit i & 63 of the mask i >> 6 in such a row.
_MASK_SHIFT, _MASK_BITS = 6, 63
#: Terms of a chunk, counted for each message that has them, before more room is made.
_FIRST_MASKS = 1024


class TriggerScratch(NamedTuple):
    """Scratch space of one thread: marked terms, waiting entries, cells, what was found, room to sort.

    `found[:tally[FOUND]]` are slots of boolean rows, by component and message. `pending[:tally[PENDING]]` are
    (message, row) pairs whose polygon is still to be tested. The first `tally[HITS]` hits are scored rows, slot and
    score, in `tally[RUNS]` runs for one message each (see `runs`). Room may run out: a search then stops, to be gone on
    with or repeated.

    `has[term]` is 1 while a message with the term is verified. `number_of[term]` numbers the terms that messages of the
    chunk have, 0 for all others, and bit i of the row `masks[number_of[term]]` tells whether message i has it;
    `places[i]` is where that message is in the frame of the segment being searched, and the cosine of its latitude.
    `marks` has a bit for each slot, `rank` a count for each word of them: see `shared.gather`.
    """

    has: NDArray[np.uint8]
    number_of: NDArray[np.int32]
    masks: NDArray[np.uint64]
    waiting: NDArray[np.int32]
    cells: NDArray[np.int32]
    stack: NDArray[np.int32]
    parts: NDArray[np.float64]
    places: NDArray[np.float64]
    local: NDArray[np.int32]
    local_start: NDArray[np.int64]
    found: NDArray[np.int32]
    pending: NDArray[np.int32]
    hit_slot: NDArray[np.int32]
    hit_score: NDArray[np.float64]
    run: NDArray[np.int64]
    last_run: NDArray[np.int64]
    tally: NDArray[np.int64]
    spare: NDArray[np.int32]
    spare_score: NDArray[np.float64]
    digits: NDArray[np.int64]
    marks: NDArray[np.uint64]
    rank: NDArray[np.int32]


def new_scratch(n_terms: int, n_cells: int, room: int) -> TriggerScratch:
    """Make scratch space for this many terms, cells, and matches."""
    return TriggerScratch(
        has=np.zeros(max(n_terms, 1), np.uint8),
        number_of=np.zeros(max(n_terms, 1), np.int32),
        masks=new_masks(_FIRST_MASKS),
        waiting=np.empty(WAITING, np.int32),
        cells=np.empty(n_cells, np.int32),
        stack=empty_stack(),
        parts=np.empty((2, 4)),
        places=np.empty((SCORED_CHUNK, 5)),
        local=np.empty(_FIRST_MASKS, np.int32),
        local_start=np.empty(SCORED_CHUNK + 1, np.int64),
        found=np.empty(room, np.int32),
        pending=np.empty((max(16, room // 64), 2), np.int32),
        hit_slot=np.empty(room, np.int32),
        hit_score=np.empty(room),
        run=np.empty((max(16, room // 16), 3), np.int64),
        last_run=np.empty(SCORED_CHUNK, np.int64),
        tally=np.zeros(7, np.int64),
        spare=np.empty(1024, np.int32),
        spare_score=np.empty(1024),
        digits=np.empty(256, np.int64),
        marks=np.empty(1, np.uint64),
        rank=np.empty(1, np.int32),
    )


def new_masks(n_terms: int) -> NDArray[np.uint64]:
    """Make masks for this many terms of a chunk; row 0, of the terms that nobody has, stays empty."""
    return np.zeros((n_terms + 1, SCORED_CHUNK >> _MASK_SHIFT), np.uint64)


class TriggerBatch(NamedTuple):
    """The columns of a batch that kernels read, and the order to take its messages in.

    The known terms of the i-th message in that order, each once, are `distinct[distinct_start[i]:...[i + 1]]`, and
    `bits[i]` is their signature: worked out once for all components. `by_term` orders `distinct` by term, and
    `message_of` says which i each of it belongs to; `totals` is that of the messages, empty where nobody needs it;
    `weight` is what each term weighs. These four are for scored rows only.
    """

    term_start: NDArray[np.int64]
    terms: NDArray[np.int32]
    box: NDArray[np.float64]
    order: NDArray[np.int32]
    distinct_start: NDArray[np.int64]
    distinct: NDArray[np.int32]
    bits: NDArray[np.uint64]
    by_term: NDArray[np.int64]
    message_of: NDArray[np.int64]
    totals: NDArray[np.float64]
    weight: NDArray[np.float64]


@hot_kernel
def find_distinct(term_start, terms, order, has, distinct_start, distinct, bits):
    """Fill the distinct terms and bits of a `TriggerBatch`; `has` is cleared again."""
    n = 0
    distinct_start[0] = 0
    for i in range(order.size):
        first, signature = n, np.uint64(0)
        for j in range(term_start[order[i]], term_start[order[i] + 1]):
            term = terms[j]
            if 0 <= term < has.size and has[term] == 0:
                has[term] = 1
                distinct[n] = term
                n += 1
                signature |= term_bit(term)
        for j in range(first, n):
            has[distinct[j]] = 0
        bits[i] = signature
        distinct_start[i + 1] = n


@hot_kernel
def mark_chunk(batch, number_of, masks):
    """Number the terms of a chunk, and set the bit of every message in the masks of its terms."""
    n = 0
    for i in range(batch.order.size):
        for j in range(batch.distinct_start[i], batch.distinct_start[i + 1]):
            term = batch.distinct[j]
            if number_of[term] == 0:
                n += 1
                number_of[term] = n
                for part in range(masks.shape[1]):
                    masks[n, part] = 0
            masks[number_of[term], i >> _MASK_SHIFT] |= np.uint64(1) << np.uint64(i & _MASK_BITS)


@hot_kernel
def unmark_chunk(batch, number_of):
    """Take back the numbers of the terms of a chunk."""
    for j in range(batch.distinct_start[batch.order.size]):
        number_of[batch.distinct[j]] = 0


@inlined
def has_term(scratch, i, term):
    """Tell whether message i of a marked chunk has a term."""
    mask = scratch.masks[scratch.number_of[term], i >> _MASK_SHIFT]
    return mask & (np.uint64(1) << np.uint64(i & _MASK_BITS)) != 0


@inlined
def set_marks(batch, i, scratch, mark):
    """Mark the terms of the i-th message in `scratch.has`, or clear the marks: only who must verify needs them."""
    for j in range(batch.distinct_start[i], batch.distinct_start[i + 1]):
        scratch.has[batch.distinct[j]] = mark
    scratch.tally[MARKED] = mark


@inlined
def tally_now(scratch):
    """Return the counts as they are before a message, for the case that its matches do not fit."""
    tally = scratch.tally
    return tally[FOUND], tally[LOOKED_AT], tally[VERIFIED], tally[PENDING], tally[HITS]


@inlined
def end_message(batch, i, fits, before, scratch, start):
    """Clear the marks and close the list of the i-th message, or take back all it has counted; return `fits`."""
    if scratch.tally[MARKED]:
        set_marks(batch, i, scratch, 0)
    if fits:
        start[i + 1] = scratch.tally[FOUND]
    else:
        tally = scratch.tally
        tally[FOUND], tally[LOOKED_AT], tally[VERIFIED], tally[PENDING], tally[HITS] = before
    return fits
