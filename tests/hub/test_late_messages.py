"""Messages that come too late for a window of time: they reach everybody but top-k subscriptions."""

from datetime import UTC, datetime, timedelta

import pytest

from nearcast import Hub, Message, Similar, TopK, Within
from nearcast.errors import InvalidMessage

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def post(number, seconds, text="tea"):
    return Message(number, text, (0, 0), time=None if seconds is None else NOON + timedelta(seconds=seconds))


@pytest.fixture
def hub():
    hub = Hub("plane", window="10s", max_distance=100)
    hub.subscribe_many(
        [Within("w", "tea"), Similar("s", "tea", (0, 0), threshold=0.5), TopK("k", "tea", (0, 0), k=1)],
    )
    return hub


def told(deliveries):
    return [(each.subscription_id, each.change, each.message_id) for each in deliveries]


@pytest.mark.modes
def test_a_late_message_reaches_within_and_similar_and_enters_no_topk(hub):
    """Also where it would be the best that the top-k ever saw."""
    hub.publish(post(1, 20, "tea and milk"))
    assert [("w", "+", 2), ("s", "+", 2)] == told(hub.publish(post(2, 10)))
    assert [1] == [each.message_id for each in hub.current("k")]
    assert not hub.explain(post(3, 10), "k").matched
    assert hub.explain(post(3, 10), "w").matched


def test_late_messages_in_bulk_are_told_in_a_warning_and_counted(hub):
    found = hub.publish_many([post(1, 20), post(2, 3), post(3, 21, "milk"), post(4, 11), post(5, 12), post(6, None)])
    assert [1, 2, 4, 5] == [each.message_id for each in found if each.subscription_id == "w"]
    assert [("k", "+", 1)] == [each for each in told(found) if each[0] == "k"]
    assert ["time is not given; a window of 10s needs to know it"] == [row.reason for row in found.rejected]
    assert 1 == len(found.rejected.warnings)
    assert "came too late for the window of 10s" in found.rejected.warnings[0]
    assert (2, 5) == (hub.stats()["late"], hub.stats()["published"])


def test_a_batch_of_late_messages_alone_moves_nothing(hub):
    hub.publish(post(1, 20))
    assert [("w", 2), ("s", 2), ("w", 3), ("s", 3)] == [
        (each.subscription_id, each.message_id) for each in hub.publish_many([post(2, 1), post(3, 2)])
    ]
    assert [("k", "-", 1)] == told(hub.advance(NOON + timedelta(seconds=30)))


def test_a_late_message_reaches_nobody_whose_time_is_over(hub):
    """A subscription that had expired by event time stays without it, whatever the message says."""
    hub.subscribe(Within("short", "tea", expires=NOON + timedelta(seconds=15)))
    hub.publish(post(1, 20))
    assert "short" not in {each.subscription_id for each in hub.publish(post(2, 9))}


def test_a_message_without_a_time_is_still_refused(hub):
    with pytest.raises(InvalidMessage, match="time is not given; a window of 10s needs to know it"):
        hub.publish(post(1, None))
