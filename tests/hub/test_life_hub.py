"""Lifetimes of messages, case by case: what becomes relevant, what stops being so, and when nothing is told."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from nearcast import (
    Area,
    Box,
    Circle,
    Hub,
    InvalidInput,
    InvalidMessage,
    InvalidSubscription,
    NotSupported,
    Similar,
    TopK,
    Vocabulary,
    Within,
)
from nearcast.engine import Move, step
from nearcast.errors import UnknownIndex
from nearcast.geo import Regions
from nearcast.live.registry import LIVE_STORES
from nearcast.saved_files.contents import read_signed, signed

pytestmark = pytest.mark.modes


def at(second):
    return f"2026-01-01T00:00:{second:02d}Z"


def post(id_, text="tea", x=0.0, y=0.0, time=None, expires=None, **more):
    return {"id": id_, "text": text, "x": x, "y": y, "time": time, "expires": expires, **more}


def told(deliveries):
    return [(d.subscription_id, d.change, d.message_id) for d in deliveries]


@pytest.fixture(params=LIVE_STORES)
def store(request):
    return request.param


@pytest.fixture
def hub(store):
    return Hub("plane", lifetime="10m", live=store)


# --- what a move tells ------------------------------------------------------------------------------------------


def test_a_move_tells_what_came_in_and_went_out(hub):
    """Nothing is told twice; no message caused it; the time is that of the step."""
    hub.subscribe(Within("s", "tea", Circle(0, 0, 1)))
    assert [("s", "+", 1)] == told(hub.publish(post(1, time=at(0))))
    assert [] == told(hub.publish(post(2, x=5.0, time=at(1))))
    both = hub.move("s", (4.5, 0), at(7))
    assert [("s", "-", 1), ("s", "+", 2)] == told(both)
    assert [(None, 7)] * 2 == [(d.cause_id, d.time.second) for d in both]
    assert [] == told(hub.move("s", (4.6, 0)))
    assert [("s", "-", 2), ("s", "+", 1)] == told(hub.move("s", (0, 0)))
    assert [1] == [d.message_id for d in hub.current("s")]


def test_the_border_is_inside(hub):
    """A message on the border is relevant on both sides of a move along it."""
    hub.subscribe_many([Within("box", "tea", Box(0, 0, 2, 2)), Within("circle", "tea", Circle(0, 0, 2))])
    hub.poll()
    assert [("box", "+", 1), ("circle", "+", 1)] == told(hub.publish(post(1, x=2.0, time=at(0))))
    assert [] == told(hub.move("box", (3, 1)))  # from its east side to its west side
    assert [] == told(hub.move("circle", (4, 0)))
    assert [("circle", "-", 1)] == told(hub.move("circle", (4.000001, 0)))


def test_a_circle_of_no_radius_is_a_point(hub):
    """It meets what is just there."""
    hub.subscribe(Within("s", "tea", Circle(0, 0, 0)))
    hub.publish(post(1, x=3.0, time=at(0)))
    assert [("s", "+", 1)] == told(hub.move("s", (3, 0)))
    assert [("s", "-", 1)] == told(hub.move("s", (3.0000001, 0)))


def test_a_rectangle_is_near_where_it_begins(hub):
    """A message with an extent is relevant as soon as the two touch."""
    hub.subscribe(Within("s", "tea", Circle(0, 0, 1)))
    hub.publish(post(1, x=5.0, y=-1.0, x_max=7.0, y_max=1.0, time=at(0)))
    assert [("s", "+", 1)] == told(hub.move("s", (4, 0)))
    assert [] == told(hub.move("s", (6, 0)))


def test_over_the_dateline_and_around_a_pole(store):
    """Places beyond 180 degrees and around a pole are neighbours."""
    hub = Hub("earth", lifetime="10m", live=store)
    hub.subscribe_many([Within("circle", "tea", Circle(0, 0, 150_000)), Within("box", "tea", Box(0, 0, 2, 2))])
    hub.publish({"id": 1, "text": "tea", "lon": -179.5, "lat": 0.0, "time": at(0)})
    hub.publish({"id": 2, "text": "tea", "lon": 90.0, "lat": 89.5, "time": at(0)})
    assert [("circle", "+", 1)] == told(hub.move("circle", (179.5, 0.0)))
    assert [("box", "+", 1)] == told(hub.move("box", (180.0, 0.5)))
    assert [("circle", "-", 1), ("circle", "+", 2)] == told(hub.move("circle", (-90.0, 89.5)))


def test_words_first_used_after_the_message_came(hub):
    """Live messages know all their words, in order: also those that no subscription had yet."""
    hub.publish(post(1, "green tea with lemon", time=at(0)))
    hub.publish(post(2, "lemon tea", time=at(1)))
    for id_, query, found in [
        ("word", "lemon", [1, 2]),
        ("phrase", '"green tea"', [1]),
        ("not", "tea AND NOT green", [2]),
        ("no", "lemon AND NOT with AND NOT tea", []),
    ]:
        hub.subscribe(Within(id_, query))
        assert [(id_, "+", message) for message in found] == told(hub.poll())
    hub.subscribe(Similar("s", "lemon tea", (0, 0), threshold=0.9, text_weight=1, similarity="jaccard", max_distance=1))
    assert [("s", "+", 2)] == told(hub.poll())  # 1 has four words, of which two are strange to everybody


def test_a_minus_has_the_score_last_held(hub):
    """That is the one before the step, also where it changed silently meanwhile."""
    hub.subscribe(Similar("s", "tea", (0, 0), threshold=0.5, text_weight=0.5, max_distance=10))
    assert [1.0] == [d.score for d in hub.publish(post(1, time=at(0)))]
    assert [] == told(hub.move("s", (5, 0)))
    assert [0.75] == [d.score for d in hub.current("s")]
    hub.subscribe(Similar("s", "tea", (5, 0), threshold=0.8, text_weight=0.5, max_distance=10))
    assert [("-", 0.75)] == [(d.change, d.score) for d in hub.poll()]


def test_a_replaced_subscription_tells_the_difference(hub):
    """What stays relevant says nothing, whatever the kind and the place; a new one is told all."""
    hub.publish_many([post(1, "tea", time=at(0)), post(2, "ramen", time=at(0)), post(3, "tea ramen", time=at(0))])
    hub.subscribe(Within("s", "tea"))
    assert [("s", "+", 1), ("s", "+", 3)] == told(hub.poll())
    hub.subscribe(Within("s", "ramen"))
    assert [("s", "-", 1), ("s", "+", 2)] == told(hub.poll())
    hub.subscribe(Similar("s", "tea", (0, 0), threshold=0.1, max_distance=1))
    assert [("s", "+", 1)] == told(hub.poll())
    hub.unsubscribe("s")
    assert [] == told(hub.poll())


def test_another_vocabulary_is_a_step(hub):
    """Scores that fall below or rise above a threshold by it are told, by registration, `-` before `+`."""
    hub.subscribe(Similar("a", "tea ramen", (0, 0), threshold=0.7, text_weight=1, max_distance=1))
    hub.subscribe(Similar("b", "tea ramen", (0, 0), threshold=0.45, text_weight=1, max_distance=1))
    hub.publish_many([post(1, "tea", time=at(0)), post(2, "ramen", time=at(0))])
    vocabulary = Vocabulary()
    vocabulary.learn_tokens([["tea"]] * 50 + [["ramen"]])
    assert [("a", "+", 2), ("b", "-", 1)] == told(hub.use_vocabulary(vocabulary))
    assert [2] == [d.message_id for d in hub.current("b")]


def test_deliveries_of_a_step_are_ordered(hub):
    """By registration, then `-` before `+`, then by arrival; each row of a table is a step of its own."""
    hub.subscribe_many([Within(id_, "tea", Circle(0, 0, 1)) for id_ in ("b", "a")])
    hub.publish_many([post(i, x=float(x), time=at(0)) for i, x in enumerate([0, 5, 0, 5])])
    rows = [{"id": id_, "x": 5.0, "y": 0.0} for id_ in ("a", "b")]
    expected = [("a", "-", 0), ("a", "-", 2), ("a", "+", 1), ("a", "+", 3)]
    expected += [("b", *each[1:]) for each in expected]
    found = hub.move_many(rows)
    assert expected == told(found)
    assert len(expected) == len({d.delivery_id for d in found})


def test_an_id_twice_in_a_table(hub):
    """Each row is a step: what was only passed on the way is told there."""
    hub.subscribe(Within("s", "tea", Circle(0, 0, 1)))
    hub.publish(post(1, x=5.0, time=at(0)))
    rows = [{"id": "s", "x": x, "y": 0.0} for x in (5.0, 9.0, 5.5)]
    assert [("s", "+", 1), ("s", "-", 1), ("s", "+", 1)] == told(hub.move_many(pa.Table.from_pylist(rows)))


# --- life -------------------------------------------------------------------------------------------------------


def test_without_a_lifetime_messages_are_instants():
    """As ever: a move tells nothing, and `current` is for top-k."""
    hub = Hub("plane")
    hub.subscribe(Within("s", "tea", Circle(0, 0, 1)))
    hub.publish(post(1, x=5.0, time=at(0), expires=at(50)))
    assert [] == told(hub.move("s", (5, 0)))
    with pytest.raises(InvalidSubscription, match="is not of kind 'topk'"):
        hub.current("s")
    with pytest.raises(NotSupported, match="lifetime"):
        hub.safe("s")
    assert "live" not in hub.stats()


def test_with_expires_alone_others_are_instants(store):
    """A message that gives `expires` lives until then, another one is told as it arrives and never again."""
    hub = Hub("plane", lifetime="expires", live=store)
    hub.subscribe(Within("s", "tea"))
    assert [("s", "+", 1), ("s", "+", 2)] == told(hub.publish_many([post(1), post(2, expires=at(9))]))
    assert [2] == [d.message_id for d in hub.current("s")]


def test_a_message_counts_until_the_moment_it_expires(hub):
    """Alive is now < expires: at the very step it is dead, and nothing is said of it any more."""
    hub.subscribe(Within("s", "tea", Circle(0, 0, 1)))
    hub.publish(post(1, time=at(0), expires=at(10)))
    hub.publish(post(2, time=at(0), expires=at(11)))
    assert [("s", "-", 2)] == told(hub.move("s", (5, 0), at(10)))
    assert [] == hub.current("s")
    hub.advance(at(11))
    assert [] == told(hub.move("s", (0, 0)))


def test_messages_that_expire_within_a_table_of_moves(hub):
    """Each row sees what is alive at its own time."""
    hub.subscribe_many([Within(id_, "tea", Circle(0, 0, 1)) for id_ in ("a", "b", "c")])
    hub.publish(post(1, time=at(0), expires=at(10)))
    rows = [{"id": id_, "x": 5.0, "y": 0.0, "time": at(s)} for id_, s in (("a", 9), ("b", 10), ("c", 3))]
    assert [("a", "-", 1)] == told(hub.move_many(rows))
    assert "2026-01-01T00:00:10Z" == hub.stats()["now"]


def test_a_length_counts_from_the_time_of_the_message(store):
    """Else from event time; `expires` goes before it. Without any of them the message is refused."""
    hub = Hub("plane", lifetime="10s", live=store)
    hub.subscribe(Within("s", "tea"))
    with pytest.raises(InvalidMessage, match="neither time nor event time") as raised:
        hub.publish(post(0))
    assert "time" == raised.value.field
    hub.publish(post(1, time=at(5)))
    hub.publish(post(2))
    hub.publish(post(3, expires=at(30)))
    hub.publish(post(4, time=at(1)))
    for now, alive in [(10, [1, 2, 3, 4]), (11, [1, 2, 3]), (15, [3]), (30, [])]:
        hub.advance(at(now))
        assert alive == [d.message_id for d in hub.current("s")]


def test_what_has_expired_on_arrival_is_refused(store):
    """For all kinds and with the reason; in a table the others go on."""
    hub = Hub("plane", lifetime="10s", window=5, live=store, max_distance=9)
    hub.subscribe_many([Within("w", "tea"), TopK("k", "tea", (0, 0), k=1)])
    hub.advance(at(20))
    with pytest.raises(InvalidMessage, match=r"ended at 2026-01-01 00:00:20.*event time is 2026-01-01 00:00:20"):
        hub.publish(post(1, expires=at(20)))
    many = hub.publish_many(
        [
            post(1, expires=at(20)),
            post(2, time=at(10)),
            post(3, time=at(21), expires=at(21)),
            post(4, time=at(30)),
            post(5, time=at(20)),
            post(6, time=at(21)),
        ]
    )
    assert [(0, "expires"), (1, "time"), (2, "expires"), (4, "time")] == sorted((r.row, r.field) for r in many.rejected)
    assert [("w", "+", 4), ("k", "+", 4), ("w", "+", 6), ("k", "-", 4), ("k", "+", 6)] == told(many)


@pytest.mark.parametrize("lifetime", [None, "expires", "10m"])
def test_a_message_that_ends_before_it_begins_is_always_refused(lifetime):
    """With a lifetime and without; alone and in a table."""
    hub = Hub("plane", lifetime=lifetime)
    with pytest.raises(InvalidMessage, match="not after time"):
        hub.publish(post(1, time=at(5), expires=at(5)))
    assert [(0, "expires")] == [
        (r.row, r.field) for r in hub.publish_many([post(1, time=at(5), expires=at(4))]).rejected
    ]
    table = pa.table({"id": [1], "text": ["tea"], "x": [0.0], "y": [0.0], "time": [at(5)], "expires": [at(5)]})
    assert [(0, "expires")] == [(r.row, r.field) for r in hub.publish_many(table).rejected]


def test_reports_move_event_time(hub):
    """As messages do: subscriptions expire by it, and an older time does not bring it back."""
    hub.subscribe(Within("s", "tea", Circle(0, 0, 1)))
    hub.subscribe(Within("soon", "tea", Circle(0, 0, 1), expires=at(5)))
    with pytest.raises(InvalidSubscription, match="expired"):
        hub.move("soon", (1, 1), at(5))
    assert hub.stats()["now"] is None
    rows = [{"id": "s", "x": 1.0, "y": 0.0, "time": at(5)}, {"id": "soon", "x": 1.0, "y": 0.0}]
    assert [(1, "soon", "id")] == [(r.row, r.id, r.field) for r in hub.move_many(rows).rejected]
    hub.publish(post(1, time=at(2)))
    assert "2026-01-01T00:00:05Z" == hub.stats()["now"]


def test_reports_from_the_future_are_refused(store):
    """`max_ahead` holds for reports where these move event time."""
    hub = Hub("plane", lifetime="10m", live=store, max_ahead="10s")
    hub.subscribe(Within("s", "tea", Circle(0, 0, 1)))
    hub.advance(at(0))
    with pytest.raises(InvalidSubscription, match="from the future"):
        hub.move("s", (1, 1), at(11))
    rows = [{"id": "s", "x": 1.0, "y": 0.0, "time": at(s)} for s in (9, 30, 19)]
    assert [1] == [r.row for r in hub.move_many(rows).rejected]


def test_rejected_reports_do_not_measure_the_future(store):
    """A report whose place is refused does not move event time, so none is allowed by it; one reason for each row."""
    hub = Hub("plane", lifetime="10m", live=store, max_ahead="10s")
    hub.subscribe_many([Within("s", "tea", Circle(0, 0, 1)), Within("anywhere", "tea")])
    hub.advance(at(0))
    rows = [
        {"id": "anywhere", "x": 1.0, "y": 0.0, "time": at(8)},
        {"id": "s", "x": 1.0, "y": 0.0, "time": at(16)},
    ]
    assert [(0, "region"), (1, "time")] == [(r.row, r.field) for r in hub.move_many(rows).rejected]
    assert "2026-01-01T00:00:00Z" == hub.stats()["now"]


def test_lives_end_with_the_last_year_that_can_be_told(hub):
    """What would live beyond the year 9999 ends with it."""
    hub.subscribe(Within("s", "tea", Circle(0, 0, 1)))
    (found,) = hub.publish(post(1, time="9999-12-31T23:59:00Z"))
    assert datetime.max.replace(tzinfo=UTC) == hub.ends(found)
    assert "9999-12-31" in str(hub.explain(post(2, time="9999-12-31T23:59:00Z"), "s"))


def test_messages_that_are_over_are_not_late_for_the_window_too(store):
    """They are rejected: nothing is told of whom they reach."""
    hub = Hub("plane", lifetime="20s", window="10s", live=store)
    hub.publish(post(1, time=at(50)))
    with pytest.raises(InvalidMessage, match="it came too late"):
        hub.publish(post(2, time=at(0)))
    found = hub.publish_many([post(3, time=at(0))]).rejected
    assert (1, [], 0) == (len(found), found.warnings, hub.stats()["late"])
    found = hub.publish_many([post(4, time=at(0)), post(5, time=at(35))]).rejected
    assert (1, 1, 1) == (len(found), len(found.warnings), hub.stats()["late"])
    hub.publish(post(6, time=at(36)))
    assert 2 == hub.stats()["late"]


# --- expiry that is told ----------------------------------------------------------------------------------------


def test_expiry_is_told_where_that_is_wanted(store):
    """In the first step at or after it, before the step's own change, by `expires`, then arrival, without a cause."""
    hub = Hub("plane", lifetime="10m", live=store, tell_expiry=True)
    hub.subscribe_many([Within("b", "tea"), Within("a", "tea", Circle(0, 0, 1))])
    hub.publish_many(
        [post(1, time=at(0), expires=at(9)), post(2, time=at(0), expires=at(8)), post(3, time=at(0), expires=at(8))]
    )
    over = [(id_, "-", message) for message in (2, 3, 1) for id_ in ("b", "a")]
    found = hub.publish(post(4, x=5.0, time=at(9), expires=at(12)))
    assert [*over, ("b", "+", 4)] == told(found)
    assert [None] * 6 + [4] == [d.cause_id for d in found]
    assert [("b", "+", 5), ("a", "+", 5)] == told(hub.publish(post(5, time=at(10), expires=at(13))))
    assert [("b", "-", 4), ("a", "-", 5)] == told(hub.move("a", (5, 0), at(12)))
    assert [("b", "-", 5)] == told(hub.advance(at(13)))
    assert [] == told(hub.advance(at(20)))


