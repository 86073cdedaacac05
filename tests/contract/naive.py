"""The definition, as plainly as Python says it: values in lists, one question after the other."""

from dataclasses import replace

import numpy as np

from nearcast.geo import Regions, touches
from nearcast.model import Similar, TopK
from nearcast.testing.plain import score, topk_score


class Naive:
    """Plays scripts without an index: `Query.holds` and `touches` for boolean subscriptions, scores for others."""

    def __init__(self, space):
        self.space = space
        self.held = []  # by slot: (query, region), Similar, TopK or None
        self.thresholds = {}  # of slots with a TopK; 0 where nothing is said
        self.weights = {}

    def insert(self, wanted):
        first = len(self.held)
        self.held += map(self._kept, wanted)
        return list(range(first, len(self.held)))

    def remove(self, slots):
        for slot in slots:
            self.held[slot] = None
            self.thresholds.pop(slot, None)

    def replace(self, slots, wanted):
        for slot, each in zip(slots, wanted, strict=True):
            self.held[slot] = self._kept(each)
            self.thresholds.pop(slot, None)

    def move(self, slots, regions):
        for slot, shape in zip(slots, regions, strict=True):
            if isinstance(self.held[slot], Similar | TopK):
                self.held[slot] = replace(self.held[slot], place=(shape.x_min, shape.y_min))
            else:
                self.held[slot] = (self.held[slot][0], self._region(shape))

    def set_thresholds(self, slots, values):
        self.thresholds |= zip(slots, values, strict=True)

    def reweigh(self, weights):
        self.weights = dict(weights)

    def settle(self):
        """Nothing goes on behind the scenes here."""

    def renumber(self):
        old = [slot for slot, wanted in enumerate(self.held) if wanted]
        self.held = [self.held[slot] for slot in old]
        self.thresholds = {new: self.thresholds[slot] for new, slot in enumerate(old) if slot in self.thresholds}
        return old

    def match(self, said):
        """Return the slots of each message with their scores, as lists of pairs."""
        return [
            [(slot, reached) for slot, reached in enumerate(self._scores(*each)) if reached is not None]
            for each in said
        ]

    def _scores(self, tokens, place):
        return [wanted and self._score(slot, wanted, tokens, place) for slot, wanted in enumerate(self.held)]

    def _score(self, slot, wanted, tokens, place):
        """Return the score of a message that is wanted, else None."""
        if isinstance(wanted, TopK):
            reached = topk_score(wanted, tokens, place, self.space, self.weights)
            return reached if reached is not None and reached >= self.thresholds.get(slot, 0.0) else None
        if isinstance(wanted, Similar):
            reached = score(wanted, tokens, place, self.space, self.weights)
            return reached if reached >= wanted.threshold else None
        query, region = wanted
        if query.holds(tokens) and touches(region, np.array([0]), np.array([place]), self.space)[0]:
            return 1.0
        return None

    def _kept(self, wanted):
        return wanted if isinstance(wanted, Similar | TopK) else (wanted[0], self._region(wanted[1]))

    def _region(self, shape):
        return Regions.from_shapes([shape], self.space)


def as_lists(matches):
    """Return the slots of each message of a `Matches` as lists."""
    return [matches.slots_of(row).tolist() for row in range(len(matches))]


def as_pairs(matches):
    """Return the slots of each message with their scores, as lists of pairs."""
    scores = np.split(matches.score, matches.start[1:-1]) if len(matches) else []
    return [list(zip(slots, s.tolist(), strict=True)) for slots, s in zip(as_lists(matches), scores, strict=True)]
