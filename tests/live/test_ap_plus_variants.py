"""The stores `ap+k-tree` and `ap+s-tree` by their lists; calls of these and of `ap+-tree` that are cut short."""

import random

import numpy as np
import pytest

from contract.worlds import PLANE, point
from nearcast import Box, Hub, Within
from nearcast.engine import upkeep
from nearcast.indexes import available, create
from nearcast.indexes.papers.ap_plus_tree.layout import COUNT_HELD
from nearcast.live import stored
from nearcast.live.papers.cell_postings import _EVERYWHERE, _list_of
from nearcast.live.registry import store_name
from nearcast.query import parse
from support import torn
from support.live_model import LiveModel

pytestmark = [pytest.mark.modes, pytest.mark.papers]

NAMES = ["ap+-tree", "ap+k-tree", "ap+s-tree"]
NEVER = 1000


def test_each_has_the_store_of_its_name():
    """It is the default of that index, and no other index takes it."""
    options = {info.name: info.options["live"] for info in available()}
    assert NAMES == [options[name] for name in NAMES]
    for name in NAMES:
        assert name == store_name("", create(name, PLANE))
        with pytest.raises(ValueError, match="no live store"):
            store_name(name, create("trigger", PLANE))


# --- posting lists ------------------------------------------------------------------------------------------------


def filled(name):
    """Return a store with messages over a square: all say tea, those to the left milk, and one in 16 honey."""
    model = LiveModel(name, PLANE)
    said = []
    for x in range(16):
        for y in range(16):
            words = ("tea", *(("milk",) if x < 8 else ()), *(("honey",) if (x * 16 + y) % 16 == 3 else ()))
            said.append((words, point(float(x), float(y))))
    model.append(said, [NEVER] * len(said))
    return model


def n_candidates(model, query, before, after):
    """Return how many messages the lists name for a move, which is checked."""
    postings, found = model.store._postings, []
    candidates = postings.candidates
    postings.candidates = lambda *given, **named: found.append(candidates(*given, **named)) or found[-1]
    model.moved([(parse(query), before)], [after])
    postings.candidates = candidates
    return sum(len(row) for _, row in found)


@pytest.mark.parametrize("name", NAMES[1:])
def test_only_cells_that_are_cut_otherwise_are_read(name):
    """Of a wide region that goes a little, the border alone."""
    model = filled(name)
    assert 32 == n_candidates(model, "tea", Box(-0.5, -5, 5.5, 20), Box(1.5, -5, 5.5, 20))
    assert 0 == n_candidates(model, "coffee", Box(-0.5, -5, 5.5, 20), Box(1.5, -5, 5.5, 20))


def test_words_first_takes_the_rarest_word_of_all():
    """Honey is rarer than milk among all messages, so its lists are read, also where there is no milk."""
    model = filled("ap+k-tree")
    assert 16 == n_candidates(model, "milk honey", Box(50, 50, 51, 51), Box(-1, -1, 16, 16))


def test_space_first_takes_the_rarest_word_of_each_cell():
    """Where there is no milk nothing is read."""
    model = filled("ap+s-tree")
    assert 8 == n_candidates(model, "milk honey", Box(50, 50, 51, 51), Box(-1, -1, 16, 16))


@pytest.mark.parametrize("name", NAMES[1:])
def test_clauses_without_words_have_a_list(name):
    """NOT alone needs no word: all messages of a cell are candidates."""
    model = filled(name)
    assert 256 == n_candidates(model, "NOT milk", Box(50, 50, 51, 51), Box(-1, -1, 16, 16))


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_wide_message_is_in_one_list(name):
    """One over the whole grid is in the cell that is everywhere, and is found wherever it is met."""
    model = filled(name)
    model.append([(("tea", "wide"), (0.0, 0.0, 15.0, 15.0))], [NEVER])
    arrays = model.store._postings._arrays
    word = int(model.store.word_table.ids_of(["wide"], add=False)[0])
    assert 1 == arrays.lists.held[_list_of(arrays, word, _EVERYWHERE), COUNT_HELD]
    assert 1 == n_candidates(model, "wide", Box(50, 50, 51, 51), Box(3, 3, 4, 4))


@pytest.mark.parametrize("name", NAMES[1:])
def test_the_grid_is_laid_anew_for_twice_as_many(name):
    """Messages far away come: they are not all in its last cell for ever. The dead are filed no more."""
    model = filled(name)
    lines = model.store._postings._arrays.x_line
    model.append([(("tea", f"w{i}"), point(1000.0 + i, 0.0)) for i in range(900)], [5] * 899 + [NEVER])
    assert lines[-1] < model.store._postings._arrays.x_line[-1]
    model.drop(5)
    assert 1 == n_candidates(model, "tea", Box(990, -1, 999, 1), Box(990, -1, 2000, 1))
    assert model.store.stats()["bytes"] > 100_000


# --- calls that are cut short -------------------------------------------------------------------------------------