def test_expiry_is_told_within_a_batch_of_messages(store):
    """Step by step: a message may arrive and expire in one call."""
    hub = Hub("plane", lifetime="3s", live=store, tell_expiry=True)
    hub.subscribe(Within("s", "tea"))
    found = hub.publish_many(
        [post(1, time=at(0)), post(2, time=at(2)), post(3, "beer", time=at(3)), post(4, time=at(9))]
    )
    expected = [("s", "+", 1), ("s", "+", 2), ("s", "-", 1), ("s", "-", 2), ("s", "+", 4)]
    assert expected == told(found)
    assert [0, 2, 3, 9, 9] == [d.time.second for d in found]


def test_expiry_is_told_at_the_places_before_the_move(store):
    """A row that takes the clock beyond an end tells it first; the mover had the message where it was."""
    hub = Hub("plane", lifetime="expires", live=store, tell_expiry=True)
    hub.subscribe_many([Within(id_, "tea", Circle(0, 0, 1)) for id_ in ("a", "b")])
    hub.publish_many([post(1, expires=at(5)), post(2, x=9.0, expires=at(9))])
    rows = [{"id": "a", "x": 9.0, "y": 0.0, "time": at(4)}, {"id": "b", "x": 9.0, "y": 0.0, "time": at(6)}]
    assert [("a", "-", 1), ("a", "+", 2), ("b", "-", 1), ("b", "+", 2)] == told(hub.move_many(rows))


