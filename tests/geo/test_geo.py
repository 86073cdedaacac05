"""Places: distances, shapes, regions as columns, and what touches what."""

import json
import math
import pickle

import numpy as np
import pytest
import shapely
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nearcast import geo
from nearcast.errors import InvalidInput, InvalidRegion
from nearcast.geo import (
    ANYWHERE,
    BOX,
    CIRCLE,
    EARTH_RADIUS_M,
    POLYGON,
    Area,
    Box,
    Circle,
    Regions,
    Space,
    polygons_touch,
    shape_from,
    touches,
)
from nearcast.geo import regions as _regions
from nearcast.geo import space as _space

pytestmark = [pytest.mark.modes, pytest.mark.small]

EARTH, PLANE = Space.earth(), Space.plane()
QUARTER_M, HALF_M = math.pi / 2 * EARTH_RADIUS_M, math.pi * EARTH_RADIUS_M

lons = st.one_of(st.sampled_from([-180.0, -179.9999999, -90.0, 0.0, 90.0, 179.9999999, 180.0]), st.floats(-180, 180))
lats = st.one_of(st.sampled_from([-90.0, -89.9999999, -45.0, 0.0, 60.0, 89.9999999, 90.0]), st.floats(-90, 90))
radii_m = st.one_of(
    st.sampled_from([0.0, 1e-9, 1.0, QUARTER_M, QUARTER_M * 1.0000001, HALF_M, 1e9, 1e300]),
    st.floats(0, 2.1e7),
    st.floats(0, 2000.0),
)


@st.composite
def earth_boxes(draw):
    """Boxes on the earth, also degenerate ones and ones over the dateline."""
    south, north = sorted([draw(lats), draw(lats)])
    return (draw(lons), south, draw(lons), north)


def point(x, y):
    return (x, y, x, y)


def held(shape, place, space=EARTH):
    """Whether one shape touches one place."""
    return bool(touches(Regions.from_shapes([shape], space), [0], [place], space)[0])


def is_covered(regions, place):
    """Whether some part of row 0 overlaps the place, longitudes as written."""
    x_min, y_min, x_max, y_max = place
    spans = [(x_min, x_max)] if x_min <= x_max else [(x_min, 180.0), (-180.0, x_max)]
    return any(
        part[0] <= high and low <= part[2] and part[1] <= y_max and y_min <= part[3]
        for part in regions.part.tolist()
        for low, high in spans
    )


def chord_distance(lon1, lat1, lon2, lat2):
    """The great-circle distance by vectors: another road to the same number."""

    def vector(lon, lat):
        lam, phi = np.radians(lon), np.radians(lat)
        return np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)], axis=-1)

    a, b = vector(lon1, lat1), vector(lon2, lat2)
    return EARTH_RADIUS_M * np.arctan2(np.linalg.norm(np.cross(a, b), axis=-1), np.sum(a * b, axis=-1))


def sampled_box_distance(lon, lat, box, steps=181):
    """The distance to the nearest of many points of a box."""
    west, south, east, north = box
    width = east - west if east >= west else east - west + 360.0
    xs = (west + np.linspace(0, width, steps) + 180.0) % 360.0 - 180.0
    ys = np.linspace(south, north, steps)
    grid_x, grid_y = np.meshgrid(xs, ys)
    return float(chord_distance(lon, lat, grid_x, grid_y).min())


class TestDistance:
    def test_one_degree_of_the_equator(self):
        """A degree of a great circle is 1/360 of the circumference."""
        assert math.isclose(math.pi * EARTH_RADIUS_M / 180, EARTH.distance(0, 0, 1, 0), rel_tol=1e-14)

    def test_antipodes_are_half_the_circumference_apart(self):
        """Opposite points are as far as points can be, to the last digit."""
        assert HALF_M == EARTH.distance(0, 90, 77, -90)
        assert HALF_M == EARTH.distance(-90, 0, 90, 0)

    def test_nearly_antipodal_points_keep_their_digits(self):
        """One metre short of the antipode is one metre, not a rounding error."""
        short_of = math.degrees(1.0 / EARTH_RADIUS_M)
        assert math.isclose(1.0, HALF_M - EARTH.distance(0, 0, 180 - short_of, 0), rel_tol=1e-6)

    def test_both_names_of_the_dateline_are_one_meridian(self):
        """180 and -180 are no distance apart."""
        assert 0.0 == EARTH.distance(180, 12.3, -180, 12.3)

    def test_a_pole_is_one_point_whatever_its_longitude(self):
        """All longitudes meet at a pole, exactly."""
        assert 0.0 == EARTH.distance(10, 90, -130, 90)
        assert 0.0 == EARTH.distance(10, -90, -130, -90)

    @given(lons, lats, lons, lats)
    def test_agrees_with_vectors(self, lon1, lat1, lon2, lat2):
        """Haversine and the angle between vectors are the same distance."""
        expected = float(chord_distance(lon1, lat1, lon2, lat2))
        assert math.isclose(expected, EARTH.distance(lon1, lat1, lon2, lat2), rel_tol=1e-9, abs_tol=1e-8)

    def test_plane_is_euclidean(self):
        """On a plane distances are straight lines, without a unit."""
        assert 5.0 == PLANE.distance(1, 1, 4, 5)
        assert "" == PLANE.unit
        assert "m" == EARTH.unit

    def test_arrays_are_broadcast(self):
        """One point against many gives an array of their shape."""
        actual = PLANE.distance(0, 0, np.array([[3, 0], [6, 1]]), np.array([[4, 2], [8, 0]]))
        assert [[5.0, 2.0], [10.0, 1.0]] == actual.tolist()

    def test_no_points_give_no_distances(self):
        """Empty arrays are fine."""
        assert [] == EARTH.distance([], [], [], []).tolist()
        assert [] == EARTH.distance_to_box([], [], np.empty((0, 4))).tolist()


