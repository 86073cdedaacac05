"""Reports of places, one by one and in tables: what moves, what is carried along, what is refused."""

import random

import numpy as np
import pyarrow as pa
import pytest

from nearcast import Area, Box, Circle, Hub, InvalidColumns, InvalidRegion, InvalidSubscription, Similar, TopK, Within
from nearcast.engine import move_items

pytestmark = pytest.mark.modes

SQUARE = Area({"type": "Polygon", "coordinates": [[(0, 0), (2, 0), (2, 2), (0, 2), (0, 0)]]})


def at(second):
    return f"2026-01-01T00:00:{second:02d}Z"


def reasons(deliveries):
    return [(each.row, each.id, each.field) for each in deliveries.rejected]


def plane_hub(**options):
    hub = Hub("plane", max_distance=10.0, **options)
    hub.subscribe_many(
        [
            Within("circle", "tea", Circle(0, 0, 1)),
            Within("box", "tea", Box(0, 0, 0.1, 0.3)),
            Within("anywhere", "tea"),
            Within("polygon", "tea", SQUARE),
            Within("never", "tea AND NOT tea", Box(0, 0, 1, 2)),
            Similar("similar", "tea", (0, 0), threshold=0.5),
        ]
    )
    return hub


PLACES = [(3.25, 4.0), (0.7, 0.1), (1e6, -1e-3), (0.05, 0.15)]


@pytest.mark.parametrize("kind", ["circle", "box", "never", "similar"])
def test_a_table_moves_as_single_calls_do(kind):
    """Places carried in columns are those of single moves to the last bit."""
    one, many = plane_hub(), plane_hub()
    for place in PLACES:
        one.move(kind, place)
        many.move_many(pa.table({"id": [kind], "x": [place[0]], "y": [place[1]]}))
        assert one.get(kind) == many.get(kind)


def test_boxes_over_the_dateline_are_carried_in_columns_as_one_by_one():
    """West and east are wrapped alike; a box around the earth stays one."""
    boxes = {"wide": Box(-180, 0, 180, 1), "fiji": Box(170, -20, -170, -10), "small": Box(10, 10, 10.3, 10.1)}
    one, many = Hub("earth"), Hub("earth")
    for hub in (one, many):
        hub.subscribe_many([Within(id_, "tea", box) for id_, box in boxes.items()])
    for lon, lat in [(180.0, 0.0), (-180.0, 5.0), (179.9, 79.0), (-0.1, -80.0)]:
        for id_ in boxes:
            one.move(id_, (lon, lat))
        table = pa.table({"id": list(boxes), "lon": [lon] * 3, "lat": [lat] * 3})
        assert not len(many.move_many(table).rejected)
        assert [one.get(id_) for id_ in boxes] == [many.get(id_) for id_ in boxes]


@pytest.mark.parametrize("bulk", [False, True])
def test_a_carried_box_does_not_drift(bulk):
    """After any number of moves the box is that of one move from where it was registered."""
    hub, fresh, draw = plane_hub(), plane_hub(), random.Random(3)
    for _ in range(40):
        place = (draw.uniform(-1e3, 1e3), draw.uniform(-1e3, 1e3))
        if bulk:
            hub.move_many([{"id": "box", "x": place[0], "y": place[1]}])
        else:
            hub.move("box", place)
    fresh.move("box", place)
    assert fresh.get("box") == hub.get("box")


def test_a_box_is_as_large_as_the_one_given_last(tmp_path):
    """A region that is given replaces width and height, also over a save; so does a registration."""
    hub = plane_hub()
    hub.move("box", (1 / 3, 1 / 7))
    hub.move("box", Box(0, 0, 0.7, 0.9))
    hub.move("box", (1 / 3, 1 / 7))
    hub.save(tmp_path / "hub")
    opened = Hub.open(tmp_path / "hub")
    for each in (hub, opened):
        each.move("box", (0.35, 0.45))
        assert Box(0, 0, 0.7, 0.9) == each.get("box").region
    hub.subscribe(Within("box", "tea", Box(0, 0, 0.1, 0.2)))
    hub.move("box", (0.05, 0.1))
    assert Box(0, 0, 0.1, 0.2) == hub.get("box").region