def test_telling_expiry_needs_a_lifetime():
    """Else no message expires."""
    with pytest.raises(InvalidInput, match="lifetime"):
        Hub("plane", tell_expiry=True)
    for wrong in ("soon", 7, "0s"):
        with pytest.raises(InvalidInput, match="lifetime is"):
            Hub("plane", lifetime=wrong)


# --- top-k ------------------------------------------------------------------------------------------------------


def test_a_top_k_looks_at_its_window_alone(store):
    """Once admitted a message stays until it leaves the window, whatever its `expires`; and no expiry is told."""
    hub = Hub("plane", lifetime="expires", window=2, live=store, tell_expiry=True, max_distance=10)
    hub.subscribe(TopK("k", "tea", (0, 0), k=1))
    hub.publish(post(1, time=at(0), expires=at(1)))
    assert [] == told(hub.publish(post(2, x=5.0, time=at(9))))
    assert [1] == [d.message_id for d in hub.current("k")]
    assert [("k", "-", 1), ("k", "+", 2)] == told(hub.move("k", (5, 0), at(10)))


def test_the_nearest_are_kept_current(store):
    """With a `text_weight` of 0 a top-k is the k nearest messages with a common word."""
    hub = Hub("plane", lifetime="10m", window=9, live=store, max_distance=100)
    hub.subscribe(TopK("k", "tea", (0, 0), k=2, text_weight=0))
    hub.publish_many([post(i, x=10.0 * i, time=at(0)) for i in range(5)] + [post(9, "beer", time=at(0))])
    assert [("k", "-", 0), ("k", "-", 1), ("k", "+", 4), ("k", "+", 3)] == told(hub.move("k", (40, 0)))
    assert [4, 3] == [d.message_id for d in hub.current("k")]