class TestDistanceToBox:
    def test_inside_and_on_the_border_is_zero(self):
        """A point of the closed box is no distance away."""
        box = [[0, 0, 10, 10]] * 3
        assert [0.0, 0.0, 0.0] == EARTH.distance_to_box([5, 0, 10], [5, 10, 10], box).tolist()

    def test_north_of_the_box_goes_along_the_meridian(self):
        """With its longitude inside, the way is due south."""
        assert EARTH.distance(5, 12, 5, 10) == EARTH.distance_to_box(5, 12, [0, 0, 10, 10])

    def test_east_of_a_northern_box_the_nearest_point_lies_farther_north(self):
        """A great circle bends to the pole, so the foot is not at the point's own latitude."""
        box = [0.0, 40.0, 10.0, 80.0]
        assert EARTH.distance_to_box(60, 50, box) < 0.95 * EARTH.distance(60, 50, 10, 50)

    def test_over_the_pole_to_the_far_side(self):
        """From beyond the pole the way goes over it to the northern edge."""
        expected = math.pi / 180 * 15 * EARTH_RADIUS_M
        assert math.isclose(expected, EARTH.distance_to_box(180, 85, [0, 0, 0, 80]), rel_tol=1e-12)

    def test_a_box_over_the_dateline_is_its_two_halves(self):
        """West > east is one box of 20 degrees, not one of 340."""
        box = [170.0, -10.0, -170.0, 10.0]
        assert [0.0, 0.0, 0.0] == EARTH.distance_to_box([175, -175, 180], [0, 0, 10], [box] * 3).tolist()
        assert EARTH.distance(160, 0, 170, 0) == EARTH.distance_to_box(160, 0, box)

    def test_the_dateline_has_no_thickness(self):
        """A point written as 180 lies on the edge of a box that starts at -180."""
        lat = np.linspace(-10, 10, 1000)
        assert not np.any(EARTH.distance_to_box(180, lat, [-180, -10, -170, 10]))
        assert not np.any(EARTH.distance_to_box(-180, lat, [170, -10, 180, 10]))

    def test_a_point_box_is_a_point(self):
        """A box without extent is as far away as its only point, to the last bit."""
        assert EARTH.distance(1, 2, 1, 40) == EARTH.distance_to_box(1, 2, [1, 40, 1, 40])

    def test_plane_corner(self):
        """On a plane the nearest point of a box may be its corner."""
        assert 5.0 == PLANE.distance_to_box(13, 14, [0, 0, 10, 10])

    @settings(max_examples=60, deadline=None)
    @given(lons, lats, earth_boxes())
    @example(0.0, 10.0, (170.0, -80.0, 175.0, 80.0))
    @example(0.0, 89.0, (120.0, -80.0, 125.0, 88.0))
    def test_agrees_with_dense_sampling(self, lon, lat, box):
        """No point of the box is nearer, and some sampled point is nearly as near."""
        sampled, exact = sampled_box_distance(lon, lat, box), EARTH.distance_to_box(lon, lat, box)
        spacing = 2.0 * HALF_M / 180  # of the samples, in metres, at their coarsest
        assert exact <= sampled + 1e-6
        assert sampled - exact <= 0.75 * spacing

    def test_sampling_finds_the_same_foot_when_fine(self):
        """With a fine grid the sampled and the exact distance agree to metres."""
        box = (10.0, 40.0, 11.0, 41.0)
        sampled = sampled_box_distance(20.0, 39.0, box, steps=2001)
        assert abs(sampled - EARTH.distance_to_box(20.0, 39.0, box)) < 5.0


class TestCircleParts:
    @settings(max_examples=150, deadline=None)
    @given(lons, lats, radii_m, lons, lats)
    @example(180.0, 0.0, 0.0, -180.0, 0.0)
    @example(0.0, 90.0, 0.0, 123.0, 90.0)
    @example(0.0, 0.0, QUARTER_M, 90.0, 0.0)
    @example(0.0, 0.0, HALF_M, 180.0, 0.0)
    def test_cover_every_point_of_the_circle(self, lon, lat, radius, x, y):
        """A point within the radius lies in a part, wherever the circle is and however large."""
        regions = Regions.from_shapes([Circle(lon, lat, radius)], EARTH)
        inside = bool(touches(regions, [0], [point(x, y)], EARTH)[0])
        assert (EARTH.distance(lon, lat, x, y) <= radius) == inside
        assert not inside or is_covered(regions, point(x, y))

    @settings(max_examples=80, deadline=None)
    @given(lons, lats, st.floats(0, 360), radii_m)
    def test_cover_points_on_the_very_border(self, lon, lat, bearing, radius):
        """A circle drawn through a point, in any direction from its centre, holds and covers that point."""
        angle, phi, theta = min(radius, HALF_M) / EARTH_RADIUS_M, math.radians(lat), math.radians(bearing)
        sine = math.sin(phi) * math.cos(angle) + math.cos(phi) * math.sin(angle) * math.cos(theta)
        y = math.degrees(math.asin(max(-1.0, min(1.0, sine))))
        turn = math.atan2(
            math.sin(theta) * math.sin(angle) * math.cos(phi),
            math.cos(angle) - math.sin(phi) * math.sin(math.radians(y)),
        )
        x = (lon + math.degrees(turn) + 540.0) % 360.0 - 180.0
        regions = Regions.from_shapes([Circle(lon, lat, EARTH.distance(lon, lat, x, y))], EARTH)
        assert touches(regions, [0], [point(x, y)], EARTH)[0]
        assert is_covered(regions, point(x, y))

    @settings(max_examples=80, deadline=None)
    @given(lons, lats, radii_m, earth_boxes())
    def test_cover_every_rectangle_the_circle_touches(self, lon, lat, radius, box):
        """A rectangle nearer than the radius overlaps a part."""
        regions = Regions.from_shapes([Circle(lon, lat, radius)], EARTH)
        inside = bool(touches(regions, [0], [box], EARTH)[0])
        assert (EARTH.distance_to_box(lon, lat, box) <= radius) == inside
        assert not inside or is_covered(regions, box)

    @given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9), st.floats(0, 1e9), st.floats(-1, 1), st.floats(-1, 1))
    def test_cover_circles_of_the_plane(self, x, y, radius, along, up):
        """On a plane a point within the radius lies in the part."""
        place = point(x + along * radius, y + up * radius)
        regions = Regions.from_shapes([Circle(x, y, radius)], PLANE)
        assert not touches(regions, [0], [place], PLANE)[0] or is_covered(regions, place)

    def test_a_circle_that_holds_a_pole_has_all_longitudes(self):
        """Near a pole every longitude is near."""
        regions = Regions.from_shapes([Circle(20, 89, 200_000)], EARTH)
        assert [[-180.0, 180.0, 90.0]] == regions.part[:, [0, 2, 3]].tolist()

    def test_a_circle_over_the_dateline_has_two_parts(self):
        """One part ends at 180 and one starts at -180."""
        part = Regions.from_shapes([Circle(179.9, 0, 50_000)], EARTH).part
        assert [180.0, -180.0] == [part[0, 2], part[1, 0]]
        assert part[0, 0] > 179
        assert part[1, 2] < -179

    def test_an_ordinary_circle_has_one_tight_part(self):
        """The part is no larger than the circle needs."""
        part = Regions.from_shapes([Circle(13, 0, 111_195.08)], EARTH).part
        assert np.allclose([[12.0, -1.0, 14.0, 1.0]], part, atol=1e-5)