def test_rows_that_cannot_be_used_are_rejected_and_stop_nothing():
    """Each is named with what is wrong; all others move."""
    hub = plane_hub(window=5)
    hub.subscribe(TopK("topk", "tea", (0, 0), k=1))
    rows = [
        {"id": "nobody", "x": 1.0, "y": 1.0},
        {"id": "circle", "x": float("nan"), "y": 1.0},
        {"id": "anywhere", "x": 1.0, "y": 1.0},
        {"id": "polygon", "x": 1.0, "y": 1.0},
        {"id": "similar", "x": 1.0, "y": 1.0, "radius": 2.0},
        {"id": "topk", "x_min": 1.0, "y_min": 1.0, "x_max": 2.0, "y_max": 2.0},
        {"id": "circle"},
        {"id": "circle", "x": 5.0, "y": 5.0},
        {"id": "polygon", "x_min": 1.0, "y_min": 1.0, "x_max": 2.0, "y_max": 2.0},
        {"id": "similar", "x": 7.0, "y": 5.0},
    ]
    expected = [
        (0, "nobody", "id"),
        (1, "circle", "x"),
        (2, "anywhere", "region"),
        (3, "polygon", "region"),
        (4, "similar", "place"),
        (5, "topk", "place"),
        (6, "circle", "region"),
    ]
    assert expected == sorted(reasons(hub.move_many(pa.Table.from_pylist(rows, _schema(rows)))))
    assert Circle(5, 5, 1) == hub.get("circle").region
    assert Box(1, 1, 2, 2) == hub.get("polygon").region
    assert (7, 5) == hub.get("similar").place


def _schema(rows):
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.schema([(name, pa.string() if name == "id" else pa.float64()) for name in names])


def test_places_off_the_earth_are_rejected():
    """So is one where a box would reach over a pole."""
    hub = Hub("earth")
    hub.subscribe_many([Within("box", "tea", Box(0, 0, 2, 2)), Within("circle", "tea", Circle(0, 0, 10))])
    rows = [
        {"id": "circle", "lon": 181.0, "lat": 0.0},
        {"id": "circle", "lon": 0.0, "lat": -90.5},
        {"id": "box", "lon": 0.0, "lat": 89.5},
        {"id": "circle", "lon": 0.0, "lat": 90.0},
    ]
    told = hub.move_many(rows)
    assert [(0, "circle", "lon"), (1, "circle", "lat"), (2, "box", "lat")] == reasons(told)
    assert "does not fit around latitude 89.5" in list(told.rejected)[2].reason
    assert Circle(0, 90, 10) == hub.get("circle").region


def test_an_id_may_come_twice_in_a_table():
    """Rows act in order: the last place is where it is."""
    hub = plane_hub(window=3)
    hub.subscribe(TopK("topk", "tea", (0, 0), k=1))
    hub.publish_many([{"id": i, "text": "tea", "x": float(i), "y": 0.0} for i in range(3)])
    rows = [{"id": "topk", "x": x, "y": 0.0} for x in (2.0, 1.0)] + [{"id": "circle", "x": 9.0, "y": 9.0}]
    rows += [{"id": "topk", "x": 2.0, "y": 0.0}]
    told = hub.move_many(rows)
    assert [("-", 0), ("+", 2), ("-", 2), ("+", 1), ("-", 1), ("+", 2)] == [(d.change, d.message_id) for d in told]
    assert Circle(9, 9, 1) == hub.get("circle").region


