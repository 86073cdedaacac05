"""Hypothesis strategies behind `nearcast.testing.scripts`. The one module that needs Hypothesis.

Coordinates come from a small lattice most of the time, so that points fall on borders and corners, and
circles have radii that end exactly on a lattice point; floats do for the rest. The messages of a script with scored
subscriptions come from a few that the subscriptions know: so a message lies at `max_distance` to the last bit, and its
score is the threshold, or the float beside it. Thresholds of top-k subscriptions are aimed so while a script is played.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import strategies as st

from nearcast.geo import Area, Box, Circle, Shape, Space, shape_from
from nearcast.model import SIMILARITIES, Similar, TopK
from nearcast.query import And, Everything, Not, Or, Phrase, Query, Word
from nearcast.testing.plain import Weights, score
from nearcast.testing.script import Script, Step
from nearcast.testing.values import Said, Wanted

EARTH, PLANE = Space.earth(), Space.plane()

# Strategies are made once, by `functools.cache`: Hypothesis checks every new one, which took most of a test's time. For
# the same reason what depends on values drawn before is picked by numbers.

_Value = TypeVar("_Value")

#: The kinds of subscription that scripts can hold.
KINDS = ("within", "similar", "topk")

_WORDS = ("a", "b", "c", "d", "e", "f")
#: What messages and scored subscriptions are made of; boolean ones leave the last two unknown.
_ALL_WORDS = (*_WORDS, "unknown", "new")
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


@functools.cache
def _positions(space: Space) -> st.SearchStrategy[tuple[float, float]]:
    if space.is_earth:
        x, y = st.sampled_from(_LON), st.sampled_from(_LAT)
        return st.tuples(x, y) | st.tuples(st.floats(-180, 180), st.floats(-90, 90))
    return st.tuples(st.sampled_from(_XY), st.sampled_from(_XY)) | st.tuples(st.floats(-1e3, 1e3), st.floats(-20, 20))


@functools.cache
def _boxes(space: Space) -> st.SearchStrategy[tuple[float, float, float, float]]:
    def ordered(corners: tuple[tuple[float, float], tuple[float, float]]) -> tuple[float, float, float, float]:
        (x1, y1), (x2, y2) = corners
        if not space.is_earth:
            x1, x2 = min(x1, x2), max(x1, x2)
        return (x1, min(y1, y2), x2, max(y1, y2))

    return st.tuples(_positions(space), _positions(space)).map(ordered)


@functools.cache
def _circles(space: Space) -> st.SearchStrategy[Circle]:
    def reaching(ends: tuple[tuple[float, float], tuple[float, float]]) -> Circle:
        (x, y), there = ends
        return Circle(x, y, float(space.distance(x, y, *there)))

    some = st.sampled_from([0.0, 1.0, 2.0, 1e6, 1.2e7, 3e7])
    return st.tuples(_positions(space), _positions(space)).map(reaching) | st.builds(
        lambda at, radius: Circle(at[0], at[1], radius), _positions(space), some
    )


@functools.cache
def _regions(space: Space) -> st.SearchStrategy[Shape]:
    return st.one_of(_boxes(space).map(lambda box: Box(*box)), _circles(space), st.sampled_from(_AREAS[space.kind]))


@functools.cache
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
def _within(draw: st.DrawFn, space: Space) -> Wanted:
    query = draw(_queries())
    if not query.needs_region and draw(st.integers(0, 4)) == 0:
        return query, None
    return query, draw(_regions(space))


# Scored subscriptions


@functools.cache
def _weights() -> st.SearchStrategy[tuple[tuple[str, float], ...]]:
    """Zeros, ties, small beside large; a word left out weighs 1."""
    some = st.sampled_from([0.0, 1.0, 1.0, 2.0, 3.0, 0.1, 0.7, 1e-3, 1e6]) | st.floats(0.0, 10.0)
    pairs = st.lists(st.tuples(st.sampled_from(_ALL_WORDS), some), max_size=8, unique_by=lambda pair: pair[0])
    return st.just(()) | pairs.map(tuple)


@functools.cache
def _below(n: int) -> st.SearchStrategy[int]:
    return st.integers(0, n - 1)


@functools.cache
def _several_below(n: int, least: int) -> st.SearchStrategy[list[int]]:
    return st.lists(_below(n), min_size=least, max_size=8)


def _one_of(draw: st.DrawFn, values: Sequence[_Value]) -> _Value:
    return values[draw(_below(len(values)))]


def _word_set(draw: st.DrawFn, heard: Sequence[Said], least: int = 0) -> list[str]:
    """Words of which a message has some, most of the time; any; or none, unless `least` is 1."""
    which = draw(_below(len(heard) + 1))
    spoken = heard[which][0] if which < len(heard) else ()
    words = (*spoken, *spoken, *_ALL_WORDS)
    return [words[at] for at in draw(_several_below(len(words), 1 if which < len(heard) else least))]


_SHARES = st.sampled_from([0.0, 1.0, 0.5, 0.5, 0.1, 0.3, 0.75, 0.9]) | st.floats(0.0, 1.0)


_SOME_REACHES = (1e-6, 1.0, 2.0, 5.0, 1e6, 2.1e7, 1e300)


def _reach(draw: st.DrawFn, space: Space, at: tuple[float, float], heard: Sequence[Said]) -> float:
    """A distance that ends at a message to the last bit, at a lattice point, at once, or nowhere."""
    form = draw(_below(4))
    if form == 2:
        return float(space.distance(*at, *draw(_positions(space)))) or 1.0
    if form == 3:
        return _one_of(draw, _SOME_REACHES)
    to_messages = [float(space.distance_to_box(*at, place)) for _, place in heard]
    return _one_of(draw, [distance for distance in to_messages if distance > 0.0] or [1.0])


_ANY_THRESHOLD = st.floats(0.0, 1.0, exclude_min=True)


def _threshold(draw: st.DrawFn, wanted: Similar, space: Space, heard: Sequence[Said], weights: Weights) -> float:
    """A threshold that a message meets to the last bit or misses by it, or one where a bound changes its form."""
    met = {score(wanted, tokens, place, space, weights) for tokens, place in heard}
    beside = {math.nextafter(value, towards) for value in met for towards in (0.0, 2.0)}
    edges = {1.0, wanted.text_weight, 1.0 - wanted.text_weight, math.nextafter(1.0 - wanted.text_weight, 2.0)}
    form = draw(_below(4))
    if form == 3:
        return draw(_ANY_THRESHOLD)
    usable = sorted(value for value in (met, beside, edges)[form] if 0.0 < value <= 1.0)
    return _one_of(draw, usable or [1.0])


def _place(draw: st.DrawFn, space: Space, heard: Sequence[Said]) -> tuple[float, float]:
    """Any place, or the corner of a message's."""
    which = draw(_below(2 * len(heard)))
    return heard[which][1][:2] if which < len(heard) else draw(_positions(space))


