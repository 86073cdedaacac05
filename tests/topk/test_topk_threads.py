"""Publishing in several threads over top-k subscriptions: the same deliveries as on one, and nothing of a call torn."""

import random
import threading
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearcast import Box, Hub, Similar, TopK, Within
from nearcast.indexes.shared import threads as shared_threads
from nearcast.indexes.trigger.thresholds import batch_match
from nearcast.topk import keeper
from nearcast.topk.window import answers
from nearcast.topk.window.segmented_index import SegmentedMessages
from support.torn import Tracer, look, rows

WORDS = ["tea", "ramen", "beer", "soup", "jazz", "rain"]
IDS = range(24)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Let a few messages and a few searches be enough for every thread to have some."""
    monkeypatch.setattr(keeper, "BATCH", 12)
    monkeypatch.setattr(batch_match, "_FEWEST", 1)
    monkeypatch.setattr(answers, "_FEWEST", 1)
    monkeypatch.setattr(SegmentedMessages, "TAIL", 4)


def subscriptions(rng):
    """Return subscriptions of all kinds; most are top-k, with small buffers that are soon short."""
    made = [
        Within(0, "tea OR jazz"),
        Within(1, "rain", Box(-2, -2, 1, 1)),
        Similar(2, "tea soup", (0, 0), threshold=0.3),
    ]
    for id_ in IDS[3:]:
        text, place = " ".join(rng.sample(WORDS, 2)), (rng.randint(-3, 3), rng.randint(-3, 3))
        made.append(TopK(id_, text, place, k=rng.choice([1, 2, 3]), text_weight=rng.choice([0.0, 0.3, 1.0])))
    return made


def posts(rng, first, n):
    """Return messages in about the order of their times; some come late."""
    return [
        {
            "id": number,
            "text": " ".join(rng.choices(WORDS, k=rng.randint(1, 3))),
            "x": float(rng.randint(-3, 3)),
            "y": float(rng.randint(-3, 3)),
            "time": f"2026-01-01T00:{number // 60:02d}:{max(number % 60 - rng.choice([0, 0, 3]), 0):02d}Z",
        }
        for number in range(first, first + n)
    ]


def new_hub(rng, window, index="trigger:buffer=kmax,kmax=2"):
    hub = Hub("plane", index=index, window=window, max_distance=10)
    hub.subscribe_many(subscriptions(rng))
    hub.publish_many(posts(rng, 0, 15))
    hub.poll()
    return hub


WINDOWS = [pytest.param(9, id="by count"), pytest.param(timedelta(seconds=12), id="by time")]


@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 999), buffer=st.sampled_from(["cskyband", "kmax,kmax=2", "skyband,ratio=0.8"]))
def test_threads_deliver_the_same(window, seed, buffer, tmp_path_factory):
    """Whatever arrives, one thread and several deliver the same bytes, also from a hub that was saved in between."""
    alone = new_hub(random.Random(seed), window, f"trigger:buffer={buffer}")
    several = {n: new_hub(random.Random(seed), window, f"trigger:buffer={buffer}") for n in (2, 3)}
    rng, folder = random.Random(seed), tmp_path_factory.mktemp("saved")
    for first, n in ((15, 14), (29, 1), (30, 20)):
        batch = posts(rng, first, n)
        expected = alone.publish_many(batch)
        for threads, hub in several.items():
            found = hub.publish_many(batch, threads=threads)
            assert expected.to_table().equals(found.to_table())
            assert list(expected) == list(found)
        several[3].save(folder / str(first))
        several[3] = Hub.open(folder / str(first))
    for hub in several.values():
        assert all(list(alone.current(id_)) == list(hub.current(id_)) for id_ in IDS[3:])


def test_matching_and_searching_are_divided(monkeypatch):
    """A portion of messages is matched, and the buffers it leaves short are searched for, in chunks for each thread."""
    divided = {"match": 0, "search": 0}

    def counting(name):
        def run(function, starts, *others):
            divided[name] += len(starts) > 1
            return shared_threads.in_threads(function, starts, *others)

        return run

    hub = new_hub(random.Random(1), 9)
    monkeypatch.setattr(batch_match, "in_threads", counting("match"))
    monkeypatch.setattr(answers, "in_threads", counting("search"))
    hub.publish_many(posts(random.Random(2), 15, 30))
    assert {"match": 0, "search": 0} == divided
    hub.publish_many(posts(random.Random(2), 45, 30), threads=3)
    assert 3 == divided["match"]
    assert divided["search"] > 0


@pytest.mark.parametrize("window", WINDOWS)
def test_an_error_in_a_thread_changes_nothing(window, monkeypatch):
    """A thread that fails in the second portion of a call fails the call: the hub is as before, and goes on."""
    hub, twin = new_hub(random.Random(3), window), new_hub(random.Random(3), window)
    batch, search, calls = posts(random.Random(4), 15, 24), batch_match._search_chunk, []

    def failing(*arguments):
        calls.append(threading.current_thread())
        if len(calls) == 5:
            raise MemoryError
        return search(*arguments)

    monkeypatch.setattr(batch_match, "_search_chunk", failing)
    before = look(hub, IDS)
    with pytest.raises(MemoryError):
        hub.publish_many(batch, threads=3)
    assert before == look(hub, IDS)
    assert not [thread for thread in threading.enumerate() if thread.name == "nearcast-match"]
    monkeypatch.setattr(batch_match, "_search_chunk", search)
    assert list(twin.publish_many(batch)) == list(hub.publish_many(batch, threads=3))


@pytest.mark.parametrize("window", WINDOWS)
def test_interrupted_anywhere_it_was_made_or_not(window):
    """A call in three threads that is cut short at any line has changed nothing, or is complete."""
    batch = posts(random.Random(6), 15, 14)
    counted, twin = Tracer(), new_hub(random.Random(5), window)
    expected = rows(counted.run(lambda: twin.publish_many(batch, threads=3))[1])
    after, n, undone = look(twin, IDS), counted.n_events, 0
    for at in range(1, n, n // 6):
        hub = new_hub(random.Random(5), window)
        before = look(hub, IDS)
        Tracer(at).run(lambda hub=hub: hub.publish_many(batch, threads=3))
        found = look(hub, IDS)
        assert found in (before, after)
        undone += found == before
        if found == before:
            assert expected == rows(hub.publish_many(batch, threads=2))
    assert undone > 1
