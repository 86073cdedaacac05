"""The hub: what a person meets first."""

import threading
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

import nearcast
from nearcast import Box, Circle, Hub, Message, TopK, Within, delivery_id
from nearcast.errors import (
    InvalidMessage,
    InvalidQuery,
    InvalidRegion,
    InvalidSubscription,
    UnknownIndex,
    UnknownSubscription,
)
from support.waiting import join

CENTRE = Box(13.3, 52.4, 13.5, 52.6)


@pytest.fixture(params=["trigger", "scan"])
def berlin(request):
    """A hub with four people in Berlin."""
    hub = Hub("earth", index=request.param)
    hub.subscribe(Within("anna", "ipad AND NOT used", CENTRE))
    hub.subscribe(Within("bert", "(ramen OR noodles) AND vegan", Circle(13.4, 52.5, 1000)))
    hub.subscribe(Within("cleo", '"hot dog"'))
    hub.subscribe(Within("dora", "", CENTRE))
    return hub


def reached(hub, text, place=(13.4, 52.5), **more):
    """Return who gets a message."""
    return [d.subscription_id for d in hub.publish(Message("m", text, place, **more))]


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("new iPad on sale", ["anna", "dora"]),
        ("used iPad on sale", ["dora"]),
        ("vegan ramen", ["bert", "dora"]),
        ("vegan noodles here", ["bert", "dora"]),
        ("ramen", ["dora"]),
        ("the best Hot Dog", ["cleo", "dora"]),
        ("hot as a dog", ["dora"]),
        ("", ["dora"]),
    ],
)
def test_a_message_reaches_whom_it_satisfies(berlin, text, who):
    """Words, place and order of registration decide."""
    assert reached(berlin, text) == who


def test_a_message_elsewhere_reaches_only_those_without_a_place(berlin):
    """A region is a condition; no region is none."""
    assert reached(berlin, "hot dog ipad", (0, 0)) == ["cleo"]


def test_given_terms_count_beside_the_text_and_as_they_are(berlin):
    """Terms are not split or folded, and no phrase reaches from the text into them."""
    assert reached(berlin, "hot dog", terms=["ipad"]) == ["anna", "cleo", "dora"]
    assert reached(berlin, None, terms=["iPad"]) == ["dora"]
    assert reached(berlin, None, terms=["hot", "dog"]) == ["cleo", "dora"]
    assert reached(berlin, "hot", terms=["dog"]) == ["dora"]


def test_a_rectangle_message_touches_what_it_overlaps(berlin):
    """A rectangle reaches every region it shares a point with, borders included."""
    assert reached(berlin, "ipad", (13.5, 52.6, 14, 53)) == ["anna", "dora"]


def test_deliveries_are_a_lazy_sequence(berlin):
    """Length, indexing, slices, iteration and equality of values."""
    found = berlin.publish(Message(7, "ipad", (13.4, 52.5), time="2026-05-01T09:00:00Z"))

    assert len(found) == 2
    assert found[-1].subscription_id == "dora"
    assert [d.subscription_id for d in found[:1]] == ["anna"]
    with pytest.raises(IndexError):
        found[2]
    first = found[0]
    assert (first.message_id, first.change, first.score, first.rank, first.cause_id) == (7, "+", 1.0, None, 7)
    assert first.time == datetime(2026, 5, 1, 9, tzinfo=UTC)
    assert first.delivery_id == "0:0:+:anna"


def test_the_table_of_deliveries_says_what_the_values_say(berlin):
    """Columns and values are two views of the same deliveries, in the same order."""
    found = berlin.publish_many(
        [
            Message("a", "ipad", (13.4, 52.5)),
            Message("b", "nothing", (0, 0)),
            Message("c", "vegan ramen", (13.4, 52.5), time="2026-05-01T09:00:00Z"),
        ]
    )
    table = found.to_table()

    assert table.column_names == [
        "subscription_id", "message_id", "change", "score", "rank", "cause_id", "time", "step", "arrival", "version"
    ]  # fmt: skip
    for row, value in zip(table.to_pylist(), found, strict=True):
        key = delivery_id(row.pop("step"), row.pop("arrival"), row["change"], row["subscription_id"])
        assert row | {"delivery_id": key} == {name: getattr(value, name) for name in (*row, "delivery_id")}
    assert table["message_id"].to_pylist() == ["a", "a", "c", "c"]