class TestBoxes:
    def test_borders_and_corners_are_inside(self):
        """A box is closed."""
        box = Box(1, 2, 3, 4)
        assert all(held(box, point(x, y)) for x in (1, 3) for y in (2, 4))
        assert not held(box, point(np.nextafter(3, 9), 4))

    def test_a_box_over_the_dateline_holds_both_its_names(self):
        """West > east: longitudes from west on, and up to east."""
        box = Box(170, -10, -170, 10)
        assert [True, True, True, True, False] == [held(box, point(x, 0)) for x in (175, 180, -180, -170, 0)]

    def test_a_box_that_ends_at_180_compares_as_written(self):
        """-180 is not between 170 and 180."""
        assert held(Box(170, 0, 180, 1), point(180, 0))
        assert not held(Box(170, 0, 180, 1), point(-180, 0))

    def test_rectangles_that_share_only_a_border_touch(self):
        """Overlap is closed, at a side and at a corner."""
        assert held(Box(0, 0, 1, 1), (1, 1, 2, 2))
        assert held(Box(0, 0, 1, 1), (1, 0.2, 2, 0.4))
        assert not held(Box(0, 0, 1, 1), (1.1, 1, 2, 2))

    def test_a_message_over_the_dateline(self):
        """A rectangle message may cross as well; two that cross always share the dateline's longitudes."""
        place = (175, 0, -175, 1)
        assert held(Box(170, 0, 176, 1), place)
        assert held(Box(-176, 0, -170, 1), place)
        assert held(Box(179, 0, -179, 1), place)
        assert held(Box(170, 0, 175, 1), place)
        assert held(Box(-175, 0, -170, 1), place)
        assert not held(Box(-174, 0, 174, 1), place)

    def test_a_plane_knows_no_dateline(self):
        """On a plane numbers beyond 180 are only numbers."""
        assert held(Box(170, 0, 190, 1), point(185, 1), PLANE)

    @settings(deadline=None)
    @given(earth_boxes(), lons, lats)
    def test_agree_with_the_rule_as_written(self, box, lon, lat):
        """Inside means west ≤ lon ≤ east, or for west > east lon ≥ west or lon ≤ east."""
        west, south, east, north = box
        across = west <= lon <= east if west <= east else lon >= west or lon <= east
        assert (across and south <= lat <= north) == held(Box(*box), point(lon, lat))


def ring(*corners):
    return {"type": "Polygon", "coordinates": [[*corners, corners[0]]]}


HOLED = {
    "type": "Polygon",
    "coordinates": [
        [[0, 0], [10, 0], [10, 10], [0, 10], [0, 0]],
        [[4, 4], [6, 4], [6, 6], [4, 6], [4, 4]],
    ],
}
FIJI = ring([177.25, -19.0], [-179.3, -19.0], [-179.3, -15.7], [177.25, -15.7])


