"""Calls that are cut short: an index is then as before the call, or as after it, for everything that follows."""

import itertools
import os
import random
import subprocess
import sys
import threading
from dataclasses import dataclass, field

import numba
import numpy as np
import pytest

from contract.conftest import EVERY, kinds_of
from contract.torn import Interrupter, interrupted, nth
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
from nearcast.indexes.shared.undo import UndoLog
from nearcast.indexes.trigger import TriggerIndex
from nearcast.model import TopK
from nearcast.query import parse
from nearcast.testing import IndexActor, check_index
from nearcast.testing.values import is_scored, moved, point_box

_HAS_SMALLER = {variant.partition(":")[0] for variant in VARIANTS}
#: Those that walk through all of their code with a few subscriptions.
SPECS = [spec for spec in EVERY if spec not in _HAS_SMALLER and spec not in STAMPS_BETWEEN]


@dataclass
class TornLife:
    """An index whose calls are cut short, and `scan` as its twin, which has each call once and whole.

    `every` is that of `Interrupter`. With `is_left` nobody rolls back in the call that is cut short, and whoever comes
    next is cut short in the roll-back.
    """

    spec: str
    every: int
    kinds: tuple[str, ...]
    is_left: bool = False
    seed: int = 1
    live: dict = field(default_factory=dict)

    def __post_init__(self):
        self.rng, self.interrupter, self.n_torn = random.Random(self.seed), Interrupter(self.every), 0
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

    def check(self):
        """Check that both answer alike and nothing contradicts itself."""
        mine, twin = (actor.index for actor in self.both)
        assert (len(twin), twin.n_slots) == (len(mine), mine.n_slots)
        assert twin.match(self.messages[1]) == mine.match(self.messages[0])
        check_index(mine)

    # Cutting short

    def tear(self, what, *calls):
        """Cut the first call short at one line after the other until it is made; then make the second, the twin's."""
        before, expected = self.state(), self.twin.index.match(self.messages[1])
        while line := self.cut_short(what, calls[0]):
            if before != self.state():
                assert line.startswith("return"), f"a change cut short at {line!r} was made"
                break
            assert expected == self.mine.index.match(self.messages[0]), f"a change cut short at {line!r} was half made"
        calls[-1]()
        self.mine.settle()

    def cut_short(self, what, call):
        """Cut a call short and leave its background work done; return the line, or nothing if the call was made."""
        self.interrupter.begin(what)
        line = self.interrupter.interrupted(call)
        if line:
            self.n_torn += 1
            if self.is_left:
                self.look()
            self.mine.settle()
            if self.n_torn % 50 == 0:
                check_index(self.mine.index)
        return line

    def look(self):
        """Look at the index, cut short in the roll-back that comes first, ever later."""
        looks = (lambda: len(self.mine.index), lambda: self.mine.index.match(self.messages[0]))
        for n in range(1, 2 + self.n_torn % 5):
            interrupted(looks[n % 2], nth(n + self.n_torn % 3))

    # Changes

    def insert(self, n):
        wanted, columns = self.some(n)
        first = self.twin.index.n_slots
        calls = [lambda actor=a, each=c: actor.index.insert(each) for a, c in zip(self.both, columns, strict=True)]
        self.tear("insert", *calls)
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
        self.tear("renumber", *(actor.index.renumber for actor in self.both))
        self.live = dict(enumerate(wanted for _, wanted in sorted(self.live.items())))
        self.check()

    def reweigh(self):
        weights = random_weights(self.rng)
        values = np.array([weights.get(word, 1.0) for word in self.mine.words.words().to_pylist()])
        self.tear("weigh", *(lambda index=actor.index: index.set_weights(values) for actor in self.both))
        for actor in self.both:
            actor.weights = weights
        self.encode()
        self.check()

    def weigh_new_words(self):
        """Terms that nobody has used yet weigh something; when somebody does, they weigh what he says."""
        first = len(self.mine.words)
        calls = [lambda index=actor.index: index.set_weights(np.full(4, 7.5), first) for actor in self.both]
        self.tear("weigh", *calls)
        self.check()

    def match(self):
        self.tear("match", *(lambda a=a, m=m: a.index.match(m) for a, m in zip(self.both, self.messages, strict=True)))
        self.check()

    def match_after_changes(self):
        """Match when something has changed since the last time, so that structures are built and brought up to date."""
        line, n = "a change", 0
        while line:
            n += 1
            slots = self.pick(1 + n % 3)
            wanted, columns = self.some(len(slots))
            for actor, each in zip(self.both, columns, strict=True):
                actor.index.replace(np.array(slots, np.int32), each)
            self.live |= zip(slots, wanted, strict=True)
            self.mine.settle()
            line = self.cut_short("match after changes", lambda: self.mine.index.match(self.messages[0]))
            assert self.twin.index.match(self.messages[1]) == self.mine.index.match(self.messages[0])
        self.check()

    def learn(self):
        self.tear("learn", *(lambda a=a, m=m: a.index.learn(m) for a, m in zip(self.both, self.messages, strict=True)))
        self.check()

    def change(self, verb, slots, *columns):
        each = [(column,) for column in columns] or [(), ()]
        calls = [
            lambda index=actor.index, more=more: getattr(index, verb)(np.array(slots, np.int32), *more)
            for actor, more in zip(self.both, each, strict=True)
        ]
        self.tear("replace" if verb == "move" else verb, *calls)  # which is what it does

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
        self.match_after_changes()

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
    life = TornLife(spec, 3 if spec == SMALL else 17, kinds_of(spec))
    life.live_on()
    life.save_and_open(tmp_path / "saved")


