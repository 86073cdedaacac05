"""Subscriptions as the kernels of `cells` read them: their words as those of the messages, and where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import direct, hot_kernel
from nearcast.indexes.shared.scores import scored_of
from nearcast.query import NOT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.geo import Regions
    from nearcast.text.message_words import MessageWords

#: A word that no message has. Codes cannot have -1 for it, which is an operator.
NO_WORD = np.iinfo(np.int32).max
#: The kind of region of a subscription that is not there.
NOWHERE = 9
_U8, _I32, _I64, _F64 = map(np.dtype, (np.uint8, np.int32, np.int64, np.float64))

#: The columns of `LiveQueries` that only scored rows have, where there are none.
_NOT_SCORED: dict[str, NDArray] = {
    "word_start": np.zeros(1, np.int64),
    "word": np.zeros(0, np.int32),
    "similarity": np.zeros(0, np.uint8),
    **dict.fromkeys(("weight", "own", "text_weight", "threshold", "max_distance"), np.zeros(0)),
}


class LiveQueries(NamedTuple):
    """What subscriptions want, by row, and event time at each.

    Clauses are as in `Subscriptions`, with ids of the messages' words. Scored rows have the words
    `word[word_start[i]:word_start[i + 1]]`, which weigh `weight` each and amount to `own`.
    """

    kind: NDArray[np.uint8]
    now: NDArray[np.int64]
    clause_start: NDArray[np.int64]
    code_start: NDArray[np.int64]
    code: NDArray[np.int32]
    word_start: NDArray[np.int64]
    word: NDArray[np.int32]
    weight: NDArray[np.float64]
    own: NDArray[np.float64]
    text_weight: NDArray[np.float64]
    threshold: NDArray[np.float64]
    max_distance: NDArray[np.float64]
    similarity: NDArray[np.uint8]

    @property
    def most_words(self) -> int:
        """How many words the scored row with the most of them has."""
        return int(np.diff(self.word_start).max(initial=0))


class QueryPlaces(NamedTuple):
    """Where subscriptions are, by row: the columns of `Regions` without polygons, and NOWHERE among the kinds."""

    kind: NDArray[np.uint8]
    part_start: NDArray[np.int64]
    part: NDArray[np.float64]
    shape: NDArray[np.int32]
    circle: NDArray[np.float64]


def queries_of(
    subscriptions: Subscriptions, words: MessageWords, weights: NDArray[np.float64], now: NDArray[np.int64]
) -> LiveQueries:
    """Return subscriptions with the words that their terms are among those of the messages."""
    words.follow()
    code = np.empty(len(subscriptions.code), np.int32)
    code_start = _owned(subscriptions.code_start, _I64)
    _write_words(code_start, _owned(subscriptions.code, _I32), words.by_term, code)
    scored = _scored_columns(subscriptions, weights, words)
    return LiveQueries(
        kind=_owned(subscriptions.kind, _U8),
        now=_owned(now, _I64),
        clause_start=_owned(subscriptions.clause_start, _I64),
        code_start=code_start,
        code=code,
        **scored,
    )


@hot_kernel
def write_words(code_start, code, word_of, out):
    """Write each clause with words in place of terms."""
    for clause in range(code_start.size - 1):
        at, end = code_start[clause], code_start[clause + 1]
        while at < end:
            n = 1
            if code[at] < 0:
                out[at] = code[at]
                if code[at] != NOT:
                    at += 1
                    out[at] = n = code[at]
                at += 1
            for i in range(at, at + n):
                word = word_of[code[i]]
                out[i] = word if word >= 0 else NO_WORD
            at += n


#: All columns that it takes are made for it.
_write_words = direct(write_words)


def _owned(column: NDArray, kind: np.dtype) -> NDArray:
    """Return a column as kernels want it: of one type and contiguous; read-only ones are another type to them."""
    if column.dtype is kind and column.flags.carray:
        return column
    return np.require(column, kind, ["C", "W"])


def _scored_columns(
    subscriptions: Subscriptions, weights: NDArray[np.float64], words: MessageWords
) -> dict[str, NDArray]:
    """Return the columns of `LiveQueries` that only scored rows have."""
    if subscriptions.scoring is None or not subscriptions.kind.any():
        return _NOT_SCORED
    scored = scored_of(subscriptions, weights)
    word = words.of_terms(scored.term)
    word[word < 0] = NO_WORD
    return {
        "word_start": _owned(scored.term_start, _I64),
        "word": _owned(word, _I32),
        "weight": _owned(weights[scored.term], _F64),
        "own": _owned(scored.own, _F64),
        "text_weight": _owned(scored.text_weight, _F64),
        "threshold": _owned(scored.threshold, _F64),
        "max_distance": _owned(scored.max_distance, _F64),
        "similarity": _owned(scored.similarity, _U8),
    }


def places_of(regions: Regions) -> QueryPlaces:
    """Return where subscriptions are."""
    return QueryPlaces(
        _owned(regions.kind, _U8),
        _owned(regions.part_start, _I64),
        _owned(regions.part, _F64),
        _owned(regions.shape, _I32),
        _owned(regions.circle, _F64),
    )


def nowhere(n: int) -> QueryPlaces:
    """Return the places of n subscriptions that are not there."""
    return QueryPlaces(
        kind=np.full(n, NOWHERE, np.uint8),
        part_start=np.zeros(n + 1, np.int64),
        part=np.zeros((0, 4)),
        shape=np.full(n, -1, np.int32),
        circle=np.zeros((0, 3)),
    )
