"""Batches of moves: looked up once, in columns, and with nothing done again that a move leaves as it is."""

import random
from types import SimpleNamespace

import numpy as np
import pytest

from nearcast.engine import changes as engine_changes
from nearcast.pipeline.batch.changes import MOVE, groups_of
from nearcast.pipeline.batch.order import rows_in_order
from nearcast.pipeline.driver.rebalance import ask, wanted
from nearcast.pipeline.store.manifest_entries import LoadBalance
from nearcast.pipeline.store.store import Store
from nearcast.pipeline.worker import carried_moves
from nearcast.plans.trigger import TriggerPlan
from support.life_streams import LivingStream, settings_of

N = 60


def one_by_one(changes, mine, position):
    """Return the groups that going through changes row by row gives."""
    groups, seen, last = [], set(), None
    for row in mine.tolist():
        before = int(np.searchsorted(position, changes.position[row]))
        now = (changes.op[row], before, None if changes.op[row] == MOVE else changes.clock[row])
        if now != last or changes.number[row] in seen:
            groups.append([])
            seen, last = set(), now
        groups[-1].append(row)
        seen.add(changes.number[row])
    return groups


@pytest.mark.parametrize("seed", range(30))
def test_groups_are_those_that_rows_one_by_one_give(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    position = np.sort(rng.choice(3 * n, int(rng.integers(0, 4)), replace=False))
    changes = SimpleNamespace(
        op=rng.choice([0, 1, 2, 2, 2, 2, 2], n).astype(np.uint8),
        position=np.sort(rng.choice(3 * n, n, replace=False)),
        clock=np.sort(rng.integers(0, 3, n)),
        number=rng.integers(0, int(rng.choice([3, 40, 100_000])), n),
    )
    mine = np.flatnonzero(rng.random(n) < 0.8)
    found = [group.tolist() for group in groups_of(changes, mine, position)]
    assert found == one_by_one(changes, mine, position)


@pytest.mark.parametrize("seed", range(10))
def test_rows_in_order_are_sorted_as_lexsort_does(seed):
    rng = np.random.default_rng(seed)
    keys = tuple(rng.integers(0, 3, 20) for _ in range(3))
    if seed % 2:
        keys = tuple(column[np.lexsort(keys)] for column in keys)
    assert rows_in_order(keys).tolist() == np.lexsort(keys).tolist()


def subscriptions():
    rng = random.Random(3)
    return [
        {"id": id_, "query": f"w{id_ % 7}", "x": rng.uniform(0, 40), "y": rng.uniform(0, 40), "radius": 1.0}
        for id_ in range(N)
    ]


def moves(seed):
    rng = random.Random(seed)
    return [{"op": "move", "id": id_, "x": rng.uniform(0, 40), "y": rng.uniform(0, 40)} for id_ in range(N)]


@pytest.fixture
def stream(tmp_path):
    return LivingStream(tmp_path, settings_of("trigger", 2, "5s"), subscriptions())


def test_a_partition_looks_moves_up_once_for_routes_and_engine(stream, monkeypatch):
    calls = []
    for module in (engine_changes, carried_moves):
        place_rows = module.place_rows
        monkeypatch.setattr(
            module, "place_rows", lambda *given, at=module, do=place_rows: (calls.append(at), do(*given))[1]
        )
    report, _ = stream.run(0, {"changes-a": moves(1)})
    assert report.changes == N
    assert calls == [carried_moves] * 2


def test_words_that_movers_need_are_found_in_their_first_batch_alone(stream, monkeypatch):
    asked = []
    single_words = TriggerPlan.single_words
    monkeypatch.setattr(
        TriggerPlan, "single_words", lambda self, given: (asked.append(len(given)), single_words(self, given))[1]
    )
    for batch in range(3):
        stream.run(batch, {"changes-a": moves(batch)})
    assert sum(asked) == N


@pytest.mark.parametrize(
    ("n", "moves", "batches", "spread", "at_first", "is_wanted"),
    [
        (10, 200, 20, 1.3, 1.0, True),
        (10, 199, 20, 1.3, 1.0, False),
        (10, 200, 19, 1.3, 1.0, False),
        (10, 200, 20, 1.2, 1.0, False),
        (0, 200, 20, 1.3, 1.0, False),  # nobody is left to be placed
        (10, 200, 20, 1.3, 0.0, False),  # nobody knows how it was at first
    ],
)
def test_movers_are_placed_again_once_they_scattered_and_all_have_moved_often(
    tmp_path, n, moves, batches, spread, at_first, is_wanted
):
    """Not before: placing all again is dear, and must be rare beside moves."""
    manifest = SimpleNamespace(
        batch=30,
        balance=LoadBalance((1.0, 1.0), batches, moves=moves),
        counts={"subscriptions": n},
        plan=SimpleNamespace(spread=spread, spread_at_first=at_first),
        rebalance=None,
    )
    request = wanted(Store(str(tmp_path)), manifest, None)
    assert (request is not None) is is_wanted


def test_moves_are_counted_from_one_placing_to_the_next(stream):
    for batch in range(2):
        stream.run(batch, {"changes-a": moves(batch)})
    assert stream.pipeline.state.manifest.balance.moves == 2 * N
    ask(stream.store, stream.pipeline.state.manifest, None, None)
    stream.run(2, {"changes-a": moves(2)})
    assert stream.pipeline.state.manifest.balance.moves == N