def test_a_window_of_time_slides_by_reports(store):
    """The clock is a step of its own then: what leaves the window goes first."""
    hub = Hub("plane", lifetime="10m", window="10s", live=store, max_distance=10)
    hub.subscribe_many([TopK("k", "tea", (0, 0), k=1), Within("w", "tea", Circle(0, 0, 1))])
    hub.publish_many([post(1, time=at(0)), post(2, x=5.0, time=at(5))])
    assert [("k", "-", 1), ("k", "+", 2), ("w", "-", 1), ("w", "+", 2)] == told(hub.move("w", (5, 0), at(10)))


def test_a_top_k_that_becomes_another_kind_keeps_what_it_had(store):
    """With a lifetime the sum of what was told stays what is current."""
    hub = Hub("plane", lifetime="10m", window=9, live=store, max_distance=10)
    hub.publish_many([post(1, time=at(0)), post(2, "tea ramen", time=at(0)), post(3, "ramen", time=at(0))])
    hub.subscribe(TopK("s", "tea", (0, 0), k=2))
    assert [("s", "+", 1), ("s", "+", 2)] == told(hub.poll())
    hub.subscribe(Within("s", "ramen"))
    gone = hub.poll()
    assert [("s", "-", 1), ("s", "+", 3)] == told(gone)
    assert [1, None] == [d.rank for d in gone]
    hub.subscribe(TopK("s", "tea", (0, 0), k=2))
    assert [("s", "-", 3), ("s", "+", 1)] == told(hub.poll())


