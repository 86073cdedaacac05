"""Buffers that become short within one call: searched for together, and every step told as if it had come alone."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from nearcast import Hub, TopK
from nearcast.topk.window.segmented_index import SegmentedMessages

WORDS = ["tea", "ramen", "beer", "soup"]
WINDOWS = [pytest.param(25, id="by count"), pytest.param("25s", id="by time")]
BUFFERS = ["cskyband", "kmax,kmax=2", "skyband,ratio=0.9"]


def new_hub(window, buffer):
    """Return a hub with a full window, and subscriptions whose buffers are hardly longer than k."""
    rng = random.Random(1)
    hub = Hub("plane", index=f"trigger:buffer={buffer}", window=window, max_distance=10)
    hub.publish_many(posts(rng, range(25)))
    for id_ in range(30):
        words, place = rng.sample(WORDS, 2), (rng.randint(-3, 3), rng.randint(-3, 3))
        hub.subscribe(TopK(id_, " ".join(words), place, k=rng.choice([1, 2, 3])))
    hub.poll()
    return hub


def posts(rng, seconds):
    """Return a message for each second; all are told apart by their seconds."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        {
            "id": second,
            "text": " ".join(rng.choices(WORDS, k=2)),
            "x": float(rng.randint(-3, 3)),
            "y": float(rng.randint(-3, 3)),
            "time": start + timedelta(seconds=second),
        }
        for second in seconds
    ]


def told(deliveries):
    return [(each.subscription_id, each.message_id, each.score, each.rank, type(each)) for each in deliveries]


@pytest.mark.modes
@pytest.mark.parametrize("buffer", BUFFERS)
@pytest.mark.parametrize("window", WINDOWS)
def test_a_call_tells_what_its_messages_tell_one_by_one(window, buffer):
    """Some buffers become short more than once in the call; what changes is told in the order of steps and slots."""
    together, alone, rng = new_hub(window, buffer), new_hub(window, buffer), random.Random(2)
    batch = posts(rng, range(25, 100))
    before = together.stats()["topk"]["searches"]
    one_by_one = [each for post in batch for each in told(alone.publish(post))]
    assert one_by_one == told(together.publish_many(batch))
    if buffer.startswith("kmax"):
        assert together.stats()["topk"]["searches"] - before > 30
    for id_ in range(30):
        assert list(alone.current(id_)) == list(together.current(id_))


@pytest.mark.parametrize("buffer", BUFFERS)
def test_a_step_at_which_most_of_the_window_expires(buffer):
    """What a search finds first has expired by then: it looks further, until there is enough for what is left."""
    hub, alone = new_hub("25s", buffer), new_hub("25s", buffer)
    batch = posts(random.Random(3), [25, 26, 44, 45, 46, 100, 101])
    one_by_one = [each for post in batch for each in told(alone.publish(post))]
    assert one_by_one == told(hub.publish_many(batch))


def test_the_window_is_searched_once_for_all_of_a_call(monkeypatch):
    """Many buffers become short at different messages of a call, and share one search of the window."""
    hub, asked, search = new_hub(25, "kmax,kmax=2"), [], SegmentedMessages._search

    def counted(self, queries, *others):
        asked.append(len(queries.own))
        return search(self, queries, *others)

    monkeypatch.setattr(SegmentedMessages, "_search", counted)
    hub.publish_many(posts(random.Random(4), range(25, 40)))
    assert len(asked) <= 3
    assert asked[0] > 4
