"""The default plan balances: by counts, no partition has much more of the work of top-k subscriptions than another."""

from bisect import bisect_right
from functools import cache

import numpy as np
import pytest

from nearcast import Hub
from nearcast.bench.data.distances import MaxDistance
from nearcast.bench.data.workloads import generated
from nearcast.bench.encoding import encoded
from nearcast.columns import Messages
from nearcast.geo import Box, Space
from nearcast.model import TopK
from nearcast.plans import ANY_CELL, ANY_WORD, Routes, learn, open_plan
from nearcast.plans.grid import cut_space, message_points
from nearcast.plans.measure import measure
from nearcast.plans.pieces import cut_evenly, messages_of_keys, pieces_of, shared_out
from nearcast.query import parse
from nearcast.testing.values import messages_of, subscriptions_of
from nearcast.text.words import WordTable
from nearcast.window import Window

PLANE = Space.plane()
SUBSCRIPTIONS, WINDOW, SAID = 2000, 2000, 400


class World:
    """Top-k subscriptions, the thresholds they have in a full window, and the matches of the messages behind it."""

    def __init__(self):
        made = generated(kind="topk", subscriptions=SUBSCRIPTIONS, messages=WINDOW + SAID, seed=3)
        made = MaxDistance(usual_share=1.0).applied(made)
        self.columns = encoded(made)
        hub = Hub(self.columns.space, vocabulary=self.columns.vocabulary, window=Window.of(WINDOW))
        hub.subscribe_many(made.subscriptions)
        hub.publish_many(made.messages.slice(0, WINDOW))
        ids = made.subscriptions.column("id").to_pylist()
        slots = np.array([hub._state.ids.slot(each) for each in ids], np.int32)
        self.thresholds = hub._state.topk.thresholds(slots)
        self.sample = self.columns.messages.take(np.arange(WINDOW))
        self.said = self.columns.messages.take(np.arange(WINDOW, WINDOW + SAID))
        index = self.columns.new_index("trigger")
        own = index.insert(self.columns.subscriptions)
        index.set_thresholds(own, np.ascontiguousarray(self.thresholds))
        row = np.empty(int(own.max()) + 1, np.int64)
        row[own] = np.arange(len(own))
        self.matched = row[index.match(self.said).slots]

    def plan(self, spec, partitions, thresholds):
        c = self.columns
        return learn(
            spec,
            partitions,
            c.space,
            c.words,
            c.subscriptions,
            self.sample,
            c.weights,
            thresholds=thresholds,
            window=WINDOW,
        )

    def busiest(self, spec, partitions, thresholds):
        """Return the matches of the busiest partition by the mean, and how many partitions a message goes to."""
        plan, c = self.plan(spec, partitions, thresholds), self.columns
        placement = plan.place(c.subscriptions, np.arange(SUBSCRIPTIONS), c.weights, thresholds)
        routes = Routes(partitions, plan.grid)
        routes.add(placement.keys)
        matches = np.bincount(placement.home[self.matched], minlength=partitions)
        return matches.max() / matches.mean(), len(routes.route(self.said)[1]) / SAID


world = cache(World)


@pytest.mark.parametrize(("partitions", "most"), [(8, 1.3), (32, 1.75), (128, 2.75)])
@pytest.mark.parametrize("placed", ["first", "again"])
def test_matches_are_spread_over_partitions(partitions, most, placed):
    """The busiest partition has about what it would have by number, and messages go to fewer partitions."""
    thresholds = None if placed == "first" else 0.8 * world().thresholds
    busiest, tuples = world().busiest("trigger", partitions, thresholds)
    by_number, _ = world().busiest("hash", partitions, thresholds)
    assert busiest <= most
    assert busiest <= 1.35 * by_number
    assert tuples < (0.95 if partitions == 8 else 0.8 if partitions == 32 else 0.5) * partitions


@pytest.mark.parametrize("partitions", [8, 32])
@pytest.mark.parametrize("placed", ["first", "again"])
def test_it_sends_less_than_prefix(partitions, placed):
    """What prefix sends is messages to copies, and what these find to homes."""
    thresholds = None if placed == "first" else 0.8 * world().thresholds
    c, found = world().columns, {}
    for spec in ("prefix", "trigger"):
        plan = world().plan(spec, partitions, thresholds)
        found[spec] = measure(plan, c.subscriptions, c.weights, world().said, thresholds)
    prefix, trigger = found["prefix"], found["trigger"]
    assert trigger["hops"] is None
    assert trigger["tuples"] < prefix["tuples"] + prefix["hops"]
    assert trigger["busiest"] < prefix["busiest"]


def placed(wanted, said, partitions, late=()):
    """Learn from subscriptions and messages; return the plan, and the homes of late ones if there are any."""
    words = WordTable()
    columns = subscriptions_of(wanted, PLANE, words)
    sample = messages_of([(tokens.split(), (0, 0, 0, 0)) for tokens in said], words, add_words=True)
    plan = learn("trigger", partitions, PLANE, words, columns, sample, np.ones(len(words)))
    asked = subscriptions_of(list(late or wanted), PLANE, words)
    return plan, plan.place(asked, np.arange(len(asked)), np.ones(len(words))).home