class TestPolygons:
    def test_borders_and_vertices_are_inside_and_holes_are_not(self):
        """A polygon is closed, and so the rim of its hole belongs to it."""
        places = [(0, 0), (5, 0), (10, 10), (4, 5), (6, 6), (5, 5), (11, 5)]
        assert [True, True, True, True, True, False, False] == [held(Area(HOLED), point(*at)) for at in places]

    def test_a_rectangle_within_a_hole_does_not_touch(self):
        """A rectangle touches a polygon if they share a point, border included."""
        assert not held(Area(HOLED), (4.5, 4.5, 5.5, 5.5))
        assert held(Area(HOLED), (4.5, 4.5, 6.0, 5.5))
        assert held(Area(HOLED), (10, 10, 12, 12))
        assert held(Area(HOLED), (-5, -5, 20, 20))

    def test_a_message_without_width_is_a_line(self):
        """A flat rectangle that runs through a polygon touches it."""
        assert held(Area(HOLED), (5, -5, 5, 20))
        assert held(Area(HOLED), (-5, 10, 20, 10))
        assert not held(Area(HOLED), (4.5, 5, 5.5, 5))

    def test_clockwise_rings_are_the_same_area(self):
        """The winding does not matter."""
        clockwise = ring([0, 0], [0, 10], [10, 10], [10, 0])
        assert held(Area(clockwise), point(5, 5))
        assert not held(Area(clockwise), point(11, 5))

    @pytest.mark.parametrize("turn", [1, -1])
    def test_a_ring_over_the_dateline_goes_the_short_way(self, turn):
        """Fiji holds both names of the dateline and its own corners, and not Africa."""
        area = Area(ring(*FIJI["coordinates"][0][:-1][::turn]))
        inside = [(178, -17), (180, -17), (-180, -17), (-179.5, -17), (-179.3, -15.7), (177.25, -19)]
        assert [True] * 6 == [held(area, point(*at)) for at in inside]
        assert not held(area, point(20, -17))
        assert not held(area, point(np.nextafter(-179.3, 0), -17))

    def test_a_cut_polygon_has_a_part_on_each_side(self):
        """No part spans the whole earth."""
        regions = Regions.from_shapes([Area(FIJI)], EARTH)
        assert [[177.25, -19.0, 180.0, -15.7], [-180.0, -19.0, -179.3, -15.7]] == regions.part.tolist()

    def test_a_crossing_message_meets_a_cut_polygon(self):
        """Both may lie over the dateline."""
        assert held(Area(FIJI), (179.9, -20, -179.9, -18))
        assert held(Area(FIJI), (179.9, -20, -178, -15.7))
        assert not held(Area(FIJI), (179.9, -25, -179.9, -20))

    def test_a_crossing_message_meets_a_polygon_on_either_side(self):
        """Each half of the message counts alone."""
        place = (175, 0, -175, 1)
        assert held(Area(ring([170, 0], [175, 0], [175, 9])), place)
        assert held(Area(ring([-170, 0], [-175, 0], [-175, 9])), place)
        assert not held(Area(ring([170, 0], [174, 0], [174, 9])), place)

    def test_a_hole_over_the_dateline(self):
        """A hole is cut along with its ring."""
        hole = [[179, -18], [-179.8, -18], [-179.8, -17], [179, -17], [179, -18]]
        area = Area({"type": "Polygon", "coordinates": [FIJI["coordinates"][0], hole]})
        assert [False, False, False, True] == [
            held(area, point(*at)) for at in [(179.5, -17.5), (180, -17.5), (-180, -17.5), (179, -17.5)]
        ]

    def test_a_hole_outside_a_ring_over_the_dateline_is_refused(self):
        """A hole must lie in its polygon there as well."""
        hole = [[10, -18], [11, -18], [11, -17], [10, -17], [10, -18]]
        with pytest.raises(InvalidRegion, match="hole"):
            shape_from({"type": "Polygon", "coordinates": [FIJI["coordinates"][0], hole]}, EARTH)

    @pytest.mark.parametrize("turn", [1, -1])
    @pytest.mark.parametrize("side", [1, -1])
    def test_a_ring_around_a_pole_holds_the_pole(self, turn, side):
        """Whichever way it winds, the pole nearer to the ring is inside."""
        area = Area(ring(*[[-120, 60 * side], [0, 60 * side], [120, 60 * side]][::turn]))
        assert [True, True, True, False] == [
            held(area, point(x, y * side)) for x, y in [(55, 90), (180, 75), (-120, 60), (0, 59)]
        ]

    def test_a_ring_between_two_parallels_around_a_pole(self):
        """A hole around the pole leaves a belt."""
        outer = [[-120, 60], [0, 60], [120, 60], [-120, 60]]
        inner = [[-100, 80], [20, 80], [140, 80], [-100, 80]]
        area = Area({"type": "Polygon", "coordinates": [outer, inner]})
        assert [True, False, True, False] == [held(area, point(180, y)) for y in (70, 85, 80, 50)]

    def test_a_polygon_that_touches_180_is_taken_as_written(self):
        """The whole earth as a rectangle is the whole earth."""
        world = Area(ring([-180, -90], [180, -90], [180, 90], [-180, 90]))
        assert held(world, point(0, 0))
        assert Regions.from_shapes([world], EARTH).geometry[0].equals(world.geometry)

    def test_a_multipolygon_already_cut_at_the_dateline_stays_cut(self):
        """GeoJSON in the way of RFC 7946 gets a part on each side."""
        halves = Box(170, -20, -170, -10).to_geojson()
        regions = Regions.from_shapes([Area(halves)], EARTH)
        assert [[170.0, -20.0, 180.0, -10.0], [-180.0, -20.0, -170.0, -10.0]] == regions.part.tolist()
        assert held(Area(halves), point(-180, -15))

    def test_a_plane_never_cuts(self):
        """On a plane a wide polygon is a wide polygon."""
        wide = Area(ring([-170, 0], [170, 0], [170, 10], [-170, 10]))
        assert held(wide, point(0, 5), PLANE)
        assert not held(wide, point(0, 5), EARTH)

    @settings(max_examples=25, deadline=None)
    @given(
        st.integers(3, 9), st.floats(160, 200), st.floats(-60, 60), st.floats(1, 15), st.randoms(use_true_random=False)
    )
    def test_cut_polygons_agree_with_unrolled_ones(self, corners, x, y, size, random):
        """Cut at the dateline or drawn on a strip that runs on past 180, the same points are inside."""
        angles = sorted(random.uniform(0, 2 * math.pi) for _ in range(corners))
        strip = [(x + size * math.cos(a), y + size * math.sin(a)) for a in angles]
        unrolled = shapely.Polygon(strip)
        wrapped = [((lon + 180) % 360 - 180, lat) for lon, lat in strip]
        if not unrolled.is_valid:
            return
        area = Area(shapely.Polygon(wrapped))
        for _ in range(20):
            lon, lat = x + random.uniform(-size, size), y + random.uniform(-size, size)
            if unrolled.exterior.distance(shapely.Point(lon, lat)) > 1e-9:
                assert bool(shapely.intersects_xy(unrolled, lon, lat)) == held(
                    area, point((lon + 180) % 360 - 180, lat)
                )

    @pytest.mark.parametrize("turn", [1, -1])
    @pytest.mark.parametrize("name", [180, -180])
    def test_a_ring_over_the_dateline_may_have_corners_on_it(self, name, turn):
        """Whichever name the corners have, it goes the short way: it holds (175, 0) and not (0, 0)."""
        corners = [[170, -10], [name, -12], [-170, -11], [-170, 11], [name, 12], [170, 10]]
        area = Area(ring(*corners[::turn]))
        inside = [(175, 0), (-175, 0), (180, 0), (-180, 0), (180, -12), (-180, 12), (170, 10), (-170, 11)]
        assert [True] * 8 == [held(area, point(*at)) for at in inside]
        assert [False] * 4 == [held(area, point(*at)) for at in [(0, 0), (169.9, 0), (-169.9, 0), (180, 12.1)]]

    @pytest.mark.parametrize("turn", [1, -1])
    def test_a_crossing_written_with_both_names_of_the_dateline(self, turn):
        """Two corners on one spot, 180 and then -180, are where the ring goes over."""
        corners = [[170, -10], [180, -12], [-180, -12], [-170, -11], [-170, 11], [-180, 12], [180, 12], [170, 10]]
        area = Area(ring(*corners[::turn]))
        assert [True, True, True, False] == [held(area, point(x, 0)) for x in (175, -175, -180, 0)]

    @pytest.mark.parametrize("name", [180, -180])
    @pytest.mark.parametrize("side", [1, -1])
    def test_a_ring_on_one_side_of_the_dateline(self, name, side):
        """A ring that only touches it lies where its other corners are, whichever name it uses."""
        area = Area(ring([name, -10], [170 * side, -10], [170 * side, 10], [name, 10]))
        assert [True, False, False] == [held(area, point(x * side, 0)) for x in (175, -175, 0)]

    @pytest.mark.parametrize(
        ("corners", "inside", "outside"),
        [
            ([[-180, -12], [180, -12], [180, 12], [-180, 12]], (0, 0), (0, 13)),
            ([[-180, -12], [0, -12], [180, -12], [180, 12], [-180, 12]], (0, 0), (0, 13)),
            ([[-180, 60], [0, 60], [180, 60], [180, 90], [-180, 90]], (0, 70), (0, 59)),
            ([[-180, 60], [-60, 61], [60, 61], [180, 60], [180, 90], [-180, 90]], (0, 70), (0, 59)),
            ([[150, 60], [180, 60], [180, 90], [-180, 90], [-180, 60], [-150, 60]], (0, 70), (0, 59)),
        ],
    )
    def test_belts_and_caps_cut_at_180_are_taken_as_written(self, corners, inside, outside):
        """An edge from one end of the map to the other is one where the ring would hold nothing otherwise."""
        area = Area(ring(*corners))
        assert area.cut() is area.geometry
        assert [True, False] == [held(area, point(*inside)), held(area, point(*outside))]

    @pytest.mark.parametrize("side", [1, -1])
    def test_a_ring_around_a_pole_may_have_a_corner_on_the_dateline(self, side):
        """It holds its pole."""
        area = Area(ring([-120, 60 * side], [0, 55 * side], [120, 60 * side], [180, 65 * side]))
        assert [True, True, False] == [held(area, point(x, y * side)) for x, y in [(55, 90), (0, 56), (0, 54)]]

    def test_a_hole_with_corners_on_the_dateline(self):
        """A hole is read as a ring is."""
        outer = [[170, -10], [180, -12], [-170, -11], [-170, 11], [180, 12], [170, 10], [170, -10]]
        hole = [[175, -5], [-180, -6], [-175, -5], [-175, 5], [180, 6], [175, 5], [175, -5]]
        area = Area({"type": "Polygon", "coordinates": [outer, hole]})
        assert [True, False, False, True] == [held(area, point(x, 0)) for x in (172, 176, -176, -172)]

    def test_a_ring_with_a_corner_on_the_dateline_that_crosses_itself_is_refused(self):
        """It is not turned inside out instead."""
        bow = ring([170, -10], [180, -12], [-170, 10], [-170, -10], [180, 12], [170, 10])
        with pytest.raises(InvalidRegion, match="not valid"):
            shape_from(bow, EARTH)

    @pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
    @given(st.data())
    def test_a_single_shape_has_the_columns_of_one_among_many(self, space, data):
        """Single changes take a short cut; it leads to the same numbers, to the last bit."""
        x, y = data.draw(st.floats(-180, 180)), data.draw(st.floats(-90, 90))
        width, height = data.draw(st.floats(0, 400)), data.draw(st.floats(0, 90))
        east = x + width if not space.is_earth or x + width <= 180 else x + width - 360
        radius = data.draw(st.one_of(st.just(0.0), st.floats(0, 3e7), st.floats(0, 1e-9)))
        is_box = data.draw(st.booleans()) and abs(east) <= 180
        shape = Box(x, y, east, min(y + height, 90.0)) if is_box else Circle(x, y, radius)
        if isinstance(shape, Box) and not space.is_earth and shape.x_min > shape.x_max:
            return
        alone, among = Regions.from_shapes([shape], space), Regions.from_shapes([None, shape], space).take([1])
        for name in ("kind", "part_start", "part", "shape", "circle", "geometry"):
            one, other = getattr(alone, name), getattr(among, name)
            assert (one.dtype, one.shape, one.tolist()) == (other.dtype, other.shape, other.tolist()), name

    @settings(max_examples=60, deadline=None)
    @given(st.integers(4, 9), st.floats(172, 188), st.randoms(use_true_random=False), st.booleans())
    def test_corners_on_the_dateline_agree_with_the_strip(self, n, x, random, has_hole):
        """Cut at the dateline, rings with corners on it are the area drawn on the strip."""
        angles = sorted(random.uniform(0, 2 * math.pi) for _ in range(n))
        shell = [(x + 20 * math.cos(a), 20 * math.sin(a)) for a in angles]
        shell = [(180.0 if random.random() < 0.3 else lon, lat) for lon, lat in shell]
        holes = [[(179, -1), (180, -1.5), (181, -1), (181, 1), (180, 1.5), (179, 1)]] if has_hole else []
        strip = shapely.Polygon(shell, holes)
        if not strip.is_valid or strip.area < 1 or strip.bounds[0] >= 180 or strip.bounds[2] <= 180:
            return
        strip = shapely.geometry.polygon.orient(strip)
        name = random.choice([180.0, -180.0])

        def wrapped(corners):
            return [(name if lon == 180 else (lon + 180) % 360 - 180, lat) for lon, lat in corners.coords]

        ours = Area(shapely.Polygon(wrapped(strip.exterior), [wrapped(hole) for hole in strip.interiors])).cut()
        west = shapely.affinity.translate(shapely.intersection(strip, shapely.box(180, -90, 540, 90)), -360)
        drawn = shapely.union_all([shapely.intersection(strip, shapely.box(-180, -90, 180, 90)), west])
        assert shapely.area(shapely.symmetric_difference(ours, drawn)) < 1e-6

    def test_agrees_with_the_antimeridian_package(self):
        """Another library cuts Fiji into the same area."""
        antimeridian = pytest.importorskip("antimeridian")
        theirs = antimeridian.fix_polygon(shapely.geometry.shape(FIJI), great_circle=False)
        assert Area(FIJI).cut().equals(theirs)

    def test_polygons_touch_is_pairwise(self):
        """Each geometry meets its own place."""
        geometry = np.array([shapely.box(0, 0, 1, 1), shapely.box(5, 5, 6, 6)], object)
        assert [True, False] == polygons_touch(geometry, [point(1, 1), point(1, 1)], PLANE).tolist()


