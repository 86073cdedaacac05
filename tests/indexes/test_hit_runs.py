"""Runs of hits become lists of slots, by marking slots or by sorting them."""

import numpy as np
import pytest

from nearcast.indexes.trigger.runs import NO_RUN, WORTH_MARKING, merge_runs, note_run
from nearcast.indexes.trigger.scratch import RUNS, new_scratch


def _scratch(n_hits):
    scratch = new_scratch(1, 1, max(n_hits, 1))
    scratch.last_run.fill(NO_RUN)
    return scratch._replace(spare=np.empty(n_hits, np.int32), spare_score=np.empty(n_hits))


def _merged(scratch, found, starts, position_of, n_slots):
    n = int(scratch.hit_slot.size) + len(found)
    begin, out, score = np.empty(len(position_of) + 1, np.int64), np.empty(n, np.int32), np.empty(n)
    n_words = (n_slots >> 6) + 1
    marks, rank = np.full(n_words, 99, np.uint64), np.empty(n_words, np.int32)
    arrays = (np.array(position_of), begin, n_slots.bit_length(), marks, rank, out, score)
    total = merge_runs(found, starts, scratch, *arrays)
    return begin.tolist(), out[:total].tolist(), score[:total].tolist()


@pytest.mark.parametrize("n_slots", [10, 64 * WORTH_MARKING * 10])
def test_lists_of_positions_come_in_the_order_asked_for(n_slots):
    """Position 0 is list 2 and so on; runs for one message are apart, and a slot found twice counts once."""
    found, starts = np.array([7, 3, 7, 9], np.int32), np.array([[0, 2, 2, 2], [2, 3, 3, 4]], np.int64)
    scratch = _scratch(6)
    scratch.hit_slot[:] = [8, 5, 4, 6, 1, 5]
    scratch.hit_score[:] = [0.8, 0.5, 0.4, 0.6, 0.1, 0.5]
    for i, first, last in [(1, 0, 2), (0, 2, 3), (1, 3, 4), (2, 4, 4), (2, 4, 5), (1, 5, 6)]:
        note_run(i, first, last, scratch)
    begin, slots, scores = _merged(scratch, found, starts, [1, 2, 0], n_slots)
    assert begin == [0, 3, 5, 8]
    assert slots == [5, 6, 8, 1, 9, 3, 4, 7]
    assert scores == [0.5, 0.6, 0.8, 0.1, 1.0, 1.0, 0.4, 1.0]


def test_hits_side_by_side_for_one_message_are_one_run():
    scratch = _scratch(40)
    for i, first, last in [(0, 0, 10), (0, 10, 20), (1, 20, 30), (0, 30, 40)]:
        note_run(i, first, last, scratch)
    assert scratch.tally[RUNS] == 3
    assert scratch.run[:3].tolist() == [[0, 20, NO_RUN], [20, 30, NO_RUN], [30, 40, 0]]


@pytest.mark.parametrize("n", [20, 1500])
@pytest.mark.parametrize("n_slots", [64, 4095, 4096, 100_000])
def test_marked_and_sorted_slots_are_the_same(n_slots, n):
    """Words of marks are full, at their borders, and empty; the last slot is there."""
    slots = np.random.default_rng(n_slots + n).integers(0, n_slots, n).astype(np.int32)
    slots[0] = n_slots - 1
    scratch = _scratch(n)
    scratch.hit_slot[:], scratch.hit_score[:] = slots, slots / 7.0
    note_run(0, 0, n, scratch)
    begin, out, score = _merged(scratch, np.empty(0, np.int32), np.empty((0, 2), np.int64), [0], n_slots)
    expected = np.unique(slots)
    assert (begin, out, score) == ([0, len(expected)], expected.tolist(), (expected / 7.0).tolist())
