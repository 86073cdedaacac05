"""Bounds by which a move leaves live messages out: they never say other than the exact tests do."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nearcast.geo import EARTH_RADIUS_M, circle_holds
from nearcast.live.cells.found import AFTER, BEFORE, FoundMessages
from nearcast.live.cells.verify import side_of_circle

_LATITUDES = st.floats(-90.0, 90.0)
_RADII = st.floats(0.0, 1.0) | st.floats(1.0, 1e4) | st.floats(1e4, 1e6)


def point_at(lon, lat, distance, bearing):
    """Return the point on the sphere at a distance and bearing, as exactly as float64 gives it."""
    angle, north = distance / EARTH_RADIUS_M, np.radians(lat)
    there = np.arcsin(np.sin(north) * np.cos(angle) + np.cos(north) * np.sin(angle) * np.cos(bearing))
    east = np.arctan2(np.sin(bearing) * np.sin(angle) * np.cos(north), np.cos(angle) - np.sin(north) * np.sin(there))
    return (lon + np.degrees(east) + 540.0) % 360.0 - 180.0, float(np.degrees(there))


@given(st.floats(-180.0, 180.0), _LATITUDES, _RADII, st.floats(0.0, 6.3), st.floats(-1e-3, 1e-3) | st.floats(-1.0, 1.0))
@example(13.4, 52.5, 5_000.0, 1.0, 0.0)
@example(180.0, 10.0, 5_000.0, 1.5, -0.5)
@example(0.0, 90.0, 5_000.0, 1.5, -0.5)
@example(0.0, 0.0, 0.0, 0.0, 0.0)
def test_a_point_near_the_border_of_a_circle_is_never_put_on_the_wrong_side(lon, lat, radius, bearing, beside):
    """Whatever the bounds decide, the distance decides as well."""
    x, y = point_at(lon, lat, radius * (1.0 + beside), bearing)

    side = side_of_circle(lon, lat, radius, x, y)

    assert side == 0 or (side > 0) == circle_holds(True, lon, lat, radius, x, y, x, y)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 1), (0.99, 1), (1.01, -1), (1.5, -1)])
def test_bounds_decide_of_points_that_are_not_at_the_border(share, expected):
    """In a town nearly every point is decided without measuring it."""
    for bearing in np.linspace(0.0, 6.2, 40):
        x, y = point_at(13.4, 52.5, 5_000.0 * share, bearing)

        assert expected == side_of_circle(13.4, 52.5, 5_000.0, x, y)


@given(
    st.integers(1, 6),
    st.sampled_from([0, 1, 2, 30, 200, 5000]),
    st.integers(0, 2**32 - 1),
)
def test_what_was_found_is_sorted_by_query_then_leaving_then_arrival(n_queries, n, seed):
    """As `lexsort` sorts it; no message is found twice for a query."""
    rng = np.random.default_rng(seed)
    keys = rng.permutation(n_queries * n)[:n]
    query, row = keys % n_queries, keys // n_queries
    found = FoundMessages(query, row, rng.choice(np.array([BEFORE, AFTER], np.uint8), n), rng.random(n))
    arrival_of = np.arange(n, dtype=np.int64) * 3 + 7

    changes = found.changes(n_queries, arrival_of)

    enters = (found.where == AFTER).astype(np.uint8)
    order = np.lexsort((row, enters, query))
    assert np.bincount(query, minlength=n_queries).tolist() == np.diff(changes.start).tolist()
    assert arrival_of[row[order]].tolist() == changes.arrival.tolist()
    assert enters[order].tolist() == changes.enters.tolist()
    assert found.score[order].tolist() == changes.score.tolist()
