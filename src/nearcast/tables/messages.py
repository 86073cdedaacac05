"""Reads a table of messages into the columns an index reads."""

import json
import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from nearcast.columns import Messages
from nearcast.errors import InvalidColumns, InvalidMessage, Remedy
from nearcast.geo.space import Space
from nearcast.model.places import check_place, place_from
from nearcast.tables.cells import Floats, TableRows, as_mask
from nearcast.tables.column_names import check_message_names
from nearcast.tables.geometries import with_places
from nearcast.tables.message_limits import refuse_expired, refuse_long, refuse_wordy
from nearcast.tables.names import EARTH_PLACE, GEOMETRY_COLUMN, PLANE_PLACE, ROW_COLUMN
from nearcast.tables.rejected_rows import Mask, Rejected
from nearcast.tables.scored_rows import without_bad
from nearcast.tables.takeable import with_takeable_columns
from nearcast.text import Analyzer
from nearcast.text.weights import TermWeights, message_totals
from nearcast.text.words import UNKNOWN, WordTable

MESSAGE_FIELDS = ("id", "text", "terms", "time", "expires", ROW_COLUMN, GEOMETRY_COLUMN)


def read_messages(
    table: pa.Table,
    space: Space,
    words: WordTable,
    analyzer: Analyzer,
    *,
    source: str = "messages",
    first_row: int = 0,
    add_words: bool = False,
    weights: TermWeights | None = None,
    window_words: WordTable | None = None,
    live_words: WordTable | None = None,
    why_untimely: Callable[[np.ndarray], list[tuple[int, str]]] | None = None,
    why_over: Callable[[np.ndarray, np.ndarray], list[tuple[int, str, str]]] | None = None,
    strict: bool = False,
    rejected: Rejected,
) -> Messages:
    """Return the good rows of a table of messages, in order; the others are added to `rejected`.

    Ids become string or int64, columns of other names become `attributes`. The words of a row are those of its `text`
    and then its `terms`; words that `words` lacks are -1, unless `add_words`. A row with both has one -1 between them,
    so that no phrase reaches from one into the other. With `weights` each message gets its `totals`, and its words are
    added to `window_words` and `live_words` where these are given as well. `why_untimely` tells which times of good
    rows are missing or lie in the future, `why_over` of which of the others the life is over, with the field.
    An attribute whose name is one edit away from a column that is not there is a warning, with `strict` an error.
    Raises `InvalidColumns` where a column is missing or has a type that cannot serve.
    `first_row` is the number of the first row in `source`, unless the table comes from `nearcast.files`, which numbers
    its rows.
    """
    table = with_places(table, space, source=source, first_row=first_row, is_message=True, rejected=rejected)
    rows = TableRows(table, source, first_row)
    _check_columns(rows, space)
    check_message_names(table.column_names, space, source, rejected, strict=strict)
    ids = rows.ids()
    box = _places(rows, space)
    time, expires = rows.times("time"), rows.times("expires")
    refuse_expired(rows, time, expires)
    totals: np.ndarray | None = None
    window_terms: np.ndarray | None = None
    live_terms: np.ndarray | None = None
    if weights is None:
        term_start, terms = _words_of(rows, words, analyzer, add=add_words)
    else:
        own = WordTable()
        term_start, own_terms = _words_of(rows, own, analyzer, add=True)
        terms = _in_table(own, own_terms, words, add=add_words)
        totals = message_totals(term_start, own_terms, own, weights)
        if window_words is not None:
            window_terms = _in_table(own, own_terms, window_words, add=True)
        if live_words is not None:
            live_terms = _in_table(own, own_terms, live_words, add=True)
    if why_untimely is not None:
        usable = np.flatnonzero(~rows.faults.is_bad)
        for at, reason in why_untimely(time[usable]):
            rows.faults.add(int(usable[at]), "time", reason)
    if why_over is not None:
        usable = np.flatnonzero(~rows.faults.is_bad)
        for at, field, reason in why_over(time[usable], expires[usable]):
            rows.faults.add(int(usable[at]), field, reason)
    rows.report(rejected, ids)
    attributes = _attributes(table, space)
    messages = Messages(
        ids=ids,
        term_start=term_start,
        terms=terms,
        box=box,
        time=time,
        expires=expires,
        attributes=attributes,
        totals=totals,
        window_terms=window_terms,
        live_terms=live_terms,
    )
    good = rows.faults.good_rows()
    return messages if good is None else messages.take(good)


def _check_columns(rows: TableRows, space: Space) -> None:
    place, other = (EARTH_PLACE, PLANE_PLACE) if space.is_earth else (PLANE_PLACE, EARTH_PLACE)
    foreign = rows.foreign(other, is_at_home=rows.has(place[0]), kind=space.kind)
    if foreign:
        raise InvalidColumns(
            f"{rows.source}: column {foreign[0]} does not belong to the {space.kind}, which has {place[0]}, {place[1]};"
            " choose the other space or rename it",
            field=foreign[0],
            remedy=Remedy.RENAME_COLUMN,
        )
    rows.require("id", *(() if rows.has(GEOMETRY_COLUMN) else place[:2]))
    if not (rows.has("text") or rows.has("terms")) and len(rows):
        raise rows.lacks("text or terms", "text")


def _attributes(table: pa.Table, space: Space) -> pa.Table | None:
    known = {*MESSAGE_FIELDS, *(EARTH_PLACE if space.is_earth else PLANE_PLACE)}
    others = [name for name in table.column_names if name not in known]
    return with_takeable_columns(table.select(others)) if others else None