def test_delivery_ids_do_not_repeat_over_publishes(berlin):
    """The same message published twice is two arrivals."""
    first, second = (berlin.publish(Message("m", "ipad", (13.4, 52.5)))[0].delivery_id for _ in range(2))

    assert first != second


def test_a_known_id_is_replaced_and_keeps_its_place(berlin):
    """Subscribing again changes what is asked, not who comes first."""
    berlin.subscribe(Within("anna", "ramen"))

    assert reached(berlin, "ipad") == ["dora"]
    assert reached(berlin, "vegan ramen") == ["anna", "bert", "dora"]
    assert len(berlin) == 4


def test_unsubscribed_is_gone_and_may_come_back_last(berlin):
    """An id that returns registers anew."""
    berlin.unsubscribe("anna")
    assert reached(berlin, "ipad") == ["dora"]
    assert "anna" not in berlin

    berlin.subscribe(Within("anna", "ipad"))
    assert reached(berlin, "ipad") == ["dora", "anna"]


def test_a_moved_region_acts_from_then_on(berlin):
    """A region replaces the old one; a point carries it along."""
    berlin.move("anna", Box(0, 0, 1, 1))
    assert reached(berlin, "ipad") == ["dora"]
    assert reached(berlin, "ipad", (1, 1)) == ["anna"]

    berlin.move("anna", (13.4, 52.5))
    assert reached(berlin, "ipad", (13.9, 53.0)) == ["anna"]
    berlin.move("bert", (0.0, 0.0))
    assert reached(berlin, "vegan ramen", (0.008, 0.0)) == ["bert"]


def test_a_box_moves_over_the_dateline(berlin):
    """A box centred at 180° reaches both sides."""
    berlin.move("anna", (180.0, 0.0))

    assert reached(berlin, "ipad", (-179.95, 0.0)) == reached(berlin, "ipad", (179.95, 0.0)) == ["anna"]


def test_moves_that_make_no_sense_are_refused(berlin):
    """Somebody without a place cannot move; a box cannot pass over the pole."""
    with pytest.raises(InvalidSubscription, match="anywhere"):
        berlin.move("cleo", (0, 0))
    with pytest.raises(InvalidRegion):
        berlin.move("anna", (0, 90))
    with pytest.raises(UnknownSubscription, match="'nobody'"):
        berlin.move("nobody", (0, 0))
    assert reached(berlin, "ipad") == ["anna", "dora"]


def test_a_subscription_expires_with_event_time(berlin):
    """From its hour on a subscription gets nothing, also within one batch."""
    berlin.subscribe(Within("eve", "ipad", expires="2026-05-01T12:00:00Z"))
    times = ["2026-05-01T11:59:59Z", "2026-05-01T12:00:00Z", None, "2026-05-01T10:00:00Z"]
    found = berlin.publish_many([Message(i, "ipad", (0, 0), time=t) for i, t in enumerate(times)])

    assert [(d.message_id, d.subscription_id) for d in found] == [(0, "eve")]
    assert "eve" not in berlin


def test_advance_moves_time_without_a_message(berlin):
    """The clock may be moved by hand, never backwards."""
    berlin.subscribe(Within("eve", "ipad", expires="2026-05-01T12:00:00Z"))
    berlin.advance("2026-05-01T11:00:00Z")
    assert "eve" in berlin
    berlin.advance(datetime(2026, 5, 1, 12, tzinfo=UTC))
    assert "eve" not in berlin
    berlin.advance("2026-05-01T11:00:00Z")
    assert berlin.stats()["now"] == "2026-05-01T12:00:00Z"


def test_many_at_once_says_which_rows_were_not_taken():
    """One bad row never stops the rest and never disappears."""
    hub = Hub("earth")
    rejected = hub.subscribe_many(
        [
            Within("a", "ipad"),
            {"id": "b", "query": "(ipad"},
            {"id": "c", "query": "ipad", "west": 0, "south": 91, "east": 1, "north": 92},
            {"id": "a", "query": "ramen"},
            {"id": "d", "query": "ipad"},
        ]
    )

    assert [(r.row, r.id) for r in rejected] == [(1, "b"), (2, "c"), (3, "a")]
    assert len(hub) == 2
    found = hub.publish_many(
        [{"id": 1, "text": "ipad", "lon": 0, "lat": 0}, {"id": 2, "text": "ipad", "lon": 0, "lat": 91}]
    )
    assert [(d.message_id, d.subscription_id) for d in found] == [(1, "a"), (1, "d")]
    assert [(r.row, r.field) for r in found.rejected] == [(1, "lat")]


