"""Messages from the future, and subscriptions from the past, are refused."""

from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from nearcast import Hub
from nearcast.columns import NO_TIME
from nearcast.errors import InvalidInput, InvalidMessage, InvalidSubscription
from nearcast.tables.time_limits import MaxAhead


def at(minutes, **more):
    """A message so many minutes after noon."""
    return {"text": "ramen", "x": 0, "y": 0, "time": f"2026-05-01T12:{minutes:02}:00Z", **more}


NEXT_CENTURY = {"id": "wrong", "text": "ramen", "x": 0, "y": 0, "time": "9999-01-01T00:00:00Z"}


@pytest.fixture
def hub():
    """A hub whose one subscription ends at one o'clock."""
    hub = Hub("plane", max_ahead="5m", window="30m")
    hub.subscribe({"id": "s", "query": "ramen", "expires": "2026-05-01T13:00:00Z"})
    return hub


def test_publish_refuses_a_message_from_the_future(hub):
    """It says both times; nobody expires by it, and the window takes what follows."""
    hub.publish(at(0, id=1))
    with pytest.raises(InvalidMessage, match="from the future") as caught:
        hub.publish(NEXT_CENTURY)
    assert "time" == caught.value.field
    assert "9999-01-01 00:00:00" in str(caught.value)
    assert "2026-05-01 12:00:00" in str(caught.value)
    assert ["s"] == [delivery.subscription_id for delivery in hub.publish(at(1, id=2))]


def test_the_limit_itself_is_accepted(hub):
    """Five minutes ahead are not more than five minutes."""
    hub.publish(at(0, id=1))
    with pytest.raises(InvalidMessage, match="more than 5m after event time"):
        hub.publish(at(5, id=2, time="2026-05-01T12:05:00.000001Z"))
    assert 1 == len(hub.publish(at(5, id=2)))


def test_bulk_rejects_rows_against_the_time_of_the_rows_before(hub):
    """Each accepted row moves event time, a rejected one does not; late ones and those without a time are as ever."""
    minutes = [0, 4, 9, 20, 14, 19]
    rows = [at(minute, id=i) for i, minute in enumerate(minutes)]
    found = hub.publish_many([*rows[:3], NEXT_CENTURY | {"id": 9}, *rows[3:]])
    assert [0, 1, 2, 4, 5] == [delivery.message_id for delivery in found]
    assert [(3, "time"), (4, "time")] == [(row.row, row.field) for row in found.rejected]
    assert all("from the future" in row.reason for row in found.rejected)
    assert "2026-05-01 12:09:00" in list(found.rejected)[1].reason


def test_bulk_and_single_calls_agree():
    """A batch refuses what one call after the other refuses, late messages included."""
    rng = np.random.default_rng(5)
    rows = [at(int(minute), id=i) for i, minute in enumerate(rng.integers(0, 60, 200))]
    for row in rows[::7]:
        del row["time"]
    one, many = (Hub("plane", max_ahead=timedelta(minutes=5), window="10m") for _ in range(2))
    refused = []
    for i, row in enumerate(rows):
        try:
            one.publish(row)
        except InvalidMessage as error:
            refused.append((i, str(error)))
    assert refused == [(row.row, row.reason) for row in many.publish_many(rows).rejected]
    assert one.stats()["now"] == many.stats()["now"]


def test_the_first_time_is_accepted():
    """Without event time there is nothing to be ahead of."""
    hub = Hub("plane", max_ahead="5m")
    hub.publish(NEXT_CENTURY)
    assert "9999-01-01T00:00:00Z" == hub.stats()["now"]


def test_advance_is_not_limited(hub):
    """Whoever advances the clock knows what they do; messages are then measured by it."""
    hub.publish(at(0, id=1))
    hub.advance("2026-05-01T12:50:00Z")
    assert 1 == len(hub.publish(at(55, id=2)))


def test_off_unless_given():
    """Time arrives as data, and a hub takes it as it comes."""
    for hub in (Hub("plane"), Hub("plane", max_ahead="off")):
        hub.publish(at(0, id=1))
        hub.publish(NEXT_CENTURY)
        assert "9999-01-01T00:00:00Z" == hub.stats()["now"]


def test_the_limit_is_saved_with_a_hub(hub, tmp_path):
    """A hub that was opened again refuses what the old one did."""
    hub.publish(at(0, id=1))
    hub.save(tmp_path / "saved")
    with pytest.raises(InvalidMessage, match="more than 5m"):
        Hub.open(tmp_path / "saved").publish(NEXT_CENTURY)


@pytest.mark.parametrize("given", ["5", 300, "soon", "-5m", "0s", timedelta(0), True, 1.5])
def test_a_limit_is_a_stretch_of_time(given):
    """A bare number says no unit."""
    with pytest.raises(InvalidInput, match="expected a time like 30s"):
        Hub("plane", max_ahead=given)


def test_ahead_of_events_row_by_row():
    """The definition: a time is refused when it lies beyond the largest accepted one by more than the limit."""
    limit = MaxAhead(10)
    times = np.array([NO_TIME, 100, 111, 110, 120, 131, 90, 130])
    assert [2, 5] == np.flatnonzero(limit.ahead_of_events(times, NO_TIME)).tolist()
    assert [1, 2, 3, 4, 5, 6, 7] == np.flatnonzero(limit.ahead_of_events(times, 50)).tolist()
    assert [] == np.flatnonzero(limit.ahead_of_events(times[:0], 50)).tolist()


class TestExpired:
    """Subscribing something that has expired already is refused."""

    GONE = ("2026-05-01T12:00:00Z", "2026-05-01T11:00:00Z")

    @pytest.mark.parametrize("expires", GONE)
    def test_subscribe_raises(self, hub, expires):
        """At the very moment, too; nothing is stored, and what stood under the id stays."""
        hub.publish(at(0, id=1))
        with pytest.raises(InvalidSubscription, match="event time is 2026-05-01 12:00:00") as caught:
            hub.subscribe({"id": "s", "query": "beer", "expires": expires})
        assert "expires" == caught.value.field
        assert 1 == len(hub.publish(at(1, id=2)))

    @pytest.mark.parametrize("as_table", [True, False])
    def test_subscribe_many_rejects_the_row(self, hub, as_table):
        """The others are stored."""
        hub.publish(at(0, id=1))
        rows = [{"id": str(i), "query": "ramen", "expires": each} for i, each in enumerate([*self.GONE, None])]
        rejected = hub.subscribe_many(pa.Table.from_pylist(rows) if as_table else rows)
        assert [(0, "expires"), (1, "expires")] == [(row.row, row.field) for row in rejected]
        assert ["s", "2"] == [delivery.subscription_id for delivery in hub.publish(at(1, id=2))]

    def test_without_event_time_nothing_has_expired(self):
        """Time is unknown until something says it."""
        hub = Hub("plane")
        hub.subscribe({"id": "s", "query": "ramen", "expires": "1970-01-01T00:00:00Z"})
        assert 1 == len(hub)


@pytest.mark.parametrize("given", ["soon", "5", "-5m"])
def test_the_command_refuses_what_is_no_stretch_of_time(tmp_path, nearcast, given):
    """A usage mistake, before Spark is started."""
    subscriptions = tmp_path / "s.jsonl"
    subscriptions.write_text('{"id": 1, "query": "ramen"}\n')
    places = ["--messages", str(tmp_path), "--out", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "K")]
    result = nearcast("stream", "--subscriptions", str(subscriptions), *places, f"--max-ahead={given}")
    assert 2 == result.status
    assert f"--max-ahead is '{given}'; expected a time like 30s" in result.complaint
