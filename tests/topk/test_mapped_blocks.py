"""Segments in columns of somebody else: whatever lies between them, a search finds what `scan` does."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_window import SPACES, World, same

from nearcast.topk.window.blocks import BlockIndex
from nearcast.topk.window.blocks.mapped import GROUPS, MappedBlocks, SegmentPlace, placed, segment_columns


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(BlockIndex, "TAIL", 3)
    monkeypatch.setattr(BlockIndex, "JOINED_FROM", 15)


class GrowingColumns:
    """Columns that are appended to, as an arena does; what nobody names are segments of other messages."""

    def __init__(self, world):
        self.world = world
        self.columns = {
            name: np.zeros((0, width) if width else 0, kind)
            for group in GROUPS.values()
            for name, (kind, width) in group.items()
        }

    def ends(self):
        return tuple(len(self.columns[next(iter(group))]) for group in GROUPS.values())

    def put(self, first, batch):
        columns = segment_columns(self.world.space, self.world.by_time, first, batch, self.world.weight)
        return self.write(first, first + len(batch.box), columns)

    def write(self, first, end, columns):
        begins = self.ends()
        for name, column in placed(columns, begins[1]).items():
            self.columns[name] = np.concatenate([self.columns[name], column])
        sizes = tuple(after - before for before, after in zip(begins, self.ends(), strict=True))
        return SegmentPlace(first, end, begins, sizes)

    def index(self, places, floor):
        world = self.world
        return MappedBlocks(world.space, world.by_time, self.columns, places, floor, world.next_row, world.weight.size)


def pieces(world, held, first):
    """Yield stretches of rows, the last of which may be too short for a segment."""
    at = first
    while at < world.next_row:
        end = min(at + int(world.random.choice([3, 8, 20])), world.next_row)
        yield at, held.messages(np.arange(at, end))
        at = end


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 2**32 - 1), space=st.sampled_from(sorted(SPACES)), by_time=st.booleans())
def test_segments_that_lie_anywhere_are_searched_like_a_scan(seed, space, by_time):
    world = World(seed, SPACES[space], by_time=by_time, names=("scan",))
    for _ in range(4):
        world.append()
    world.drop()
    scan, columns, places = world.indexes["scan"], GrowingColumns(world), []
    for first, batch in pieces(world, scan, scan._rows.first):
        if world.random.random() < 0.5:
            columns.put(first, world.batch(int(world.random.integers(1, 20))))
        places.append(columns.put(first, batch))
    index = columns.index(places, world.floor)
    copied = GrowingColumns(world)
    copied.put(0, world.batch(7))
    twin = copied.index(
        [copied.write(place.first, place.end, index.columns_at(place)) for place in places], world.floor
    )
    for n_asked in (1, 20):
        asked, alive = world.asked(n_asked), world.alive()
        n = world.random.integers(0, 9, n_asked).astype(np.int32)
        same(scan.best(asked, n, alive), index.best(asked, n, alive), twin.best(asked, n, alive))
        least = world.random.choice([0.0, 0.3, 0.6], n_asked)
        same(scan.at_least(asked, least, alive), index.at_least(asked, least, alive))
        rows = np.arange(world.floor, world.next_row)
        start = np.append(np.zeros(n_asked, np.int64), len(rows))
        expected = scan.scores(asked, start, rows, alive).tolist()
        assert expected == index.scores(asked, start, rows, alive).tolist()
        assert expected == twin.scores(asked, start, rows, alive).tolist()


def test_nothing_is_appended_to_what_others_keep():
    world = World(3, SPACES["plane"], names=("scan",))
    world.append()
    index = GrowingColumns(world).index([], world.next_row)
    with pytest.raises(NotImplementedError, match="who keeps the columns"):
        index.append(world.batch(1))
    with pytest.raises(IndexError, match="are held"):
        index.time(np.array([0]))