@pytest.mark.parametrize("spec", SPECS)
def test_calls_cut_short_twice(spec, left_alone):
    """What an interrupted roll-back leaves is made good by the next call, which may be interrupted as well."""
    life = TornLife(spec, 9 if spec == SMALL else 61, kinds_of(spec), is_left=True, seed=2)
    life.live_on()


# Of the trigger index alone


@pytest.fixture
def unmerged(monkeypatch):
    """Merge nothing in the background."""
    monkeypatch.setattr(TriggerIndex, "_merge_if_due", lambda _: None)
    monkeypatch.setattr(TriggerIndex, "settle", lambda _: None)


def grown(kinds, seed, every=1, **more):
    """Return an index with full deltas and segments of like size, and its twin."""
    life = TornLife(SMALL, every, kinds, seed=seed, **more)
    for n in (5, 6, 7, 9, 3, 8, 20, 2, 9):
        wanted, columns = life.some(n)
        for actor, each in zip(life.both, columns, strict=True):
            life.live |= zip(actor.index.insert(each).tolist(), wanted, strict=True)
    slots = np.array(life.pick(20), np.int32)
    for actor in life.both:
        actor.index.remove(slots)
    for slot in slots.tolist():
        del life.live[slot]
    life.check()
    return life


@pytest.mark.modes
@pytest.mark.parametrize(
    ("kinds", "is_left"),
    [(("within",), False), (("topk",), True), (("within", "similar", "topk"), False)],
    ids=["within", "topk, left", "all kinds"],
)
def test_a_merge_cut_short(kinds, is_left, unmerged, request):
    """A merge is done or not done, and the next one goes on from there."""
    if is_left:
        request.getfixturevalue("left_alone")
    # In plain Python the lines of kernels count too, and there it is the kernels that are looked at.
    life = grown(kinds, seed=3, is_left=is_left, every=9 if numba.config.DISABLE_JIT else 2)
    assert life.mine.index._is_merge_due()
    before, expected = life.state(), life.mine.index.match(life.messages[0])
    while life.cut_short("merge", life.mine.index._merge_all_due):
        assert before == life.state()
        assert expected == life.mine.index.match(life.messages[0])
    assert not life.mine.index._is_merge_due()
    life.check()