@st.composite
def _similar(draw: st.DrawFn, space: Space, heard: Sequence[Said], weights: Weights) -> Similar:
    words, at = _word_set(draw, heard), _place(draw, space, heard)
    wanted = Similar(
        0,
        place=at,
        terms=tuple(words),
        threshold=5e-324,
        text_weight=draw(_SHARES) if words else _one_of(draw, (0.0, 0.0, 0.3, 0.5)),
        max_distance=_reach(draw, space, at, heard),
        similarity=_one_of(draw, SIMILARITIES),
    )
    threshold = _threshold(draw, wanted, space, heard, weights)
    return replace(wanted, threshold=threshold if words else min(threshold, 1.0 - wanted.text_weight))


@st.composite
def _topk(draw: st.DrawFn, space: Space, heard: Sequence[Said]) -> TopK:
    at = _place(draw, space, heard)
    return TopK(
        0,
        place=at,
        terms=tuple(_word_set(draw, heard, 1)),
        text_weight=draw(_SHARES),
        max_distance=_reach(draw, space, at, heard),
    )


@functools.cache
def _aims() -> st.SearchStrategy[str | float]:
    """What thresholds become: scores to the last bit, those beside, and where bounds change their form."""
    some: tuple[str | float, ...] = ("met", "met", "met", "below", "above", 0.0, 1.0, 1.5)
    return st.one_of(st.sampled_from(some), st.floats(0.0, 1.0))