def test_tables_and_values_give_the_same_answer():
    """A table in interchange columns is another way to say the same."""
    table = pa.table(
        {
            "id": ["a", "b"],
            "query": ["ipad", "ramen"],
            "x_min": [0.0, 0],
            "y_min": [0.0, 0],
            "x_max": [9.0, 9],
            "y_max": [9.0, 9],
        }
    )
    hub = Hub("plane")
    assert len(hub.subscribe_many(table)) == 0
    messages = pa.table({"id": [1, 2], "text": ["ramen", "ipad"], "x": [1.0, 9], "y": [1.0, 10]})

    found = hub.publish_many(messages)
    assert [(d.message_id, d.subscription_id) for d in found] == [(1, "b")]
    assert found.to_table()["message_id"].type == pa.int64()


def test_top_k_needs_a_window():
    """And says where it comes from."""
    with pytest.raises(InvalidSubscription, match=r"needs a window; give one to the hub, Hub\(window=...\)"):
        Hub(max_distance=5).subscribe(TopK("t", "ipad", (0, 0), k=3))


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (lambda hub: hub.subscribe({"id": "x", "query": "a AND"}), InvalidQuery),
        (lambda hub: hub.subscribe({"id": "x", "query": ""}), InvalidSubscription),
        (lambda hub: hub.subscribe(Within("x", "a", Box(0, 0, 200, 1))), InvalidRegion),
        (lambda hub: hub.publish(Message("m", "a", (0, 91))), InvalidMessage),
        (lambda hub: hub.publish({"id": "m", "text": "a"}), InvalidMessage),
        (lambda hub: hub.unsubscribe("nobody"), UnknownSubscription),
        (lambda hub: hub.explain(Message("m", "a", (0, 0)), "nobody"), UnknownSubscription),
        (lambda _: Hub(index="nosuch"), UnknownIndex),
        (lambda _: Hub(index="trigger:nosuch=1"), UnknownIndex),
        (lambda _: Hub(index="trigger:few=many"), UnknownIndex),
        (lambda _: Hub(index="trigger:delta_rows=0"), UnknownIndex),
        (lambda _: Hub("moon"), ValueError),
    ],
)
def test_bad_input_is_refused_with_the_right_error(berlin, action, error):
    """Each mistake has its own error of one line, and the hub goes on as before."""
    with pytest.raises(error) as caught:
        action(berlin)
    assert error is InvalidQuery or "\n" not in str(caught.value)
    assert reached(berlin, "ipad") == ["anna", "dora"]


@pytest.mark.parametrize(
    ("text", "place", "who", "matched", "reason"),
    [
        ("new ipad", (13.4, 52.5), "anna", True, "found 'ipad'; inside the box"),
        ("used ipad", (13.4, 52.5), "anna", False, "NOT 'used' was hit"),
        ("phone", (13.4, 52.5), "anna", False, "the word 'ipad' is missing"),
        ("ipad", (13.5046, 52.5), "anna", False, "by 311 m"),
        ("ramen", (13.4, 52.5), "bert", False, "the word 'vegan' is missing (the closest of 2 alternatives)"),
        ("dog hot", (13.4, 52.5), "cleo", False, 'the words of "hot dog" do not stand side by side'),
        ("hot dog", (13.4, 52.5), "cleo", True, "anywhere"),
        ("", (13.4, 52.5), "dora", True, "no word is required"),
    ],
)
def test_explain_names_the_step_that_decided(berlin, text, place, who, matched, reason):
    """For a match and for a near miss alike, in words a person can act on."""
    message = Message("m", text, place)
    found = berlin.explain(message, who)

    assert found.matched == matched == (who in reached(berlin, text, place))
    assert reason in found.reason
    assert found.to_dict()["steps"][0]["name"] == "words"
    assert str(found).splitlines()[0].startswith(f"subscription '{who}'")