class TestShapes:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (Box(0, 0, 1, 1), Box(0, 0, 1, 1)),
            ([0, 0, 1, 1], Box(0, 0, 1, 1)),
            ((170, 0, -170, 1), Box(170, 0, -170, 1)),
            (np.array([0, 0, 1, 1]), Box(0, 0, 1, 1)),
            ({"type": "Circle", "center": [13.4, 52.5], "radius_m": 800}, Circle(13.4, 52.5, 800)),
            (HOLED, Area(HOLED)),
            (json.dumps(HOLED), Area(HOLED)),
            ({"type": "Feature", "properties": None, "geometry": HOLED}, Area(HOLED)),
            (shapely.geometry.shape(HOLED), Area(HOLED)),
        ],
    )
    def test_accepts_what_people_have(self, value, expected):
        """Shapes, lists, GeoJSON as dict and text, features and other libraries' objects."""
        assert expected == shape_from(value, EARTH)

    def test_accepts_anything_with_a_geo_interface(self):
        """The protocol is enough; the library does not matter."""

        class Park:
            __geo_interface__ = {"type": "Feature", "properties": {}, "geometry": HOLED}  # noqa: RUF012

        assert Area(HOLED) == shape_from(Park(), EARTH)

    def test_third_dimension_is_dropped(self):
        """Heights in GeoJSON are ignored."""
        assert Area(ring([0, 0], [1, 0], [0, 1])) == Area(ring([0, 0, 7], [1, 0, 7], [0, 1, 7]))

    @pytest.mark.parametrize(
        ("value", "space", "reason"),
        [
            ([0, 91, 1, 92], EARTH, "latitude 91"),
            ([0, 0, 181, 1], EARTH, "longitude 181"),
            ([0, 5, 1, 4], EARTH, "above"),
            ([5, 0, 4, 1], PLANE, "above"),
            ([0, 0, math.nan, 1], EARTH, "nan"),
            ([0, 0, math.inf, 1], PLANE, "inf"),
            ([0, 0, "1", 1], EARTH, "expected a number"),
            ([0, 0, True, 1], EARTH, "expected a number"),
            ([0, 0, 1], EARTH, "expected Box"),
            (None, EARTH, "expected Box"),
            ("nonsense", EARTH, "not JSON"),
            ("[" * 100_000, EARTH, "not JSON"),
            (42, EARTH, "expected Box"),
            ({"type": "Point", "coordinates": [0, 0]}, EARTH, "Point"),
            ({"type": "Polygon"}, EARTH, "lacks its type or its coordinates"),
            ({"type": "Polygon", "coordinates": [[[0, 0], [1, 1]]]}, EARTH, "requires at least 4 coordinates"),
            ({"type": "Polygon", "coordinates": []}, EARTH, "empty"),
            ({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, "a"]]]}, EARTH, "not rings of"),
            ({"type": "Feature", "geometry": None}, EARTH, "no geometry"),
            ({}, EARTH, "lacks its type or its coordinates"),
            (ring([0, 0], [1, 1], [1, 0], [0, 1]), EARTH, r"Self-intersection\[0.5 0.5\]"),
            (ring([0, 0], [1, 1], [1, 0], [0, 1]), PLANE, "Self-intersection"),
            (ring([0, 0], [1, 1], [1, 0], [0, 1]), None, "Self-intersection"),
            (ring([179, 0], [-179, 1], [-179, 0], [179, 1]), EARTH, "Self-intersection"),
            (ring([0, 0], [0, 91], [1, 0]), EARTH, "latitude 91"),
            (ring([0, 0], [0, math.nan], [1, 0]), EARTH, "not finite"),
            ({"type": "Circle", "center": [0, 0], "radius_m": -1}, EARTH, "-1"),
            ({"type": "Circle", "center": [0, 0], "radius_m": math.inf}, EARTH, "inf"),
            ({"type": "Circle", "center": [0, 95], "radius_m": 1}, EARTH, "latitude 95"),
            ({"type": "Circle", "center": [0], "radius_m": 1}, EARTH, "center"),
            ({"type": "Circle", "center": [0, 0], "radius": 1}, EARTH, "radius_m"),
            ({"type": "Circle", "center": [0, 0], "radius_m": 1}, PLANE, "radius"),
            ({"type": "Circle", "center": [0, 0]}, None, "no radius"),
        ],
    )
    def test_refuses_what_cannot_be_a_region(self, value, space, reason):
        """One line says what is wrong."""
        with pytest.raises(InvalidRegion, match=reason) as caught:
            shape_from(value, space)
        assert "\n" not in str(caught.value)

    def test_a_ring_around_the_pole_is_fine_when_the_space_is_unknown(self):
        """What is valid on the earth may look broken on paper."""
        shape_from(ring([-120, 60], [0, 60], [120, 60]))

    @pytest.mark.parametrize("shape", [Box(0, 0, 1, 1), Circle(0, 0, 5), Area(HOLED)])
    def test_are_values(self, shape):
        """Equal shapes are equal, hash alike, and survive pickling and GeoJSON."""
        again = pickle.loads(pickle.dumps(shape))
        assert shape == again
        assert hash(shape) == hash(again)
        assert held(shape, point(1, 1)) == held(shape_from(shape.to_geojson(), EARTH), point(1, 1))

    def test_repr_can_be_evaluated(self):
        """What is printed can be typed in again."""
        for shape in (Box(0, 0, 1, 1), Circle(0, 0, 5), Area(HOLED)):
            assert shape == eval(repr(shape), {"Box": Box, "Circle": Circle, "Area": Area})

    def test_long_polygons_have_a_short_repr(self):
        """A coastline does not fill the screen."""
        assert len(repr(Area(shapely.Point(0, 0).buffer(1, quad_segs=100)))) < 500

    @pytest.mark.parametrize("bounds", [(0, 0, 0, 1), (0, 0, math.inf, 1), (0, 0, 1)])
    def test_impossible_bounds_of_a_plane(self, bounds):
        """Bounds need an extent."""
        with pytest.raises(InvalidInput, match="bounds"):
            Space.plane(bounds)

    def test_unknown_space(self):
        """There are two kinds of space."""
        with pytest.raises(InvalidInput, match="moon"):
            Space("moon")


