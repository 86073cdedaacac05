"""Subscriptions of `trigger` that move: in place, as `scan` answers, whatever else happens meanwhile."""

import random

import numpy as np
import pytest

from contract.torn import Interrupter, interrupted, nth
from contract.worlds import EARTH, LARGER_CELLS, PLANE, SMALL, random_region, random_said, random_wanted
from nearcast.errors import UnknownSubscription
from nearcast.geo import Box, Circle, Regions, shape_from
from nearcast.indexes import create, open_index
from nearcast.indexes.shared.undo import UndoLog
from nearcast.query import parse
from nearcast.testing import IndexActor, check_index
from nearcast.testing.values import is_scored, moved, point_box

#: No term is too rare to be cut by place, and a cell is of two rows: nearly every move leads over a border.
TINY_CELLS = "trigger:leaf_rows=2,few=0,delta_rows=4"


class MovingLife:
    """A `trigger` index and `scan` as its twin, which has each call as well."""

    def __init__(self, spec, space, kinds=("within",), seed=1):
        self.rng, self.space, self.kinds = random.Random(seed), space, kinds
        self.both = self.mine, self.twin = IndexActor(create(spec, space)), IndexActor(create("scan", space))
        self.said, self.live = random_said(self.rng, space, 10), {}

    def insert(self, n):
        wanted = random_wanted(self.rng, self.space, n, self.kinds, self.said)
        for actor in self.both:
            slots = actor.index.insert(actor.subscriptions(wanted))
        self.live |= zip(slots.tolist(), wanted, strict=True)

    def remove(self, n):
        slots = self.pick(n)
        for actor in self.both:
            actor.index.remove(slots)
        for slot in slots.tolist():
            del self.live[slot]

    def replace(self, n):
        slots = self.pick(n)
        wanted = random_wanted(self.rng, self.space, len(slots), self.kinds, self.said)
        for actor in self.both:
            actor.index.replace(slots, actor.subscriptions(wanted))
        self.live |= zip(slots.tolist(), wanted, strict=True)

    def move(self, n):
        slots = self.pick(n)
        regions = [self.region_for(slot) for slot in slots.tolist()]
        for actor in self.both:
            actor.index.move(slots, Regions.from_shapes(regions, self.space))
        self.live |= {slot: moved(self.live[slot], r) for slot, r in zip(slots.tolist(), regions, strict=True)}

    def region_for(self, slot):
        """Return somewhere to go: anywhere, around the dateline, a little further, or a place without area."""
        if is_scored(self.live[slot]):
            return point_box(self.rng.randint(-9, 9), self.rng.randint(-9, 9))
        present, step = self.live[slot][1], self.rng.uniform(-0.6, 0.6)
        if self.rng.random() < 0.5 and isinstance(present, Circle):
            return Circle(min(max(present.x + step, -180.0), 180.0), present.y, present.radius)
        if self.rng.random() < 0.5 and isinstance(present, Box) and -179 < present.x_min < present.x_max < 179:
            return Box(present.x_min + step, present.y_min, present.x_max + step, present.y_max)
        return random_region(self.rng, self.space)

    def renumber(self):
        for actor in self.both:
            actor.index.renumber()
        self.live = dict(enumerate(wanted for _, wanted in sorted(self.live.items())))

    def save_and_open(self, folder):
        self.mine.index.save(folder)
        self.mine.index = open_index(folder)

    def pick(self, n):
        return np.array(self.rng.sample(sorted(self.live), min(n, len(self.live))), np.int32)

    def check(self):
        """Check that both match and hold the same."""
        mine, twin = (actor.index.match(actor.messages(self.said)) for actor in self.both)

        assert twin == mine

    def check_held(self):
        slots = np.array(sorted(self.live), np.int32)
        mine, twin = (actor.index.subscriptions(slots) for actor in self.both)

        held = np.flatnonzero(np.diff(twin.clause_start)).tolist()  # what contradicts itself need not have a region
        assert [str(twin.regions.shape_of(i)) for i in held] == [str(mine.regions.shape_of(i)) for i in held]
        assert np.diff(twin.clause_start).tolist() == np.diff(mine.clause_start).tolist()
        check_index(self.mine.index)