def test_explain_shows_the_trigger():
    """The index tells whether it looked at the subscription at all, from a segment and from the delta alike."""
    for options in ("", ":delta_rows=1"):
        hub = Hub(index=f"trigger{options}")
        hub.subscribe_many([Within("a", "common rare", CENTRE), Within("b", "common")])
        lines = str(hub.explain(Message("m", "common", (13.4, 52.5)), "a"))
        assert "trigger 'rare': the message lacks it" in lines


def test_stats_count(berlin):
    """Numbers to watch: subscriptions, messages, words, bytes."""
    reached(berlin, "ipad")
    stats = berlin.stats()

    assert (stats["subscriptions"], stats["published"], stats["space"]) == (4, 1, "earth")
    assert stats["index"]["bytes"] > 0


def test_threads_may_change_and_publish_at_once():
    """Whatever the threads do, nothing is lost, doubled or half seen."""
    hub = Hub("plane", index="trigger:delta_rows=16")
    hub.subscribe(Within("always", "w"))
    seen, errors = [], []

    def change(name):
        try:
            for i in range(150):
                hub.subscribe(Within(f"{name}-{i}", "w"))
                if i % 2:
                    hub.unsubscribe(f"{name}-{i}")
        except Exception as error:  # noqa: BLE001 - told by the assertion below
            errors.append(error)

    def publish():
        try:
            for i in range(150):
                who = [d.subscription_id for d in hub.publish(Message(i, "w", (0, 0)))]
                seen.append(len(who) == len(set(who)) and who[0] == "always")
        except Exception as error:  # noqa: BLE001 - told by the assertion below
            errors.append(error)

    threads = [threading.Thread(target=change, args=(n,)) for n in "ab"] + [
        threading.Thread(target=publish) for _ in "cd"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)

    assert errors == []
    assert all(seen)
    assert len(seen) == 300
    who = {d.subscription_id for d in hub.publish(Message("last", "w", (0, 0)))}
    assert who == {"always", *(f"{name}-{i}" for name in "ab" for i in range(0, 150, 2))}


def test_several_cores_give_the_same_answer():
    """`threads` changes how fast, not what."""
    rng = np.random.default_rng(1)
    hub = Hub("plane")
    hub.subscribe_many(
        [Within(i, f"w{i % 7}", Box(x, y, x + 20, y + 20)) for i, (x, y) in enumerate(rng.uniform(0, 80, (500, 2)))]
    )
    place = rng.uniform(0, 100, (5000, 2))
    table = pa.table(
        {"id": np.arange(5000), "text": [f"w{i % 9}" for i in range(5000)], "x": place[:, 0], "y": place[:, 1]}
    )

    one, two = hub.publish_many(table).to_table(), hub.publish_many(table, threads=2).to_table()
    assert len(one) > 1000
    assert one.drop_columns(["step", "arrival"]) == two.drop_columns(["step", "arrival"])


def test_everything_public_is_importable():
    """`__all__` is what the package gives."""
    assert sorted(nearcast.__all__) == nearcast.__all__
    assert all(hasattr(nearcast, name) for name in nearcast.__all__)


def test_slots_are_numbered_anew_when_most_are_dead(monkeypatch, berlin):
    """Subscriptions that come and go leave nothing behind, and order, ids and expiry survive the renumbering."""
    monkeypatch.setattr("nearcast.engine.upkeep.SPARE_SLOTS", 20)
    berlin.subscribe(Within("eve", "ipad", expires="2026-05-01T12:00:00Z"))
    before = berlin.publish(Message("m", "ipad", (13.4, 52.5)))
    for i in range(200):
        berlin.subscribe(Within(f"guest-{i}", "ipad"))
        berlin.unsubscribe(f"guest-{i}")

    assert berlin.stats()["index"]["slots"] <= 35
    assert [d.subscription_id for d in before] == ["anna", "dora", "eve"]
    assert reached(berlin, "ipad") == ["anna", "dora", "eve"]
    berlin.subscribe(Within("last", "ipad"))
    assert reached(berlin, "ipad", time="2026-05-01T12:00:00Z") == ["anna", "dora", "last"]
    berlin.move("anna", (0, 0))
    assert reached(berlin, "ipad", (0, 0)) == ["anna", "last"]


