"""The definition of top-k in plain Python: after every step, score the whole window and compare with before."""

import math
from collections import Counter

from nearcast import Space, TopK


class Recomputing:
    """A hub that recomputes everything, and says what it delivers as (subscription, message, change, score, rank)."""

    def __init__(self, space, *, count=None, length=None, weights=None):
        self.space, self.count, self.length = space, count, length
        self.weights = weights or {}
        self.subscriptions = {}
        self.window = []  # (time, number, id, tokens, place), in order of arrival
        self.tops = {}
        self.now, self.arrivals = None, 0
        self._scores = {}  # of (subscription, number of message), for speed alone

    def subscribe(self, wanted: TopK):
        self.subscriptions[wanted.id] = wanted
        self.tops.setdefault(wanted.id, [])
        return self._changes()

    def unsubscribe(self, id_):
        del self.subscriptions[id_], self.tops[id_]

    def publish(self, id_, tokens, place, time=None):
        """Return what is delivered, None if the message comes too late."""
        if self.length is not None:
            now = time if self.now is None else max(self.now, time)
            if time <= now - self.length:
                return None
            self.now = now
        self.arrivals += 1
        self.window.append((time, self.arrivals, id_, tokens, place))
        self._slide()
        return self._changes()

    def advance(self, time):
        self.now = time if self.now is None else max(self.now, time)
        self._slide()
        return self._changes()

    def reweigh(self, weights):
        self.weights, self._scores = weights, {}
        return self._changes()

    def _slide(self):
        if self.count is not None:
            self.window = self.window[-self.count :]
        elif self.now is not None:
            self.window = [each for each in self.window if each[0] > self.now - self.length]

    def _changes(self):
        told = []
        for id_ in self.subscriptions:
            old, new = self.tops[id_], self.top(id_)
            self.tops[id_] = new
            was, now = {number for _, number, *_ in old}, {number for _, number, *_ in new}
            gone = [(rank, each) for rank, each in enumerate(old, 1) if each[1] not in now]
            came = [(rank, each) for rank, each in enumerate(new, 1) if each[1] not in was]
            told += [(id_, each[2], "-", each[0], rank) for rank, each in gone]
            told += [(id_, each[2], "+", each[0], rank) for rank, each in came]
        return told

    def top(self, id_):
        """Return the top-k as (score, number, message id), best first."""
        wanted = self.subscriptions[id_]
        words = sorted({*wanted.query.split(), *(wanted.terms or ())})
        found = []
        for time, number, message, tokens, place in self.window:
            if set(words) & set(tokens):
                age = (time, number) if self.length is not None else number
                found.append((self._score(wanted, words, number, tokens, place), age, number, message))
        found.sort(key=lambda each: each[:2], reverse=True)
        return [(score_, number, message) for score_, _, number, message in found[: wanted.k]]

    def _score(self, wanted, words, number, tokens, place):
        key = (wanted, number)
        if key not in self._scores:
            self._scores[key] = score(wanted, words, tokens, place, self.space, self.weights)
        return self._scores[key]


def score(wanted: TopK, words, tokens, place, space: Space, weights):
    """Return w · cosine of tf-idf + (1 - w) · near."""
    count = Counter(tokens)

    def weight(word):
        return weights.get(word, 1.0)

    common = own = other = 0.0
    for word in words:
        own += weight(word) * weight(word)
        if word in count:
            common += weight(word) * (count[word] * weight(word))
    for word in sorted(count):
        other += (count[word] * weight(word)) * (count[word] * weight(word))
    text = 0.0
    if common > 0.0:
        text = min(1.0, common / math.sqrt(own * other))
    near = max(0.0, 1.0 - float(space.distance_to_box(*wanted.place, place)) / wanted.max_distance)
    return wanted.text_weight * text + (1.0 - wanted.text_weight) * near