# Scripts


@functools.cache
def _said(space: Space) -> st.SearchStrategy[Said]:
    tokens = st.lists(st.sampled_from(_ALL_WORDS), max_size=8).map(tuple)
    point = _positions(space).map(lambda at: (*at, *at))
    return st.tuples(tokens, point | point | _boxes(space))


def _steps(
    wanted: st.SearchStrategy[Wanted], said: st.SearchStrategy[Said], kinds: Sequence[str]
) -> st.SearchStrategy[Step]:
    picks = st.lists(st.integers(0, 30), min_size=1, max_size=6).map(tuple)
    some_wanted = st.lists(wanted, min_size=1, max_size=6).map(tuple)
    some_said = st.lists(said, max_size=6).map(tuple)
    insert = st.builds(lambda wanted: Step("insert", wanted=wanted), some_wanted)
    change = st.builds(Step, st.sampled_from(["replace", "move"]), picks, some_wanted)
    remove = st.builds(lambda picks: Step("remove", picks), picks)
    match = st.builds(lambda said: Step("match", said=said), some_said)
    quiet = st.sampled_from([Step("settle"), Step("settle"), Step("renumber")])
    steps = [insert, insert, change, remove, match, match, quiet]
    if _are_scored(kinds):
        steps.append(st.builds(lambda weights: Step("reweigh", weights=weights), _weights()))
    if "topk" in kinds:
        steps += [_aimed(said), _aimed(said)]
    return st.one_of(*steps)


def _aimed(said: st.SearchStrategy[Said]) -> st.SearchStrategy[Step]:
    """Set thresholds of up to six subscriptions, each by a message of its own."""
    each = st.lists(st.tuples(st.integers(0, 30), said, _aims()), min_size=1, max_size=6)
    return each.map(
        lambda rows: Step(
            "thresholds",
            tuple(pick for pick, _, _ in rows),
            said=tuple(at for _, at, _ in rows),
            aims=tuple(aim for _, _, aim in rows),
        )
    )


def _are_scored(kinds: Sequence[str]) -> bool:
    return bool({"similar", "topk"} & set(kinds))


@st.composite
def _scripts_in(draw: st.DrawFn, space: Space, kinds: Sequence[str], max_steps: int) -> Script:
    said, before, wanted, fewest = _said(space), [], [], 1
    if "within" in kinds:
        wanted.append(_within(space))
    if _are_scored(kinds):
        weights = draw(_weights())
        heard = draw(st.lists(said, min_size=1, max_size=6))
        said = st.sampled_from(heard) | st.sampled_from(heard) | said
        before, fewest = [Step("reweigh", weights=weights)], 4
        wanted += [_similar(space, heard, dict(weights))] * (2 if "similar" in kinds else 0)
        wanted += [_topk(space, heard)] * (2 if "topk" in kinds else 0)
    any_wanted: st.SearchStrategy[Wanted] = st.one_of(*wanted)
    first = Step("insert", wanted=tuple(draw(st.lists(any_wanted, min_size=fewest, max_size=12))))
    steps = draw(st.lists(_steps(any_wanted, said, kinds), max_size=max_steps))
    if "topk" in kinds:
        steps.insert(0, draw(_aimed(said)))
        steps.append(draw(_aimed(said)))
    last = Step("match", said=tuple(draw(st.lists(said, min_size=1, max_size=8))))
    return Script(space, (*before, first, *steps, last), draw(st.booleans()))


def script_strategy(space: Space | None, kinds: Sequence[str], max_steps: int) -> st.SearchStrategy[Script]:
    """Return scripts that begin with subscriptions and end with messages."""
    if not kinds or not set(kinds) <= set(KINDS):
        raise ValueError(f"kinds are {tuple(kinds)}; expected some of {KINDS}")
    if space is not None:
        return _scripts_in(space, kinds, max_steps)
    return st.sampled_from([EARTH, PLANE]).flatmap(lambda space: _scripts_in(space, kinds, max_steps))