# --- what else there is -----------------------------------------------------------------------------------------


def test_explain_knows_life_and_other_places(store):
    """Until when a message lives, why it is over, and what would be at another place."""
    hub = Hub("plane", lifetime="10s", window=5, live=store, max_distance=9)
    hub.subscribe_many([Within("s", "tea", Circle(0, 0, 1)), TopK("k", "tea", (0, 0), k=1)])
    hub.advance(at(20))

    def life(message, id_="s", **more):
        found = hub.explain(message, id_, **more)
        return found.matched, next(each for each in found.steps if each.name == "life").detail

    assert (True, "lives until 2026-01-01T00:00:30Z") == life(post(1))
    assert (True, "lives until 2026-01-01T00:00:25Z") == life(post(1, expires=at(25)))
    matched, why = life(post(1, time=at(10)))
    assert not matched
    assert why.startswith("the message ended at 2026-01-01 00:00:20")
    assert (True, "a top-k looks at its window alone: in it, expires plays no part") == life(post(1), "k")
    assert life(post(1, x=5.0), place=(5, 0))[0]
    assert not life(post(1), place=(5, 0))[0]
    assert not life(post(1), place=Box(1, 1, 2, 2))[0]
    with pytest.raises(InvalidSubscription, match="scored by the distance"):
        hub.explain(post(1), "k", place=Box(1, 1, 2, 2))
    instants = Hub("plane", lifetime="expires", live=store)
    instants.subscribe(Within("s", "tea"))
    assert "an instant" in str(instants.explain(post(1), "s"))


