"""Slots are sorted with their scores along, each once."""

import numpy as np
import pytest

from nearcast.indexes.shared.gather import merge_hits, sort_found

#: Bits of the slots, and how many there are: insertion, and an odd and an even number of digits.
SIZES = [(1, 1), (5, 31), (10, 40), (11, 700), (17, 3000), (24, 1500), (25, 3000), (30, 3000)]


@pytest.mark.parametrize(("n_bits", "n"), SIZES)
def test_pairs_come_in_order_of_slots_each_once(n_bits, n):
    slots = np.random.default_rng(n_bits * n).integers(0, 1 << n_bits, n).astype(np.int32)
    slots[0] = (1 << n_bits) - 1
    expected, scores = np.unique(slots), slots / 7.0
    kept = sort_found(slots, scores, n, n_bits, np.empty(n, np.int32), np.empty(n), np.empty(256, np.int64))
    assert slots[:kept].tolist() == expected.tolist()
    assert scores[:kept].tolist() == (expected / 7.0).tolist()


def test_hits_of_messages_are_joined():
    """Hits for one message are apart, and a slot found twice counts once."""
    message = np.array([1, 1, 0, 1, 2, 1], np.int32)
    slot, score = np.array([8, 5, 4, 6, 1, 5], np.int32), np.array([0.8, 0.5, 0.4, 0.6, 0.1, 0.5])
    out, scores, begin = np.empty(6, np.int32), np.empty(6), np.empty(4, np.int64)
    spare = (np.empty(6, np.int32), np.empty(6))
    total = merge_hits(slot, score, message, begin, 4, *spare, np.empty(256, np.int64), out, scores)
    assert begin.tolist() == [0, 1, 4, 5]
    assert out[:total].tolist() == [4, 5, 6, 8, 1]
    assert scores[:total].tolist() == [0.4, 0.5, 0.6, 0.8, 0.1]
