"""The definition, as plainly as Python says it: values in lists, one question after the other."""

import numpy as np

from nearcast.geo import Regions, touches


class Naive:
    """Plays scripts without an index: `Query.holds` for the words, `touches` for the place."""

    def __init__(self, space):
        self.space = space
        self.held = []  # by slot: (query, region) or None

    def insert(self, wanted):
        first = len(self.held)
        self.held += [(query, self._region(shape)) for query, shape in wanted]
        return list(range(first, len(self.held)))

    def remove(self, slots):
        for slot in slots:
            self.held[slot] = None

    def replace(self, slots, wanted):
        for slot, (query, shape) in zip(slots, wanted, strict=True):
            self.held[slot] = (query, self._region(shape))

    def move(self, slots, regions):
        for slot, shape in zip(slots, regions, strict=True):
            self.held[slot] = (self.held[slot][0], self._region(shape))

    def settle(self):
        """Nothing goes on behind the scenes here."""

    def renumber(self):
        old = [slot for slot, wanted in enumerate(self.held) if wanted]
        self.held = [self.held[slot] for slot in old]
        return old

    def match(self, said):
        """Return the slots of each message as lists."""
        return [
            [slot for slot, wanted in enumerate(self.held) if wanted and self._wants(*wanted, tokens, place)]
            for tokens, place in said
        ]

    def _region(self, shape):
        return Regions.from_shapes([shape], self.space)

    def _wants(self, query, region, tokens, place):
        return query.holds(tokens) and bool(touches(region, np.array([0]), np.array([place]), self.space)[0])


def as_lists(matches):
    """Return the slots of each message of a `Matches` as lists."""
    return [matches.slots_of(row).tolist() for row in range(len(matches))]