def test_explain_ranks_at_the_other_place(store):
    """Among what a top-k would hold there, not among what it holds: as after the move."""
    hub = Hub("plane", lifetime="10m", window=9, live=store, max_distance=100)
    hub.subscribe(TopK("k", "tea", (0, 0), k=1, text_weight=0))
    hub.publish(post(1, time=at(0)))
    there = hub.explain(post(2, x=60.0, time=at(1)), "k", place=(50, 0))
    assert there.matched
    assert not hub.explain(post(2, x=60.0, time=at(1)), "k").matched
    hub.move("k", (50, 0))
    after = hub.explain(post(2, x=60.0, time=at(1)), "k")
    assert next(s for s in after.steps if s.name == "rank") == next(s for s in there.steps if s.name == "rank")
    assert [("k", "-", 1), ("k", "+", 2)] == told(hub.publish(post(2, x=60.0, time=at(1))))


def test_what_is_current_has_an_end(hub):
    """It names its message as what was delivered does, whether that was on arrival or by a move."""
    hub.subscribe(Within("s", "tea", Circle(0, 0, 1)))
    (first,) = hub.publish(post(1, time=at(0), expires=at(9)))
    hub.publish(post(2, x=1.5, time=at(1), expires=at(8)))
    hub.move("s", (0.75, 0))
    current = hub.current("s")
    assert first.delivery_id == current[0].delivery_id
    assert ["00:00:09", "00:00:08"] == [f"{hub.ends(each):%H:%M:%S}" for each in current]


