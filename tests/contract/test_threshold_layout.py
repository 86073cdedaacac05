"""Lists of top-k rows are laid out again when a search has given thresholds to rows that were new."""

import pytest

from contract.naive import Naive
from contract.topk import agree, best
from contract.worlds import PLANE, point
from nearcast.indexes import create
from nearcast.indexes.trigger.thresholds import part
from nearcast.testing import IndexActor


@pytest.mark.modes
def test_new_rows_are_laid_out_by_their_thresholds(monkeypatch):
    """They are once, when enough rows have one, and nothing is found otherwise than before."""
    monkeypatch.setattr(part, "_LAID_OUT_AGAIN", 50)
    index, naive = IndexActor(create("trigger:delta_rows=8", PLANE)), Naive(PLANE)
    wanted = [best("a b" if i % 2 else "a", place=(i % 9, i % 4)) for i in range(60)]
    thresholds = [(i * 13 % 20 + 1) / 24 for i in range(60)]
    said = [(["a"], point(3, 1)), (["a", "b", "x"], point(30, 0)), (["b"], point(8, 3))]
    slots, _ = (each.insert(wanted) for each in (index, naive))
    index.settle()
    assert 0 == index.index.stats()["topk_merges"]
    for first, last, merges in ((0, 7, 0), (7, 60, 1), (0, 60, 1)):
        for each in (index, naive):
            each.set_thresholds(slots[first:last], thresholds[first:last])
        agree(index, naive, said)
        assert merges == index.index.stats()["topk_merges"]
