"""Calls of a live store that are cut short anywhere: it is then as before the call, or as after it."""

import numpy as np
import pytest

from nearcast.geo import Box, Space
from nearcast.live import stored
from nearcast.live.cells.store import CellLiveStore
from nearcast.query import parse
from nearcast.text.words import WordTable
from support.live_model import GivenWeights, LiveModel
from support.torn import Tracer

#: At how many of the lines of a call, at most, it is cut short.
TRIES = 80
WANTED = [(parse("ramen"), Box(0, 0, 9, 9)), (parse("soup OR more"), None), (parse('"ramen soup"'), None)]
OTHER_TERMS = WordTable()
OTHER_TERMS.ids_of(["soup", "not", "ramen"], add=True)


def new_model():
    """Return a store that has filed some messages and is to file more."""
    model = LiveModel("cells", Space.plane())
    said = [(("ramen", "soup", f"w{x}"), (float(x), 0.0, float(x), 0.0)) for x in range(5)]
    model.append(said, [5, 1000, 5, 1000, 5])
    ask(model)()
    model.append(said[:2], [1000] * 2)
    return model


# Each takes a model and returns the call that is to be cut short, with all it needs at hand.


def ask(model):
    """Words that may be new, and messages that are not filed yet."""
    columns = model.columns([*WANTED, (parse("never said before"), None)])
    weights, now = model._weights().from_term(0), np.zeros(len(columns), np.int64)
    return lambda: model.store.relevant(columns, weights, now)


def arrive(model):
    encoded = model._encoded([(("more", "ramen", "new"), (1.0, 1.0, 1.0, 1.0))])
    return lambda: model.store.append(encoded, np.array([99]), np.array([1000]))


def forget(model):
    model.store.drop(5)
    return model.store.tidy


CALLS = {
    "append": arrive,
    "ask": ask,
    "drop": lambda model: lambda: model.store.drop(5),
    "tidy": forget,
    "reweigh": lambda model: lambda: model.store.reweigh(GivenWeights(model.terms, {"soup": 2.0})),
    "other terms": lambda model: lambda: model.store.use_terms(OTHER_TERMS),
    "rewind": lambda model: lambda: model.store.rewind(model.store.mark()),
}


def look(model):
    """Return all that can be seen of a store, with the terms that it goes by."""
    model.terms = model.store._state.words.known
    table = model.store._rows()
    return (
        [column.tolist() for column in ask(model)()],
        model.store.expired(500).tolist(),
        len(model.store),
        table.total[table.expires > model.store._state.now].tolist(),
    )


@pytest.mark.parametrize("call", CALLS)
def test_torn_call_is_done_or_not_begun(call, monkeypatch):
    monkeypatch.setattr(CellLiveStore, "unfiled_rows", 0)
    monkeypatch.setattr(stored, "_SPARE_ROWS", -100)
    monkeypatch.setattr(stored, "_SPARE_WORDS", -100)
    model = new_model()
    whole = CALLS[call](model)
    before = look(model)
    all_lines = Tracer()
    all_lines.run(whole)
    after = look(model)
    assert all_lines.n_events > 1
    for at in range(1, all_lines.n_events + 1, 1 + all_lines.n_events // TRIES):
        model, tracer = new_model(), Tracer(at)
        assert (False, None) == tracer.run(CALLS[call](model))
        assert look(model) in (before, after), tracer.places
