"""Routes of subscriptions that move: they lead where these are, not where they have been."""

import random

import pyarrow as pa
import pytest

from nearcast.pipeline.driver import pipeline
from nearcast.pipeline.worker.partition_keys import PartitionKeys
from support.life_streams import LivingStream, check, settings_of

N, WORDS, SIDE = 150, 4, 40.0


def message(id_, rng):
    words = f"w{rng.randrange(WORDS)} w{rng.randrange(WORDS)}"
    return {"id": id_, "text": words, "x": rng.uniform(0, SIDE), "y": rng.uniform(0, SIDE)}


class Walkers:
    """Subscriptions that walk about in a square, one step each in every batch."""

    def __init__(self):
        self.random = random.Random(4)
        self.at = {id_: [self.random.uniform(0, SIDE), self.random.uniform(0, SIDE)] for id_ in range(N)}
        self.query = {id_: f"w{self.random.randrange(WORDS)}" for id_ in range(N)}

    def subscriptions(self):
        return [{"id": id_, "query": self.query[id_], "x": x, "y": y, "radius": 1.0} for id_, (x, y) in self.at.items()]

    def moves(self):
        for id_, place in self.at.items():
            place[:] = (min(SIDE, max(0.0, each + self.random.gauss(0, 0.5))) for each in place)
            yield {"op": "move", "id": id_, "x": place[0], "y": place[1]}


def test_after_everybody_moved_for_forty_batches_routes_are_almost_those_of_a_fresh_plan(tmp_path, monkeypatch):
    """Messages go to at most 1.5 times as many partitions; what counts is tuples, not time."""
    monkeypatch.setattr(pipeline, "FEW_KEYS", 8)
    walkers, settings = Walkers(), settings_of("trigger", 3, None)
    messages = {"messages-a": [message(at, random.Random(at)) for at in range(300)]}
    sample = pa.Table.from_pylist(messages["messages-a"])
    for name in ("old", "fresh"):
        (tmp_path / name).mkdir()
    first = walkers.subscriptions()
    stream = LivingStream(tmp_path / "old", settings, first, sample=sample)
    stream.run(0, messages)  # for a plan to be learned from
    for batch in range(1, 41):
        stream.run(batch, {"changes-a": list(walkers.moves())})
        plan, held = stream.pipeline.state.manifest.plan, stream.pipeline.state.router.routes.counts()
        assert all(n <= pipeline.SPARE_KEYS * needed + 8 for n, needed in zip(held, plan.needed, strict=True))
    report, _ = stream.run(41, messages)
    fresh = LivingStream(tmp_path / "fresh", settings, walkers.subscriptions(), sample=sample)
    expected, _ = fresh.run(0, messages)
    assert report.deliveries == expected.deliveries
    assert 0 < report.tuples <= 1.5 * expected.tuples


@pytest.mark.parametrize(("window", "lifetime"), [("5s", None), (6, "expires")])
def test_routes_that_shrink_in_every_batch_lose_no_message(tmp_path, monkeypatch, window, lifetime):
    """All kinds, moves to points and regions, replacements, vocabularies, and drivers that are killed."""
    monkeypatch.setattr(pipeline, "FEW_KEYS", 0)
    monkeypatch.setattr(pipeline, "SPARE_KEYS", 1.0)
    settings = settings_of("trigger", 3, lifetime, window=window)
    stream, _ = check(tmp_path, 6, settings, batches=6, faults=0.2, reweigh=0.2)
    assert len(stream.pipeline.state.router.routes)


@pytest.mark.parametrize("case", ["all move", "one stays", "one may be noise", "one is gone"])
def test_keys_of_moves_stand_for_those_of_all_where_everybody_moves(tmp_path, monkeypatch, case):
    """They are not worked out again, and are those of the places after the batch; else they are."""
    monkeypatch.setattr(pipeline, "FEW_KEYS", 0)
    monkeypatch.setattr(pipeline, "SPARE_KEYS", 0.0)
    again = []
    of_slots, of_all = PartitionKeys.of_slots, PartitionKeys.of_all

    def noted(keys, slots):
        again.append(len(slots))
        return of_slots(keys, slots)

    def compared(keys):
        found, expected = of_all(keys), of_slots(keys, keys._at_home())
        assert [column.tolist() for column in expected] == [column.tolist() for column in found]
        return found

    monkeypatch.setattr(PartitionKeys, "of_slots", noted)
    monkeypatch.setattr(PartitionKeys, "of_all", compared)
    walkers = Walkers()
    rows = walkers.subscriptions()
    if case == "one may be noise":
        rows[0]["min_move"] = SIDE
    stream = LivingStream(tmp_path, settings_of("trigger", 3, None), rows)
    moves = list(walkers.moves())
    if case == "one stays":
        moves = moves[1:]
    elif case == "one is gone":
        moves[0] = {"op": "unsubscribe", "id": moves[0]["id"]}
    stream.run(0, {"changes-a": moves})
    assert len(again) == (0 if case == "all move" else 1)
