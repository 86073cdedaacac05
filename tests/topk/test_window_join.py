"""Joining many queries with the window: groups that share a word find what each query finds by itself."""

import random
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_window import SPACES, World, same

from nearcast import Hub, TopK, Vocabulary
from nearcast.topk.window import answers, segmented_index
from nearcast.topk.window.blocks import BlockIndex, group_lanes, join, planned_queries
from nearcast.topk.window.blocks.lists import BLOCKS
from nearcast.topk.window.blocks.search import bound_of
from nearcast.topk.window.word_plan import new_plan
from support.torn import Tracer, look, rows

pytestmark = pytest.mark.modes


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Join even a few queries, in several slices, and call kernels for a few groups."""
    monkeypatch.setattr(BlockIndex, "JOINED_FROM", 2)
    monkeypatch.setattr(segmented_index, "join_slice", lambda _: 8)
    monkeypatch.setattr(join, "_GROUPS", 3)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 2**32 - 1), space=st.sampled_from(sorted(SPACES)), by_time=st.booleans())
def test_a_join_is_a_search_for_each(seed, space, by_time):
    """Whatever happened to the window before, and from whatever score on: the same rows, scores and order as `scan`."""
    world = World(seed, SPACES[space], by_time=by_time, names=("scan", "blocks"))
    world.append()
    for _ in range(3):
        happens = world.random.choice(["append", "append", "drop", "reweigh", "add_words", "renumber", "roll_back"])
        getattr(world, happens)()
    asked, alive, n = world.asked(20), world.alive(), world.random.integers(0, 12, 20).astype(np.int32)
    expected = world.indexes["scan"].best(asked, n, alive)
    same(expected, *(world.indexes["blocks"].best(asked, n, alive, threads) for threads in (1, 3)))
    floor = world.random.choice([-1.0, 0.2, 0.5, 1.0], 20)
    found = world.indexes["blocks"].best_above(asked, n, floor, alive)
    for i in range(20):
        rows = slice(expected.start[i], expected.start[i + 1])
        enough = expected.score[rows] >= floor[i]
        assert expected.row[rows][enough].tolist() == found.row[found.start[i] : found.start[i + 1]].tolist()


def test_more_queries_of_one_word_than_lanes(monkeypatch):
    """Those that do not fit into a group make the next; none is left out."""
    monkeypatch.setattr(join, "LANES", 4)
    monkeypatch.setattr(segmented_index, "join_slice", lambda _: 64)
    world = World(5, SPACES["plane"], names=("scan", "blocks"))
    for _ in range(6):
        world.append()
    asked, n = world.asked(50), np.full(50, 7, np.int32)
    same(*world.each("best", asked, n, world.alive()))


def test_a_full_group_looks_for_messages_with_two_words(monkeypatch):
    """All lanes of a group at once, those of the highest bits, too."""
    monkeypatch.setattr(segmented_index, "join_slice", lambda _: 64)
    told = []
    for index in ("scan:messages=scan", "trigger"):
        hub = Hub("plane", index=index, window=300, max_distance=10)
        for i in range(300):
            hub.publish({"id": i, "text": "tea soup" if i % 50 == 7 else "tea", "x": float(i % 9), "y": float(i % 5)})
        hub.subscribe_many([TopK(i, "tea soup", (i % 9, i % 4), k=2, text_weight=0.1 + i / 80) for i in range(64)])
        told.append([list(hub.current(i)) for i in range(64)])
    assert told[0] == told[1]


@pytest.mark.parametrize("far", [1e-305, 1e-290])
def test_a_reach_as_small_as_a_number_can_be(far):
    """What waits is compared by its score up to rounding, also where a unit of distance takes off more than is held."""
    told = []
    for index in ("scan:messages=scan", "trigger"):
        hub = Hub("plane", index=index, window=400, max_distance=far)
        for i in range(400):
            text, x = ("soup rain", far / 2) if i == 77 else ("soup", far * 100)
            hub.publish({"id": i, "text": text, "x": x, "y": 0.0})
        hub.subscribe_many([TopK(i, "soup", (0.0, 0.0), k=1, text_weight=0.45) for i in range(9)])
        told.append([list(hub.current(i)) for i in range(9)])
    assert told[0] == told[1]


def hub_of(rng, index):
    hub = Hub("plane", index=index, window=40, max_distance=10)
    words = ["tea", "ramen", "beer", "soup", "jazz", "rain"]
    for i in range(60):
        text = " ".join(rng.choices(words, k=rng.randint(1, 4)))
        hub.publish({"id": i, "text": text, "x": float(rng.randint(-3, 3)), "y": float(rng.randint(-3, 3))})
    wanted = [
        TopK(i, " ".join(rng.sample(words, 3)), (rng.randint(-3, 3), 0), k=3, text_weight=rng.choice([0.0, 0.4, 1.0]))
        for i in range(30)
    ]
    return hub, wanted


def test_a_join_interrupted_anywhere_changes_nothing():
    """`subscribe_many` cut short in a join, in two threads, was not made; made again it finds the same."""
    twin, wanted = hub_of(random.Random(8), "trigger")
    counted = Tracer()
    counted.run(lambda: twin.subscribe_many(wanted, threads=2))
    before, expected = look(hub_of(random.Random(8), "trigger")[0], range(30)), rows(twin.poll())
    after, n, undone = look(twin, range(30)), counted.n_events, 0
    for at in range(n // 6, n, n // 6):
        hub, _ = hub_of(random.Random(8), "trigger")
        Tracer(at).run(lambda hub=hub: hub.subscribe_many(wanted, threads=2))
        found = look(hub, range(30))
        if found["ids"]:
            assert after == found
            continue
        undone += 1
        assert before == found
        hub.subscribe_many(wanted)
        assert [each | {"step": 0} for each in expected] == [each | {"step": 0} for each in rows(hub.poll())]
    assert undone > 1


def test_subscribing_and_a_new_vocabulary_join(monkeypatch, tmp_path):
    """`subscribe_many`, a new vocabulary and a hub that was saved and opened deliver by a join what `scan` finds."""
    joined = []
    answer = join.WindowJoin.answer
    monkeypatch.setattr(join.WindowJoin, "answer", lambda self, *rest: joined.append(1) or answer(self, *rest))
    told = []
    for index in ("scan:messages=scan", "trigger"):
        hub, wanted = hub_of(random.Random(7), index)
        hub.subscribe_many(wanted)
        told.append([list(hub.poll())])
        n_joined = len(joined)
        vocabulary = Vocabulary()
        vocabulary.learn_tokens([["tea"], ["tea", "soup"], ["jazz"], ["rain", "tea"]])
        hub.save(tmp_path / index[:5])
        hub = Hub.open(tmp_path / index[:5])
        told[-1] += [list(hub.use_vocabulary(vocabulary)), [list(hub.current(i)) for i in range(30)]]
    assert told[0] == told[1]
    assert 0 < n_joined < len(joined)


def test_a_slice_of_a_join_has_fewer_queries_the_more_each_keeps():
    """At 40 bytes a message: a thousand kept by each of 32,768 would take 1.3 GB a thread."""
    assert [answers.JOIN_SLICE] * 2 == [answers.join_slice(keep) for keep in (1, 64)]
    assert all(40 * keep * answers.join_slice(keep) <= 350e6 for keep in range(1, 1025))


@pytest.mark.parametrize("unit", [1e-170, 1.0, 1e170])
def test_distances_whose_squares_are_no_numbers(unit):
    """On a plane of atoms or of galaxies a bound falls back to `hypot`: the squares are 0 or infinite."""
    told = []
    for index in ("scan:messages=scan", "trigger"):
        rng = random.Random(3)
        hub = Hub("plane", index=index, window=300, max_distance=9 * unit)
        for i in range(300):
            hub.publish({"id": i, "text": "tea", "x": unit * rng.uniform(-9, 9), "y": unit * rng.uniform(-9, 9)})
        hub.subscribe_many([TopK(i, "tea", (unit * rng.uniform(-9, 9), 0.0), k=3, text_weight=0.1) for i in range(9)])
        told.append([list(hub.current(i)) for i in range(9)])
    assert told[0] == told[1]


def test_who_has_enough_takes_no_part_in_further_words(monkeypatch):
    """A query whose rarest word has filled it with better messages than its other words can give is left out."""
    hopeful = []
    of_word = join.WindowJoin._unfinished_queries
    monkeypatch.setattr(
        join.WindowJoin,
        "_unfinished_queries",
        lambda self, planned, nth: hopeful.append(of_word(self, planned, nth)) or hopeful[-1],
    )
    vocabulary, told = Vocabulary(), []
    vocabulary.learn_tokens([["tea"]] * 50 + [["ramen"]])
    for index in ("scan:messages=scan", "trigger"):
        hub = Hub("plane", index=index, window=400, max_distance=10, vocabulary=vocabulary)
        for i in range(400):
            hub.publish({"id": i, "text": "ramen" if i % 2 else f"tea w{i}", "x": float(i % 7), "y": 0.0})
        hub.subscribe_many([TopK(i, "ramen tea", (float(i % 7), 0.0), k=2, text_weight=0.9) for i in range(20)])
        told.append([list(hub.current(i)) for i in range(20)])
    assert told[0] == told[1]
    assert {0, 8} <= {len(some) for some in hopeful}


@pytest.mark.parametrize("repeated", ["tea tea tea", "soup soup soup soup tea", "tea tea soup rain"])
def test_a_message_that_says_a_word_more_than_once(repeated):
    """Its words weigh more than one saying of each would: bits of words alone must not rule it out."""
    vocabulary, told = Vocabulary(), []
    vocabulary.learn_tokens([["soup"]] * 9 + [["tea"]] * 3 + [["rain"]] * 30)
    for index in ("scan:messages=scan", "trigger"):
        hub = Hub("plane", index=index, window=600, max_distance=10, vocabulary=vocabulary)
        for i in range(600):
            text = repeated if i % 97 == 0 else ("tea rain rain rain" if i % 2 else "tea rain")
            hub.publish({"id": i, "text": text, "x": float(i % 9), "y": float(i % 5)})
        hub.subscribe_many([TopK(i, "tea soup", (float(i % 9), 1.0), k=4, text_weight=0.95) for i in range(20)])
        told.append([list(hub.current(i)) for i in range(20)])
    assert told[0] == told[1]
    assert all(best[0].message_id % 97 == 0 for best in told[0])


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 2**32 - 1), space=st.sampled_from(["earth", "plane"]))
def test_lanes_have_the_bounds_of_a_single_search(seed, space):
    """Computed for all lanes at once, and no less than what a message of the group scores."""
    world = World(seed, SPACES[space], names=("scan", "blocks"))
    for _ in range(4):
        world.append()
    index, asked = world.indexes["blocks"], world.asked(10).for_kernels()
    index.refresh()
    request = index._request(asked, np.full(10, 3), np.full(10, -1.0), world.alive())
    lists, is_earth = index._as_read()[2], SPACES[space].is_earth
    planned = planned_queries.new_planned(np.arange(10), np.diff(asked.word_start), request.keep)
    planned_queries.plan_queries(request, lists, planned, new_plan(8))
    members = np.flatnonzero(planned.n_words > 0)
    lanes = group_lanes.new_lanes(world.weight.size + 2, 8, 3, len(lists.block_summary))
    n_lanes = group_lanes.board(request, planned, 0, members, 0, len(members), lanes)
    begins = lists.segment[:, BLOCKS].tolist()  # one more than it has ends a segment
    for block in chain.from_iterable(range(first, end - 1) for first, end in pairwise(begins)):
        group_lanes.fill_bounds(lanes.fact, n_lanes, lists.block_summary, block, is_earth)
        for lane, n in enumerate(members):
            at, y, far = planned.start[n], asked.point[n, 1], asked.max_distance[n]
            bound = bound_of(
                lists.block_summary,
                block,
                planned.unit[at],
                planned.rest[at],
                planned.most[at],
                asked.point[n, 0],
                y,
                max(np.cos(np.radians(y)) - 1e-15, 0.0) if is_earth else 0.0,
                asked.text_weight[n],
                far,
                is_earth,
                request.alive,
            )
            if bound > -np.inf:
                assert lanes.fact[group_lanes.BOUND + lane] == pytest.approx(bound, abs=1e-10)
