"""Makes the request texts of subscriptions: what their rows said that the columns of an index do not hold."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast.errors import InvalidRegion
from nearcast.geo import POLYGON, Area, Regions, Shape, Space, shape_from
from nearcast.request_texts import TERM_MARK, TERMS_MARK, RequestText, short_prefixes
from nearcast.tables.cells import TableRows, as_mask, joined
from nearcast.tables.names import GEOMETRY_COLUMN
from nearcast.tables.rejected_rows import Mask

_BYTES = pa.large_binary()


def within_texts(rows: TableRows, queries: pa.ChunkedArray, regions: Regions, is_empty: Mask, space: Space) -> pa.Array:
    """Return the texts of boolean subscriptions; `is_empty` tells which queries contradict themselves.

    The texts of these rows hold the region, which an index need not store. So do the texts of rows with a polygon over
    the dateline, which an index stores in two parts.
    """
    texts = _plain(queries)
    others = {row: regions.shape_of(row) for row in np.flatnonzero(is_empty & ~rows.faults.is_bad).tolist()}
    others.update(cut_areas(rows, regions, space))
    found = {row: RequestText(_text_at(queries, row), keeps_region=True, region=shape) for row, shape in others.items()}
    return _replaced(texts, found)


def scored_texts(queries: pa.ChunkedArray, lists: tuple[np.ndarray, pa.ChunkedArray], has_distance: Mask) -> pa.Array:
    """Return the texts of scored subscriptions."""
    start, words = lists
    has_terms = np.diff(start) > 0
    flags = (~has_distance).astype(np.int64) | (has_terms.astype(np.int64) << 1)
    texts = _plain(queries)
    if not flags.any():
        return texts
    pieces = [pa.array(short_prefixes(), _BYTES).take(_arrow.numbers(flags)), texts]
    if has_terms.any():
        listed = pa.LargeListArray.from_arrays(_arrow.numbers(start), joined(words).cast(pa.large_string()))
        together = pc.binary_join(listed, pa.scalar(TERM_MARK, pa.large_string())).cast(_BYTES)
        mark = pa.array([b"", TERMS_MARK.encode()], _BYTES).take(_arrow.numbers(has_terms.astype(np.int64)))
        pieces += [mark, together.fill_null(b"")]
    texts = pc.binary_join_element_wise(*pieces, pa.scalar(b"", _BYTES))
    return _replaced(texts, _with_marks(queries, start, words, has_distance))


def _with_marks(
    queries: pa.ChunkedArray, start: np.ndarray, words: pa.ChunkedArray, has_distance: Mask
) -> dict[int, RequestText]:
    """Return the texts of rows whose words contain a mark, which the short form could not tell apart."""
    marks = f"[{TERMS_MARK}{TERM_MARK}]"
    in_words = np.flatnonzero(as_mask(pc.match_substring_regex(words, marks)))
    rows = {*(np.searchsorted(start, in_words, side="right") - 1).tolist()}
    rows |= {*np.flatnonzero(as_mask(pc.match_substring_regex(queries, marks))).tolist()}
    found = {}
    for row in rows:
        terms = tuple(words.slice(start[row], start[row + 1] - start[row]).to_pylist()) or None
        found[row] = RequestText(_text_at(queries, row), terms, bool(has_distance[row]))
    return found


def _plain(queries: pa.ChunkedArray) -> pa.Array:
    texts = joined(queries.cast(pa.large_string())).cast(_BYTES)
    return texts.fill_null(_arrow.strings([""]).cast(_BYTES)[0]) if texts.null_count else texts


def _text_at(queries: pa.ChunkedArray, row: int) -> str:
    return queries[row].as_py() or ""


def _replaced(texts: pa.Array, others: dict[int, RequestText]) -> pa.Array:
    """Return the texts with others in these rows."""
    if not others:
        return texts
    order = np.arange(len(texts))
    order[list(others)] = len(texts) + np.arange(len(others))
    more = pa.array([text.encoded() for text in others.values()], _BYTES)
    return pa.concat_arrays([texts, more]).take(_arrow.numbers(order))


def cut_areas(rows: TableRows, regions: Regions, space: Space) -> dict[int, Shape]:
    """Return by row the polygons that were cut at the dateline, as they were written."""
    if not space.is_earth or not (regions.kind == POLYGON).any():
        return {}
    ends = np.abs(regions.part[:, [0, 2]]).max(axis=1)
    reaches = np.maximum.reduceat(ends, regions.part_start[:-1]) >= 180.0
    which = np.flatnonzero((regions.kind == POLYGON) & reaches & ~rows.faults.is_bad)
    written = {row: _area(value, space) for row, value in zip(which.tolist(), _geometries(rows, which), strict=True)}
    return {row: area for row, area in written.items() if area is not None and is_cut(area, space)}


def is_cut(shape: Shape | None, space: Space) -> bool:
    """Tell whether a region is kept in another form than it was given in: a polygon over the dateline is cut there."""
    return space.is_earth and isinstance(shape, Area) and shape.cut() is not shape.geometry


def _geometries(rows: TableRows, which: np.ndarray) -> Sequence[Any]:
    """Return the GeoJSON of rows that have some."""
    values: list[Any] = [None] * len(which)
    for name in (GEOMETRY_COLUMN, "region"):
        if rows.has(name):
            here = joined(rows.column(name)).take(_arrow.numbers(which)).to_pylist()
            values = [one if one is not None else other for one, other in zip(values, here, strict=True)]
    return values


def _area(value: Any, space: Space) -> Area | None:
    from nearcast.tables.cells import without_nulls

    try:
        shape = shape_from(value if isinstance(value, str) else without_nulls(value), space)
    except InvalidRegion:
        return None
    return shape if isinstance(shape, Area) else None