# --- words ------------------------------------------------------------------------------------------------------


def _words_of(rows: TableRows, words: WordTable, analyzer: Analyzer, *, add: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the words of each row; note the rows that are too long, whose text is not looked at."""
    text, (list_start, given) = rows.texts("text"), rows.lists("terms")
    is_long = refuse_long(rows, text, list_start, given, analyzer)
    if not rows.has("text"):
        refuse_wordy(rows, np.diff(list_start), analyzer)
        return list_start, words.ids_of_column(given, add=add)
    text_start, text_terms = analyzer.encode(without_bad(text, is_long), words, add=add)
    refuse_wordy(rows, np.diff(text_start) + np.diff(list_start), analyzer)
    if not rows.has("terms"):
        return text_start, text_terms
    return _side_by_side(text_start, text_terms, list_start, words.ids_of_column(given, add=add))


def _in_table(own: WordTable, own_terms: np.ndarray, words: WordTable, *, add: bool) -> np.ndarray:
    """Return the ids in `words` of terms of another table."""
    term_of = np.append(words.ids_of_column(own.words(), add=add), np.int32(UNKNOWN))  # the last is that of -1
    terms: np.ndarray = term_of[own_terms]
    return terms


def _side_by_side(
    a_start: np.ndarray, a: np.ndarray, b_start: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lists a[i] + b[i], with an unknown word in between where neither is empty."""
    a_count, b_count = np.diff(a_start), np.diff(b_start)
    gap = (a_count > 0) & (b_count > 0)
    start = np.zeros(len(a_start), np.int64)
    np.cumsum(a_count + gap + b_count, out=start[1:])
    terms = np.full(start[-1], UNKNOWN, np.int32)
    terms[np.arange(len(a)) + np.repeat(start[:-1] - a_start[:-1], a_count)] = a
    terms[np.arange(len(b)) + np.repeat(start[:-1] + a_count + gap - b_start[:-1], b_count)] = b
    return start, terms


# --- places -----------------------------------------------------------------------------------------------------


def _places(rows: TableRows, space: Space) -> Floats:
    """Return x_min, y_min, x_max, y_max of each message, and note what is wrong with them."""
    names = EARTH_PLACE if space.is_earth else PLANE_PLACE
    box, given = np.empty((len(rows), 4)), np.ones((4, len(rows)), np.bool_)
    for at, name in enumerate(names):
        if at < 2 or rows.has(name):
            box[:, at], given[at] = rows.numbers_of(name)
        else:
            box[:, at], given[at] = np.nan, False
    is_point = ~(given[2] | given[3])
    box[is_point, 2:] = box[is_point, :2]
    has_geometry = _read_geometries(rows, box, space)
    for row in np.flatnonzero(~(_is_good(box, given, is_point, space) | has_geometry | rows.faults.is_bad)).tolist():
        rows.faults.add(row, *_fault(names, box[row].tolist(), given[:, row].tolist(), space))
    return box


def _is_good(box: Floats, given: Mask, is_point: Mask, space: Space) -> Mask:
    x_min, y_min, x_max, y_max = box.T
    good: Mask = given[0] & given[1] & (is_point | (given[2] & given[3])) & (y_min <= y_max)
    if space.is_earth:
        good &= (np.abs(x_min) <= 180) & (np.abs(x_max) <= 180) & (y_min >= -90) & (y_max <= 90)
    else:
        good &= (x_min <= x_max) & np.isfinite(box).all(axis=1)
    return good


def _fault(names: tuple[str, ...], place: list[float], given: list[bool], space: Space) -> tuple[str, str]:
    """Return the field and the reason of a place that is not good."""
    wanted = names if given[2] or given[3] else names[:2]
    missing = [name for name, there in zip(wanted, given, strict=False) if not there]
    if missing:
        return missing[0], f"{missing[0]} is null; expected a number" + _beside(wanted, given)
    limits = (180, 90, 180, 90) if space.is_earth else (math.inf,) * 4
    for name, value, limit in zip(wanted, place, limits, strict=False):
        if not math.isfinite(value):
            return name, f"{name} is {value}; expected a finite number"
        if abs(value) > limit:
            return name, f"{name} is {value}, beyond {limit}; expected -{limit} to {limit}"
    if place[1] > place[3]:
        return names[3], f"{names[3]} {place[3]} is below {names[1]} {place[1]}; swap them"
    return names[2], f"{names[2]} {place[2]} is below {names[0]} {place[0]}; swap them"


def _beside(wanted: tuple[str, ...], given: list[bool]) -> str:
    there = [name for name, is_given in zip(wanted, given, strict=False) if is_given]
    return f", since {', '.join(there)} is given" if there else ""


def _read_geometries(rows: TableRows, box: Floats, space: Space) -> Mask:
    """Take the places of GeoJSON Features from their geometry; return which rows have one."""
    if not rows.has(GEOMETRY_COLUMN):
        return np.zeros(len(rows), np.bool_)
    column = rows.column(GEOMETRY_COLUMN)
    for row, text in enumerate(column.to_pylist()):
        if text is None:
            continue
        try:
            place = place_from(json.loads(text), InvalidMessage)
            check_place(place, space, InvalidMessage)
        except InvalidMessage as error:
            rows.faults.add(row, error.field or "geometry", str(error))
        else:
            box[row] = place if len(place) == 4 else place + place
    return as_mask(column.is_valid())
