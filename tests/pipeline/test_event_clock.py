"""Event time through a batch, against a loop that takes one row after the other."""

import random

import numpy as np
import pytest

from nearcast.columns import NO_TIME
from nearcast.engine.state import NEVER
from nearcast.pipeline.batch.event_clock import EventClock
from nearcast.pipeline.batch.order import AheadLimit, SourceTimes, put_in_order
from nearcast.tables.time_limits import MaxAhead

LENGTH = 10


class RowByRow:
    """What messages and reports find, one by one: event time after each, and why one of them is refused."""

    def __init__(self, now, wall, reports_move, *, has_limit):
        self.now, self.wall, self.reports_move, self.has_limit = now, wall, reports_move, has_limit

    def _is_ahead(self, time):
        if not self.has_limit or time is None:
            return False
        origin = self.now if self.wall is None else self.wall
        return origin is not None and time > origin + LENGTH

    def _moved(self, time):
        self.now = time if self.now is None or (time is not None and time > self.now) else self.now

    def message(self, time):
        ahead = self._is_ahead(time)
        if not ahead:
            self._moved(time)
        return self.now, ahead

    def report(self, time, end):
        if self._is_ahead(time):
            return self.now, "ahead"
        clock = max(
            (each for each in (self.now, time if self.reports_move else None) if each is not None), default=None
        )
        if end is not None and clock is not None and end <= clock:
            return self.now, "over"
        before = self.now
        if self.reports_move:
            self._moved(time)
        return self.now, "tick" if self.now != before else ""


def number(time):
    return NO_TIME if time is None else time


@pytest.mark.parametrize("seed", range(60))
def test_the_clock_is_that_of_rows_taken_one_by_one(seed):
    """Reports in runs of any length, with messages between them, limits by event time and by the wall clock."""
    r = random.Random(seed)
    now, wall, reports_move, has_limit = r.choice([None, 5]), r.choice([None, 12]), seed % 3 > 0, seed % 2 > 0
    times = {kind: [r.choice([None, *range(40)]) for _ in range(r.randint(0, 12))] for kind in ("messages", "changes")}
    ends = [r.choice([None, None, *range(1, 45)]) for _ in times["changes"]]
    sources = {
        kind: [SourceTimes(kind, np.array([number(each) for each in given], np.int64), np.arange(len(given)))]
        for kind, given in times.items()
    }
    order = put_in_order(sources["messages"], sources["changes"], by_time=seed % 5 > 0)
    limit = AheadLimit(MaxAhead(LENGTH), wall) if has_limit else None
    clock = EventClock(order, number(now), limit, reports_move=reports_move)
    model = RowByRow(now, wall, reports_move, has_limit=has_limit)
    at = {
        int(position): ("message", int(row))
        for position, row in zip(order.message_position, order.message, strict=True)
    }
    at |= {
        int(position): ("report", int(row)) for position, row in zip(order.change_position, order.change, strict=True)
    }
    expected = {"message": [], "report": []}
    for position in sorted(at):
        kind, row = at[position]
        found = (
            model.message(times["messages"][row])
            if kind == "message"
            else model.report(times["changes"][row], ends[row])
        )
        expected[kind].append(found)
    found, first = [], 0
    while first < len(order.change):
        run = slice(first, first + r.randint(1, 5))
        rows = order.change[run]
        heard = clock.reports(
            order.change_position[run],
            sources["changes"][0].time[rows],
            np.array([NEVER if ends[row] is None else ends[row] for row in rows.tolist()], np.int64),
        )
        for i in range(len(rows)):
            why = [name for name in ("ahead", "over", "tick") if getattr(heard, f"is_{name}")[i]]
            found.append((int(heard.clock[i]), *(why or [""])))
        first = run.stop
    clock.finish()
    assert [(number(now), why) for now, why in expected["report"]] == found
    told = zip(clock.message_clock.tolist(), clock.ahead.tolist(), strict=True)
    assert [(number(now), ahead) for now, ahead in expected["message"]] == list(told)
    assert number(model.now) == clock.now
