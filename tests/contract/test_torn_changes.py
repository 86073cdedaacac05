"""Calls that are cut short: an index is then as before the call, or as after it, for everything that follows."""

import random
from dataclasses import dataclass, field

import numba
import numpy as np
import pytest

from contract.conftest import EVERY, is_ours, kinds_of
from contract.torn import interrupted
from contract.worlds import (
    PLANE,
    SMALL,
    STAMPS_BETWEEN,
    VARIANTS,
    random_region,
    random_said,
    random_thresholds,
    random_wanted,
    random_weights,
)
from nearcast.errors import UnknownSubscription
from nearcast.geo import Regions
from nearcast.indexes import create, open_index
from nearcast.indexes._undo import UndoLog
from nearcast.model import TopK
from nearcast.testing import IndexActor, check_index
from nearcast.testing.values import is_scored, moved, point_box

_HAS_SMALLER = {variant.partition(":")[0] for variant in VARIANTS}
#: Those that walk through all of their code with a few subscriptions.
SPECS = [spec for spec in EVERY if spec not in _HAS_SMALLER and spec not in STAMPS_BETWEEN]


@dataclass
class TornLife:
    """An index whose calls are cut short, and `scan` as its twin, which has each call once and whole.

    `every` says at which lines: 1 is at each of them, 5 at every fifth. With `is_left` nobody rolls back in the call
    that is cut short, and whoever comes next is cut short in the roll-back.
    """

    spec: str
    every: int
    kinds: tuple[str, ...]
    is_left: bool = False
    seed: int = 1
    live: dict = field(default_factory=dict)

    def __post_init__(self):
        self.rng = random.Random(self.seed)
        self.mine, self.twin = self.both = IndexActor(create(self.spec, PLANE)), IndexActor(create("scan", PLANE))
        self.said = random_said(self.rng, PLANE, 6)
        self.encode()

    def encode(self):
        """Encode the messages with the words and weights there are."""
        self.messages = [actor.messages(self.said) for actor in self.both]

    # What is seen of an index

    def state(self):
        """Return what a caller can see of the index, beside its matches."""
        index = self.mine.index
        try:
            held = index.subscriptions(np.array(sorted(self.live), np.int32))
        except UnknownSubscription:
            return None
        columns = [held.clause_start, held.code_start, held.code, held.kind, held.regions.part, held.regions.circle]
        if held.scoring is not None:
            columns += vars(held.scoring).values()
        return len(index), index.n_slots, [column.tolist() for column in columns]

    def check(self, *, thoroughly=True):
        """Check that both answer alike and nothing contradicts itself."""
        mine, twin = (actor.index for actor in self.both)
        assert (len(twin), twin.n_slots) == (len(mine), mine.n_slots)
        assert twin.match(self.messages[1]) == mine.match(self.messages[0])
        if thoroughly:
            check_index(mine)

    # Cutting short

    def tear(self, *calls):
        """Cut the first call short at one line after the other until it is made; then make the second, the twin's."""
        before, n = self.state(), 1 + self.rng.randrange(self.every)
        while line := interrupted(calls[0], n):
            if self.is_left:
                self.look(n)
            self.mine.settle()
            if before != self.state():
                assert line.startswith("return"), f"a change cut short at {line!r} was made"
                break
            self.check(thoroughly=n % 11 == 0)
            n += self.every
        calls[-1]()
        self.mine.settle()

    def look(self, n):
        """Look at the index, cut short in the roll-back that comes first, ever later."""
        looks = (lambda: len(self.mine.index), lambda: self.mine.index.match(self.messages[0]))
        for line in range(1, 2 + n % 5):
            interrupted(looks[line % 2], line + n % 3)

    # Changes

    def insert(self, n):
        wanted, columns = self.some(n)
        first = self.twin.index.n_slots
        self.tear(*(lambda actor=a, each=c: actor.index.insert(each) for a, c in zip(self.both, columns, strict=True)))
        self.live |= zip(range(first, first + n), wanted, strict=True)
        self.check()

    def remove(self, n):
        slots = self.pick(n)
        self.change("remove", slots)
        for slot in slots:
            del self.live[slot]
        self.check()

    def replace(self, n):
        slots = self.pick(n)
        wanted, columns = self.some(len(slots))
        self.change("replace", slots, *columns)
        self.live |= zip(slots, wanted, strict=True)
        self.check()

    def move(self, n):
        slots = self.pick(n)
        regions = [
            point_box(self.rng.randint(-9, 9), self.rng.randint(-9, 9))
            if is_scored(self.live[slot])
            else random_region(self.rng, PLANE)
            for slot in slots
        ]
        columns = Regions.from_shapes(regions, PLANE)
        self.change("move", slots, columns, columns)
        self.live |= {slot: moved(self.live[slot], region) for slot, region in zip(slots, regions, strict=True)}
        self.check()

    def set_thresholds(self, n):
        slots = self.pick(n, TopK)
        wanted = [self.live[slot] for slot in slots]
        values = np.array(random_thresholds(self.rng, PLANE, wanted, self.said, self.mine.weights))
        if slots:
            self.change("set_thresholds", slots, values, values)
        self.check()

    def renumber(self):
        self.tear(*(actor.index.renumber for actor in self.both))
        self.live = dict(enumerate(wanted for _, wanted in sorted(self.live.items())))
        self.check()

    def reweigh(self):
        weights = random_weights(self.rng)
        values = np.array([weights.get(word, 1.0) for word in self.mine.words.words().to_pylist()])
        self.tear(*(lambda index=actor.index: index.set_weights(values) for actor in self.both))
        for actor in self.both:
            actor.weights = weights
        self.encode()
        self.check()

    def weigh_new_words(self):
        """Terms that nobody has used yet weigh something; when somebody does, they weigh what he says."""
        first = len(self.mine.words)
        self.tear(*(lambda index=actor.index: index.set_weights(np.full(4, 7.5), first) for actor in self.both))
        self.check()

    def match(self):
        self.tear(*(lambda a=a, m=m: a.index.match(m) for a, m in zip(self.both, self.messages, strict=True)))
        self.check()

    def learn(self):
        self.tear(*(lambda a=a, m=m: a.index.learn(m) for a, m in zip(self.both, self.messages, strict=True)))
        self.check()

    def change(self, verb, slots, *columns):
        each = [(column,) for column in columns] or [(), ()]
        calls = [
            lambda change=getattr(actor.index, verb), more=more: change(np.array(slots, np.int32), *more)
            for actor, more in zip(self.both, each, strict=True)
        ]
        self.tear(*calls)

    def some(self, n):
        """Return n subscriptions, and their columns for both."""
        wanted = random_wanted(self.rng, PLANE, n, self.kinds, self.said, self.mine.weights)
        columns = [actor.subscriptions(wanted) for actor in self.both]
        self.encode()
        return wanted, columns

    def pick(self, n, of_kind=object):
        """Return n of the live slots."""
        slots = [slot for slot, wanted in self.live.items() if isinstance(wanted, of_kind)]
        return sorted(self.rng.sample(slots, min(n, len(slots))))

    def live_on(self):
        """Make every kind of call, on new slots, old ones and those just changed."""
        self.insert(7)
        self.match()
        self.set_thresholds(4)
        self.insert(12)
        self.replace(4)
        self.move(3)
        self.remove(3)
        self.reweigh()
        self.insert(1)
        self.replace(1)
        self.weigh_new_words()
        self.set_thresholds(3)
        self.learn()
        self.renumber()
        self.move(6)
        self.insert(4)
        self.remove(5)
        self.match()

    def save_and_open(self, folder):
        """Go on with what was saved."""
        self.mine.index.save(folder)
        self.mine.index = open_index(folder)
        self.check()


@pytest.fixture
def left_alone(monkeypatch):
    """Roll back nothing in the call that is cut short, as if a second interrupt came at once."""

    def leave(self, kind, error, where):
        if kind is None:
            self._notes = []

    monkeypatch.setattr(UndoLog, "__exit__", leave)


@pytest.mark.parametrize("spec", SPECS)
def test_calls_cut_short_at_some_lines(spec, tmp_path):
    """Wherever an interrupt strikes, an index goes on as its twin, which never had the call."""
    life = TornLife(spec, 1 if is_ours(spec) else 13, kinds_of(spec))
    life.live_on()
    life.save_and_open(tmp_path / "saved")
