"""Deliveries that are held back: what passes, what is dropped, and when."""

from datetime import UTC, datetime, timedelta

import pytest

from nearcast import Circle, Delivery, Hub, InvalidInput, TopK, Within
from nearcast.guards import Debounce


def at(second):
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def told(change, second, message="m", subscription="s"):
    return Delivery(subscription, message, change, time=at(second))


def changes(deliveries):
    return [(d.subscription_id, d.change, d.message_id) for d in deliveries]


def test_a_plus_waits_and_passes():
    """Until it is due; it is the delivery that came."""
    guard = Debounce(enter="30s")
    given = told("+", 0)
    assert [] == guard.feed([given])
    assert [] == guard.advance(at(29))
    assert [given] == guard.advance(at(30))
    assert 0 == len(guard)


def test_opposites_drop_each_other():
    """A `+` that a `-` follows in time was noise, and so is a `-` that a `+` follows."""
    guard = Debounce(enter="30s", leave="2m")
    assert [] == guard.feed([told("+", 0), told("-", 29)])
    assert [] == guard.advance(at(200))
    assert [("s", "+", "m")] == changes(guard.feed([told("+", 200)], at(230)))
    assert [] == guard.feed([told("-", 240), told("+", 350)])
    assert [] == guard.advance(at(900))
    assert [("s", "-", "m")] == changes(guard.feed([told("-", 900)], at(1020)))


def test_messages_and_subscriptions_are_told_apart():
    """Only the same message of the same subscription is its opposite; order is by what was due first."""
    guard = Debounce(enter="10s", leave="5s")
    given = [told("+", 0, "a"), told("+", 1, "b"), told("-", 2, "c"), told("-", 2, "a", "other")]
    assert [] == guard.feed(given)
    assert [("s", "-", "c"), ("other", "-", "a"), ("s", "+", "a"), ("s", "+", "b")] == changes(guard.advance(at(20)))


def test_what_is_not_to_wait_passes_at_once():
    """Without `enter` a `+` passes, unless it takes back a `-` that waits."""
    guard = Debounce(leave="5s")
    assert [("s", "+", "m")] == changes(guard.feed([told("+", 0)]))
    assert [] == guard.feed([told("-", 1), told("+", 2)])
    assert [] == guard.advance(at(60))


def test_a_removed_subscription_is_forgotten():
    """What was held back for it goes."""
    guard = Debounce(enter="5s")
    guard.feed([told("+", 0), told("+", 0, subscription="other")])
    guard.forget("s")
    assert [("other", "+", "m")] == changes(guard.advance(at(9)))


def test_wrong_lengths_and_missing_times_are_refused():
    """A number of messages is no time, and without event time nothing can wait."""
    for wrong in ("soon", 7, "100"):
        with pytest.raises(InvalidInput, match="enter is"):
            Debounce(enter=wrong)
    with pytest.raises(InvalidInput, match="without a time"):
        Debounce(enter="5s").feed([Delivery("s", "m")])


def test_deliveries_without_a_time_wait_from_the_time_they_are_fed_with():
    """That of the call, where no other is known; else they come at the present one."""
    guard = Debounce(enter="30s")
    assert [] == guard.feed([Delivery("s", "m")], at(0))
    assert [] == guard.feed([Delivery("s", "n")], at(20))
    assert [] == guard.advance(at(29))
    assert [("s", "+", "m"), ("s", "+", "n")] == changes(guard.advance(at(30)))


@pytest.mark.parametrize("time", [None, "soon"])
def test_a_feed_that_raises_has_taken_nothing(time):
    """What would have passed before the fault is not lost: it may be fed again."""
    guard = Debounce(leave="5s")
    given = [Delivery("s", "m"), Delivery("s", "n", "-")]
    with pytest.raises(InvalidInput):
        guard.feed(given, time)
    assert 0 == len(guard)
    assert [("s", "+", "m")] == changes(guard.feed(given, at(0)))
    assert [("s", "-", "n")] == changes(guard.advance(at(5)))


@pytest.mark.parametrize("tell_expiry", [False, True])
def test_a_message_that_dies_takes_its_delivery_with_it(tell_expiry):
    """Held back longer than the message lives, a `+` is dropped; so is a `-`, which never names a dead one."""
    hub = Hub("plane", lifetime="10s", tell_expiry=tell_expiry)
    guard = Debounce(enter="8s", leave="8s", ends=hub.ends)
    hub.subscribe(Within("s", "tea", Circle(0, 0, 1)))

    def post(id_, second, x=0.0):
        return hub.publish({"id": id_, "text": "tea", "x": x, "y": 0.0, "time": at(second)})

    assert [] == guard.feed(post(1, 0))
    assert [] == guard.feed(post(2, 4, x=5.0))
    assert [("s", "+", 1)] == changes(guard.feed(hub.advance(at(8)), at(8)))
    assert [] == guard.feed(hub.move("s", (5, 0), at(9)))  # - 1, which dies at 10, and + 2, which dies at 14
    assert [] == guard.feed(hub.advance(at(20)), at(20))
    assert [] == guard.advance(at(60))


def test_an_end_is_not_told_of_what_was_never_told():
    """However long after the message died the hub tells it: the guard's clock may be far ahead of the hub's."""
    hub = Hub("plane", lifetime="10s", tell_expiry=True)
    guard = Debounce(enter="30s", ends=hub.ends)
    hub.subscribe(Within("s", "tea", Circle(0, 0, 1)))
    assert [] == guard.feed(hub.publish({"id": "m", "text": "tea", "x": 0.0, "y": 0.0, "time": at(0)}))
    assert [] == guard.advance(at(20))
    assert [] == guard.advance(at(200))
    assert [] == changes(guard.feed(hub.advance(at(300))))


def test_ends_that_are_never_told_are_not_kept():
    """Where expiry is silent, what was dropped is forgotten once later deliveries have come."""
    guard = Debounce(enter="30s", ends=lambda delivery: delivery.time + timedelta(seconds=10))
    for second in range(0, 2000, 20):
        assert [] == guard.feed([told("+", second, second)])
        assert len(guard._unsaid) <= 2
    guard.forget("s")
    assert not guard._unsaid


def test_a_top_k_keeps_what_has_expired():
    """It looks at its window alone: a `+` that is held back longer than the message lives is told."""
    hub = Hub("plane", lifetime="10s", window=5, max_distance=100)
    guard = Debounce(enter="30s", ends=hub.ends)
    hub.subscribe(TopK("k", "tea", (0, 0), k=1))
    assert [] == guard.feed(hub.publish({"id": "m", "text": "tea", "x": 0.0, "y": 0.0, "time": at(0)}))
    assert [] == guard.feed(hub.advance(at(20)), at(20))
    assert [("k", "+", "m")] == changes(guard.advance(at(30)))
    assert ["m"] == [d.message_id for d in hub.current("k")]