def test_without_a_lifetime_nothing_is_current():
    """Only top-k lists are; the error says what to make the hub with."""
    hub = Hub("plane")
    hub.subscribe(Within("s", "tea"))
    with pytest.raises(InvalidSubscription, match=r"make the hub with Hub\(lifetime=...\)"):
        hub.current("s")


def test_stats_count_live_messages(hub):
    """Those that are over are not among them."""
    hub.publish_many([post(1, time=at(0), expires=at(5)), post(2, time=at(0))])
    assert ("10m", 2) == (hub.stats()["live"]["lifetime"], hub.stats()["live"]["messages"])
    hub.advance(at(5))
    assert 1 == hub.stats()["live"]["messages"]


def test_a_safe_distance_tells_nothing_new(hub):
    """Within it no move tells anything; it is 0 where nothing is known, and infinite where no message has the words."""
    hub.subscribe_many(
        [
            Within("s", "tea", Circle(0, 0, 1)),
            Within("other", "beer", Circle(0, 0, 1)),
            Within("polygon", "tea", Area({"type": "Polygon", "coordinates": [[(0, 0), (2, 0), (2, 2), (0, 0)]]})),
            Similar("scored", "tea", (0, 0), threshold=0.5, max_distance=9),
        ]
    )
    hub.publish_many([post(1, x=0.25, time=at(0)), post(2, x=5.0, time=at(0))])
    hub.poll()
    safe = hub.safe("s")
    assert 0.74 < safe <= 0.75
    for place in [(safe, 0), (-safe, 0), (0, safe)]:
        assert [] == told(hub.move("s", place))
        hub.move("s", (0, 0))
    assert (float("inf"), 0, 0) == (hub.safe("other"), hub.safe("polygon"), hub.safe("scored"))
    hub.publish(post(3, x=1.125, time=at(0)))
    assert hub.safe("s") <= 0.125