def mixed_columns():
    kind = [ANYWHERE, BOX, BOX, CIRCLE, POLYGON, POLYGON, CIRCLE]
    values = np.array(
        [[9, 9, 9, 9], [0, 0, 1, 1], [170, 0, -170, 1], [0, 0, 1000, 7], [0] * 4, [0] * 4, [180, 0, 10, 0]], float
    )
    return kind, values, {4: json.dumps(FIJI), 5: HOLED}


class TestRegions:
    def test_from_columns(self):
        """Each row keeps its kind and its shape."""
        regions, faults = Regions.from_arrays(EARTH, *mixed_columns())
        assert [] == faults
        assert [0, 1, 2, 4, 5, 7, 8, 10] == regions.part_start.tolist()
        assert [-1, -1, -1, 0, 0, 1, 1] == regions.shape.tolist()
        assert [None, Box(0, 0, 1, 1), Box(170, 0, -170, 1), Circle(0, 0, 1000)] == [
            regions.shape_of(row) for row in range(4)
        ]
        assert Area(HOLED) == regions.shape_of(5)

    def test_columns_have_fixed_types(self):
        """Kernels are compiled once, for these types."""
        regions, _ = Regions.from_arrays(EARTH, *mixed_columns())
        for each in (regions, regions.take([1, 2]), Regions.concat([regions, regions]), Regions.anywhere(2)):
            columns = [each.kind, each.part_start, each.part, each.shape, each.circle]
            assert ["uint8", "int64", "float64", "int32", "float64"] == [str(column.dtype) for column in columns]
            assert all(column.flags.c_contiguous and column.flags.writeable for column in columns)

    def test_the_given_columns_are_not_changed(self):
        """What the caller hands in stays as it is."""
        kinds = np.array([POLYGON, BOX], np.uint8)
        numbers = np.array([[0.0] * 4, [0, 91, 0, 92]])
        Regions.from_arrays(EARTH, kinds, numbers, {0: {"type": "Circle", "center": [1, 2], "radius_m": 3}})
        assert [POLYGON, BOX] == kinds.tolist()
        assert [[0.0] * 4, [0, 91, 0, 92]] == numbers.tolist()

    @pytest.mark.parametrize(
        ("space", "kind", "row", "field", "reason"),
        [
            (EARTH, BOX, [0, 91, 1, 92], "south", "latitude 91.0 is beyond 90"),
            (EARTH, BOX, [0, 0, 1, 92], "north", "latitude 92.0"),
            (EARTH, BOX, [-181, 0, 1, 1], "west", "longitude -181.0"),
            (EARTH, BOX, [0, 2, 1, 1], "south", "above"),
            (EARTH, BOX, [0, math.nan, 1, 1], "south", "nan"),
            (PLANE, BOX, [2, 0, 1, 1], "x_min", "above"),
            (PLANE, BOX, [0, 0, math.inf, 1], "x_max", "inf"),
            (PLANE, BOX, [-math.inf, 0, 1, 1], "x_min", "-inf"),
            (EARTH, CIRCLE, [0, 91, 1, 0], "lat", "latitude 91.0"),
            (EARTH, CIRCLE, [200, 0, 1, 0], "lon", "longitude 200.0"),
            (EARTH, CIRCLE, [0, 0, -1, 0], "radius_m", "-1.0"),
            (PLANE, CIRCLE, [0, 0, math.nan, 0], "radius", "nan"),
            (EARTH, POLYGON, [0, 0, 0, 0], "region", "missing"),
            (EARTH, 9, [0, 0, 0, 0], "region", "kind 9"),
        ],
    )
    def test_a_bad_row_is_reported_and_the_rest_stands(self, space, kind, row, field, reason):
        """The fault names row, field and reason; the row becomes ANYWHERE for the caller to drop."""
        regions, faults = Regions.from_arrays(space, [BOX, kind, BOX], [[0, 0, 1, 1], row, [2, 2, 3, 3]])
        assert [(1, field)] == [fault[:2] for fault in faults]
        assert reason in faults[0][2]
        assert [BOX, ANYWHERE, BOX] == regions.kind.tolist()
        assert [2.0, 2.0, 3.0, 3.0] == regions.part[2].tolist()

    @pytest.mark.parametrize(
        "geometry",
        ["nonsense", ring([0, 0], [1, 1], [1, 0], [0, 1]), json.dumps(ring([0, 0], [0, 91], [1, 0])), 7, "{}", "null"],
    )
    def test_a_bad_polygon_is_reported(self, geometry):
        """A polygon that cannot be used does not stop the others."""
        regions, faults = Regions.from_arrays(EARTH, [POLYGON, POLYGON], np.zeros((2, 4)), {0: geometry, 1: HOLED})
        assert [(0, "region")] == [fault[:2] for fault in faults]
        assert Area(HOLED) == regions.shape_of(1)

    def test_circles_and_boxes_may_come_as_geometries(self):
        """A region column may hold the circle object or a bbox."""
        given = {0: '{"type": "Circle", "center": [1, 2], "radius_m": 3}', 1: [0, 0, 1, 1]}
        regions, faults = Regions.from_arrays(EARTH, [POLYGON, POLYGON], np.zeros((2, 4)), given)
        assert [] == faults
        assert [Circle(1, 2, 3), Box(0, 0, 1, 1)] == [regions.shape_of(0), regions.shape_of(1)]

    def test_text_and_objects_give_the_same_polygon(self):
        """The quick road for GeoJSON text and the careful one agree."""
        for polygon in (HOLED, FIJI, ring([-120, 60], [0, 60], [120, 60])):
            given = {0: json.dumps(polygon), 1: polygon, 2: shapely.geometry.shape(polygon)}
            regions, faults = Regions.from_arrays(EARTH, [POLYGON] * 3, np.zeros((3, 4)), given)
            assert [] == faults
            assert regions.geometry[0] == regions.geometry[1] == regions.geometry[2]

    def test_from_shapes_raises_for_the_first_that_does_not_fit(self):
        """One bad shape among several is named by its position."""
        with pytest.raises(InvalidRegion, match="region 1: latitude 91"):
            Regions.from_shapes([None, Box(0, 0, 1, 91)], EARTH)
        with pytest.raises(InvalidRegion, match="no shape"):
            Regions.from_shapes([(0, 0, 1, 1)], EARTH)

    @given(st.lists(st.integers(0, 6), max_size=12), st.lists(st.integers(0, 6), max_size=12))
    def test_take_and_concat_keep_every_row(self, first, second):
        """Rows taken and joined are the rows they were."""
        regions, _ = Regions.from_arrays(EARTH, *mixed_columns())
        joined = Regions.concat([regions.take(first), regions.take(np.array(second, np.int32))])
        rows = first + second
        assert len(rows) == len(joined)
        assert [regions.shape_of(row) for row in rows] == [joined.shape_of(at) for at in range(len(rows))]
        assert [regions.part[regions.part_start[row] : regions.part_start[row + 1]].tolist() for row in rows] == [
            joined.part[joined.part_start[at] : joined.part_start[at + 1]].tolist() for at in range(len(rows))
        ]

    def test_take_of_rows_without_parts_beside_rows_with_two(self):
        """As many parts as rows does not mean one each: an index gives back regions it need not know as no part."""
        both = Regions.from_shapes([Box(170, 0, -170, 1), Box(0, 0, 2, 2)], EARTH)
        shape = np.full(3, -1, np.int32)
        regions = Regions(
            np.array([0, 1, 1], np.uint8), np.array([0, 0, 2, 3]), both.part, shape, both.circle, both.geometry
        )
        taken = regions.take([2, 1, 0])
        assert [Box(0, 0, 2, 2), Box(170, 0, -170, 1)] == [taken.shape_of(row) for row in range(2)]
        assert [0, 1, 3, 3] == taken.part_start.tolist()

    def test_take_by_mask(self):
        """A boolean mask chooses rows too."""
        regions, _ = Regions.from_arrays(EARTH, *mixed_columns())
        mask = np.array([0, 1, 0, 1, 0, 0, 0], bool)
        assert [Box(0, 0, 1, 1), Circle(0, 0, 1000)] == [regions.take(mask).shape_of(row) for row in range(2)]

    def test_of_nothing(self):
        """No rows are fine everywhere."""
        for empty in (Regions.from_shapes([], EARTH), Regions.concat([]), Regions.anywhere(0)):
            assert 0 == len(empty) == len(empty.take([]))
            assert [] == touches(empty, [], np.empty((0, 4)), EARTH).tolist()
            assert [0] == empty.part_start.tolist()

    def test_pickle(self):
        """Regions travel to other processes."""
        regions, _ = Regions.from_arrays(EARTH, *mixed_columns())
        again = pickle.loads(pickle.dumps(regions))
        assert [regions.shape_of(row) for row in range(7)] == [again.shape_of(row) for row in range(7)]

    def test_repr_counts_the_kinds(self):
        """A summary, not a dump of arrays."""
        regions, _ = Regions.from_arrays(EARTH, *mixed_columns())
        assert "Regions(7 rows: 1 anywhere, 2 boxes, 2 circles, 2 polygons)" == repr(regions)

    def test_touches_takes_pairs_of_every_kind(self):
        """Rows and places go pairwise, in any order, repeats allowed."""
        regions, _ = Regions.from_arrays(EARTH, *mixed_columns())
        rows = [6, 5, 4, 3, 2, 1, 0, 5]
        places = [(-180, 0), (1, 1), (180, -17), (0.001, 0), (-180, 1), (1, 1.5), (77, 7), (5, 5)]
        actual = touches(regions, rows, [point(*at) for at in places], EARTH)
        assert [True, True, True, True, True, False, True, False] == actual.tolist()


