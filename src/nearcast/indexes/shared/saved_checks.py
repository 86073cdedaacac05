"""Checks of saved subscriptions: whatever passes is as well-formed as what users may insert."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.columns import MAX_K, SIMILAR, TOPK, WITHIN, gathered
from nearcast.geo import ANYWHERE, BOX, CIRCLE, POLYGON, Regions
from nearcast.query import NOT, NOT_PHRASE
from nearcast.similarity import TFIDF

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.geo import Space
    from nearcast.saved_files.arrays import SavedArrays

_LARGEST = float(np.finfo(np.float64).max)
#: No coordinate of the earth is as large, however it was rounded outward.
_DEGREES = 1000.0


def check_codes(arrays: SavedArrays, start: NDArray[np.int64], code: NDArray[np.int32], n_terms: int) -> None:
    """Check clause programs: operators that exist, operands within their clause, and terms below `n_terms`.

    The starts have been checked. Only operators are negative, so they can be told from operands without walking.
    """
    at = np.flatnonzero(code < 0)
    arrays.within("code", code, NOT_PHRASE, np.iinfo(np.int32).max)
    end = start[np.searchsorted(start, at, side="right")]
    arrays.check("code", (at + 1 < end).all(), "an operator stands at the end of its clause")
    is_not = code[at] == NOT
    length = np.where(is_not, 1, code[at + 1].astype(np.int64))
    last = at + np.where(is_not, 1, 1 + length)
    following = np.append(at[1:], len(code))
    arrays.check("code", ((length >= 1) & (last < end) & (last < following)).all(), "an operand is missing")
    is_term = np.ones(len(code), np.bool_)
    is_term[at] = False
    is_term[at[~is_not] + 1] = False
    arrays.check("code", (code[is_term] < n_terms).all(), f"it holds terms beyond the {n_terms:,} there are")


def check_boxes(arrays: SavedArrays, name: str, box: NDArray[np.float64], space: Space) -> None:
    """Check rectangles: each no less than empty, on the earth not far outside of it; they may be infinite."""
    arrays.check(name, (box[:, :2] <= box[:, 2:]).all(), "a rectangle ends before it begins")
    if space.is_earth:
        arrays.within(name, box[np.isfinite(box)], -_DEGREES, _DEGREES)


def check_points(arrays: SavedArrays, name: str, point: NDArray[np.float64], space: Space) -> None:
    """Check coordinates: finite numbers, on the earth not far outside of it."""
    most = _DEGREES if space.is_earth else _LARGEST
    arrays.within(name, point, -most, most)


def check_regions(arrays: SavedArrays, regions: Regions, space: Space) -> None:
    """Check the columns of regions, and that their shapes are there."""
    n, n_parts = len(regions.kind), len(regions.part)
    arrays.starts("part_start", regions.part_start, n, n_parts)
    check_boxes(arrays, "part", regions.part, space)
    arrays.within("kind", regions.kind, min(ANYWHERE, BOX, CIRCLE, POLYGON), max(ANYWHERE, BOX, CIRCLE, POLYGON))
    arrays.length("shape", regions.shape, n)
    for kind, n_shapes in ((CIRCLE, len(regions.circle)), (POLYGON, len(regions.geometry))):
        arrays.numbers("shape", regions.shape[regions.kind == kind], n_shapes)
    arrays.within("circle", regions.circle, -_LARGEST, _LARGEST)


def check_scored(arrays: SavedArrays, held: Subscriptions) -> None:
    """Check scored rows: their parameters, one point each, and one clause of words alone, no word twice."""
    assert held.scoring is not None
    for name in ("text_weight", "threshold", "max_distance", "similarity", "k"):
        arrays.length(name, getattr(held.scoring, name), len(held))
    check_parameters(arrays, held.scoring, held.kind)
    scored = np.flatnonzero(held.kind != WITHIN)
    arrays.check("clause_start", (np.diff(held.clause_start)[scored] == 1).all(), "a scored row has not one clause")
    arrays.check(
        "part_start", (np.diff(held.regions.part_start)[scored] >= 1).all(), "a scored row has no point to stand on"
    )
    start, positions = gathered(held.code_start, held.clause_start[scored])
    words = held.code[positions]
    arrays.check("code", (words >= 0).all(), "a scored row has more than words")
    owner = np.repeat(np.arange(len(scored)), np.diff(start))
    by_word = np.lexsort((words, owner))
    is_twice = (np.diff(words[by_word]) == 0) & (np.diff(owner[by_word]) == 0)
    arrays.check("code", not is_twice.any(), "a scored row has a word twice")


def check_parameters(arrays: SavedArrays, scoring: Any, kind: NDArray[np.uint8]) -> None:
    """Check the values of scored rows: weights from 0 to 1, distances above 0, functions that exist, k above 0."""
    arrays.within("text_weight", scoring.text_weight, 0.0, 1.0)
    arrays.check("threshold", not np.isnan(scoring.threshold).any(), "it holds values that are no numbers")
    arrays.within("max_distance", scoring.max_distance[kind != WITHIN], np.nextafter(0.0, 1.0), _LARGEST)
    arrays.within("similarity", scoring.similarity, 0, TFIDF)
    is_topk = kind == TOPK
    arrays.within("k", scoring.k[is_topk], 1, MAX_K)
    arrays.check("similarity", (scoring.similarity[is_topk] == TFIDF).all(), "a top-k row has another text function")


def check_weights(arrays: SavedArrays, weights: NDArray[np.float64]) -> None:
    """Check what terms weigh."""
    arrays.within("weights", weights, 0.0, _LARGEST)


def check_kinds(arrays: SavedArrays, kind: NDArray[np.uint8], kinds: tuple[str, ...], *, is_scored: bool) -> None:
    """Check that an index holds kinds of subscriptions that it can match."""
    known = [number for number, name in ((WITHIN, "within"), (SIMILAR, "similar"), (TOPK, "topk")) if name in kinds]
    arrays.check("subscription_kind", np.isin(kind, known).all(), "it holds kinds that this index does not match")
    arrays.check("subscription_kind", is_scored or not (kind != WITHIN).any(), "it holds scored rows without scores")
