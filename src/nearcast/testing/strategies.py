"""Hypothesis strategies behind `nearcast.testing.scripts`. The one module that needs Hypothesis.

Coordinates come from a small lattice most of the time, so that points fall on borders and corners, and
circles have radii that end exactly on a lattice point; floats do for the rest.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from nearcast.geo import Area, Box, Circle, Shape, Space, shape_from
from nearcast.query import And, Everything, Not, Or, Phrase, Query, Word
from nearcast.testing import Said, Script, Step, Wanted

EARTH, PLANE = Space.earth(), Space.plane()

_WORDS = ("a", "b", "c", "d", "e", "f")
_LON = (-180.0, -179.0, -170.0, -10.0, -1.0, 0.0, 1.0, 2.0, 10.0, 170.0, 179.0, 180.0)
_LAT = (-90.0, -89.0, -10.0, -1.0, 0.0, 1.0, 2.0, 10.0, 89.0, 90.0)
_XY = (-10.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 10.0)


def _ring(x_min: float, y_min: float, x_max: float, y_max: float) -> list[list[float]]:
    return [[x_min, y_min], [x_max, y_min], [x_max, y_max], [x_min, y_max], [x_min, y_min]]


def _polygon(*rings: Any) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": list(rings)}


_HOLED = _polygon(_ring(-10, -10, 10, 10), _ring(-1, -1, 1, 1))
_TRIANGLE = _polygon([[0, 0], [10, 0], [0, 10], [0, 0]])
_NOTCHED = _polygon([[-10, -10], [10, -10], [10, 10], [0, 0], [-10, 10], [-10, -10]])
_TWO = {"type": "MultiPolygon", "coordinates": [[_ring(-10, -2, -1, 2)], [_ring(1, 1, 2, 10)]]}
_OVER_DATELINE = _polygon([[170, -10], [-170, -10], [-170, 10], [170, 10], [170, -10]])
_TWO_OVER_DATELINE = {
    "type": "MultiPolygon",
    "coordinates": [[[[179, 0], [-179, 0], [-170, 10], [179, 10], [179, 0]]], [_ring(-1, -1, 1, 1)]],
}


def _areas(space: Space) -> tuple[Shape, ...]:
    drawn = [_HOLED, _TRIANGLE, _NOTCHED, _TWO]
    if space.is_earth:
        drawn += [_OVER_DATELINE, _TWO_OVER_DATELINE]
    return tuple(shape_from(each, space) for each in drawn)


_AREAS: dict[str, tuple[Area, ...]] = {"earth": _areas(EARTH), "plane": _areas(PLANE)}  # type: ignore[dict-item]


def _positions(space: Space) -> st.SearchStrategy[tuple[float, float]]:
    if space.is_earth:
        x, y = st.sampled_from(_LON), st.sampled_from(_LAT)
        return st.tuples(x, y) | st.tuples(st.floats(-180, 180), st.floats(-90, 90))
    return st.tuples(st.sampled_from(_XY), st.sampled_from(_XY)) | st.tuples(st.floats(-1e3, 1e3), st.floats(-20, 20))


def _boxes(space: Space) -> st.SearchStrategy[tuple[float, float, float, float]]:
    def ordered(corners: tuple[tuple[float, float], tuple[float, float]]) -> tuple[float, float, float, float]:
        (x1, y1), (x2, y2) = corners
        if not space.is_earth:
            x1, x2 = min(x1, x2), max(x1, x2)
        return (x1, min(y1, y2), x2, max(y1, y2))

    return st.tuples(_positions(space), _positions(space)).map(ordered)


def _circles(space: Space) -> st.SearchStrategy[Circle]:
    def reaching(ends: tuple[tuple[float, float], tuple[float, float]]) -> Circle:
        (x, y), there = ends
        return Circle(x, y, float(space.distance(x, y, *there)))

    some = st.sampled_from([0.0, 1.0, 2.0, 1e6, 1.2e7, 3e7])
    return st.tuples(_positions(space), _positions(space)).map(reaching) | st.builds(
        lambda at, radius: Circle(at[0], at[1], radius), _positions(space), some
    )


def _regions(space: Space) -> st.SearchStrategy[Shape]:
    return st.one_of(_boxes(space).map(lambda box: Box(*box)), _circles(space), st.sampled_from(_AREAS[space.kind]))


def _queries() -> st.SearchStrategy[Query]:
    word = st.sampled_from(_WORDS).map(Word)
    phrase = st.lists(st.sampled_from(_WORDS), min_size=2, max_size=3).map(lambda words: Phrase(tuple(words)))
    leaf = word | word | phrase

    def joined(part: st.SearchStrategy[Query]) -> st.SearchStrategy[Query]:
        parts = st.lists(part, min_size=2, max_size=3).map(tuple)
        return st.builds(And, parts) | st.builds(Or, parts) | st.builds(Not, part)

    plain = st.lists(word, min_size=2, max_size=4).map(lambda words: And(tuple(words)))
    return st.one_of(word, plain, st.recursive(leaf, joined, max_leaves=5), st.just(Everything()))


@st.composite
def _wanted(draw: st.DrawFn, space: Space) -> Wanted:
    query = draw(_queries())
    if not query.needs_region and draw(st.integers(0, 4)) == 0:
        return query, None
    return query, draw(_regions(space))


def _said(space: Space) -> st.SearchStrategy[Said]:
    tokens = st.lists(st.sampled_from((*_WORDS, "unknown", "new")), max_size=8).map(tuple)
    point = _positions(space).map(lambda at: (*at, *at))
    return st.tuples(tokens, point | point | _boxes(space))


def _steps(space: Space) -> st.SearchStrategy[Step]:
    picks = st.lists(st.integers(0, 30), min_size=1, max_size=6).map(tuple)
    wanted = st.lists(_wanted(space), min_size=1, max_size=6).map(tuple)
    said = st.lists(_said(space), max_size=6).map(tuple)
    insert = st.builds(lambda wanted: Step("insert", wanted=wanted), wanted)
    change = st.builds(Step, st.sampled_from(["replace", "move"]), picks, wanted)
    remove = st.builds(lambda picks: Step("remove", picks), picks)
    match = st.builds(lambda said: Step("match", said=said), said)
    quiet = st.sampled_from([Step("settle"), Step("settle"), Step("renumber")])
    return st.one_of(insert, insert, change, remove, match, match, quiet)


def script_strategy(space: Space | None, max_steps: int) -> st.SearchStrategy[Script]:
    """Return scripts that begin with subscriptions and end with messages."""

    def of(space: Space) -> st.SearchStrategy[Script]:
        insert = st.lists(_wanted(space), min_size=1, max_size=12).map(
            lambda wanted: Step("insert", wanted=tuple(wanted))
        )
        match = st.lists(_said(space), min_size=1, max_size=8).map(lambda said: Step("match", said=tuple(said)))
        steps = st.tuples(insert, st.lists(_steps(space), max_size=max_steps), match)
        return st.builds(
            lambda parts, add_words: Script(space, (parts[0], *parts[1], parts[2]), add_words), steps, st.booleans()
        )

    return of(space) if space is not None else st.sampled_from([EARTH, PLANE]).flatmap(of)
