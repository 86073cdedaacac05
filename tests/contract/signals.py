"""A life of an index with interrupts by a timer at random moments: `python -m contract.signals SPEC SEED SECONDS`.

Whether a call that was interrupted was made is read from the index; its twin, a `scan`, gets the calls that were made.
Prints how many calls were interrupted.
"""

import random
import signal
import sys
import time

import numpy as np

from contract.conftest import kinds_of
from contract.worlds import PLANE, random_region, random_said, random_thresholds, random_wanted
from nearcast.geo import Regions
from nearcast.indexes import create
from nearcast.model import TopK
from nearcast.testing import IndexActor, check_index
from nearcast.testing.values import is_scored, moved, point_box
from support.unsafe_frames import is_unsafe

#: Subscriptions beyond which some go.
MOST = 80


class Interrupts:
    """Raises KeyboardInterrupt in a call, by a timer."""

    def __init__(self, rng):
        self.rng, self.n, self.longest, self.is_on, self.has_struck = rng, 0, 0.001, False, False
        signal.signal(signal.SIGALRM, self.strike)

    def strike(self, _, frame):
        if self.is_on and is_unsafe(frame):
            signal.setitimer(signal.ITIMER_REAL, self.longest)
        elif self.is_on:
            self.is_on, self.has_struck = False, True
            raise KeyboardInterrupt

    def during(self, call):
        """Make a call that is cut short at some moment, or ends before."""
        self.has_struck = False
        try:
            self.is_on = True
            signal.setitimer(signal.ITIMER_REAL, self.rng.uniform(1e-6, self.longest))
            call()
            self.is_on = False
        except BaseException:  # NumPy makes a TypeError of an interrupt between two comparisons
            if not self.has_struck:
                raise
            self.n += 1


class Life:
    """An index, its twin, and what both hold."""

    def __init__(self, spec, seed):
        self.rng = random.Random(seed)
        self.kinds = kinds_of(spec)
        self.mine, self.twin = IndexActor(create(spec, PLANE)), IndexActor(create("scan", PLANE))
        self.live = {}
        self.said = random_said(self.rng, PLANE, 10)
        self.during = lambda call: call()

    def step(self):
        verbs = [self.insert, self.replace, self.move, self.set_thresholds, self.match]
        self.rng.choice([*verbs, self.remove] if len(self.live) < MOST else [self.remove])()

    def subscriptions(self, n):
        wanted = random_wanted(self.rng, PLANE, n, self.kinds, self.said)
        return wanted, self.mine.subscriptions(wanted), self.twin.subscriptions(wanted)

    def pick(self, of_kind=object):
        slots = [slot for slot, wanted in self.live.items() if isinstance(wanted, of_kind)]
        return sorted(self.rng.sample(slots, min(len(slots), self.rng.randint(1, 12))))

    def insert(self):
        first = self.twin.index.n_slots
        wanted, mine, twin = self.subscriptions(self.rng.choice([1, 3, 12]))
        self.during(lambda: self.mine.index.insert(mine))
        n_made = self.mine.index.n_slots - first
        assert n_made in (0, len(wanted)), "an insertion was half made"
        if n_made:
            self.twin.index.insert(twin)
            self.live |= zip(range(first, first + n_made), wanted, strict=True)

    def remove(self):
        slots, n_before = self.pick(), len(self.live)
        self.during(lambda: self.mine.remove(slots))
        n_made = n_before - len(self.mine.index)
        assert n_made in (0, len(slots)), "a removal was half made"
        if n_made:
            self.twin.remove(slots)
            for slot in slots:
                del self.live[slot]

    def replace(self):
        slots = self.pick()
        wanted, mine, twin = self.subscriptions(len(slots))
        self.change(slots, lambda: self.mine.index.replace(as_slots(slots), mine))
        if self.is_made:
            self.twin.index.replace(as_slots(slots), twin)
            self.live |= zip(slots, wanted, strict=True)

    def move(self):
        slots = self.pick()
        points = [(self.rng.uniform(-9, 9), self.rng.uniform(-9, 9)) for _ in slots]
        shapes = [
            point_box(*point) if is_scored(self.live[slot]) else random_region(self.rng, PLANE)
            for slot, point in zip(slots, points, strict=True)
        ]
        regions = Regions.from_shapes(shapes, PLANE)
        self.change(slots, lambda: self.mine.index.move(as_slots(slots), regions))
        if self.is_made:
            self.twin.index.move(as_slots(slots), regions)
            self.live |= {slot: moved(self.live[slot], shape) for slot, shape in zip(slots, shapes, strict=True)}

    def set_thresholds(self):
        slots = self.pick(TopK)
        wanted = [self.live[slot] for slot in slots]
        values = np.array(random_thresholds(self.rng, PLANE, wanted, self.said, {}))
        self.change(slots, lambda: self.mine.index.set_thresholds(as_slots(slots), values))
        if self.is_made:
            self.twin.index.set_thresholds(as_slots(slots), values)

    def match(self):
        messages = self.mine.messages(self.said)
        self.during(lambda: self.mine.index.match(messages))

    def change(self, slots, call):
        """Make a call that may be cut short; `is_made` tells whether the slots hold something else since."""
        before = self.held(slots)
        self.during(call)
        self.is_made = before != self.held(slots)

    def held(self, slots):
        held = self.mine.index.subscriptions(as_slots(slots))
        columns = [held.clause_start, held.code_start, held.code, held.kind, held.regions.part, held.regions.circle]
        if held.scoring is not None:
            columns += vars(held.scoring).values()
        return [column.tolist() for column in columns], [shape.wkb for shape in held.regions.geometry]

    def check(self):
        assert (len(self.twin.index), self.twin.index.n_slots) == (len(self.mine.index), self.mine.index.n_slots)
        assert self.twin.match(self.said) == self.mine.match(self.said)


def as_slots(slots):
    return np.array(slots, np.int32)


def main(spec, seed, seconds):
    life = Life(spec, int(seed))
    for _ in range(40):  # compiles what there is to compile, which nobody should interrupt
        life.step()
        life.check()
    life.mine.settle()
    interrupts = Interrupts(life.rng)
    life.during = interrupts.during
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        life.step()
        life.check()
    life.during = lambda call: call()
    life.mine.settle()
    life.check()
    check_index(life.mine.index)
    sys.stdout.write(f"{interrupts.n}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
