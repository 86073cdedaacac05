"""Columns that are pickled as the rule they follow come back as they were."""

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearcast.columns import NO_TIME
from nearcast.geo import Box, Regions, Space
from nearcast.pipeline.batch.packed_columns import PackedState
from nearcast.tables.moves import Moves

MANY = 1000


@dataclass(frozen=True)
class Columns(PackedState):
    """What is sent: one column, and anything beside it."""

    column: Any
    other: Any = None


def sent(column):
    return pickle.loads(pickle.dumps(Columns(column, other="x")))


@pytest.mark.parametrize(
    "column",
    [
        np.arange(MANY),
        np.arange(MANY, dtype=np.int32)[::-1].copy(),
        np.arange(7, 7 + 3 * MANY, 3),
        np.full(MANY, NO_TIME),
        np.full(MANY, np.iinfo(np.int64).max),
        np.array([NO_TIME, np.iinfo(np.int64).max]),
        np.array([np.iinfo(np.int64).max, NO_TIME]),
        np.arange(MANY).astype(np.uint8),
        np.full(MANY, 2, np.uint8),
        np.zeros(MANY, np.bool_),
        np.ones(MANY, np.bool_),
        np.array([True, False] * MANY),
        np.array([5, 6, 8]),
        np.empty(0, np.int64),
        np.array([4]),
        np.full(MANY, 1 << 63, np.uint64),
        np.linspace(0, 1, MANY),
        np.zeros((MANY, 2), np.int64),
    ],
)
def test_a_column_comes_back_as_it_was(column):
    """Also where it wraps around, follows no rule, or has rows that are none."""
    found = sent(column)

    assert "x" == found.other
    assert column.dtype == found.column.dtype
    assert column.shape == found.column.shape
    assert column.tobytes() == found.column.tobytes()


def test_a_column_that_follows_a_rule_takes_no_room():
    """However long it is."""
    assert len(pickle.dumps(Columns(np.arange(MANY)))) == len(pickle.dumps(Columns(np.arange(2 * MANY))))


def moves_to(is_point):
    """Return moves as a source of changes has them, each to a point or to a box."""
    n = len(is_point)
    boxes = Regions.from_shapes([None if each else Box(0, 0, 1, row + 1) for row, each in enumerate(is_point)], PLANE)
    return Moves(pa.nulls(n), np.array(is_point), np.arange(2.0 * n).reshape(n, 2), boxes)


PLANE = Space.plane()


@pytest.mark.parametrize("is_point", [[True] * 5, [False] * 5, [True, False, True]])
def test_moves_come_back_as_they_were(is_point):
    """Those to regions with their regions."""
    moves = moves_to(is_point)
    found = sent(moves).column

    assert moves.is_point.tolist() == found.is_point.tolist()
    assert moves.point.tolist() == found.point.tolist()
    assert (len(moves.ids), moves.ids.null_count) == (len(found.ids), found.ids.null_count)
    for name in ("kind", "part_start", "part", "shape", "circle", "geometry"):
        expected, given = getattr(moves.regions, name), getattr(found.regions, name)
        assert expected.dtype == given.dtype
        assert expected.tolist() == given.tolist()


def test_moves_to_points_are_sent_as_points():
    """Sixteen bytes each, and what tells that they are moves."""
    few, many = (len(pickle.dumps(Columns(moves_to([True] * n)))) for n in (10, 1010))

    assert 16_000 <= many - few < 16_100
