"""Reading a hub back: values as they were given, ids, tables that make an equal hub, counters."""

import threading

import pyarrow as pa
import pytest

from nearcast import Area, Box, Circle, Hub, Message, Similar, TopK, Within
from nearcast import hub as hub_module
from nearcast._ids import MIXED_IDS
from nearcast.engine import upkeep
from nearcast.errors import InvalidColumns, InvalidQuery, UnknownSubscription

SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [4.1, 3.3], [0, 0]]]}
FIJI = {"type": "Polygon", "coordinates": [[[170, -10], [-170, -12], [-170, 11], [170, 10], [170, -10]]]}
EXPIRES = "2027-01-01T00:00:00.000001Z"

COMMON = [
    Within("plain", "ipad   Sale"),
    Within("query", '(ramen OR "hot  dog") AND NOT (used OR sold)', Box(1, 2, 3, 4.1)),
    Within("circle", "Ramen", Circle(1.1, 2.2, 800), expires=EXPIRES),
    Within("place alone", "", Box(0.1, 0.2, 0.3, 0.3)),
    Within("polygon", "zürich 拉麺", Area(SQUARE)),
    Within("contradiction", "a AND NOT a", Circle(1, 2, 3)),
    Within("nowhere", "a AND NOT a"),
    Within("contradiction in a polygon", "b AND NOT b", Area(SQUARE)),
    Similar("similar", "Hot ramen, hot!", (1.5, 2.5), threshold=0.3, text_weight=0.25, similarity="cosine"),
    Similar("far", "ramen", (1.5, 2.5), threshold=0.3, max_distance=123.5, expires=EXPIRES),
    Similar("terms", "", (0.0, 0.1), threshold=0.9, terms=("Hot Dog", "x,y"), max_distance=1),
    Similar("both", "ramen", (0.0, 0.1), threshold=0.9, terms=("dog",)),
    Similar("marks", "ram\x1een", (0.0, 0.1), threshold=0.9, terms=("d\x1fog", "")),
    TopK("topk", "jazz Concert", (1.0, 2.0), k=3, text_weight=0.7, max_distance=10),
    TopK("usual", "jazz", (1.0, 2.0)),
]
EARTH = [
    Within("fiji", "coral", Area(FIJI)),
    Within("fiji box", "coral", Box(170, -20, -170, -10)),
    Within("the world", "coral", Box(-180, -90, 180, 90)),
    Within("edge", "coral", Box(180, 0, -180, 1)),
]
WORLDS = {"plane": COMMON, "earth": [*COMMON, *EARTH]}


def made(space, values=(), **more):
    hub = Hub(space, window=10, max_distance=50, **more)
    for value in values:
        hub.subscribe(value)
    return hub


def answers(hub, space):
    """Return whom some messages reach, with scores."""
    texts = ["ipad sale", "ramen", "hot dog", "zürich 拉麺", "coral", "jazz concert", "Hot Dog", "dog ramen"]
    places = [(1.1, 2.2), (0.2, 0.25), (4.0, 3.2), (175, 0) if space == "earth" else (9, 9)]
    messages = [Message(f"{text}{place}", text, place, terms=text.split(",")) for text in texts for place in places]
    return [(d.subscription_id, d.message_id, d.change, d.score, d.rank) for d in hub.publish_many(messages)]


@pytest.mark.modes
@pytest.mark.parametrize("space", WORLDS)
@pytest.mark.parametrize("index", ["trigger", "scan"])
def test_a_subscription_comes_back_as_it_was_given(space, index):
    """Words as written, regions uncut, and what was left open stays open."""
    hub = made(space, WORLDS[space], index=index)

    assert WORLDS[space] == [hub.get(value.id) for value in WORLDS[space]]


@pytest.mark.parametrize("space", WORLDS)
def test_many_subscriptions_come_back_as_they_were_given(space):
    """A call for many keeps what calls for one keep, from values and from the table of another hub."""
    many, again = made(space), made(space)
    assert not len(many.subscribe_many(WORLDS[space]))
    assert not len(again.subscribe_many(many.to_table()))

    for hub in (many, again):
        assert WORLDS[space] == [hub.get(value.id) for value in WORLDS[space]]


@pytest.mark.parametrize("space", WORLDS)
def test_a_hub_made_from_the_table_of_another_is_equal(space):
    """Same ids in the same order of registration, and the same answers, also after changes."""
    hub = made(space, WORLDS[space])
    hub.unsubscribe("query")
    hub.subscribe(Within("plain", "sale OR dog"))
    hub.subscribe(Within("query", "hot"))
    hub.move("circle", (0.2, 0.25))
    table = hub.to_table()
    other = made(space)

    assert not len(other.subscribe_many(table))
    assert list(hub) == list(other)
    assert list(hub)[-1] == "query"
    assert answers(hub, space) == answers(other, space)
    assert table.equals(other.to_table())


