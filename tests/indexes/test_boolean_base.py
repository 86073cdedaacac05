"""What the papers' boolean indexes share: changes that are cut short, growth in small steps, the choice of an index."""

import random

import pytest

from contract.naive import as_lists
from contract.worlds import PLANE, random_wanted, world
from nearcast import Hub, Message, Space, Within
from nearcast.geo import Box
from nearcast.indexes import DEFAULT_INDEX, create
from nearcast.indexes.shared.growable_columns import GrowableColumn
from nearcast.testing import IndexActor, check_index

pytestmark = [pytest.mark.modes, pytest.mark.papers]

NAMES = ("keyword-first", "fast", "iq-tree")


def pair(name):
    """Return an index with some subscriptions, `scan` with the same, and messages to ask."""
    wanted, said = world(3, PLANE, 40, 20)
    index, scan = IndexActor(create(name, PLANE)), IndexActor(create("scan", PLANE))
    for each in (index, scan):
        each.insert(wanted)
    assert index.match(said) == scan.match(said)
    return index, scan, said


@pytest.mark.parametrize("verb", ["insert", "replace", "remove"])
@pytest.mark.parametrize("name", NAMES)
def test_a_change_that_is_cut_short_is_undone(name, verb, monkeypatch):
    """Wherever memory runs out in a change, the index answers as before it, and takes the same change afterwards."""
    index, scan, said = pair(name)
    others = random_wanted(random.Random(9), PLANE, 5)
    arguments = {"insert": (others,), "replace": ([1, 4, 9, 16, 25], others), "remove": ([1, 4, 9],)}[verb]
    extend = GrowableColumn.extend
    for n_before in range(12):
        left = [n_before]

        def failing(self, values, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise MemoryError
            extend(self, values)

        with monkeypatch.context() as patched:
            patched.setattr(GrowableColumn, "extend", failing)
            try:
                getattr(index, verb)(*arguments)
            except MemoryError:
                assert len(index.index) == len(scan.index)
                assert index.index.n_slots == scan.index.n_slots
            else:
                break
        assert index.match(said) == scan.match(said)
    getattr(scan, verb)(*arguments)
    assert index.match(said) == scan.match(said)
    check_index(index.index)


@pytest.mark.parametrize("name", NAMES)
def test_an_index_that_grows_in_small_steps_is_built_anew(name, monkeypatch):
    """What was laid out for two subscriptions does not have to do for fifty."""
    index, builds = IndexActor(create(name, PLANE)), []
    build = index.index._build
    monkeypatch.setattr(index.index, "_build", lambda atoms: (builds.append(len(atoms)), build(atoms)))
    wanted, said = world(4, PLANE, 50, 5)
    for each in wanted:
        index.insert([each])
        index.match(said)
    assert 4 <= len(builds) <= 12
    assert builds == sorted(builds)
    assert builds[-1] >= 25


def test_auto_is_the_default():
    """The index that was the fastest wherever it was measured."""
    assert create("auto", PLANE).info.name == DEFAULT_INDEX
    hub = Hub(Space.plane(), index="auto")
    hub.subscribe(Within(1, query="ramen", region=Box(0, 0, 2, 2)))
    found = hub.publish(Message("m", place=(1, 1), text="ramen!"))
    assert [delivery.subscription_id for delivery in found] == [1]
    assert as_lists(IndexActor(create("auto", PLANE)).match([(["a"], (0, 0, 0, 0))])) == [[]]
