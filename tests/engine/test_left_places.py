"""Places that movers have left are not in what a hub saves: the bytes of all its files are looked through."""

import struct
from pathlib import Path

import pytest

from nearcast import Hub, Similar, TopK, Within
from nearcast.geo import Box, Circle
from nearcast.indexes.trigger.components import SegmentComponent

#: Coordinates that nothing else has: of the first places, of those in between, of the last ones.
FIRST, BETWEEN, LAST = (12.34567891, 45.67891234), (13.57924681, 46.80135792), (21.43658709, 34.56789123)
BOOLEAN = ["trigger", "trigger:delta_rows=4", "ap+-tree", "iq+-tree", "ss-index", "scan"]


def traces(folder, place):
    """Return the files that have one of two coordinates, as a float64, a float32 or in decimals."""
    found = []
    for path in sorted(Path(folder).rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        forms = [form for x in place for form in (struct.pack("<d", x), struct.pack("<f", x), repr(x).encode())]
        if any(form in data for form in forms):
            found.append(path.relative_to(folder).as_posix())
    return found


def regions_at(x, y):
    triangle = {"type": "Polygon", "coordinates": [[[x, y], [x + 1, y], [x, y + 1], [x, y]]]}
    return {"box": Box(x, y, x + 1, y + 1), "circle": Circle(x, y, 500), "polygon": triangle}


def check_saves(hub, ids, move, folder):
    """Move twice, and save in between; what is opened again is moved and saved once more."""
    for number, (left, to) in enumerate([(FIRST, BETWEEN), (BETWEEN, LAST), (LAST, FIRST)]):
        move(hub, to)
        here = folder / str(number)
        hub.save(here)
        assert traces(here, to), "the places they are at are not looked for as they are written"
        assert [] == traces(here, left)
        known = [repr(hub.get(each)) for each in ids]
        hub = Hub.open(here)
        assert known == [repr(hub.get(each)) for each in ids]


@pytest.mark.parametrize("index", BOOLEAN)
@pytest.mark.parametrize("how", ["one by one", "together"])
def test_a_save_has_no_place_that_a_mover_has_left(index, how, tmp_path):
    """A few of many move, so that no segment is half dead; boxes, circles and polygons."""
    hub = Hub("earth", index=index)
    hub.subscribe_many([Within(f"stays{i}", "tea", Box(i / 10, 1, i / 10 + 0.25, 2)) for i in range(60)])
    hub.subscribe_many([Within(name, "tea cake", place) for name, place in regions_at(*FIRST).items()])
    hub.publish({"id": 1, "text": "tea", "lon": 1, "lat": 1})

    def move(hub, to):
        if how == "together":
            rows = [{"id": name, "region": place} for name, place in regions_at(*to).items()]
            assert not hub.move_many(rows).rejected
        else:
            for name, place in regions_at(*to).items():
                hub.move(name, place)

    check_saves(hub, ["box", "circle", "polygon", "stays0"], move, tmp_path)


@pytest.mark.parametrize("index", ["trigger", "scan"])
def test_nor_one_that_a_scored_mover_has_left(index, tmp_path):
    """They are scored by the distance to a point, which is a column of its own."""
    hub = Hub("earth", index=index, window=100)
    for i in range(40):
        hub.subscribe(Similar(f"stays{i}", "tea", (i, 1), max_distance=5000, threshold=0.5))
        hub.subscribe(TopK(f"best{i}", "tea", (i, 2), max_distance=5000, k=2))
    hub.subscribe(Similar("similar", "tea cake", FIRST, max_distance=5000, threshold=0.5))
    hub.subscribe(TopK("topk", "tea cake", FIRST, max_distance=5000, k=2))

    def move(hub, to):
        for name in ("similar", "topk"):
            hub.move(name, to)

    check_saves(hub, ["similar", "topk"], move, tmp_path)


def test_a_segment_is_built_anew_once(tmp_path):
    """Its movers are elsewhere from then on: the next save leaves it alone, however often they move."""
    hub = Hub("earth")
    hub.subscribe_many([Within(i, "tea", Box(i / 10, 1, i / 10 + 0.25, 2)) for i in range(60)])
    hub.move(0, (5, 5))
    hub.save(tmp_path / "one")
    before = {id(c.segment) for c in hub._state.index._components if isinstance(c, SegmentComponent)}
    hub.move(0, (6, 6))
    hub.save(tmp_path / "two")
    assert before == {id(c.segment) for c in hub._state.index._components if isinstance(c, SegmentComponent)}
