"""A durable hub by the wall clock: times of receipt, beats, times from the future, a clock that goes back."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearcast import Circle, TopK, Within
from nearcast.columns import NO_TIME, microseconds_of
from nearcast.durable import DurableHub, receipt_clock
from nearcast.durable.inputs import Input
from nearcast.durable.receipt_times import stamped
from nearcast.errors import InvalidInput, InvalidMessage, InvalidSubscription
from nearcast.tables.cells import TableRows
from support.hub_calls import call_lists, contents_of, one_of_each_kind, outcome, prepared

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def message(number, **more):
    return {"id": number, "text": "tea", "x": 0.0, "y": 0.0, **more}


class HandClock:
    """The wall clock of a test, in seconds after `BEGIN`."""

    def __init__(self):
        self.second = 0

    def __call__(self):
        return microseconds_of(self.time())

    def time(self, more=0):
        return BEGIN + timedelta(seconds=self.second + more)


@pytest.fixture
def clock(monkeypatch):
    hand = HandClock()
    monkeypatch.setattr(receipt_clock, "wall_time", hand)
    return hand


def test_the_time_of_receipt_fills_in_and_is_found_again(clock, tmp_path):
    """In messages and moves, single and in tables; a time that is given stays."""
    with DurableHub(tmp_path / "hub", "plane", lifetime="1h", clock="wall") as hub:
        hub.subscribe(Within("a", "tea", Circle(0, 0, 5)))
        clock.second = 10
        assert clock.time() == hub.publish(message(1))[0].time
        clock.second = 20
        many = hub.publish_many([message(2, time=clock.time(-5)), message(3)])
        assert [clock.time(-5), clock.time()] == [each.time for each in many]
        hub.move("a", (1, 1))
        clock.second = 30
        hub.move_many([{"id": "a", "x": 2.0, "y": 1.0}])
        with pytest.raises(InvalidSubscription, match="reported at"):
            hub.move("a", (1, 1), time=clock.time(-1))
        clock.second = 5000  # replay does not ask what time it is
        expected = contents_of(hub)
    with DurableHub.open(tmp_path / "hub") as again:
        assert expected == contents_of(again)


def test_a_beat_moves_event_time_and_is_logged(clock, tmp_path):
    """What ends by then ends, now and on replay."""
    with DurableHub(tmp_path / "hub", "plane", window="1m", clock="wall") as hub:
        hub.subscribe(TopK("k", "tea", (0, 0), k=1, max_distance=3))
        hub.subscribe(Within("a", "tea", expires=clock.time(100)))
        hub.publish(message(1))
        clock.second = 59
        assert [] == list(hub.beat())
        clock.second = 61
        assert [("k", "-")] == [(each.subscription_id, each.change) for each in hub.beat()]
        clock.second = 101
        hub.beat()
        assert ["k"] == list(hub)
        expected = contents_of(hub)
    with DurableHub.open(tmp_path / "hub") as again:
        assert expected == contents_of(again)
    with (
        DurableHub(tmp_path / "event", "plane") as hub,
        pytest.raises(InvalidInput, match=r"beats are for clock='wall'"),
    ):
        hub.beat()


def test_times_from_the_future_are_refused_before_they_are_logged(clock, tmp_path):
    """A single call raises, rows of a table are rejected under their numbers; the others are stored."""
    with DurableHub(tmp_path / "hub", "plane", clock="wall") as hub:
        hub.subscribe(Within("a", "tea"))
        for call in (
            lambda: hub.publish(message(1, time=clock.time(301))),
            lambda: hub.move("a", Circle(0, 0, 1), time=clock.time(301)),
            lambda: hub.advance(clock.time(301)),
        ):
            with pytest.raises(InvalidInput, match="from the future: more than 5m after the time of receipt"):
                call()
        assert 1 == hub.stats()["log"]["inputs"]
        rows = [message(1), message(2, time=clock.time(301)), message(3, time=clock.time(300)), {"id": 4}]
        found = hub.publish_many(rows, key="k")
        assert [1, 3] == [each.message_id for each in found]
        assert [(1, "2"), (3, "4")] == sorted((row.row, row.id) for row in found.rejected)
        moved = hub.move_many(
            pa.table({"id": ["a", "a"], "region": ["[0,0,1,1]"] * 2, "time": [clock.time(301), None]})
        )
        assert [0] == [row.row for row in moved.rejected]
        assert 3 == hub.stats()["rejected"]
        clock.second = 3600  # now it would not be refused: the key still stands for the same messages
        assert "was used for the same messages" in hub.publish_many(rows, key="k").rejected.warnings[-1]
        expected = contents_of(hub)
    with DurableHub.open(tmp_path / "hub") as again:
        assert expected == contents_of(again)


def test_a_limit_from_the_future_can_be_another_or_none(clock, tmp_path):
    """It is an option of the folder."""
    with DurableHub(tmp_path / "none", "plane", clock="wall", max_ahead="off") as hub:
        hub.publish(message(1, time=clock.time(10**6)))
    with DurableHub.open(tmp_path / "none") as hub:
        hub.publish(message(1, time=clock.time(2 * 10**6)))
    with DurableHub(tmp_path / "short", "plane", clock="wall", max_ahead="1s") as hub, pytest.raises(InvalidMessage):
        hub.publish(message(1, time=clock.time(2)))
    with pytest.raises(InvalidInput, match=r"clock is 'event', but .* was made with 'wall'"):
        DurableHub(tmp_path / "short", "plane", max_ahead="1s")
    with pytest.raises(InvalidInput, match="clock is 'sun'; expected 'event' or 'wall'"):
        DurableHub(tmp_path / "other", "plane", clock="sun")


def test_a_clock_that_goes_back_stands_still(clock, tmp_path):
    """Until it has caught up, also across a restart; the stats say by how much it is behind."""
    clock.second = 1000
    with DurableHub(tmp_path / "hub", "plane", clock="wall") as hub:
        hub.subscribe(Within("a", "tea"))
        hub.publish(message(1))
    clock.second = 400
    with DurableHub.open(tmp_path / "hub") as hub:
        assert 600 == hub.stats()["log"]["clock_behind_s"]
        assert clock.time(600) == hub.publish(message(2))[0].time
        clock.second = 1001
        assert clock.time() == hub.publish(message(3))[0].time
        assert 0 == hub.stats()["log"]["clock_behind_s"]


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(calls=call_lists(False), cut=st.integers(0, 12))
def test_replay_gives_the_same_by_the_wall_clock(tmp_path_factory, calls, cut):
    """All kinds, with a snapshot anywhere, and beats between the calls."""
    folder, hand = tmp_path_factory.mktemp("wall"), HandClock()
    calls = [("subscribe", each) for each in one_of_each_kind(False)] + calls
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(receipt_clock, "wall_time", hand)
        options = {"window": "3s", "lifetime": "5s", "max_ahead": "6s", "tell_expiry": True, "clock": "wall"}
        with DurableHub(folder / "hub", "plane", **options) as hub:
            for at, call in enumerate(calls):
                hand.second += at % 2
                method, *arguments = prepared(hub, call)
                outcome(hub, lambda m=method, a=arguments: getattr(hub, m)(*a))
                if at % 4 == 0:
                    outcome(hub, hub.beat)
                if at == cut:
                    hub.snapshot()
            expected = contents_of(hub)
        hand.second = 99
        with DurableHub.open(folder / "hub") as again:
            assert expected == contents_of(again)


@pytest.mark.parametrize(
    "times",
    [
        pa.array([None, "2026-01-01T00:00:05Z", "nonsense"]),
        pa.array([None, "2026-01-01T00:00:05Z", None]),
        pa.array([None, BEGIN.date(), None]),
        pa.array([None, BEGIN, None], pa.timestamp("ns")),
        pa.array([None, None, None]),
        None,
    ],
    ids=["bad text", "text", "dates", "naive", "nulls", "no column"],
)
def test_columns_of_any_type_are_filled(times):
    """What is given stays as it is, what cannot be read is rejected as before."""
    table = pa.table({"id": [1, 2, 3], "text": ["tea"] * 3, "x": [0.0] * 3, "y": [0.0] * 3})
    table = table if times is None else table.append_column("time", times)
    received = microseconds_of(BEGIN + timedelta(seconds=9))
    before = TableRows(table, "", 0)
    times = before.times("time")
    filled = TableRows(stamped(Input("publish_many", table), received).table, "", 0)
    is_missing = (times == NO_TIME) & ~before.faults.is_bad

    assert np.where(is_missing, received, times).tolist() == filled.times("time").tolist()
    assert before.faults.is_bad.tolist() == filled.faults.is_bad.tolist()


def test_subscribers_get_times_of_receipt(clock, tmp_path):
    """With messages that wait, and when they move; a time from the future is refused."""
    with DurableHub(tmp_path / "hub", "plane", clock="wall") as hub:
        hub.subscribe(Within("a", "tea", Circle(0, 0, 5)), subscriber="anna")
        clock.second = 10
        hub.publish(message(1))
        clock.second = 20
        assert {} == hub.move_subscriber("anna", (1, 1)).stayed
        with pytest.raises(InvalidSubscription, match="reported at"):
            hub.move("a", (2, 2), time=clock.time(-1))
        with pytest.raises(InvalidSubscription, match="from the future"):
            hub.move_subscriber("anna", (1, 1), time=clock.time(301))
        expected = contents_of(hub)
    with DurableHub.open(tmp_path / "hub") as again:
        assert expected == contents_of(again)
        assert [clock.time(-10)] == [each.message.time for each in again.events("anna")]
