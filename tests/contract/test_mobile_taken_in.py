"""Subscriptions of `trigger` that stand among many that move: they become mobile where they are, a few at a time."""

import numpy as np
import pytest

from contract.test_mobile_rows import MovingLife, one
from contract.torn import Interrupter
from contract.worlds import EARTH, PLANE, SMALL
from nearcast.geo import Box, Regions
from nearcast.indexes import create
from nearcast.indexes.trigger import index as trigger_index
from nearcast.query import parse
from nearcast.testing import IndexActor, check_index
from nearcast.testing.values import is_scored


def shares(index):
    """Return how many rows are mobile, and how many are in segments and alive."""
    stats = index.stats()
    return stats["mobile_rows"], stats["segment_rows"] - stats["dead"]


@pytest.mark.modes
@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_who_stands_among_movers_is_taken_in(space, monkeypatch):
    """Boxes, circles and queries of several clauses become mobile; polygons and scored ones stay. Answers stay."""
    monkeypatch.setattr(trigger_index, "_LOOK_EVERY", 8)
    life = MovingLife(SMALL, space, (*["within"] * 5, "similar", "topk"), seed=5)
    life.insert(80)
    life.mine.index.settle()
    movers = [slot for slot in sorted(life.live) if not is_scored(life.live[slot])][:48]
    for first in range(0, 48 * 6, 8):
        slots = np.array(movers, np.int32)[np.arange(first, first + 8) % 48]
        regions = [Box(x := life.rng.uniform(-9, 8), 0, x + 1, 1) for _ in slots]
        for actor in life.both:
            actor.index.move(slots, Regions.from_shapes(regions, space))
        life.check()
    index = life.mine.index
    index.settle()
    standing = [slot for slot in sorted(set(life.live) - set(movers)) if not is_scored(life.live[slot])]
    owners = set(index._owner[standing].tolist())

    assert trigger_index.MOBILE in owners
    check_index(index)


@pytest.mark.modes
def test_few_movers_take_nobody_in(monkeypatch):
    """Where most stand, who moves is mobile and nobody else."""
    monkeypatch.setattr(trigger_index, "_LOOK_EVERY", 1)
    actor, slot = one("fish", Box(0, 0, 1, 1), spec=SMALL, others=60)
    actor.index.insert(actor.subscriptions([(parse("fish"), Box(0, 0, 1, 1))] * 8))
    for x in range(40):
        actor.index.move(np.array([slot], np.int32), Regions.from_shapes([Box(x, 0, x + 1, 1)], EARTH))
    mobile, standing = shares(actor.index)

    assert (31, 38) == (mobile, standing + actor.index.stats()["delta_rows"])


@pytest.mark.modes
def test_a_trigger_of_many_is_cut_by_place():
    """Rows whose trigger few have sit in the cell that is everywhere, and leave it when there are many of them."""
    actor = IndexActor(create("trigger:leaf_rows=8,few=4,delta_rows=4", PLANE))
    wanted = [(parse("fish"), Box(x, 0, x + 0.5, 1)) for x in range(60)]
    slots = actor.index.insert(actor.subscriptions(wanted))
    for n in (60, 60):
        actor.index.move(slots[:n], Regions.from_shapes([Box(x, 1, x + 0.5, 2) for x in range(n)], PLANE))
    lists = actor.index._mobile.held.lists
    n_everywhere = [int(lists.head[each, 3]) for each in lists.everywhere.tolist() if each >= 0]

    assert [] == n_everywhere
    found = actor.index.match(actor.messages([(["fish"], (7.2, 1.5, 7.2, 1.5))]))
    assert [7] == found.slots_of(0).tolist()
    check_index(actor.index)


def test_taking_in_cut_short_at_every_line(monkeypatch):
    """A move that is interrupted while others are taken in has changed nothing."""
    monkeypatch.setattr(trigger_index, "_LOOK_EVERY", 6)
    life = MovingLife(SMALL, PLANE, ("within",), seed=11)
    life.insert(24)
    life.mine.index.settle()
    life.move(16)
    slots = life.pick(6)
    regions = [life.region_for(slot) for slot in slots.tolist()]
    columns, before = Regions.from_shapes(regions, PLANE), life.twin.index.match(life.twin.messages(life.said))
    index, messages, interrupter, lines = life.mine.index, life.mine.messages(life.said), Interrupter(), []

    def take_in_too():
        index._looked_at, index._n_moved = 0, 24
        index.move(slots, columns)

    while line := interrupter.interrupted(take_in_too):
        lines.append(line)
        life.mine.settle()
        if before != index.match(messages):
            break  # it was made, and interrupted when it was about to return
        if len(lines) % 8 == 0:
            check_index(index)
    life.mine.index.move(slots, columns)
    life.twin.index.move(slots, columns)
    life.check()
    life.check_held()

    assert any("disown" in line for line in lines), lines
