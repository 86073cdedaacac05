"""Reads subscriptions back from an engine's state: one as a value, all as a table in the interchange columns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.columns import KIND_NAMES, NO_TIME, SIMILAR, TOPK, WITHIN, ScoreParameters, Subscriptions, datetime_of
from nearcast.geo import BOX, CIRCLE, POLYGON, Box, Circle, Regions, Shape, Space
from nearcast.model import Similar, Subscription, TopK, Within
from nearcast.query.codes import query_of
from nearcast.request_texts import RequestText, is_query_alone
from nearcast.similarity import SIMILARITY_NAMES
from nearcast.tables.names import EARTH_BOX, EARTH_CIRCLE, PLANE_BOX, PLANE_CIRCLE
from nearcast.tables.scored_rows import distance_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.engine import State


def value_of(state: State, slot: int) -> Subscription:
    """Return the subscription in a slot as it was given, at its present place."""
    held = state.index.subscriptions(np.array([slot], np.int32))
    text = state.texts.get(slot) or RequestText(_rebuilt_query(state, held, 0))
    id_ = state.ids.snapshot().value(slot)
    expires = datetime_of(int(_expires(state, np.array([slot]))[0]))
    min_move = float(state.movers.of(np.array([slot]))["min_move"][0]) or None
    if held.kind[0] == WITHIN:
        region = text.region if text.keeps_region else held.regions.shape_of(0)
        return Within(id_, text.query, region, expires=expires, min_move=min_move)
    assert held.scoring is not None
    scoring, place = held.scoring, tuple(held.regions.part[0, :2].tolist())
    distance = float(scoring.max_distance[0]) if text.has_distance else None
    common: dict[str, Any] = {"terms": text.terms, "max_distance": distance, "expires": expires, "min_move": min_move}
    common["text_weight"] = float(scoring.text_weight[0])
    if held.kind[0] == TOPK:
        return TopK(id_, text.query, place, k=int(scoring.k[0]), **common)
    function = SIMILARITY_NAMES[int(scoring.similarity[0])]
    return Similar(id_, text.query, place, threshold=float(scoring.threshold[0]), similarity=function, **common)


def _rebuilt_query(state: State, held: Subscriptions, row: int) -> str:
    """Return a query with the clauses of a slot whose request text is not known."""
    first, last = held.clause_start[row : row + 2].tolist()
    codes = [held.code[held.code_start[at] : held.code_start[at + 1]].tolist() for at in range(first, last)]
    if held.kind[row] != WITHIN:
        return " ".join(state.words.word(term) for term in codes[0])
    return str(query_of(codes, state.words.word))


def _expires(state: State, slots: NDArray[Any]) -> NDArray[np.int64]:
    known = slots < len(state.expires)
    found = np.full(len(slots), NO_TIME, np.int64)
    found[known] = state.expires[slots[known]]
    return found


# --- all as a table ---------------------------------------------------------------------------------------------


def table_of(state: State, space: Space) -> pa.Table:
    """Return all subscriptions in order of registration, in the interchange columns that any of them uses."""
    slots = state.ids.in_use()
    held = state.index.subscriptions(slots)
    snapshot = state.ids.snapshot()
    texts = _texts(state, slots, held)
    columns: dict[str, pa.Array] = {"id": snapshot.column(slots, snapshot.kinds_of(slots))}
    columns["kind"] = _arrow.strings(KIND_NAMES).take(_arrow.numbers(held.kind.astype(np.int64)))
    columns["query"] = texts.queries
    columns.update(_region_columns(held, texts.regions, space))
    if held.scoring is not None:
        columns.update(_scoring_columns(held, held.scoring, texts, space))
    expires = _expires(state, slots)
    if (expires != NO_TIME).any():
        columns["expires"] = _arrow.times(expires, expires != NO_TIME)
    min_move = np.ascontiguousarray(state.movers.of(slots)["min_move"])
    if (min_move > 0).any():
        columns["min_move_m" if space.is_earth else "min_move"] = _numbers(min_move, min_move > 0)
    return pa.table(columns)


class _Texts:
    """The request texts of rows, column by column: queries, lists of terms, given distances and regions by row."""

    def __init__(self, n: int):
        self.queries: pa.Array = pa.nulls(n, pa.string())
        self.terms: dict[int, tuple[str, ...]] = {}
        self.has_distance = np.ones(n, np.bool_)
        self.regions: dict[int, Shape] = {}


def _texts(state: State, slots: NDArray[np.int32], held: Subscriptions) -> _Texts:
    found = _Texts(len(slots))
    column = state.texts.column(slots)
    others = np.flatnonzero(~is_query_alone(column))
    rebuilt = {}
    for row in others.tolist():
        data = column[row].as_py()
        text = RequestText(_rebuilt_query(state, held, row)) if data is None else RequestText.decoded(data)
        rebuilt[row] = text.query
        found.has_distance[row] = text.has_distance
        if text.terms is not None:
            found.terms[row] = text.terms
        if text.region is not None:
            found.regions[row] = text.region
    if rebuilt:
        order = np.arange(len(slots))
        order[others] = len(slots) + np.arange(len(others))
        written = pa.array([query.encode() for query in rebuilt.values()], pa.large_binary())
        column = pa.concat_arrays([column, written]).take(_arrow.numbers(order))
    found.queries = column.cast(pa.large_string())
    return found


def _region_columns(held: Subscriptions, written: dict[int, Shape], space: Space) -> dict[str, pa.Array]:
    """Return the columns of boxes, circles, polygons and points; `written` are regions that the index does not hold."""
    kind, values, polygons = _regions_as_given(held.regions, written)
    is_boolean = held.kind == WITHIN
    box, circle = (EARTH_BOX, EARTH_CIRCLE) if space.is_earth else (PLANE_BOX, PLANE_CIRCLE)
    is_box, is_circle = is_boolean & (kind == BOX), is_boolean & (kind == CIRCLE)
    columns = {name: _numbers(values[:, at], is_box) for at, name in enumerate(box)}
    columns |= {name: _numbers(values[:, at], is_circle | ~is_boolean) for at, name in enumerate(circle[:2])}
    columns[circle[2]] = _numbers(values[:, 2], is_circle)
    columns["region"] = pa.array([polygons.get(row) for row in range(len(kind))], pa.string()) if polygons else None
    return _used(columns)


def _regions_as_given(
    regions: Regions, written: dict[int, Shape]
) -> tuple[NDArray[np.uint8], NDArray[np.float64], dict[int, str]]:
    """Return the kind of each region, its numbers (a box, or the x, y and radius of a circle), and GeoJSON by row."""
    import shapely

    kind = regions.kind.copy()
    values = np.zeros((len(kind), 4))
    placed = np.flatnonzero(np.diff(regions.part_start))  # what contradicts itself may have no part
    values[placed, :2] = regions.part[regions.part_start[placed], :2]
    values[placed, 2:] = regions.part[regions.part_start[placed + 1] - 1, 2:]
    values[kind == CIRCLE, :3] = regions.circle[regions.shape[kind == CIRCLE]]
    rows = np.flatnonzero(kind == POLYGON)
    geometry = regions.geometry[regions.shape[rows]]
    polygons = dict(zip(rows.tolist(), shapely.to_geojson(geometry).tolist(), strict=True)) if len(rows) else {}
    for row, shape in written.items():
        if isinstance(shape, Box):
            kind[row], values[row] = BOX, (shape.x_min, shape.y_min, shape.x_max, shape.y_max)
        elif isinstance(shape, Circle):
            kind[row], values[row, :3] = CIRCLE, (shape.x, shape.y, shape.radius)
        else:
            kind[row], polygons[row] = POLYGON, json.dumps(shape.to_geojson())
    return kind, values, polygons


def _scoring_columns(held: Subscriptions, scoring: ScoreParameters, texts: _Texts, space: Space) -> dict[str, pa.Array]:
    is_similar, is_topk = held.kind == SIMILAR, held.kind == TOPK
    is_scored = is_similar | is_topk
    similarity = _arrow.strings(SIMILARITY_NAMES).take(_arrow.numbers(scoring.similarity.astype(np.int64) * is_similar))
    columns: dict[str, Any] = {
        "terms": _lists(texts.terms, len(held)) if texts.terms else None,
        "text_weight": _numbers(scoring.text_weight, is_scored),
        "threshold": _numbers(scoring.threshold, is_similar),
        distance_name(space): _numbers(scoring.max_distance, is_scored & texts.has_distance),
        "similarity": _masked(similarity, is_similar) if is_similar.any() else None,
        "k": _numbers(scoring.k, is_topk),
    }
    return _used(columns)


def _used(columns: dict[str, Any]) -> dict[str, pa.Array]:
    return {name: column for name, column in columns.items() if column is not None}


def _numbers(values: NDArray[Any], is_given: NDArray[np.bool_]) -> pa.Array | None:
    """Return a column of numbers, null where not given; None if it is null throughout."""
    if not is_given.any():
        return None
    valid = pa.py_buffer(np.packbits(is_given, bitorder="little"))
    content = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, content])


def _masked(strings: pa.Array, is_given: NDArray[np.bool_]) -> pa.Array:
    rows = _numbers(np.arange(len(strings)), is_given)
    return strings.take(rows)


def _lists(terms: dict[int, tuple[str, ...]], n: int) -> pa.Array:
    return pa.array([terms.get(row) for row in range(n)], pa.list_(pa.string()))