@pytest.mark.modes
def test_saving_cut_short(unmerged, tmp_path):
    """An index that could not be saved is as before, and can be saved."""
    life = grown(("within", "similar", "topk"), seed=4, every=9)
    before, folders = life.state(), map(str, itertools.count())
    while life.cut_short("save", lambda: life.mine.index.save(tmp_path / next(folders))):
        assert before == life.state()
    life.check()
    life.save_and_open(tmp_path / "whole")


@pytest.mark.modes
def test_a_thread_that_cannot_start_fails_no_change(monkeypatch):
    """Without a thread to merge in, a change is made all the same, and a later one merges."""
    life = TornLife(SMALL, 1, ("within",))

    def fail(self):
        raise MemoryError("no room for a stack")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        for _ in range(4):
            wanted, columns = life.some(6)
            for actor, each in zip(life.both, columns, strict=True):
                life.live |= zip(actor.index.insert(each).tolist(), wanted, strict=True)
        life.check()
        assert 0 == life.mine.index.stats()["merges"]
    life.mine.settle()
    assert 0 < life.mine.index.stats()["merges"]
    life.check()


@pytest.mark.modes
def test_a_merge_that_saw_a_change_which_was_undone(unmerged, monkeypatch):
    """Slots that a merge took for removed, because it looked in the middle of a change, are not lost."""
    life = grown(("within",), seed=5)
    index, seen = life.mine.index, []
    due, numbering = index._due(), index._numbering

    def fail(self):
        seen.append(self._owner.copy())
        raise MemoryError

    monkeypatch.setattr(TriggerIndex, "_merge_if_due", fail)
    with pytest.raises(MemoryError):
        index.remove(np.array(sorted(life.live), np.int32))
    assert not sum(len(component.live_rows(seen[0])) for component in due)
    index._merge(due, seen[0], numbering)
    life.check()


@pytest.mark.modes
def test_terms_of_changes_that_were_undone_do_not_fill_the_table_of_a_delta(unmerged, monkeypatch):
    """However often a change with new words fails, a search for a word that is not there ends."""
    life = TornLife(SMALL, 1, ("within",))
    life.insert(2)

    def fail(self):
        raise MemoryError

    monkeypatch.setattr(TriggerIndex, "_merge_if_due", fail)
    for n in range(40):
        columns = life.mine.subscriptions([(parse(f"new{n}"), None), (parse(f"newer{n}"), None)])
        with pytest.raises(MemoryError):
            life.mine.index.insert(columns)
    life.said = [(["new1", "newer39", "never"], (0.0, 0.0, 0.0, 0.0)), *life.said]
    life.encode()
    life.check()


def test_matching_in_threads_cut_short():
    """No thread reads an index any more when its next call begins."""
    life = TornLife(SMALL, 3, ("similar", "topk"), seed=6)
    wanted, columns = life.some(30)
    for actor, each in zip(life.both, columns, strict=True):
        life.live |= zip(actor.index.insert(each).tolist(), wanted, strict=True)
    life.mine.settle()
    many = life.mine.messages(random_said(life.rng, PLANE, 600))
    expected = life.mine.index.match(many)
    while life.cut_short("match", lambda: life.mine.index.match(many, threads=2)):
        assert not [thread for thread in threading.enumerate() if thread.name == "nearcast-match"]
        assert expected == life.mine.index.match(many, threads=3)
    life.check()


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="a kernel in plain Python can be interrupted")
def test_signals_at_random_moments():
    """Real interrupts, while another thread merges: every call was made or was not, and none is half made."""
    run = subprocess.run(
        [sys.executable, "-m", "contract.signals", SMALL, "7", "2"],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        timeout=1200,
    )
    assert 0 == run.returncode, run.stderr
    assert int(run.stdout) > 20, "hardly a call was interrupted"
