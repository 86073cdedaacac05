"""The walk over the scored rows of the trigger index: how far each word must reach, worked out in plain Python."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nearcast.geo import EARTH_RADIUS_M, cos_latitude
from nearcast.indexes.shared.filters import term_bit
from nearcast.indexes.trigger.rows import (
    FUNCTION,
    MAX_DISTANCE,
    N_WORDS,
    OWN,
    RIM,
    SCORED,
    TEXT_WEIGHT,
    THRESHOLD,
    WORDS,
    X,
    Y,
)
from nearcast.indexes.trigger.tables import VACANT
from nearcast.model import SIMILARITIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.trigger.discs import DiscNotes, Discs
    from nearcast.indexes.trigger.rows import TriggerRows
    from nearcast.indexes.trigger.segment import TriggerSegment

_WILDCARD, _NOWHERE = -2, 0
#: By how much a score may miss and still be waited for, and what rounding may do to a place in a frame.
_MARGIN, _ROUNDING = 1e-6, 1e-5


def is_scored_row(rows: TriggerRows, row: int) -> bool:
    """Tell whether a row belongs to a scored subscription."""
    return bool(rows.shape[row] <= SCORED)


def words_of_row(rows: TriggerRows, row: int) -> list[int]:
    """Return the terms of a scored row, in the order of their strings."""
    words: list[int] = rows.code[rows.code_start[row] : rows.code_start[row + 1]].tolist()
    return words


def check_scored_rows(rows: TriggerRows, weight: NDArray[np.float64]) -> None:
    """Every scored row has a line in `score` of its own that says what its code and its rectangle say."""
    scored = np.flatnonzero(rows.shape <= SCORED)
    lines = (SCORED - rows.shape[scored]).tolist()
    assert sorted(lines) == list(range(len(rows.score))), "a line of scores belongs to no row or to two"
    for row, k in zip(scored.tolist(), lines, strict=True):
        line, words = rows.score[k], words_of_row(rows, row)
        assert len(words) == len(set(words)), f"row {row} has a word twice"
        assert min(words, default=0) >= 0, f"row {row} is scored and has a mark in its code"
        assert rows.part[row].tolist() == [*line[[X, Y]], *line[[X, Y]]], f"row {row} is at two places"
        assert int(line[N_WORDS]) == len(words), f"row {row} has another number of words"
        beside = line[WORDS:].astype(np.int64).tolist()[: len(words)]
        assert beside == words[: len(beside)], f"row {row} has other words beside its score than in its code"
        assert line[OWN] == _amount(words, line, weight), f"the words of row {row} amount to something else"
        assert 0.0 <= line[TEXT_WEIGHT] <= 1.0, f"row {row} has an impossible text weight"
        assert 0.0 < line[THRESHOLD] <= 1.0, f"row {row} has an impossible threshold"
        assert 0.0 < line[MAX_DISTANCE] < np.inf, f"row {row} has an impossible reach"


def _amount(words: list[int], line: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    counts_weights = SIMILARITIES[int(line[FUNCTION])] in ("tsim", "jaccard")
    total = 0.0
    for word in words:
        total += float(weight[word]) if counts_weights else 1.0
    return total


def nearness_needed(
    rows: TriggerRows, row: int, weight: NDArray[np.float64], *, to_spare: float = 0.0
) -> dict[int, float]:
    """Return for each word of a row, and the wildcard, how near a message must be that has it and none before it.

    0: any distance will do; above 1: none will. A score counts that misses the threshold by no more than `to_spare`.
    """
    line = rows.score[SCORED - rows.shape[row]]
    text_weight, threshold = float(line[TEXT_WEIGHT]), float(line[THRESHOLD])
    prefix = sorted(words_of_row(rows, row), key=lambda term: (-weight[term], term))
    own = _amount(prefix, line, weight)
    needed = {}
    for i, term in enumerate([*prefix, _WILDCARD]):
        share = min(_amount(prefix[i:], line, weight) / own, 1.0) if own > 0.0 else 0.0
        text = {"dice": 2.0 * share / (1.0 + share), "cosine": math.sqrt(share)}
        missing = threshold - to_spare - text_weight * text.get(SIMILARITIES[int(line[FUNCTION])], share)
        if missing <= 0.0:
            needed[term] = 0.0
        else:
            needed[term] = missing / (1.0 - text_weight) if text_weight < 1.0 else math.inf
    return needed


def check_terms(rows: TriggerRows, row: int, terms: list[int], weight: NDArray[np.float64]) -> None:
    """A scored row waits for every word that can bring a message to it, once, and for no other."""
    needed = nearness_needed(rows, row, weight)
    assert len(terms) == len(set(terms)), f"row {row} waits for a word twice"
    lacking = [term for term, near in needed.items() if near <= 1.0 and term not in terms]
    assert not lacking, f"row {row} can be reached through {lacking} and does not wait for them"
    of_use = nearness_needed(rows, row, weight, to_spare=_MARGIN)
    idle = [term for term in terms if not of_use.get(term, math.inf) <= 1.0]
    assert not idle, f"row {row} waits for {idle}, which no message of use has first"


# Segments


def check_discs(
    segment: TriggerSegment,
    lists: dict[tuple[int, int], tuple[int, int]],
    weight: NDArray[np.float64],
    *,
    is_earth: bool,
) -> None:
    """Raise AssertionError where the discs of a segment, listed by (group, term), break a promise."""
    discs, rows = segment.discs, segment.rows
    first_row, n_scored = int(discs.first_row[0]), len(rows.score)
    assert first_row + n_scored == len(rows.slot), "the scored rows are not the last ones"
    assert rows.shape[first_row:].tolist() == [SCORED - k for k in range(n_scored)], "scores are not in row order"
    terms_of: dict[int, list[int]] = {row: [] for row in range(first_row, len(rows.slot))}
    groups_of: dict[int, set[int]] = {}
    for (group, term), (first, last) in lists.items():
        reach = discs.disc[first:last, 3]
        assert (reach[1:] <= reach[:-1]).all(), f"the discs of term {term} in group {group} do not fall in reach"
        for entry in range(first, last):
            row = first_row + int(discs.scored[entry])
            terms_of[row].append(term)
            groups_of.setdefault(row, set()).add(group)
            _check_disc(discs, rows, row, entry, term, weight, is_earth=is_earth)
            _check_group(discs, entry, group)
    for row, terms in terms_of.items():
        check_terms(rows, row, terms, weight)
        assert len(groups_of.get(row, set()) - {_NOWHERE}) <= 1, f"row {row} is in two groups"
        line = rows.score[row - first_row]
        assert line[RIM] >= _length(discs.frame, float(line[MAX_DISTANCE]), is_earth=is_earth), f"rim of row {row}"
    spread = {term for group, term in lists if group != _NOWHERE}
    told = {term + _WILDCARD for term in np.flatnonzero(discs.is_spread).tolist()}
    assert spread == told, "is_spread tells of other terms than those with lists in groups"


def check_notes(segment: TriggerSegment, notes: DiscNotes, *, is_earth: bool) -> None:
    """Raise AssertionError where the notes on the discs of a segment are not what its rows say."""
    discs, rows = segment.discs, segment.rows
    first_row = int(discs.first_row[0])
    assert len(notes.others) == len(discs.scored), "a disc has no signature"
    for term, first, last in discs.table[discs.table[:, 0] != VACANT].tolist():
        for entry in range(first, last):
            words = words_of_row(rows, first_row + int(discs.scored[entry]))
            bits = {int(term_bit(word)) for word in words if word != term}
            assert int(notes.others[entry]) == sum(bits), f"disc {entry} has the signature of other words"
    expected = [cos_latitude(y) for y in rows.score[:, Y].tolist()] if is_earth else []
    assert notes.cosine.tolist() == expected, "the cosines are not those of the latitudes"


def _check_disc(
    discs: Discs, rows: TriggerRows, row: int, entry: int, term: int, weight: NDArray[np.float64], *, is_earth: bool
) -> None:
    """A disc stands where its row does, and is as large as its term needs."""
    line = rows.score[SCORED - rows.shape[row]]
    at = _in_frame(discs.frame, float(line[X]), float(line[Y]), is_earth=is_earth)
    off = math.dist(at, discs.disc[entry, :3].tolist())
    assert off <= _ROUNDING, f"the disc of row {row} for term {term} stands elsewhere"
    near = nearness_needed(rows, row, weight)[term]
    distance = math.inf if near <= 0.0 else max(1.0 - near, 0.0) * float(line[MAX_DISTANCE])
    length = _length(discs.frame, distance, is_earth=is_earth)
    assert float(discs.disc[entry, 3]) >= length, f"the disc of row {row} for term {term} is too small"


def _check_group(discs: Discs, entry: int, group: int) -> None:
    centre, box = discs.disc[entry, :3], discs.box[group]
    assert float(discs.disc[entry, 3]) <= float(discs.group_reach[group]) * (1.0 + _ROUNDING), (
        f"group {group} has a wider disc"
    )
    assert (centre >= box[:3] - _ROUNDING).all(), f"group {group} does not hold its discs"
    assert (centre <= box[3:] + _ROUNDING).all(), f"group {group} does not hold its discs"


def _in_frame(frame: NDArray[np.float64], x: float, y: float, *, is_earth: bool) -> tuple[float, float, float]:
    if is_earth:
        cosine = math.cos(math.radians(y))
        return (
            cosine * math.cos(math.radians(x)),
            cosine * math.sin(math.radians(x)),
            math.sin(math.radians(y)),
        )
    centre_x, centre_y, scale = frame[:3].tolist()
    return (x / 2 - centre_x / 2) * scale, (y / 2 - centre_y / 2) * scale, 0.0


def _length(frame: NDArray[np.float64], distance: float, *, is_earth: bool) -> float:
    """Return the straight line in the frame between places this far apart."""
    if is_earth:
        return 2.0 * math.sin(distance / EARTH_RADIUS_M / 2.0) if distance < math.pi * EARTH_RADIUS_M else 2.0
    return distance / 2 * float(frame[2])