class DeepTracer(torn.Tracer):
    """Raises inside calls of an index as well."""

    def _begun(self, frame, event, argument):
        if not torn._is_interruptible(frame.f_code):
            return None
        return self._inside


def torn_model(name):
    """Return a store and its index, with messages that are filed and some that are not."""
    model, index = LiveModel(name, PLANE), create(f"{name}:fan_out=4,leaf=1", PLANE)
    model.store.use_index(index)
    index.insert(model.columns([(parse(word), Box(x, 0, x + 1, 1)) for x in range(3) for word in ("tea", "milk")]))
    said = [(("tea", "milk", f"w{x}"), point(float(x), 0.5)) for x in range(4)]
    model.append(said, [NEVER] * 4)
    ask(model)()
    index.insert(model.columns([(parse("milk new"), Box(x, 0, x + 1, 1)) for x in range(3)]))
    model.append(said[:2], [NEVER] * 2)
    return model


def ask(model):
    columns = model.columns([(parse("tea"), Box(0, 0, 1, 1)), (parse("milk OR new"), None)])
    weights, now = model._weights().from_term(0), np.zeros(len(columns), np.int64)
    return lambda: model.store.relevant(columns, weights, now)


def arrive(model):
    encoded = model._encoded([(("more", "tea", "new"), point(1.0, 0.5))])
    return lambda: model.store.append(encoded, np.array([99]), np.array([NEVER]))


def look(model):
    return [column.tolist() for column in ask(model)()], len(model.store)


@pytest.mark.parametrize(("name", "call"), [("ap+-tree", ask), ("ap+k-tree", arrive)], ids=["ask", "append"])
def test_torn_call_is_done_or_not_begun(name, call):
    """Whatever line is the last: the same messages are found as before the call, or as after it."""
    model = torn_model(name)
    whole, before = call(model), look(torn_model(name))
    whole()
    after, counted = look(model), DeepTracer()
    assert counted.run(call(torn_model(name)))[0]
    for at in range(1, counted.n_events + 1, 1 + counted.n_events // 30):
        model, tracer = torn_model(name), DeepTracer(at)
        tracer.run(call(model))
        assert look(model) in (before, after), tracer.places


# --- hubs -----------------------------------------------------------------------------------------------------------


class HubPair:
    """A hub and its twin, which tries every message; what they tell is the same."""

    def __init__(self, spec):
        twin = Hub("plane", index="scan", live="scan", lifetime="8s")
        self.hubs, self.n_told = [Hub("plane", index=spec, lifetime="8s"), twin], 0

    def both(self, verb, *given):
        """Call a method of both."""
        told = []
        for hub in self.hubs:
            found = getattr(hub, verb)(*given)
            found = hub.poll() if verb in ("subscribe", "unsubscribe") else found
            told.append([(each.subscription_id, each.message_id, each.change) for each in found])
        assert told[1] == told[0]
        self.n_told += len(told[0])


@pytest.mark.parametrize("name", NAMES)
def test_a_hub_lives_as_one_that_tries_every_message(name, monkeypatch, tmp_path):
    """Words go out of use and get other numbers, messages end, rows are dropped, all is saved and opened."""
    monkeypatch.setattr(upkeep, "SPARE_WORDS", 0)
    monkeypatch.setattr(stored, "_SPARE_ROWS", 4)
    rng, pair = random.Random(8), HubPair(f"{name}:fan_out=4,leaf=2")
    indexes = [pair.hubs[0]._state.index]
    for turn in range(50):
        words = [f"w{2 * turn + rng.randrange(6)}" for _ in range(3)]
        query = rng.choice(["{} OR {}", "{}", "{} AND NOT {}", '"{} {}"']).format(*words)
        x, y = rng.randrange(9), rng.randrange(9)
        pair.both("subscribe", Within(turn, query, Box(x, y, x + 3, y + 3)))
        if turn >= 8:
            pair.both("unsubscribe", turn - 8)
        time, places = f"2026-01-01T00:00:{turn:02d}Z", [(rng.uniform(0, 12), rng.uniform(0, 12)) for _ in range(9)]
        texts = [f"{words[i % 3]} {rng.choice(words)}" for i in range(4)]
        said = [{"id": 10 * turn + i, "text": texts[i], "x": places[i][0], "y": places[i][1]} for i in range(4)]
        pair.both("publish_many", [each | {"time": time} for each in said])
        movers = range(max(0, turn - 7), turn + 1, 2)
        pair.both("move_many", [{"id": id_, "x": x, "y": y} for id_, (x, y) in zip(movers, places[4:], strict=False)])
        if pair.hubs[0]._state.index is not indexes[-1]:
            indexes.append(pair.hubs[0]._state.index)
        if turn == 40:
            pair.hubs[0].save(tmp_path / "hub")
            pair.hubs[0] = Hub.open(tmp_path / "hub")
    assert 3 < len(indexes), "no word was forgotten"
    assert 100 < pair.n_told