def test_a_saved_hub_goes_on(store, tmp_path):
    """Live messages, the lifetime and whether expiry is told are saved; first answers must be taken before."""
    hub = Hub("plane", lifetime="10s", live=store, tell_expiry=True)
    hub.subscribe(Within("s", "tea", Circle(0, 0, 1)))
    hub.publish_many([post(1, time=at(0)), post(2, x=5.0, time=at(3))])
    hub.save(tmp_path / "hub")
    again = Hub.open(tmp_path / "hub")
    for each in (hub, again):
        assert [("s", "-", 1), ("s", "+", 2)] == told(each.move("s", (5, 0), at(4)))
        assert [("s", "-", 2)] == told(each.advance(at(13)))
        assert "10s" == str(each.lifetime)
    hub.publish(post(3, time=at(13)))
    hub.subscribe(Within("new", "tea"))
    with pytest.raises(ValueError, match="waiting"):
        hub.save(tmp_path / "other")


def test_a_save_from_before_lifetimes_still_opens(tmp_path):
    """Its head says nothing of them: messages are instants, and nobody has reported a place."""
    hub = Hub("plane")
    hub.subscribe(Within("s", "tea", Circle(0, 0, 1)))
    hub.save(tmp_path)
    head = read_signed((tmp_path / "hub.json").read_bytes(), "hub.json")
    assert head.pop("lifetime", 0) is None
    (tmp_path / "hub.json").write_bytes(signed(head))
    again = Hub.open(tmp_path)
    assert again.lifetime is None
    assert [] == told(again.move("s", (5, 0), at(0)))


def test_nothing_at_all(hub):
    """Empty tables of messages and of moves deliver nothing, and are no steps."""
    hub.subscribe(Within("s", "tea", Circle(0, 0, 1)))
    messages = pa.table({"id": pa.array([], pa.int64()), "text": pa.array([], pa.string()), "x": [], "y": []})
    before = hub._state.next_step
    assert [] == told(hub.publish_many(messages))
    assert [] == told(hub.move_many(messages.select(["id", "x", "y"])))
    assert [] == told(hub.move_many([]))
    assert before == hub._state.next_step


def test_steps_that_the_clock_would_change_are_refused_by_the_engine():
    """Whoever makes items lets a window slide first, and cuts moves where the clock comes between them."""
    for window, remedy in ((None, "a move of its own"), ("5s", "advance to it first")):
        hub = Hub("plane", lifetime="10s", window=window, tell_expiry=True)
        hub.subscribe_many([Within(id_, "tea", Circle(0, 0, 1)) for id_ in ("s", "t")])
        hub.publish(post(1, time=at(0)))
        times = np.array([hub._state.now, hub._state.now + 10_000_000])
        with pytest.raises(ValueError, match=remedy):
            step(hub._state, Move(pa.array(["s", "t"]), Regions.anywhere(2), points=np.ones((2, 2)), times=times))
        found = hub.move("s", (5, 0), at(10))
        assert [("s", "-", 1), ("t", "-", 1)] == told(found)
        assert 1 == len({d.delivery_id.split(":")[0] for d in found})


def test_the_store_of_live_messages_is_an_option_of_the_index():
    """`index="trigger:live=scan"` says which store is used, unless `live` does; one that there is not is refused."""
    assert Hub(index="trigger:live=scan", lifetime="10m").stats()["live"]["store"] == "scan"
    assert Hub(index="trigger:live=scan", live="cells", lifetime="10m").stats()["live"]["store"] == "cells"
    for options in ({"index": "scan:live=grid"}, {"live": "grid"}):
        with pytest.raises(UnknownIndex, match="there is no live store 'grid'; choose one of cells, scan"):
            Hub(**options)