def test_the_table_has_the_columns_that_are_used():
    """What no subscription has is no column; what it has stands under the names of the interchange."""
    hub = Hub("earth", max_distance=5)
    assert hub.to_table().column_names == ["id", "kind", "query"]
    hub.subscribe(Within(1, "a", Circle(1, 2, 3)))
    hub.subscribe(Similar(2, "b", (4, 5), threshold=0.5))

    assert hub.to_table().to_pylist() == [
        {"id": 1, "kind": "within", "query": "a", "lon": 1.0, "lat": 2.0, "radius_m": 3.0, "text_weight": None,
         "threshold": None, "similarity": None},
        {"id": 2, "kind": "similar", "query": "b", "lon": 4.0, "lat": 5.0, "radius_m": None, "text_weight": 0.5,
         "threshold": 0.5, "similarity": "tsim"},
    ]  # fmt: skip


def test_ids_of_both_types_go_from_hub_to_hub():
    """A table with integers and text keeps them apart and in order; a repeated id is rejected."""
    hub = Hub("plane")
    ids = [1, "1", 2, 3, "x"]
    for id_ in ids:
        hub.subscribe(Within(id_, "a"))
    table, other = hub.to_table(), Hub("plane")

    assert table.schema.field("id").type == MIXED_IDS
    assert not len(other.subscribe_many(table))
    assert ids == list(other)
    twice = Hub("plane").subscribe_many(pa.concat_tables([table, table]))
    assert [(row.row, row.id) for row in twice] == [(5, "1"), (6, "1"), (7, "2"), (8, "3"), (9, "x")]


def test_a_moved_subscription_is_where_it_went():
    """`get` and the table tell the present place, also of what the index need not place."""
    hub = made("earth", WORLDS["earth"])
    hub.move("circle", (3, 4))
    hub.move("contradiction", (5, 6))
    hub.move("contradiction in a polygon", Box(1, 1, 2, 2))
    hub.move("polygon", Area(FIJI))
    hub.move("fiji", Area(SQUARE))
    hub.move("both", (7, 8))
    hub.move("nowhere", Box(1, 1, 2, 2))
    assert hub.get("nowhere").region == Box(1, 1, 2, 2)

    assert hub.get("circle") == Within("circle", "Ramen", Circle(3, 4, 800), expires=EXPIRES)
    assert hub.get("contradiction") == Within("contradiction", "a AND NOT a", Circle(5, 6, 3))
    assert hub.get("contradiction in a polygon").region == Box(1, 1, 2, 2)
    assert hub.get("polygon").region == Area(FIJI)
    assert hub.get("fiji").region == Area(SQUARE)
    assert hub.get("both").place == (7.0, 8.0)
    other = made("earth")
    other.subscribe_many(hub.to_table())
    assert [hub.get(id_) for id_ in hub] == [other.get(id_) for id_ in other]


def test_a_replaced_subscription_is_the_new_one_and_a_refused_one_the_old():
    """A change that raises leaves what `get` returns."""
    hub = Hub("plane")
    hub.subscribe(Within("a", "ramen  noodles"))
    with pytest.raises(InvalidQuery):
        hub.subscribe({"id": "a", "query": "(("})
    assert hub.get("a") == Within("a", "ramen  noodles")

    hub.subscribe(Within("a", "beer"))
    assert hub.get("a") == Within("a", "beer")
    hub.unsubscribe("a")
    with pytest.raises(UnknownSubscription, match="there is no subscription 'a'"):
        hub.get("a")


def test_a_change_that_the_engine_refuses_keeps_the_text(monkeypatch):
    """What is stored stays what `get` returns, when storing breaks off."""
    hub = Hub("plane")
    hub.subscribe(Within("a", "ramen  noodles"))

    def broken(*_):
        raise MemoryError

    monkeypatch.setattr("nearcast.hub.step", broken)
    with pytest.raises(MemoryError):
        hub.subscribe(Within("a", "beer"))
    assert hub.get("a") == Within("a", "ramen  noodles")


@pytest.mark.parametrize("space", WORLDS)
def test_what_has_no_text_comes_back_with_a_query_that_asks_the_same(space):
    """Without its text, as after a call that was broken off, a subscription still tells what it asks for."""
    hub, other = made(space, WORLDS[space]), made(space)
    hub._state.texts = type(hub._state.texts)()
    assert hub.get("query").query == 'ramen NOT used NOT sold OR hot dog NOT used NOT sold "hot dog"'

    assert not len(other.subscribe_many(hub.to_table()))
    assert answers(hub, space) == answers(other, space)


