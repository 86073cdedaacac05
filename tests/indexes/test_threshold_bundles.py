"""Bundles of blocks of top-k triggers: long lists answer as `scan` does, and most of their blocks are not tried."""

import numpy as np
import pytest

from nearcast.columns import TOPK, Messages, ScoreParameters, Subscriptions
from nearcast.geo import BOX, Regions, Space
from nearcast.indexes import create, open_index
from nearcast.indexes.trigger.thresholds import batch_match, components
from nearcast.indexes.trigger.thresholds.scratch import BLOCKS_TRIED
from nearcast.similarity import TFIDF
from nearcast.testing import check_index

pytestmark = pytest.mark.modes

SPACES = pytest.mark.parametrize("space", [Space.earth(), Space.plane()], ids=["earth", "plane"])
WEIGHTS = np.array([1.0, 2.0, 3.0])
#: All have the first word: more than 16 blocks of 32.
N = 1100


def subscriptions(rng):
    words = [np.flatnonzero([True, *(rng.random(2) < 0.3)]) for _ in range(N)]
    start = np.append(0, np.cumsum([len(some) for some in words])).astype(np.int64)
    each, place = np.arange(N + 1, dtype=np.int64), rng.uniform(-50, 50, (N, 2))
    regions = Regions(
        np.full(N, BOX, np.uint8),
        each,
        np.column_stack([place, place]),
        np.full(N, -1, np.int32),
        np.empty((0, 3)),
        np.empty(0, object),
    )
    scoring = ScoreParameters(
        rng.uniform(0, 1, N), np.zeros(N), np.full(N, 1e7), np.full(N, TFIDF, np.uint8), np.full(N, 20, np.int32)
    )
    return Subscriptions.of(
        each, start, np.concatenate(words).astype(np.int32), regions, kind=np.full(N, TOPK, np.uint8), scoring=scoring
    )


def messages(rng, n):
    terms = [np.flatnonzero([True, *(rng.random(2) < 0.5)]) for _ in range(n)]
    start = np.append(0, np.cumsum([len(some) for some in terms])).astype(np.int64)
    place = rng.uniform(-50, 50, (n, 2))
    totals = np.array([(len(some), WEIGHTS[some].sum(), (WEIGHTS[some] ** 2).sum()) for some in terms])
    return Messages.of(start, np.concatenate(terms).astype(np.int32), np.column_stack([place, place]), totals=totals)


class Both:
    """The trigger index and `scan`, with the same subscriptions."""

    def __init__(self, rng, space, n=N):
        self.all, self.slots = [create("trigger", space), create("scan", space)], None
        subscribed = subscriptions(rng).take(np.arange(n))
        for index in self.all:
            index.set_weights(WEIGHTS)
            self.slots = index.insert(subscribed)
        self.all[0].settle()

    def set_thresholds(self, values):
        for index in self.all:
            index.set_thresholds(self.slots, values)

    def agree(self, asked):
        found, expected = (index.match(asked) for index in self.all)
        assert found == expected
        return found

    def blocks_tried(self, asked):
        """Return how many blocks and bundles a match tries."""
        moving = self.all[0]._moving
        moving._matcher._idle.clear()
        self.agree(asked)
        (scratch,) = moving._matcher._idle
        return int(scratch.tally[BLOCKS_TRIED])

    def lists(self):
        (component,) = self.all[0]._moving._components.values()
        return component.lists


@SPACES
def test_thresholds_rise_and_fall_in_bundles(space):
    """Answers are those of `scan`, and every bundle bounds its blocks, while thresholds of all heights come and go."""
    rng = np.random.default_rng(3)
    both = Both(rng, space)
    assert len(both.lists().bundles.steep) > 1
    for height in (0.9, 0.2, 1.5, 0.6):
        both.set_thresholds(rng.uniform(0.5 * height, height, N))
        assert len(both.agree(messages(rng, 3)).slots) or height > 0.9
        check_index(both.all[0])


def test_blocks_of_bundles_out_of_reach_are_not_tried():
    """Where thresholds are out of reach only bundles are tried, once a few messages have searched in vain."""
    rng = np.random.default_rng(4)
    both = Both(rng, Space.plane())
    asked, lists = messages(rng, 1), both.lists()
    assert both.blocks_tried(asked) > len(lists.blocks.steep) / 2
    both.set_thresholds(np.full(N, 1.9))
    for _ in range(3):
        both.agree(messages(rng, 2))
    words = asked.terms_of(0).tolist()
    numbers = [int(lists.number[np.flatnonzero(lists.key == term)[0]]) for term in words]
    has_none = np.diff(lists.first_bundle) == 0
    fewest = np.where(has_none, np.diff(lists.first_block), np.diff(lists.first_bundle))[numbers].sum()
    assert both.blocks_tried(asked) == fewest
    check_index(both.all[0])


def test_bundles_are_made_anew_when_opened(tmp_path):
    """What is saved has no bundles, so that stores saved without them can be opened; what is opened has them."""
    rng = np.random.default_rng(5)
    both = Both(rng, Space.plane())
    both.set_thresholds(rng.uniform(0.3, 0.9, N))
    before = both.lists()
    both.all[0].save(tmp_path / "saved")
    assert not [path for path in (tmp_path / "saved").rglob("*.npy") if "bundle" in path.name]
    both.all[0] = open_index(tmp_path / "saved")
    np.testing.assert_array_equal(both.lists().first_bundle, before.first_bundle)
    assert len(both.lists().bundles.steep) == len(before.bundles.steep) > 0
    check_index(both.all[0])
    both.agree(messages(rng, 3))
    both.set_thresholds(np.zeros(N))
    both.agree(messages(rng, 3))
    check_index(both.all[0])


@pytest.mark.parametrize("n", [N, 40], ids=["lists", "delta"])
def test_candidates_that_outgrow_their_room(monkeypatch, n):
    """Where there are too many candidates, fewer messages are searched for at a time; answers and counts stay."""
    rng = np.random.default_rng(6)
    both = Both(rng, Space.plane(), n)
    asked = messages(rng, 9)
    at_once = both.agree(asked)
    monkeypatch.setattr(components, "MOST_CANDIDATES", 2 * n)
    monkeypatch.setattr(batch_match, "_FIRST_ROOM", 1)
    both.all[0]._moving._matcher._idle.clear()
    in_parts = both.agree(asked)
    assert (at_once.candidates, at_once.verified) == (in_parts.candidates, in_parts.verified)
    assert len(in_parts.slots) > 4 * n
