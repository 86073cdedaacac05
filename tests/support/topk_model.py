"""The definition of top-k in plain Python: after every step, score the whole window and compare with before."""

from nearcast import TopK
from nearcast.testing.plain import topk_score


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
        """Return what is delivered: nothing if the message comes too late."""
        if self.length is not None:
            now = time if self.now is None else max(self.now, time)
            if time <= now - self.length:
                return []
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
        found = []
        for time, number, message, tokens, place in self.window:
            score = self._score(wanted, number, tokens, place)
            if score is not None:
                age = (time, number) if self.length is not None else number
                found.append((score, age, number, message))
        found.sort(key=lambda each: each[:2], reverse=True)
        return [(score_, number, message) for score_, _, number, message in found[: wanted.k]]

    def _score(self, wanted, number, tokens, place):
        """Return the score of a message, None without a word in common."""
        key = (wanted, number)
        if key not in self._scores:
            self._scores[key] = topk_score(wanted, tokens, place, self.space, self.weights)
        return self._scores[key]
