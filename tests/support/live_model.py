"""A live store fed with plain values, beside a list of its messages that `indexes.scan` answers from anew each time."""

from typing import NamedTuple

import numpy as np

from nearcast.columns import TOPK, Messages
from nearcast.geo import Regions
from nearcast.indexes import create
from nearcast.live.registry import live_store, open_live_store
from nearcast.testing.values import subscriptions_of
from nearcast.text.weights import message_totals
from nearcast.text.words import WordTable


class PlainMessage(NamedTuple):
    arrival: int
    tokens: tuple
    place: tuple
    expires: int


class GivenWeights:
    """What words weigh by a dict, 1 for those that it lacks, in the form of `TermWeights`."""

    def __init__(self, words, weights):
        self._words, self._weights = words, dict(weights)

    def of_column(self, strings):
        return np.array([self._weights.get(word, 1.0) for word in strings.to_pylist()], np.float64)

    def from_term(self, first):
        return self.of_column(self._words.words().slice(first))


class LiveModel:
    """A store and, in `held`, what it must hold; subscriptions and messages share one word table only by its words."""

    def __init__(self, name, space):
        self.name, self.space = name, space
        self.terms, self.weights = WordTable(), {}
        self.store = live_store(name, space, self.terms)
        self.held, self.next_arrival, self.now = [], 0, 0

    # Changes

    def append(self, said, expires):
        """Store messages (tokens, place), numbered with gaps."""
        arrival = self.next_arrival + 3 * np.arange(len(said))
        self.held += map(PlainMessage, arrival.tolist(), *zip(*said, strict=True), expires) if said else []
        self.next_arrival += 3 * len(said)
        messages = self._encoded(said)
        self.store.append(messages, arrival, np.array(expires, np.int64))

    def _encoded(self, said):
        start = np.append(0, np.cumsum([len(tokens) for tokens, _ in said])).astype(np.int64)
        tokens = [token for tokens, _ in said for token in tokens]
        live_terms = self.store.word_table.ids_of(tokens, add=True)
        own = WordTable()
        totals = message_totals(start, own.ids_of(tokens, add=True), own, self._weights())
        return Messages(
            ids=[f"m{self.next_arrival}-{i}" if i % 2 else i - 5 for i in range(len(said))],
            term_start=start,
            terms=self.terms.ids_of(tokens, add=False),
            box=np.array([place for _, place in said], np.float64).reshape(-1, 4),
            time=np.zeros(len(said), np.int64),
            expires=np.zeros(len(said), np.int64),
            totals=totals,
            live_terms=live_terms,
        )

    def drop(self, now):
        """Let time pass; check what is over."""
        over = sorted((each.expires, each.arrival) for each in self.held if each.expires <= now)
        assert [arrival for _, arrival in over] == self.store.expired(now).tolist()
        self.store.drop(now)
        self.now = now
        self.held = [each for each in self.held if each.expires > now]

    def reweigh(self, weights):
        """Let words weigh something else."""
        self.weights = dict(weights)
        self.store.reweigh(self._weights())

    def other_terms(self):
        """Give the words of subscriptions other numbers."""
        self.terms = WordTable()
        self.terms.ids_of(["not", "used", "before"], add=True)
        self.store.use_terms(self.terms)

    def reopen(self, folder, name=None):
        """Save the store and go on with what is read back."""
        self.store.save(folder)
        self.store = open_live_store(name or self.name, folder, self.space, self.terms)

    # Questions

    def _weights(self):
        return GivenWeights(self.terms, self.weights)

    def columns(self, wanted):
        """Return subscriptions as an index would."""
        return subscriptions_of(wanted, self.space, self.terms)

    def relevant(self, wanted, now=None):
        """Return by row the (arrival, score) that the store finds relevant, checked against `indexes.scan`."""
        now = [self.now] * len(wanted) if now is None else now
        columns = self.columns(wanted)
        found = self.store.relevant(columns, self._weights().from_term(0), np.array(now, np.int64))
        assert len(wanted) == len(found)
        got = [list(zip(*row, strict=True)) for row in _by_row(found.start, found.arrival, found.score)]
        assert self.expected(columns, now) == got
        return got

    def difference(self, before, after, now=None):
        """Return by row the (enters, arrival, score) between two lists of subscriptions, checked."""
        old, new = self.columns(before), self.columns(after)
        return self._compared(old, new, now)

    def moved(self, wanted, shapes, now=None):
        """Return by row the (enters, arrival, score) of moves, checked."""
        old = self.columns(wanted)
        return self._compared(old, old.with_regions(Regions.from_shapes(list(shapes), self.space)), now)

    def _compared(self, old, new, now):
        now = [self.now] * len(old) if now is None else now
        found = self.store.difference(old, new, self._weights().from_term(0), np.array(now, np.int64))
        assert len(old) == len(found)
        got = [list(zip(*row, strict=True)) for row in _by_row(found.start, found.enters, found.arrival, found.score)]
        expected = []
        for was, has in zip(self.expected(old, now), self.expected(new, now), strict=True):
            gone = [(0, arrival, score) for arrival, score in was if arrival not in dict(has)]
            expected.append([*gone, *((1, arrival, score) for arrival, score in has if arrival not in dict(was))])
        assert expected == got
        return got

    def safe_distance(self, wanted, now=None):
        """Return the safe distances of subscriptions."""
        now = [self.now] * len(wanted) if now is None else now
        columns = self.columns(wanted)
        return self.store.safe_distance(columns, self._weights().from_term(0), np.array(now, np.int64)).tolist()

    def expected(self, columns, now):
        """Return by row the (arrival, score) of all messages held that an index `scan` of the rows matches."""
        index = create("scan", self.space)
        index.set_weights(self._weights().from_term(0))
        index.insert(columns)
        matches = index.match(self._encoded([(each.tokens, each.place) for each in self.held]))
        rows = [[] for _ in range(len(columns))]
        for message, slot, score in zip(matches.rows(), matches.slots, matches.score, strict=True):
            each = self.held[message]
            if columns.kind[slot] != TOPK and each.expires > now[slot]:
                rows[slot].append((each.arrival, float(score)))
        return rows


def _by_row(start, *columns):
    return [
        [column[first:last].tolist() for column in columns]
        for first, last in zip(start[:-1].tolist(), start[1:].tolist(), strict=True)
    ]
