"""Slots with their scores are sorted the same way whatever room there is for counters."""

import numpy as np
import pytest

from nearcast.indexes.shared.gather import TWO_PASSES, merge_hits, sort_found

#: Bits of the slots, and how many there are: insertion, one digit after the other, two passes, and too wide for these.
SIZES = [(1, 1), (5, 31), (10, 40), (11, 700), (16, 63), (16, 64), (17, 3000), (24, 1500), (25, 3000), (30, 3000)]


def _sorted(slots, scores, n_bits, n_counters):
    """Return what is kept of the pairs, and the counters as they were left."""
    slots, scores, digits = slots.copy(), scores.copy(), np.full(n_counters, -1, np.int64)
    n = len(slots)
    kept = sort_found(slots, scores, n, n_bits, np.empty(n, np.int32), np.empty(n), digits)
    return slots[:kept].tolist(), scores[:kept].tolist(), digits


@pytest.mark.parametrize("n_counters", [256, TWO_PASSES])
@pytest.mark.parametrize(("n_bits", "n"), SIZES)
def test_pairs_come_in_order_of_slots_each_once(n_bits, n, n_counters):
    drawn = np.random.default_rng(n_bits * n).integers(0, 1 << n_bits, n).astype(np.int32)
    drawn[0] = (1 << n_bits) - 1
    slots, scores, _ = _sorted(drawn, drawn / 7.0, n_bits, n_counters)
    expected = np.unique(drawn)
    assert slots == expected.tolist()
    assert scores == (expected / 7.0).tolist()


def test_many_slots_are_sorted_in_two_passes_where_there_are_counters():
    drawn = np.random.default_rng(3).permutation(1 << 12).astype(np.int32)
    assert (_sorted(drawn, drawn / 7.0, 17, TWO_PASSES)[2] >= 0).sum() == 2 << 9
    assert (_sorted(drawn, drawn / 7.0, 17, 256)[2] >= 0).sum() == 256
    few = drawn[:50]
    assert (_sorted(few, few / 7.0, 17, TWO_PASSES)[2] >= 0).sum() == 256


def test_lists_of_positions_are_joined_under_the_numbers_they_are_given():
    """Position 0 is list 2 and so on; runs of hits for one message are apart, and a slot found twice counts once."""
    found = np.array([7, 3, 7, 9], np.int32)
    starts = np.array([[0, 2, 2, 2], [2, 3, 3, 4]], np.int64)
    message = np.array([1, 1, 0, 1, 2], np.int32)
    slot, score = np.array([8, 5, 4, 6, 1], np.int32), np.array([0.8, 0.5, 0.4, 0.6, 0.1])
    list_of, begin = np.array([2, 0, 1], np.int32), np.empty(4, np.int64)
    out, scores, spare = np.empty(9, np.int32), np.empty(9), (np.empty(9, np.int32), np.empty(9))
    counters = np.empty(256, np.int64)
    total = merge_hits(found, starts, slot, score, message, list_of, begin, 4, *spare, counters, out, scores)
    assert begin.tolist() == [0, 3, 5, 8]
    assert out[:total].tolist() == [5, 6, 8, 1, 9, 3, 4, 7]
    assert scores[:total].tolist() == [0.5, 0.6, 0.8, 0.1, 1.0, 1.0, 0.4, 1.0]
