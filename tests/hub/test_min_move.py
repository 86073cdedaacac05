"""Reports that lie nearer to the present place than `min_move`: heard, and without effect."""

import pyarrow as pa
import pytest

from nearcast import Box, Circle, Hub, InvalidSubscription, Similar, TopK, Within

pytestmark = pytest.mark.modes


def at(second):
    return f"2026-01-01T00:00:{second:02d}Z"


WANTED = {
    "circle": Within("s", "tea", Circle(0, 0, 5), min_move=2),
    "box": Within("s", "tea", Box(-1, -1, 1, 1), min_move=2),
    "similar": Similar("s", "tea", (0, 0), threshold=0.5, max_distance=9, min_move=2),
    "topk": TopK("s", "tea", (0, 0), k=1, max_distance=9, min_move=2),
}


def middle(held):
    """Return the x of the place of a subscription."""
    if not isinstance(held, Within):
        return held.place[0]
    return held.region.x if isinstance(held.region, Circle) else (held.region.x_min + held.region.x_max) / 2


@pytest.mark.parametrize("wanted", WANTED.values(), ids=WANTED)
@pytest.mark.parametrize("bulk", [False, True])
def test_small_moves_do_not_count(wanted, bulk):
    """Each is compared with the last accepted place, so that many small ones together count in the end."""
    hub = Hub("plane", window=5)
    hub.subscribe(wanted)
    places = []
    for x in (1.5, 1.9, 2.0, 3.5, 0.5, 0.0):
        if bulk:
            hub.move_many([{"id": "s", "x": x, "y": 0.0}])
        else:
            hub.move("s", (x, 0))
        places.append(middle(hub.get("s")))
    assert [0, 0, 2, 2, 2, 0] == places


def test_a_small_move_tells_nothing_and_its_time_counts():
    """Event time moves, and an older report is late afterwards; a region that is given always counts."""
    hub = Hub("plane", lifetime="10m")
    hub.subscribe(Within("s", "tea", Circle(0, 0, 1), min_move=2))
    hub.publish({"id": 1, "text": "tea", "x": 0.0, "y": 0.0, "time": at(0)})
    assert 0 == len(hub.move("s", (1.5, 0), at(5)))
    assert [1] == [d.message_id for d in hub.current("s")]
    assert "2026-01-01T00:00:05Z" == hub.stats()["now"]
    with pytest.raises(InvalidSubscription, match="reported at"):
        hub.move("s", (9, 0), at(4))
    assert ["-"] == [d.change for d in hub.move("s", Circle(1.5, 0, 1))]


def test_metres_on_the_earth_and_over_the_dateline():
    """The distance is that on the sphere, between centres, also of a box over the dateline."""
    hub = Hub("earth")
    hub.subscribe(Within("s", "tea", Box(179, -1, -179, 1), min_move=1000))
    hub.move("s", (-179.995, 0))  # some 556 m
    assert Box(179, -1, -179, 1) == hub.get("s").region
    hub.move("s", (-179.98, 0))
    assert Box(-179.98 + 359, -1, -178.98, 1) == hub.get("s").region


def test_it_is_a_column_and_kept(tmp_path):
    """Read from tables and dicts, given back, saved, and gone with a replacement that has none."""
    hub = Hub("earth")
    table = pa.table({"id": ["a", "b", "c"], "query": ["tea"] * 3, "lon": [0.0] * 3, "lat": [0.0] * 3,
                      "radius_m": [10.0] * 3, "min_move_m": [50.0, None, -1.0]})  # fmt: skip
    assert [(2, "min_move_m")] == [(row.row, row.field) for row in hub.subscribe_many(table)]
    hub.subscribe({"id": "d", "query": "tea", "lon": 0.0, "lat": 0.0, "radius_m": 10.0, "min_move_m": 7})
    assert [50, None, 7] == [hub.get(id_).min_move for id_ in ("a", "b", "d")]
    assert [50, None, 7] == hub.to_table()["min_move_m"].to_pylist()
    hub.save(tmp_path / "hub")
    again = Hub("earth")
    again.subscribe_many(hub.to_table())
    for each in (Hub.open(tmp_path / "hub"), again):
        each.move("a", (0.0001, 0))
        assert [Circle(0, 0, 10), 50] == [each.get("a").region, each.get("a").min_move]
    hub.subscribe(Within("a", "tea", Circle(0, 0, 10)))
    assert hub.get("a").min_move is None


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), "far"])
def test_wrong_distances_are_refused(wrong):
    """A number above 0."""
    with pytest.raises(InvalidSubscription, match="min_move"):
        Within("s", "tea", Circle(0, 0, 5), min_move=wrong)


@pytest.mark.parametrize("bulk", [False, True])
def test_a_box_around_the_earth_moves_by_latitude(bulk):
    """It has no longitude, so reports of the same latitude lie at its place, wherever they are."""
    hub = Hub("earth")
    hub.subscribe(Within("s", "tea", Box(-180, -1, 180, 1), min_move=50_000))
    middles = []
    for lon, lat in ((90, 5), (90, 5.1), (-90, 5.1), (90, 6)):
        if bulk:
            hub.move_many([{"id": "s", "lon": lon, "lat": lat}])
        else:
            hub.move("s", (lon, lat))
        middles.append((hub.get("s").region.y_min + hub.get("s").region.y_max) / 2)
    assert [5, 5, 5, 6] == middles