def test_texts_survive_saving_and_new_numbers_of_slots(tmp_path, monkeypatch):
    """A hub that was saved and opened, or whose slots got other numbers, tells the same."""
    monkeypatch.setattr(upkeep, "SPARE_SLOTS", 2)
    hub = made("earth")
    hub.subscribe_many([Within(i, f"word{i}  and more") for i in range(40)])
    assert not len(hub.unsubscribe_many(range(30)))
    hub.subscribe(WORLDS["earth"][0])
    assert hub._state.index.n_slots == 11
    hub.subscribe_many(WORLDS["earth"][1:])
    expected = [*(Within(i, f"word{i}  and more") for i in range(30, 40)), *WORLDS["earth"]]
    assert expected == [hub.get(id_) for id_ in hub]

    hub.poll()
    hub.save(tmp_path / "hub")
    opened = Hub.open(tmp_path / "hub")
    assert expected == [opened.get(id_) for id_ in opened]
    assert opened.to_table().equals(hub.to_table())


def test_texts_that_went_do_not_fill_memory():
    """Subscribing again and again takes the memory of what is there."""
    hub = Hub("plane")
    long = "word" * 500
    table = pa.table({"id": range(500), "query": [long] * 500})
    for _ in range(20):
        hub.subscribe_many(table)

    assert hub.stats()["text_bytes"] < 5_000_000
    assert hub.get(2).query == long


def test_ids_are_iterated_over_as_they_were(monkeypatch):
    """Iterating takes the ids there are, some at a time; changes on the way do not disturb it."""
    monkeypatch.setattr(hub_module, "_BLOCK", 8)
    hub = Hub("plane")
    hub.subscribe_many([Within(i, "a") for i in range(50)])
    seen = []
    for id_ in hub:
        if id_ % 2 == 0:
            hub.unsubscribe(id_)
        seen.append(id_)

    assert list(range(50)) == seen
    assert list(range(1, 50, 2)) == list(hub)


@pytest.mark.parametrize("form", [list, iter, pa.array, lambda ids: pa.table({"id": ids}), pa.chunked_array])
def test_many_are_unsubscribed_and_unknown_ones_are_told(form):
    """A bad id never stops the others; it is a rejected row."""
    hub = Hub("plane")
    hub.subscribe_many([Within(f"s{i}", "a") for i in range(5)])
    given = ["s1", "x", "s3", "s1"]
    rejected = hub.unsubscribe_many(form([given] if form is pa.chunked_array else given))

    assert [("ids", 1, "x", "id"), ("ids", 3, "s1", "id")] == [row[:4] for row in rejected]
    assert "there is no subscription 'x'" in next(iter(rejected)).reason
    assert list(hub) == ["s0", "s2", "s4"]


def test_ids_of_any_type_may_be_unsubscribed_together():
    """Integers and text go in one call; what can be no id is rejected."""
    hub = Hub("plane")
    for id_ in (1, "1", 2):
        hub.subscribe(Within(id_, "a"))
    rejected = hub.unsubscribe_many([1, None, "1", 2.5, True, 2**70, "\ud800", "\x002"])

    assert [1, 3, 4, 5, 6, 7] == sorted(row.row for row in rejected)
    assert list(hub) == [2]
    with pytest.raises(InvalidColumns, match="expected a list of ids"):
        hub.unsubscribe_many("s1")
    with pytest.raises(InvalidColumns, match="no column id"):
        hub.unsubscribe_many(pa.table({"x": [1]}))


def test_stats_count_what_passed(tmp_path):
    """Messages, deliveries, rejected rows and late messages, over saving and opening."""
    hub = Hub("plane", window="1m", max_distance=1)
    hub.subscribe_many([Within("a", "ramen"), Within("b", "ramen"), {"id": "c", "query": "(("}])
    at = {"text": "ramen", "x": 0, "y": 0}
    hub.publish_many([{**at, "id": 1, "time": "2026-01-01T01:00:00Z"}, {"id": 2}, {**at, "id": 3}])
    assert 2 == len(hub.publish({**at, "id": 4, "time": "2026-01-01T00:00:00Z"}))
    hub.unsubscribe_many(["x"])
    hub.save(tmp_path / "hub")

    for each in (hub, Hub.open(tmp_path / "hub")):
        counted = {name: each.stats()[name] for name in ("published", "delivered", "rejected", "late")}
        assert counted == {"published": 2, "delivered": 4, "rejected": 4, "late": 1}


def test_a_hub_left_leaves_no_thread_behind():
    """`with` waits for merging; closing twice does no harm, and the hub goes on."""
    with Hub("plane", index="trigger:delta_rows=4") as hub:
        hub.subscribe_many([Within(i, "a") for i in range(9)])
        for i in range(40):
            hub.subscribe(Within(100 + i, "a"))

    assert not [thread for thread in threading.enumerate() if thread is hub._state.index._merger]
    hub.close()
    hub.subscribe(Within("more", "a"))
    assert len(hub.publish(Message(1, "a", (0, 0)))) == 50
