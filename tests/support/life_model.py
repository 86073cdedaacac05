"""The definition of lifetimes in plain Python: after every step, match every subscription with every live message.

Whether the two match, and with what score, an index `scan` says, in a hub that knows nothing else. What is relevant is
recomputed in each step and compared with what was before.
"""

from dataclasses import replace

from nearcast import Box, Circle, Hub, Similar, TopK, Vocabulary
from support.topk_model import Recomputing

NEVER = float("inf")


class LifeModel:
    """A hub that recomputes everything; deliveries are (subscription, message, change, score, rank, cause)."""

    def __init__(self, space, *, length=None, tell_expiry=False, count=None):
        self.space, self.length, self.tell_expiry = space, length, tell_expiry
        self.topk = Recomputing(space, count=count) if count else None
        self.vocabulary = Vocabulary()
        self.subscriptions, self.extents, self.reported = {}, {}, {}
        self.order = []  # ids by registration
        self.live = []  # (end, number, message)
        self.held = {}  # what each has: {number: score}
        self.now, self.arrivals = None, 0
        self._found = {}

    # --- what users call

    def publish(self, message, time=None, expires=None):
        """Return what is delivered, None if the message is refused."""
        now = self._later(time)
        end = expires if expires is not None else self._default_end(time)
        if end is None and self.length is not None:
            return None
        if (expires is not None and time is not None and expires <= time) or (None not in (end, now) and end <= now):
            return None
        told = self._clock(time)
        self.arrivals += 1
        entry = (end, self.arrivals, message)
        topk = self._topk_told(lambda: self.topk.publish(message["id"], message["text"].split(), _place(message)))
        mine = {}
        for id_ in self._ids():
            score = self._score(self.subscriptions[id_], entry)
            if score is not None:
                mine[id_] = [(id_, message["id"], "+", score, None)]
                if end is not None:
                    self.held[id_][self.arrivals] = score
        if end is not None:
            self.live.append(entry)
        return told + [(*each, message["id"]) for each in self._by_registration(mine, topk)]

    def subscribe(self, wanted):
        if wanted.expires is not None and self.now is not None and wanted.expires <= self.now:
            return None
        if wanted.id not in self.subscriptions:
            self.order.append(wanted.id)
            self.held[wanted.id] = {}
        self.extents.pop(wanted.id, None)
        self.reported.pop(wanted.id, None)
        return self._changed(wanted)

    def unsubscribe(self, id_):
        self._forget(id_)

    def move(self, id_, place, time=None):
        """Return what is delivered, None if the report is refused."""
        last, wanted = self.reported.get(id_), self.subscriptions[id_]
        if time is not None and last is not None and time < last:
            return None
        if time is not None and wanted.expires is not None and wanted.expires <= time:
            return None
        told = self._clock(time)
        reported = self.now if time is None else time
        self.reported[id_] = reported if last is None or (reported is not None and reported > last) else last
        return told + self._changed(self._at(wanted, place))

    def advance(self, time):
        return self._clock(time)

    def use_vocabulary(self, vocabulary):
        self.vocabulary = vocabulary
        topk = self._topk_told(lambda: self.topk.reweigh(_weights(vocabulary)))
        return self._difference(topk)

    def current(self, id_):
        if isinstance(self.subscriptions[id_], TopK):
            return [(message, score) for score, _, message in self.topk.top(id_)]
        names = {number: message["id"] for _, number, message in self.live}
        return [(names[number], score) for number, score in sorted(self.held[id_].items())]

    # --- time

    def _later(self, time):
        return self.now if time is None or (self.now is not None and time <= self.now) else time

    def _default_end(self, time):
        if self.length is None:
            return None
        begin = self._later(None) if time is None else time
        return None if begin is None else begin + self.length

    def _clock(self, time):
        """Let time pass: messages and subscriptions expire."""
        self.now = self._later(time)
        for id_ in [id_ for id_ in self.order if self._is_over(self.subscriptions[id_].expires)]:
            self._forget(id_)
        dead = sorted((each[:2], each) for each in self.live if self._is_over(each[0]))
        told = []
        for _, entry in dead:
            self.live.remove(entry)
            for id_ in self._ids():
                score = self.held[id_].pop(entry[1], None)
                if score is not None and self.tell_expiry:
                    told.append((id_, entry[2]["id"], "-", score, None, None))
        return told

    def _is_over(self, moment):
        return moment is not None and self.now is not None and moment <= self.now

    def _forget(self, id_):
        if isinstance(self.subscriptions.pop(id_), TopK):
            self.topk.unsubscribe(id_)
        self.order.remove(id_)
        del self.held[id_]
        self.extents.pop(id_, None)
        self.reported.pop(id_, None)

    # --- changes

    def _changed(self, wanted):
        """Put a version of a subscription in place; return the difference that this makes."""
        id_ = wanted.id
        was, now = isinstance(self.subscriptions.get(id_), TopK), isinstance(wanted, TopK)
        left = [(number, message, score, rank) for rank, (score, number, message) in
                enumerate(self.topk.top(id_) if was else [], 1)]  # fmt: skip
        self.subscriptions[id_] = wanted
        if was and not now:
            self.topk.unsubscribe(id_)
        topk = self._topk_told(lambda: self.topk.subscribe(wanted)) if now else {}
        if was == now:
            return self._difference(topk)
        return self._other_kind(id_, left, topk)

    def _other_kind(self, id_, left, topk):
        """Return what leaves and enters a subscription that was of kind `topk` and is not, or the reverse."""
        before = {message: ("-", score, rank) for _, message, score, rank in left}
        names = {number: message["id"] for _, number, message in self.live}
        before |= {names[number]: ("-", score, None) for number, score in sorted(self.held[id_].items())}
        self.held[id_] = self._relevant(id_)
        after = {message: ("+", score, rank) for _, message, _, score, rank in topk.get(id_, [])}
        after |= {names[number]: ("+", score, None) for number, score in self.held[id_].items()}
        gone = [(id_, message, *each) for message, each in before.items() if message not in after]
        new = [(id_, message, *each) for message, each in after.items() if message not in before]
        return [(*each, None) for each in gone + new]

    def _difference(self, topk):
        mine = {}
        names = {number: message["id"] for _, number, message in self.live}
        for id_ in self._ids():
            before, after = self.held[id_], self._relevant(id_)
            gone = [(id_, names[number], "-", before[number], None) for number in sorted(before) if number not in after]
            new = [(id_, names[number], "+", after[number], None) for number in sorted(after) if number not in before]
            mine[id_], self.held[id_] = gone + new, after
        return [(*each, None) for each in self._by_registration(mine, topk)]

    def _by_registration(self, mine, topk):
        return [each for id_ in self.order for each in [*mine.get(id_, []), *topk.get(id_, [])]]

    def _topk_told(self, call):
        told = {}
        for each in call() if self.topk is not None else []:
            told.setdefault(each[0], []).append(each)
        return told

    # --- what is relevant

    def _ids(self):
        return [id_ for id_ in self.order if not isinstance(self.subscriptions[id_], TopK)]

    def _relevant(self, id_):
        if isinstance(self.subscriptions[id_], TopK):
            return {}
        scores = {entry[1]: self._score(self.subscriptions[id_], entry) for entry in self.live}
        return {number: score for number, score in scores.items() if score is not None}

    def _score(self, wanted, entry):
        """Return the score with which an index `scan` matches the two, None if it does not."""
        key = (replace(wanted, expires=None), entry[1], self.vocabulary.version)
        if key not in self._found:
            hub = Hub(self.space, index="scan", vocabulary=self.vocabulary)
            hub.subscribe(key[0])
            told = list(hub.publish(entry[2]))
            self._found[key] = told[0].score if told else None
        return self._found[key]

    def _at(self, wanted, place):
        """Return a subscription at another place; a box keeps the size of the one given last."""
        if isinstance(wanted, (Similar, TopK)):
            return replace(wanted, place=place)
        if not isinstance(place, tuple):
            self.extents.pop(wanted.id, None)
            return replace(wanted, region=place)
        if isinstance(wanted.region, Circle):
            return replace(wanted, region=Circle(*place, wanted.region.radius))
        box = wanted.region
        width = box.x_max - box.x_min + (360 if box.x_max < box.x_min else 0)
        width, height = self.extents.setdefault(wanted.id, (width, box.y_max - box.y_min))
        sides = [place[0] - width / 2, place[0] + width / 2]
        if self.space.is_earth:
            sides = (
                [-180, 180]
                if width >= 360
                else [lon - 360 if lon > 180 else lon + 360 if lon < -180 else lon for lon in sides]
            )
        return replace(wanted, region=Box(sides[0], place[1] - height / 2, sides[1], place[1] + height / 2))


def _place(message):
    names = [name for name in ("lon", "lat", "lon_max", "lat_max", "x", "y", "x_max", "y_max") if name in message]
    place = tuple(message[name] for name in names)
    return place if len(place) == 4 else place + place


def _weights(vocabulary):
    words = ["tea", "ramen", "beer", "soup"]
    return dict(zip(words, vocabulary.idf(words).tolist(), strict=True))