def topk(text):
    return TopK(0, place=(0.0, 0.0), terms=tuple(text.split()), max_distance=1e4)


EVERYTHING = (parse("NOT w1"), Box(-1e6, -1e6, 1e6, 1e6))


def test_a_word_that_all_need_is_cut_by_the_other_words_and_by_number():
    """Neither a word that everybody asks for nor subscriptions that are alike stay in one partition."""
    alike = [topk("coffee")] * 400
    _, home = placed(alike, ["coffee", "coffee tea"], 8)
    assert np.bincount(home, minlength=8).max() <= 60
    assert np.bincount(home, minlength=8).min() >= 40
    paired = [topk(f"coffee w{i % 16}") for i in range(400)]
    _, home = placed(paired, ["coffee"], 8)
    assert np.bincount(home, minlength=8).tolist() == [50] * 8
    assert all(len(set(home[i::16].tolist())) == 1 for i in range(16))


def test_what_was_not_there_to_learn_from_is_spread_over_all_partitions():
    """Words by their text, the same in every process; narrow subscriptions by place; the rest by number."""
    words = [topk(f"late{i}") for i in range(200)]
    plan, home = placed([], [], 4, words)
    assert np.bincount(home, minlength=4).min() > 20
    _, again = placed([], [], 4, words[::-1])
    assert home.tolist() == again.tolist()[::-1]
    everything = subscriptions_of([EVERYTHING] * 8, PLANE, plan.words)
    assert plan.place(everything, np.arange(8), np.ones(len(plan.words))).home.tolist() == [0, 1, 2, 3] * 2


def test_a_plan_that_was_saved_places_alike(tmp_path):
    """Whoever opens a plan finds the same homes, for words that came later too."""
    wanted = [topk(f"w{i % 9} v{i % 7}") for i in range(60)]
    plan, home = placed(wanted, ["w1 v2", "w3"], 5)
    plan.save(tmp_path)
    opened = open_plan(tmp_path)
    late = [*wanted, topk("new"), EVERYTHING]
    homes = []
    for each in (plan, opened):
        asked = subscriptions_of(late, PLANE, each.words)
        homes.append(each.place(asked, np.arange(len(asked)), np.ones(len(each.words))).home.tolist())
    assert homes[0] == homes[1]
    assert homes[0][:60] == home.tolist()


# --- pieces -----------------------------------------------------------------------------------------------------


@pytest.mark.modes
@pytest.mark.small
def test_pieces_are_consecutive_and_of_like_load():
    """A place finds the piece it was cut into, and no piece exceeds the mean by more than a row on each side."""
    rng = np.random.default_rng(5)
    for pieces in (1, 2, 3, 7):
        places, load = rng.integers(0, 4, (40, 3)), rng.uniform(0.5, 2.0, 40)
        places[:, 2] = rng.permutation(40)
        cuts = cut_evenly(places, load, pieces)
        found = pieces_of(places, cuts)
        rows = [tuple(row) for row in places.tolist()]
        assert [bisect_right([tuple(cut) for cut in cuts.tolist()], row) for row in rows] == found.tolist()
        held = np.bincount(found, weights=load)
        assert len(held) == pieces
        assert held.max() <= load.sum() / pieces + load.max()
    assert cut_evenly(places[:0], load[:0], 3).shape == (0, 3)


def test_partitions_are_shared_out_by_load():
    """Each of two loads has partitions of its own; one that is too small to fill one of a few has none."""
    assert shared_out((1.0, 3.0), 8) == (2, 6)
    assert shared_out((1.0, 1000.0), 8) == (0, 8)
    assert shared_out((1000.0, 1.0), 8) == (8, 0)
    assert shared_out((1.0, 1000.0), 32) == (1, 31)
    assert shared_out((0.0, 5.0), 32) == (0, 32)
    assert shared_out((5.0, 0.0), 32) == (32, 0)
    assert shared_out((5.0, 1.0), 1) == (1, 0)


def test_messages_of_keys_are_those_that_have_word_and_cell():
    """A key without word or cell counts messages with any."""
    words = WordTable()
    said = [(["a", "b"], (0, 0, 0, 0)), (["a"], (9, 9, 9, 9)), (["b", "a", "a"], (9, 9, 9, 9)), ([], (0, 0, 0, 0))]
    messages = messages_of(said, words, add_words=True)
    a, b = words.ids_of(["a", "b"], add=True).tolist()
    grid = cut_space(np.array([[0.0, 0.0], [9.0, 9.0]]), message_points(messages), 2, PLANE)
    near, far = grid.cell_of(np.array([[0.0, 0.0], [9.0, 9.0]])).tolist()
    keys = [(a, near), (a, far), (b, far), (a, ANY_CELL), (ANY_WORD, near), (ANY_WORD, ANY_CELL), (b + 1, near)]
    word, cell = np.array(keys, np.int32).T
    assert messages_of_keys(word, cell, messages, grid).tolist() == [1, 2, 1, 3, 2, 4, 0]
    assert messages_of_keys(word, cell, Messages.none(), grid).tolist() == [0] * 7