@pytest.mark.modes
@pytest.mark.parametrize(
    ("spec", "space"),
    [(SMALL, EARTH), (SMALL, PLANE), (LARGER_CELLS, PLANE), (TINY_CELLS, EARTH)],
    ids=["small-earth", "small-plane", "larger-plane", "tiny-earth"],
)
def test_many_moves_among_other_changes(spec, space, tmp_path, interpreted):
    """Moves, registrations, removals, replacements, merges, new numbers and saves, in any order."""
    life = MovingLife(spec, space, (*["within"] * 4, "similar", "topk") if spec == SMALL else ("within",), seed=7)
    life.insert(50)
    calls = [life.move] * 8 + [life.insert, life.remove, life.replace, lambda _: life.mine.index.settle()]
    for step in range(30 if interpreted else 60):
        life.rng.choice(calls)(life.rng.randint(1, 9))
        if step % 20 == 12:
            life.renumber()
        if step % 30 == 22:
            life.save_and_open(tmp_path / str(step))
        life.check()
    life.move(30)
    life.check()
    life.check_held()

    assert life.mine.index.stats()["mobile_rows"] > 10


def one(words, region, spec=TINY_CELLS, space=EARTH, others=40):
    """Return an index with a subscription among others that lie all over the place, and its slot."""
    actor, rng = IndexActor(create(spec, space)), random.Random(3)
    spread = [(parse(words), Box(x := rng.uniform(-50, 50), 0, x, 1)) for _ in range(others)]
    slots = actor.index.insert(actor.subscriptions([*spread, (parse(words), region)]))
    # Some others move as well, so that space is cut for those that do.
    going = np.asarray(slots[: others // 2])
    actor.index.move(going, Regions.from_shapes([region for _, region in spread[: len(going)]], space))
    return actor, int(slots[-1])


def hears(actor, slot, words, *places):
    """Tell at which places the slot hears words."""
    found = actor.index.match(actor.messages([(words, (x, y, x, y)) for x, y in places]))
    return [slot in found.slots_of(row).tolist() for row in range(len(places))]


@pytest.mark.modes
@pytest.mark.small
def test_to_cells_everywhere_and_back():
    """A box that grows over all cells and shrinks again, over the dateline and to a point."""
    actor, slot = one("fish", Box(0, 0, 1, 1))
    places = [(0.5, 0.5), (30, 0.5), (179.9, 0.5), (-179.9, 0.5), (7, 7)]
    stages = [
        (Box(0, 0, 1, 1), [True, False, False, False, False]),
        (Box(-180, -90, 180, 90), [True] * 5),
        (Box(29, 0, 31, 1), [False, True, False, False, False]),
        (Box(179, 0, -179, 1), [False, False, True, True, False]),
        (Box(179.5, 0, 180, 1), [False, False, True, False, False]),
        (Box(7, 7, 7, 7), [False, False, False, False, True]),
        (None, [True] * 5),
        (Circle(-179.95, 0.5, 20_000.0), [False, False, True, True, False]),
        (Circle(7, 7, 0.0), [False, False, False, False, True]),
        (Box(0, 0, 1, 1), [True, False, False, False, False]),
    ]
    for region, expected in stages * 2:
        actor.index.move(np.array([slot], np.int32), Regions.from_shapes([region], EARTH))

        assert expected == hears(actor, slot, ["fish"], *places)
        check_index(actor.index)


@pytest.mark.modes
@pytest.mark.small
def test_a_polygon_goes_another_way():
    """A polygon is held by a segment or delta, and what becomes a box again is mobile."""
    actor, slot = one("fish OR (bread NOT butter)", Box(0, 0, 1, 1))
    triangle = shape_from({"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [0, 4], [0, 0]]]}, EARTH)
    before = actor.index.stats()["mobile_rows"]
    for region, expected, more in ((triangle, [True, False], 0), (Box(0, 0, 4, 4), [True, True], 2)):
        actor.index.move(np.array([slot], np.int32), Regions.from_shapes([region], EARTH))

        assert expected == hears(actor, slot, ["bread"], (1, 1), (3.5, 3.5))
        assert before + more == actor.index.stats()["mobile_rows"]
        check_index(actor.index)


@pytest.mark.modes
def test_what_was_moved_does_not_come_back_by_a_merge():
    """A merge that began before a slot moved leaves it where it is now."""
    actor = IndexActor(create(SMALL, PLANE))
    slots = actor.index.insert(actor.subscriptions([(parse("fish"), Box(0, 0, 1, 1))] * 40))
    index = actor.index
    index.settle()
    due, owner, numbering = list(index._components), index._owner, index._numbering
    index.move(slots[:20], Regions.from_shapes([Box(5, 5, 6, 6)] * 20, PLANE))
    index._merge(due, owner, numbering)
    found = index.match(actor.messages([(["fish"], (0.5, 0.5, 0.5, 0.5)), (["fish"], (5.5, 5.5, 5.5, 5.5))]))

    assert [slots[20:].tolist(), slots[:20].tolist()] == [found.slots_of(0).tolist(), found.slots_of(1).tolist()]
    check_index(index)


def test_memory_stays_as_it_is_over_many_moves():
    """Lists that run empty are given back, and slabs are used again: no move leaves anything behind."""
    actor, rng = IndexActor(create(TINY_CELLS, PLANE)), np.random.default_rng(5)
    words = ["fish", "bread butter", "fish OR bread", ""]
    wanted = [(parse(words[i % 4]), Box(0, 0, 1, 1)) for i in range(60)]
    slots = actor.index.insert(actor.subscriptions(wanted))
    sizes = []
    for _ in range(180):
        x, y = rng.uniform(-20, 20, (2, len(slots)))
        regions = [Box(a, b, a + 0.5, b + 0.5) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        actor.index.move(slots, Regions.from_shapes(regions, PLANE))
        sizes.append(actor.index._mobile.nbytes)
    mobile = actor.index._mobile

    assert max(sizes[90:]) <= 1.1 * max(sizes[:30])
    assert mobile.n_lists <= mobile.n_entries <= 4 * mobile.n_rows
    assert actor.index.stats()["merges"] <= 2  # of what they left behind
    actor.index.remove(slots)
    assert [0, 0, 0] == [mobile.n_rows, mobile.n_entries, mobile.n_lists]
    check_index(actor.index)


@pytest.mark.modes
def test_explained_where_it_is_now():
    """A slot that moved is explained by its trigger and its present place."""
    actor, slot = one("fish", Box(0, 0, 1, 1))
    actor.index.move(np.array([slot], np.int32), Regions.from_shapes([Box(30, 0, 31, 1)], EARTH))
    messages = actor.messages([(["fish"], (30.5, 0.5, 30.5, 0.5)), (["fish"], (0.5, 0.5, 0.5, 0.5))])

    assert ["set off" in line for row in (0, 1) for line in actor.index.explain(messages, row, slot)] == [True, False]


def test_a_slot_that_is_not_there_moves_nothing():
    """The call that names it changes nothing."""
    actor, slot = one("fish", Box(0, 0, 1, 1))
    with pytest.raises(UnknownSubscription):
        actor.index.move(np.array([slot, 4711], np.int32), Regions.from_shapes([Box(3, 3, 4, 4)] * 2, EARTH))

    assert [True, False] == hears(actor, slot, ["fish"], (0.5, 0.5), (3.5, 3.5))


@pytest.mark.parametrize("is_left", [False, True], ids=["rolled back", "left"])
def test_moves_cut_short_at_some_lines(is_left, monkeypatch):
    """A move that is interrupted anywhere, and its roll-back too, has changed nothing."""
    if is_left:
        monkeypatch.setattr(UndoLog, "__exit__", _leave)
    life = MovingLife(SMALL, PLANE, ("within", "similar"), seed=11)
    life.insert(24)
    interrupter, n_torn = Interrupter(4 if is_left else 3), 0
    for _ in range(2):
        life.move(8)
        slots = life.pick(10)
        regions = [life.region_for(slot) for slot in slots.tolist()]
        columns, before = Regions.from_shapes(regions, PLANE), life.twin.index.match(life.twin.messages(life.said))
        messages = life.mine.messages(life.said)
        while interrupter.interrupted(lambda s=slots, c=columns: life.mine.index.move(s, c)):
            n_torn += 1
            if is_left:
                interrupted(lambda: len(life.mine.index), nth(1 + n_torn % 9))
            life.mine.settle()
            if before != life.mine.index.match(messages):
                break  # it was made, and interrupted when it was about to return
            if n_torn % 8 == 0:
                check_index(life.mine.index)
        life.mine.index.move(slots, columns)
        life.twin.index.move(slots, columns)
        life.live |= {slot: moved(life.live[slot], r) for slot, r in zip(slots.tolist(), regions, strict=True)}
        life.check()
        life.check_held()

    assert n_torn > 50


def _leave(self, kind, error, where):
    """Roll back nothing in the call that is cut short, as if a second interrupt came at once."""
    if kind is None:
        self._notes = []
