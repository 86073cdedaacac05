"""What the named cases of top-k subscriptions share: short ways to say one, and to ask an index about it."""

from contract.naive import Naive, as_pairs
from nearcast.geo import Box
from nearcast.model import Similar, TopK
from nearcast.query import parse
from nearcast.testing import check_index

#: Enough for several cells, groups and segments in small variants; none of them has a word of the cases.
FILLER = [
    TopK(0, place=(i % 10, i // 10), terms=(f"filler{i % 7}", f"more{i % 3}"), text_weight=i / 40, max_distance=3.0 + i)
    for i in range(40)
]
SIMILAR_FILLER = [
    Similar(0, place=(i % 5, i // 5), terms=("filler1",), threshold=0.7, max_distance=3.0) for i in range(10)
]
WITHIN_FILLER = [(parse(f"filler{i % 7}"), Box(i % 10, i // 10, i % 10 + 1, i // 10 + 1)) for i in range(10)]


def best(words="a", **given):
    """Return a subscription at the origin to which text and place count alike, unless told otherwise."""
    usual = {"place": (0.0, 0.0), "text_weight": 0.5, "max_distance": 10.0}
    return TopK(0, terms=tuple(words.split()), **(usual | given))


def others(index):
    """Return what is put in before: all kinds that the index matches."""
    kinds = index.info.kinds
    return [*FILLER, *(SIMILAR_FILLER if "similar" in kinds else []), *(WITHIN_FILLER if "within" in kinds else [])]


def filled(index, wanted, thresholds=None, weights=None):
    """Put subscriptions among others into an index and into plain Python; return the latter and the slots."""
    naive = Naive(index.index.space)
    before = others(index.index)
    slots = list(range(len(before), len(before) + len(wanted)))
    for each in (index, naive):
        each.reweigh(weights or {})
        each.insert(before)
        assert slots == each.insert(wanted)
        each.insert(FILLER)
        if thresholds is not None:
            each.set_thresholds(slots, thresholds)
    return naive, slots


def agree(index, naive, said):
    """Check that an index answers as plain Python, before merging and after, in one batch and alone; return it."""
    expected = naive.match(said)
    assert expected == as_pairs(index.match(said))
    index.settle()
    assert expected == as_pairs(index.match(said))
    assert expected == [as_pairs(index.match([each]))[0] for each in said]
    check_index(index.index)
    return expected


def reached(index, wanted, said, thresholds=None, weights=None):
    """Return the scores of each message by subscription; slots count from 0."""
    naive, slots = filled(index, wanted, thresholds, weights)
    expected = agree(index, naive, said)
    return [{slot - slots[0]: score for slot, score in found if slot in slots} for found in expected]
