"""What the named cases of similar subscriptions share: short ways to say one, and to ask an index about it."""

import itertools

from contract.naive import Naive, as_pairs
from nearcast.geo import Box
from nearcast.indexes import create
from nearcast.model import Similar
from nearcast.query import parse
from nearcast.testing import IndexActor, check_index

#: The least number above 0: a threshold that every message reaches whose score is not 0.
LEAST = 5e-324

#: Enough rows for several cells and segments in small variants; none of them wants a message without its words.
SCORED_FILLER = [
    Similar(0, place=(i % 10, i // 10), terms=(f"filler{i % 7}", f"more{i % 3}"), threshold=0.7, max_distance=3.0 + i)
    for i in range(40)
]
WITHIN_FILLER = [(parse(f"filler{i % 7}"), Box(i % 10, i // 10, i % 10 + 1, i // 10 + 1)) for i in range(20)]


def similar(words="a", **given):
    """Return a subscription at the origin that wants one of two words on the spot, unless told otherwise."""
    usual = {"place": (0.0, 0.0), "threshold": 0.75, "text_weight": 0.5, "max_distance": 10.0}
    return Similar(0, terms=tuple(words.split()), **(usual | given))


def reached(index, wanted, said, weights=None):
    """Return the scores of each message by subscription, put among others; slots count from 0.

    Before merging and after, in one batch and one by one, all must be as plain Python says.
    """
    before = _others(index.index)
    expected = _expected(index.index.space, before, wanted, said, weights)
    for answer in _answers(index, before, wanted, said, weights):
        assert expected == answer
    return [_by_slot(found, len(before), len(before) + len(wanted)) for found in expected]


def _others(index):
    """Return what is put in before the subscriptions asked about: all kinds that the index matches."""
    return [*SCORED_FILLER, *(WITHIN_FILLER if "within" in index.info.kinds else [])]


def _expected(space, before, wanted, said, weights):
    naive = Naive(space)
    naive.reweigh(weights or {})
    naive.insert([*before, *wanted, *SCORED_FILLER])
    return naive.match(said)


def _answers(index, before, wanted, said, weights):
    """Return what the index finds before merging, after it, and message by message."""
    index.reweigh(weights or {})
    for some in (before, wanted, SCORED_FILLER):
        index.insert(some)
    at_first = as_pairs(index.match(said))
    index.settle()
    return at_first, as_pairs(index.match(said)), [as_pairs(index.match([each]))[0] for each in said]


def _by_slot(found, first, last):
    return {slot - first: score for slot, score in found if first <= slot < last}


class Table:
    """Cases of one space, each some subscriptions and a message, asked of an index all at once: that takes a tenth.

    What a message is to the subscriptions of other cases is checked against plain Python as well.
    """

    def __init__(self, space, cases, weights=None, **options):
        self._space, self._weights, self._options = space, weights, options
        self._wanted = [each for wanted, _ in cases for each in wanted]
        self._said = [
            said for number, (_, said) in enumerate(cases) if said not in [each for _, each in cases[:number]]
        ]
        self._row = [self._said.index(said) for _, said in cases]
        self._first = [0, *itertools.accumulate(len(wanted) for wanted, _ in cases)]
        self._expected, self._answers = {}, {}

    def found(self, spec, number):
        """Return the scores that the message of a case has for the subscriptions of that case."""
        index = IndexActor(create(spec, self._space), **self._options)
        before = _others(index.index)
        if len(before) not in self._expected:
            self._expected[len(before)] = _expected(self._space, before, self._wanted, self._said, self._weights)
        if spec not in self._answers:
            self._answers[spec] = _answers(index, before, self._wanted, self._said, self._weights)
        row = self._row[number]
        expected = self._expected[len(before)][row]
        for answer in self._answers[spec]:
            assert expected == answer[row]
        first, last = self._first[number : number + 2]
        return _by_slot(expected, len(before) + first, len(before) + last)


def filled(index, wanted):
    """Put subscriptions and others into an index and into plain Python; return the latter."""
    naive = Naive(index.index.space)
    for each in (index, naive):
        assert list(range(len(wanted) + len(SCORED_FILLER))) == each.insert([*wanted, *SCORED_FILLER])
    return naive


def agree(index, naive, said):
    """Check that an index answers as plain Python does, before merging and after; return the slots."""
    expected = naive.match(said)
    assert expected == as_pairs(index.match(said))
    index.settle()
    assert expected == as_pairs(index.match(said))
    check_index(index.index)
    return [[slot for slot, _ in each] for each in expected]
