"""Reads a table of subscriptions into the columns an index stores."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast.columns import KIND_NAMES, NO_TIME, SIMILAR, TOPK, WITHIN, Subscriptions
from nearcast.errors import InvalidColumns, InvalidQuery, Remedy
from nearcast.geo import ANYWHERE, BOX, CIRCLE, POLYGON, Regions
from nearcast.geo.shapes import shorten
from nearcast.geo.space import Space
from nearcast.query import compile_queries
from nearcast.tables.cells import (
    Floats,
    TableRows,
    as_mask,
    is_list,
    is_text,
    joined,
    json_or_none,
    without_nulls,
)
from nearcast.tables.column_names import check_kinds, check_subscription_names
from nearcast.tables.duplicates import repeated, why_repeated
from nearcast.tables.geometries import with_places
from nearcast.tables.names import (
    EARTH_BOX,
    EARTH_CIRCLE,
    EARTH_NAMES,
    GEOMETRY_COLUMN,
    JSON_CELLS,
    PLANE_BOX,
    PLANE_CIRCLE,
    PLANE_NAMES,
)
from nearcast.tables.rejected_rows import Mask, Rejected, one_line
from nearcast.tables.requests import within_texts
from nearcast.tables.scored_rows import (
    NO_WINDOW,
    SubscriptionReading,
    read_scored,
    subscription_names,
    without_bad,
)
from nearcast.tables.time_limits import why_expired
from nearcast.text import Analyzer
from nearcast.text.words import WordTable

_UNKNOWN_KIND = 255
_Reader = Callable[[TableRows], Subscriptions]


def read_subscriptions(
    table: pa.Table,
    space: Space,
    words: WordTable,
    analyzer: Analyzer,
    *,
    source: str = "subscriptions",
    first_row: int = 0,
    max_distance: float | None = None,
    has_window: bool = True,
    may_repeat: bool = False,
    strict: bool = False,
    now: int = NO_TIME,
    keep_texts: bool = False,
    rejected: Rejected,
) -> Subscriptions:
    """Return the good rows of a table of subscriptions, in order; the others are added to `rejected`.

    The words of queries are added to `words`. Of rows with the same id the first good one is taken, unless they
    `may_repeat`, as changes one after the other do. `max_distance` is that of scored rows that give none; without it,
    the diagonal of a plane with bounds. Rows of kind `topk` are refused where there is no window, and rows that have
    expired by event time `now`. A column whose name is one edit away from a known one, and values that a row's kind
    does not use, are warnings; with `strict` the table or the row is refused. Raises `InvalidColumns` where a column is
    missing or has a type that cannot serve.
    With `keep_texts` rows have their request texts. `first_row` is the number of the first row in `source`, unless the
    table comes from `nearcast.files`, which numbers its rows.
    """
    table = with_places(table, space, source=source, first_row=first_row, rejected=rejected)
    rows = TableRows(table, source, first_row)
    check_columns(rows, space)
    check_subscription_names(table.column_names, space, source, rejected, strict=strict)
    ids = rows.ids()
    kind = _kinds(rows)
    check_kinds(rows, kind, rejected, strict=strict)
    expires = rows.times("expires")
    is_over = (expires != NO_TIME) & (expires <= now)
    rows.faults.add_where(is_over, "expires", lambda row: why_expired(int(expires[row]), now))
    min_move = _min_moves(rows, space)
    if not has_window:
        rows.faults.add_where(kind == TOPK, "kind", NO_WINDOW)
    found = _read_kinds(rows, kind, SubscriptionReading(space, words, analyzer, max_distance, keep_texts))
    if not may_repeat:
        _refuse_repeated(rows, ids)
    rows.report(rejected, ids)
    found = replace(found, ids=ids, expires=expires, min_move=min_move)
    good = rows.faults.good_rows()
    return found if good is None else found.take(good)


def _min_moves(rows: TableRows, space: Space) -> np.ndarray | None:
    """Return how far moves must go to count, 0 where that is not given; None if no row gives it."""
    name = "min_move_m" if space.is_earth else "min_move"
    if not rows.has(name):
        return None
    values, given = rows.numbers_of(name)
    bad = given & ~((values > 0) & (values < np.inf))
    rows.faults.add_where(bad, name, lambda row: f"{name} is {values[row]:g}; expected a finite number above 0")
    return np.where(given & ~bad, values, 0.0)


def _read_kinds(rows: TableRows, kind: np.ndarray, reading: SubscriptionReading) -> Subscriptions:
    """Return the columns of all rows, each read by the reader of its kind."""
    readers: list[tuple[Mask, _Reader]] = [
        (~np.isin(kind, (SIMILAR, TOPK)), lambda part: _read_within(part, reading)),
        (kind == SIMILAR, lambda part: read_scored(part, SIMILAR, reading)),
        (kind == TOPK, lambda part: read_scored(part, TOPK, reading)),
    ]
    for mask, read in readers:
        if mask.all():
            return read(rows)
    places, parts = [], []
    for mask, read in readers:
        which = np.flatnonzero(mask)
        part = rows.part(which, subscription_names(reading.space))
        parts.append(read(part))
        places.append(which)
        rows.faults.add_part(part.faults, which)
    return Subscriptions.concat(parts).take(np.argsort(np.concatenate(places)))


def _read_within(rows: TableRows, reading: SubscriptionReading) -> Subscriptions:
    """Return the columns of boolean subscriptions; a bad row keeps its place, and its values mean nothing."""
    queries = _queries(rows)
    regions, is_bounded = read_regions(rows, reading.space)
    is_bad = rows.faults.is_bad
    compiled = compile_queries(
        without_bad(queries, is_bad), reading.words, analyzer=reading.analyzer, has_region=is_bounded | is_bad
    )
    for row, error in compiled.errors:
        rows.faults.add(row, "query", one_line(error))
    is_empty = np.diff(compiled.clause_start) == 0
    texts = within_texts(rows, queries, regions, is_empty, reading.space) if reading.keep_texts else None
    found = Subscriptions.of(compiled.clause_start, compiled.code_start, compiled.code, regions)
    return replace(found, texts=texts)


def check_columns(rows: TableRows, space: Space) -> None:
    """Refuse columns of the other space, and a table without ids."""
    own, other = (EARTH_NAMES, PLANE_NAMES) if space.is_earth else (PLANE_NAMES, EARTH_NAMES)
    foreign = rows.foreign(other, is_at_home=any(map(rows.has, own)), kind=space.kind)
    if foreign:
        raise InvalidColumns(
            f"{rows.source}: column {foreign[0]} does not belong to the {space.kind};"
            " choose the other space or rename it",
            field=foreign[0],
            remedy=Remedy.RENAME_COLUMN,
        )
    rows.require("id")


def _refuse_repeated(rows: TableRows, ids: pa.Array) -> None:
    """Reject a row whose id an earlier good row has."""
    good = rows.faults.good_rows()
    again, first = repeated(ids if good is None else ids.take(_arrow.numbers(good)))
    for at, before in zip(again.tolist(), first.tolist(), strict=True):
        row, taken = (at, before) if good is None else (int(good[at]), int(good[before]))
        rows.faults.add(row, "id", why_repeated(ids[row].as_py(), int(rows.numbers[taken])))


# --- kinds ------------------------------------------------------------------------------------------------------


def _kinds(rows: TableRows) -> np.ndarray:
    """Return the kind of each row; null is `within`."""
    if not rows.has("kind"):
        return np.full(len(rows), WITHIN, np.uint8)
    column = rows.texts("kind")
    known = pc.index_in(column.cast(pa.string()), _arrow.strings(KIND_NAMES))
    given = as_mask(column.is_valid())
    kind = np.where(given, _arrow.array_of(known, null=_UNKNOWN_KIND), WITHIN).astype(np.uint8)
    names = ", ".join(KIND_NAMES)
    rows.faults.add_where(
        kind == _UNKNOWN_KIND, "kind", lambda row: f"kind is {shorten(column[row].as_py())}; expected one of {names}"
    )
    return kind


# --- queries ----------------------------------------------------------------------------------------------------


def _queries(rows: TableRows) -> pa.ChunkedArray:
    """Return the queries as text; those in the JSON form are written out."""
    if not rows.has("query"):
        return rows.texts("query")
    is_struct = pa.types.is_struct(rows.table.schema.field("query").type)
    if not is_struct and rows.cells("query") != JSON_CELLS:
        return rows.texts("query")
    values = rows.table["query"].to_pylist()
    if not is_struct:
        values = [None if value is None else json_or_none(value) for value in values]
    return pa.chunked_array([pa.array([_query_text(rows, *each) for each in enumerate(values)], pa.string())])


def _query_text(rows: TableRows, row: int, value: Any) -> str | None:
    from nearcast.query import parse

    if value is None or isinstance(value, str):
        return value
    try:
        return str(parse(without_nulls(value)))
    except InvalidQuery as error:
        rows.faults.add(row, "query", one_line(error))
        return None


# --- regions ----------------------------------------------------------------------------------------------------


def read_regions(rows: TableRows, space: Space) -> tuple[Regions, Mask]:
    """Return the regions, anywhere for bad rows, and which rows have one."""
    forms = (EARTH_BOX, EARTH_CIRCLE) if space.is_earth else (PLANE_BOX, PLANE_CIRCLE)
    n = len(rows)
    kind, values = np.zeros(n, np.uint8), np.zeros((n, 4))
    begun, given = np.zeros(n, np.uint8), {}
    for form, code in zip(forms, (BOX, CIRCLE), strict=True):
        if any(rows.has(name) for name in form):
            columns = [rows.numbers_of(name) for name in form]
            given.update({name: there for name, (_, there) in zip(form, columns, strict=True)})
            _enter(form, code, columns, kind, values, begun)
    geometries = _geometries(rows)
    if geometries:
        polygons = np.array(list(geometries))
        kind[polygons] = POLYGON
        begun[polygons] += 1
        given["region"] = np.zeros(n, np.bool_)
        given["region"][polygons] = True
    _refuse_halves(rows, (*forms, ("region",)), given, begun)
    kind[rows.faults.is_bad] = ANYWHERE
    regions, faults = Regions.from_arrays(space, kind, values, geometries)
    for row, field, reason in faults:
        rows.faults.add(row, field, reason)
    return regions, kind != ANYWHERE


def _enter(
    form: tuple[str, ...],
    code: int,
    columns: list[tuple[Floats, Mask]],
    kind: np.ndarray,
    values: Floats,
    begun: np.ndarray,
) -> None:
    """Enter the regions given in one form, a box or a circle, into the arrays `kind` and `values`."""
    used = np.logical_or.reduce([there for _, there in columns])
    begun += used
    kind[used] = code
    everywhere = bool(used.all())
    for at, (column, _) in enumerate(columns[: len(form)]):
        if everywhere:
            values[:, at] = column
        else:
            values[used, at] = column[used]


def _refuse_halves(
    rows: TableRows, forms: tuple[tuple[str, ...], ...], given: dict[str, Mask], begun: np.ndarray
) -> None:
    """Reject the rows with two forms of a region or with a part of one."""

    def named(form: tuple[str, ...], row: int, is_given: bool) -> str:
        return ", ".join(name for name in form if (name in given and bool(given[name][row])) is is_given)

    def two(row: int) -> str:
        both = " and ".join(names for names in (named(form, row, True) for form in forms) if names)
        return f"two regions are given: {both}; keep one"

    rows.faults.add_where(begun > 1, "region", two)
    for form in forms:
        masks = [given[name] for name in form if name in given]
        if not masks:
            continue
        complete = np.logical_and.reduce(masks) if len(masks) == len(form) else np.zeros(len(rows), np.bool_)
        for row in np.flatnonzero(np.logical_or.reduce(masks) & ~complete & ~rows.faults.is_bad).tolist():
            missing = named(form, row, False)
            reason = f"{named(form, row, True)} given without {missing}; give all of them"
            rows.faults.add(row, missing.split(", ")[0], reason)


def _geometries(rows: TableRows) -> dict[int, Any]:
    """Return the GeoJSON of the rows that have some, by row."""
    found: dict[int, Any] = {}
    for name in (GEOMETRY_COLUMN, "geometry", "region"):
        if not rows.has(name):
            continue
        column = rows.column(name)
        kind = column.type
        if not (is_text(kind) or pa.types.is_struct(kind) or is_list(kind) or pa.types.is_null(kind)):
            raise rows.wrong_type(name, "GeoJSON as text or struct")
        here = np.flatnonzero(as_mask(column.is_valid()) & ~rows.faults.is_bad)
        values = joined(column).take(pa.array(here)).to_pylist()
        for row, value in zip(here.tolist(), values, strict=True):
            if row in found:
                rows.faults.add(row, "region", "two regions are given: the geometry and region; keep one")
            found[row] = value if isinstance(value, str) else without_nulls(value)
    return found
