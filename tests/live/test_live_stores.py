"""Stores of live messages: each finds what `indexes.scan` finds, to the last bit, whatever happened before."""

import random

import pytest

from contract.worlds import EARTH, PLANE, random_region, random_said, random_wanted, random_weights
from nearcast.model import Similar
from nearcast.testing.values import point_box
from support.live_model import LiveModel

pytestmark = pytest.mark.modes

SPACES = {"earth": EARTH, "plane": PLANE}


@pytest.fixture(params=SPACES.values(), ids=SPACES)
def space(request):
    return request.param


def filled(name, space, rng, n):
    """Return a store with n messages in several batches, and the messages."""
    model = LiveModel(name, space)
    said = [(tuple(tokens), place) for tokens, place in random_said(rng, space, n)]
    model.reweigh(random_weights(rng))
    for first in range(0, n, 40):
        some = said[first : first + 40]
        model.append(some, [rng.choice([5, 10, 20, 1000]) for _ in some])
    return model, said


def shapes_like(rng, space, wanted):
    """Return where subscriptions move to: a point for the scored ones, any region for the others."""
    places = [random_region(rng, space) for _ in wanted]
    points = [random_wanted(rng, space, 1, ("similar",))[0].place for _ in wanted]
    return [
        point_box(*point) if isinstance(each, Similar) else place
        for each, place, point in zip(wanted, places, points, strict=True)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_relevant_is_what_scan_matches(name, space, seed):
    rng = random.Random(seed)
    model, said = filled(name, space, rng, 150)
    wanted = random_wanted(rng, space, 60, ("within", "similar", "topk"), said)
    now = [rng.choice([0, 5, 10]) for _ in wanted]
    assert any(model.relevant(wanted, now))


@pytest.mark.parametrize("seed", range(3))
def test_moves_tell_what_changes(name, space, seed):
    rng = random.Random(seed)
    model, said = filled(name, space, rng, 150)
    wanted = random_wanted(rng, space, 60, ("within", "similar"), said)
    found = model.moved(wanted, shapes_like(rng, space, wanted), [rng.choice([0, 5, 10]) for _ in wanted])
    assert {0, 1} == {enters for row in found for enters, _, _ in row}