def test_ids_of_both_types_in_one_table():
    """Dicts may name integers and text; rows keep their numbers."""
    hub = Hub("plane")
    hub.subscribe(Within(7, "tea", Circle(0, 0, 1)))
    hub.subscribe(Within("7", "tea", Circle(0, 0, 1)))
    rows = [{"id": 7, "x": 1.0, "y": 0.0}, {"id": "7", "x": 2.0, "y": 0.0}, {"id": "8", "x": 2.0, "y": 0.0}]
    assert [(2, "8", "id")] == reasons(hub.move_many([*rows]))
    assert (Circle(1, 0, 1), Circle(2, 0, 1)) == (hub.get(7).region, hub.get("7").region)


def test_dicts_that_are_no_moves_are_rejected():
    """A name that means nothing, a number that is none, a time that is none."""
    hub = plane_hub()
    rows = [
        {"id": "circle", "lon": 1.0, "lat": 1.0},
        {"id": "circle", "x": "far", "y": 1.0},
        {"id": "circle", "x": 1.0, "y": 1.0, "time": "noon"},
        7,
        {"x": 1.0, "y": 1.0},
        {"id": "circle", "region": Circle(1, 2, 3), "time": at(1)},
    ]
    assert ["lon", "x", "time", None, "id"] == [each.field for each in hub.move_many(rows).rejected]
    assert Circle(1, 2, 3) == hub.get("circle").region


# --- late reports -----------------------------------------------------------------------------------------------


def test_a_late_report_is_refused():
    """One older than the last of its subscription; one as old passes, and so does one without a time."""
    hub = plane_hub()
    hub.move("circle", (1, 1), at(5))
    hub.move("circle", (2, 2), at(5))
    with pytest.raises(InvalidSubscription, match="reported at 2026-01-01 00:00:05") as raised:
        hub.move("circle", (3, 3), at(4))
    assert "time" == raised.value.field
    assert Circle(2, 2, 1) == hub.get("circle").region
    hub.move("circle", (4, 4))
    hub.move("box", (4, 4), at(1))  # each has a last one of its own
    told = hub.move_many([{"id": "circle", "x": x, "y": 0.0, "time": at(s)} for x, s in ((5.0, 6), (6.0, 5), (7.0, 6))])
    assert [(1, "circle", "time")] == reasons(told)
    assert Circle(7, 0, 1) == hub.get("circle").region


def test_no_time_means_now():
    """A report without a time is as of event time: an older one is late afterwards."""
    hub = plane_hub()
    hub.advance(at(9))
    hub.move("circle", (1, 1))
    with pytest.raises(InvalidSubscription, match="reported at"):
        hub.move("circle", (2, 2), at(8))


def test_without_a_lifetime_reports_do_not_move_event_time():
    """What came before stays as it was: only messages and `advance` do."""
    hub = plane_hub()
    hub.subscribe(Within("soon", "tea", Circle(0, 0, 1), expires=at(3)))
    hub.move("circle", (1, 1), at(5))
    assert hub.stats()["now"] is None
    assert "soon" in hub


def test_last_reports_are_kept_over_a_save_and_forgotten_with_a_registration(tmp_path):
    """A replaced subscription begins anew."""
    hub = plane_hub()
    hub.move("circle", (1, 1), at(5))
    hub.save(tmp_path / "hub")
    opened = Hub.open(tmp_path / "hub")
    with pytest.raises(InvalidSubscription, match="reported at"):
        opened.move("circle", (2, 2), at(4))
    opened.subscribe(Within("circle", "tea", Circle(0, 0, 1)))
    opened.move("circle", (2, 2), at(4))


