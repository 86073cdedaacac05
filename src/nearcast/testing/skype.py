"""Every promise of the arrays of `skype`, `ipt` and `ciq`, walked through in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.indexes.papers.skype.bounds import member_key
from nearcast.indexes.papers.skype.groups import ALPHA, KEY, MOST, SUFFIX_ALPHA, SUFFIX_KEY, SUFFIX_MOST
from nearcast.similarity import near_needed

if TYPE_CHECKING:
    from nearcast.indexes.papers.ciq.lists import CiqSegment
    from nearcast.indexes.papers.skype.segment import SkypeSegment
    from nearcast.indexes.shared.scores import ScoredColumns
    from nearcast.indexes.shared.segmented_index import SegmentedIndex


def check_segmented(index: SegmentedIndex) -> None:
    """Every live row is in one segment or in none yet, and every segment is in order."""
    scored = index._scored()
    for number, segment in enumerate(index._segments):
        rows, members = segment.row, np.arange(len(segment.row))
        assert (index._segment_of[rows] == number).all(), "a member's row is in another segment"
        assert index._member_of[rows].tolist() == members.tolist(), "rows and members do not name each other"
        is_dead = index._slot_of[rows] < 0
        assert index._n_dead[number] == is_dead.sum(), "dead members were not counted"
        if hasattr(segment, "field"):
            _check_entries(segment, scored, is_dead)
            if index.info.name == "skype":
                _check_groups(segment, scored, is_dead)
        else:
            _check_covers(segment, scored, is_dead)


def _check_entries(segment: SkypeSegment, scored: ScoredColumns, is_dead: np.ndarray) -> None:
    """Entries and words name each other, and every entry knows the threshold of its member."""
    n = len(segment.member)
    assert segment.word_of[segment.entry_of].tolist() == list(range(n)), "words and entries do not name each other"
    words = np.diff(segment.word_start)
    assert np.repeat(np.arange(len(words)), words)[segment.word_of].tolist() == segment.member.tolist()
    for e in range(n):
        i = segment.member[e]
        key = np.inf if is_dead[i] else member_key(scored, segment.row[i])
        assert segment.field[e, KEY] == key, "an entry does not know the threshold of its member"


def _check_groups(segment: SkypeSegment, scored: ScoredColumns, is_dead: np.ndarray) -> None:
    """What holds from an entry on does hold, and what a cell needs is no more than each of its members does."""
    for g, (first, last) in enumerate(zip(segment.group_start[:-1], segment.group_start[1:], strict=True)):
        assert first < last, "a group has no entries"
        assert (segment.group_of[first:last] == g).all(), "an entry does not know its group"
        assert segment.head[g].tolist() == segment.field[first, :3].tolist(), "a head is not that of its group"
        field, most = segment.field[first:last], segment.word[segment.word_of[first:last], MOST]
        assert (field[:, SUFFIX_KEY] <= _from_each_on(field[:, KEY], np.minimum)).all(), "a key is above its bound"
        assert (field[:, SUFFIX_MOST] == _from_each_on(most, np.maximum)).all(), "a weight is not the greatest"
        assert (field[:, SUFFIX_ALPHA] == _from_each_on(field[:, ALPHA], np.maximum)).all(), "an α* is not the greatest"
    for i in np.flatnonzero(~is_dead):
        row, c = segment.row[i], segment.cell[i]
        need = near_needed(float(scored.text_weight[row]), float(scored.threshold[row]), 1.0)
        assert segment.need[c] <= need, "a cell needs more than one of its members"
        assert segment.reach[c] >= scored.max_distance[row], "a member reaches farther than its cell"
        x, y = scored.point[row]
        x_min, y_min, x_max, y_max = segment.box[c]
        assert x_min <= x <= x_max, "a member is not in its cell"
        assert y_min <= y <= y_max, "a member is not in its cell"


def _from_each_on(values: np.ndarray, ufunc: np.ufunc) -> np.ndarray:
    found: np.ndarray = ufunc.accumulate(values[::-1])[::-1]
    return found


def _check_covers(segment: CiqSegment, scored: ScoredColumns, is_dead: np.ndarray) -> None:
    """Covers and members name each other, lists ascend, and the dead are out of reach."""
    owner = np.repeat(np.arange(len(segment.row)), np.diff(segment.cover_start))
    assert segment.member[segment.cover].tolist() == owner.tolist(), "covers and members do not name each other"
    for first, last in zip(segment.list_start[:-1], segment.list_start[1:], strict=True):
        assert (np.diff(segment.entry[first:last]) > 0).all(), "a list is not in order"
    is_out = np.isinf(segment.least_text)
    assert is_out[is_dead[segment.member]].all(), "a dead member can be reached"
    words = (scored.term_start[segment.row + 1] - scored.term_start[segment.row])[segment.member]
    assert len(segment.entry) == words.sum(), "not every word of every cover is listed"
