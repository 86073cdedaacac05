"""The engine: changes and messages in one order."""

import numpy as np
import pyarrow as pa
import pytest

from nearcast.engine import Advance, Move, Publish, State, Subscribe, Unsubscribe, step
from nearcast.errors import UnknownSubscription
from nearcast.geo import Box, Regions, Space
from nearcast.indexes import create
from nearcast.tables import Rejected, read_messages, read_subscriptions

PLANE = Space.plane()


@pytest.fixture
def state():
    return State(create("trigger", PLANE))


def subscribe(state, **columns):
    rejected = Rejected()
    found = read_subscriptions(pa.table(columns), PLANE, state.words, state.analyzer, rejected=rejected)
    assert len(rejected) == 0
    return Subscribe(found)


def publish(state, ids, texts, **columns):
    n = len(ids)
    table = pa.table({"id": ids, "text": texts, "x": [0.0] * n, "y": [0.0] * n, **columns})
    return Publish(read_messages(table, PLANE, state.words, state.analyzer, rejected=Rejected()))


def rows(deliveries):
    return [(d.message_id, d.subscription_id) for d in deliveries]


def test_each_message_sees_the_changes_before_it_and_none_after(state):
    """Order is the order of the items, and the steps are numbered through."""
    two = subscribe(state, id=["a", "b"], query=["w", "w"])
    found = step(
        state,
        [
            publish(state, [0], ["w"]),
            two,
            publish(state, [1], ["w"]),
            Unsubscribe(pa.array(["a"])),
            publish(state, [2], ["w"]),
            Move(pa.array(["b"]), Regions.from_shapes([Box(5, 5, 6, 6)], PLANE)),
            publish(state, [3], ["w"]),
        ],
    )

    assert rows(found) == [(1, "a"), (1, "b"), (2, "b")]
    assert [d.delivery_id for d in found] == ["1:1:+:a", "1:1:+:b", "2:2:+:b"]
    assert state.next_step == 4


def test_a_batch_cut_in_two_delivers_the_same(state):
    """Where a batch ends is nobody's business: ids of deliveries included."""
    other = State(create("trigger", PLANE))
    for each in (state, other):
        step(each, [subscribe(each, id=["a", "b"], query=["w", "v"], expires=["2026-01-01T00:00:02Z", None])])
    times = [f"2026-01-01T00:00:0{i}Z" for i in range(5)]
    texts = ["w v"] * 5
    whole = step(state, [publish(state, list(range(5)), texts, time=times)])
    halves = [
        *step(other, [publish(other, [0, 1, 2], texts[:3], time=times[:3])]),
        *step(other, [publish(other, [3, 4], texts[3:], time=times[3:])]),
    ]

    assert list(whole) == halves
    assert rows(whole)[:4] == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    assert len(whole) == 7


def test_advance_forgets_what_expires(state):
    """Time may pass without a message."""
    step(state, [subscribe(state, id=["a"], query=["w"], expires=["2026-01-01T00:00:00Z"])])
    moment = np.datetime64("2026-01-01T00:00:00", "us").astype(np.int64)
    step(state, [Advance(int(moment) - 1)])
    assert len(state.index) == 1
    found = step(state, [Advance(int(moment)), publish(state, [1], ["w"])])

    assert rows(found) == []
    assert len(state.index) == len(state.ids) == 0


def test_a_subscription_that_is_late_is_never_heard(state):
    """One that has expired when it comes is stored for nobody."""
    step(state, [publish(state, [0], [""], time=["2026-01-01T00:00:05Z"])])
    found = step(
        state,
        [
            subscribe(state, id=["a", "b"], query=["w", "w"], expires=["2026-01-01T00:00:05Z", "2026-01-01T00:00:06Z"]),
            publish(state, [1], ["w"]),
        ],
    )

    assert rows(found) == [(1, "b")]


def test_unknown_ids_are_named(state):
    """A change to nobody says whom it looked for, and changes nobody."""
    step(state, [subscribe(state, id=["a"], query=["w"])])
    with pytest.raises(UnknownSubscription, match="'nobody'"):
        step(state, [Unsubscribe(pa.array(["a", "nobody"]))])

    assert len(state.index) == 1