def test_a_change_survives_when_no_thread_can_be_had(monkeypatch):
    """Merging is put off, and the subscription is there with its id."""
    hub = Hub("plane", index="trigger:delta_rows=1")
    hub.subscribe(Within("a", "w"))

    def no_thread(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    hub.subscribe(Within("b", "w"))
    hub.subscribe(Within("c", "w"))
    monkeypatch.undo()
    hub.subscribe(Within("d", "w"))

    assert [d.subscription_id for d in hub.publish(Message("m", "w", (0, 0)))] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("failing", ["insert", "replace"])
def test_subscribing_many_is_all_or_nothing(monkeypatch, berlin, failing):
    """If the index cannot take one part, the other is not taken either."""

    def fail(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(berlin._state.index, failing, fail)
    with pytest.raises(MemoryError):
        berlin.subscribe_many([Within("anna", "ramen"), Within("new", "ipad")])
    monkeypatch.undo()

    assert reached(berlin, "ipad") == ["anna", "dora"]
    assert "new" not in berlin


def test_one_and_the_string_one_are_told_apart_in_deliveries():
    """Two subscriptions never share the name of a delivery."""
    hub = Hub("plane")
    hub.subscribe(Within(1, "w"))
    hub.subscribe(Within("1", "w"))
    found = hub.publish(Message("m", "w", (0, 0)))

    assert [d.subscription_id for d in found] == [1, "1"]
    assert [d.delivery_id for d in found] == ["0:0:+1", "0:0:+:1"]
    assert found.to_table(delivery_ids=True)["delivery_id"].to_pylist() == ["0:0:+1", "0:0:+:1"]


def test_a_table_without_deliveries_has_the_types_of_the_ids():
    """Tables of several runs fit together, whatever was delivered."""
    hub = Hub("plane")
    hub.subscribe(Within(1, "w"))
    none, one = (hub.publish(Message(7, text, (0, 0))).to_table() for text in ("v", "w"))

    assert (len(none), len(one)) == (0, 1)
    assert none.schema == one.schema


@pytest.mark.parametrize("point", [(1, 1), [1.0, 1.0], np.array([1.0, 1.0]), {"type": "Point", "coordinates": [1, 1]}])
def test_every_way_to_write_a_point_moves(berlin, point):
    """A point is a point, also as GeoJSON or an array."""
    berlin.move("anna", point)

    assert reached(berlin, "ipad", (1.0, 1.0)) == ["anna"]


def test_record_batches_and_other_arrow_tables_are_taken():
    """Whatever speaks Arrow is a table; what only looks like a list of values is refused."""
    hub = Hub("plane")
    hub.subscribe_many(pa.record_batch({"id": ["a"], "query": ["w"]}))
    batch = pa.record_batch({"id": [1], "text": ["w"], "x": [0.0], "y": [0.0]})

    assert (
        len(hub.publish_many(batch))
        == len(hub.publish_many(pa.RecordBatchReader.from_batches(batch.schema, [batch])))
        == 1
    )
    for nonsense in ({"id": 1, "text": "w", "x": 0, "y": 0}, "w", 5):
        with pytest.raises(nearcast.InvalidColumns, match="expected a table"):
            hub.publish_many(nonsense)
    with pytest.raises(ValueError, match="threads"):
        hub.publish_many(batch, threads=0)


@pytest.mark.parametrize(
    ("action", "field"),
    [
        (lambda hub: hub.subscribe({"id": "x", "query": "a", "x": 1, "y": 1, "radius": 4}), "x"),
        (lambda hub: hub.publish({"id": "m", "text": "a", "x": 1, "y": 2}), "x"),
        (lambda hub: hub.subscribe(Within("a\0", "a")), "id"),
    ],
)
def test_values_are_checked_like_rows_of_a_table(berlin, action, field):
    """Names of another space and ids that cannot be stored are refused."""
    with pytest.raises(nearcast.InvalidInput) as caught:
        action(berlin)
    assert caught.value.field == field


def test_a_subscription_that_contradicts_itself_can_move():
    hub = Hub("plane")
    hub.subscribe({"id": 1, "query": "a AND NOT a", "x": 0.0, "y": 0.0, "radius": 1.0})
    hub.move(1, (5.0, 5.0))
    assert not hub.publish({"id": 1, "text": "a", "x": 5.0, "y": 5.0})