# --- what a single move refuses -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["circle", "box", "similar"])
@pytest.mark.parametrize(
    ("place", "field", "reason"),
    [
        ((400, 0), "lon", "longitude 400.0 is beyond 180"),
        ((-181, 0), "lon", "longitude -181.0 is beyond 180"),
        ((0, 91), "lat", "latitude 91.0 is beyond 90"),
        ((float("nan"), 0), "lon", "lon is nan"),
        ((0, float("inf")), "lat", "lat is inf"),
    ],
)
def test_points_off_the_earth_are_refused_for_every_kind(kind, place, field, reason):
    """A box is not wrapped around to another place; errors name what the caller gave."""
    hub = Hub("earth", max_distance=10.0)
    hub.subscribe_many(
        [
            Within("circle", "tea", Circle(0, 0, 1)),
            Within("box", "tea", Box(0, 0, 10, 10)),
            Similar("similar", "tea", (0, 0), threshold=0.5),
        ]
    )
    before = hub.get(kind)
    with pytest.raises(InvalidRegion, match=reason) as caught:
        hub.move(kind, place)
    assert (field, before) == (caught.value.field, hub.get(kind))


@pytest.mark.parametrize("kind", ["circle", "box", "similar"])
def test_points_that_are_no_numbers_are_named_as_on_a_plane(kind):
    """`x` and `y`, not the sides of a box."""
    with pytest.raises(InvalidRegion, match=r"^y is nan; expected a finite number"):
        plane_hub().move(kind, (0, float("nan")))


@pytest.mark.parametrize("place", [None, 5, (1,), (1, 2, 3), ("a", "b")])
def test_what_is_no_place_is_told_that_a_point_is_one(place):
    """Besides a region."""
    with pytest.raises(InvalidRegion, match=r"^place is .*; expected a point \(x, y\), or a region"):
        plane_hub().move("circle", place)


# --- columns of tables --------------------------------------------------------------------------------------------


def test_misspelt_columns_of_a_table_of_moves_are_warnings():
    """With `strict` the table is refused, and nothing has moved."""
    hub = plane_hub()
    table = pa.table({"id": ["circle"], "x": [5.0], "y": [0.0], "timee": [at(1)], "radus": [3.0], "note": ["a"]})
    with pytest.raises(InvalidColumns, match="did you mean time"):
        hub.move_many(table, strict=True)
    assert Circle(0, 0, 1) == hub.get("circle").region
    found = hub.move_many(table).rejected
    assert [
        "moves: column timee is not used; did you mean time?",
        "moves: column radus is not used; did you mean radius?",
    ] == found.warnings
    assert [] == list(found)


# --- time and size ------------------------------------------------------------------------------------------------


def test_reports_from_the_future_are_refused_without_a_lifetime():
    """One wrong clock must not make all later reports late; before event time is known nothing is the future."""
    hub = plane_hub(max_ahead="10s")
    hub.move("box", (1, 1), at(50))
    hub.advance(at(0))
    with pytest.raises(InvalidSubscription, match="from the future"):
        hub.move("circle", (1, 1), at(11))
    rows = [{"id": "circle", "x": 1.0, "y": 0.0, "time": at(second)} for second in (9, 19, 10)]
    assert [(1, "circle", "time")] == reasons(hub.move_many(rows))


class Watched(np.ndarray):
    """An array that counts the values that slices of it hold."""

    seen = 0

    def __getitem__(self, key):
        found = super().__getitem__(key)
        Watched.seen += np.size(found)
        return np.asarray(found)


@pytest.mark.parametrize("run", [1, 100])
def test_items_are_cut_without_looking_at_all_the_rows_that_are_left(run, monkeypatch):
    """An id that comes in every row makes as many items as rows; work stays in proportion to the rows."""
    previous_of, n = move_items._previous, 400
    monkeypatch.setattr(move_items, "_previous", lambda slots: previous_of(slots).view(Watched))
    hub = Hub("plane", index="scan")
    hub.subscribe_many([Within(number, "tea", Circle(0, 0, 5)) for number in range(run)])
    moves = pa.table({"id": np.arange(n) % run, "x": np.arange(float(n)), "y": np.zeros(n)})
    Watched.seen = 0
    hub.move_many(moves)
    assert 0 < Watched.seen <= 100 * n
    assert [float(n - run + number) for number in range(run)] == [hub.get(number).region.x for number in range(run)]