class TestDistanceToRegion:
    @pytest.mark.parametrize("shape", [None, Box(0, 0, 1, 1), Circle(0, 0, 5), Area(HOLED)])
    @pytest.mark.parametrize("space", [EARTH, PLANE])
    def test_inside_is_zero(self, shape, space):
        """What touches is no distance outside."""
        assert 0.0 == Regions.from_shapes([shape], space).distance_to(0, point(0, 0), space)

    def test_outside_a_circle_is_what_exceeds_the_radius(self):
        """ "Outside by 312 m" is measured from the rim."""
        regions = Regions.from_shapes([Circle(0, 0, 800)], EARTH)
        assert math.isclose(EARTH.distance(0, 0, 0.01, 0) - 800, regions.distance_to(0, point(0.01, 0), EARTH))

    def test_outside_a_box_over_the_dateline(self):
        """The nearer half counts."""
        regions = Regions.from_shapes([Box(170, 0, -170, 10)], EARTH)
        assert EARTH.distance(-169, 5, -170, 5) > regions.distance_to(0, point(-169, 5), EARTH) > 100_000

    @settings(max_examples=60, deadline=None)
    @given(earth_boxes(), earth_boxes())
    def test_between_boxes_agrees_with_sampling(self, box, place):
        """No sampled point of the place is nearer to the box."""
        regions = Regions.from_shapes([Box(*box)], EARTH)
        west, south, east, north = place
        width = east - west if east >= west else east - west + 360.0
        xs, ys = np.meshgrid((west + np.linspace(0, width, 91) + 180) % 360 - 180, np.linspace(south, north, 91))
        sampled = float(np.min(EARTH.distance_to_box(xs, ys, box)))
        exact = regions.distance_to(0, place, EARTH)
        assert exact <= sampled + 1e-6
        assert sampled - exact <= 0.75 * 4 * QUARTER_M / 90

    def test_outside_a_polygon_agrees_with_the_box_of_the_same_corners(self):
        """A rectangle drawn as a polygon is as far away as the box."""
        box = Box(10, 40, 20, 50)
        both = Regions.from_shapes([box, Area(box.to_geojson())], EARTH)
        for place in [point(30, 45), point(0, 30), point(15, 60), (25, 30, 26, 60), (170, 0, -170, 10)]:
            expected = both.distance_to(0, place, EARTH)
            assert math.isclose(expected, both.distance_to(1, place, EARTH), rel_tol=1e-6)

    def test_outside_a_polygon_of_the_plane(self):
        """On a plane it is the plain distance, into a hole too."""
        regions = Regions.from_shapes([Area(HOLED)], PLANE)
        assert [5.0, 1.0] == [regions.distance_to(0, point(x, y), PLANE) for x, y in [(13, 14), (5, 5)]]


def test_kernels_are_compiled_for_one_signature():
    """The columns' types are fixed, so no kernel is compiled twice."""
    regions, _ = Regions.from_arrays(EARTH, *mixed_columns())
    for space in (EARTH, PLANE):
        touches(regions, [0], [[0, 0, 0, 0]], space)
        space.distance(1, 2, 3, [4, 5])
        space.distance_to_box(1, 2, [3, 4, 5, 6])
    kernels = [_regions._touch_plain, _space._fill_distances, _space._fill_box_distances]
    assert all(len(getattr(each, "signatures", [0])) == 1 for each in kernels)


def test_all_public_names_exist():
    """`__all__` is what imports give."""
    assert all(hasattr(geo, name) for name in geo.__all__)
