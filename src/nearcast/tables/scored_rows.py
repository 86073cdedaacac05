"""The rows of a table of subscriptions that are scored: words, a place, and how the two are weighed."""

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast.columns import KIND_NAMES, SIMILAR, TOPK, ScoreParameters, Subscriptions, microseconds_of
from nearcast.errors import InvalidInput, InvalidSubscription
from nearcast.geo import ANYWHERE, BOX, Box, Regions
from nearcast.geo.space import Space
from nearcast.model import MAX_K, Similar, TopK, subscription_from, unreachable
from nearcast.model.dicts import KINDS_OF
from nearcast.similarity import SIMILARITY_NAMES, TFIDF, TSIM
from nearcast.tables.cells import Floats, TableRows, as_mask, json_or_none
from nearcast.tables.names import (
    CSV_CELLS,
    EARTH_BOX,
    EARTH_CIRCLE,
    EARTH_NAMES,
    GEOMETRY_COLUMN,
    JSON_CELLS,
    NUMBER_NAMES,
    PLANE_BOX,
    PLANE_CIRCLE,
    PLANE_NAMES,
)
from nearcast.tables.rejected_rows import Mask, Rows, one_line
from nearcast.tables.requests import scored_texts
from nearcast.text import Analyzer
from nearcast.text.words import WordTable

USUAL_TEXT_WEIGHT = 0.5
USUAL_K = 10

_FIELDS = (
    "id",
    "kind",
    "query",
    "region",
    "terms",
    "text_weight",
    "threshold",
    "similarity",
    "k",
    "geometry",
    GEOMETRY_COLUMN,
)
_UNKNOWN_FUNCTION = 255
#: Why a row of kind `topk` is refused.
NO_WINDOW = "a top-k subscription needs a window; give one to the hub, Hub(window=...)"
_NO_WORD = "the query has no word; a top-k request needs one"
#: Finds every query that `Similar` refuses, and some that it takes.
_MAYBE_OPERATORS = r'\b(AND|OR|NOT)\b|["“”„]'
#: Up to this many words are ordered one by one, without a look at all the words there are.
_FEW_WORDS = 256


def subscription_names(space: Space) -> tuple[str, ...]:
    """Return the names of all columns that say what a subscription asks for."""
    return (*_FIELDS, *(EARTH_NAMES if space.is_earth else PLANE_NAMES))


def usual_distance(space: Space, given: float | None) -> float | None:
    """Return the `max_distance` of subscriptions that give none: the one given, else the diagonal of the bounds."""
    if given is not None or space.bounds is None:
        return given
    x_min, y_min, x_max, y_max = space.bounds
    return math.hypot(x_max - x_min, y_max - y_min)


def columns_of(
    value: Similar | TopK, space: Space, words: WordTable, analyzer: Analyzer, max_distance: float | None = None
) -> Subscriptions:
    """Return one subscription as columns, its words added to `words`; `max_distance` is that of the hub.

    Raises `InvalidSubscription` where it has no distance, or lacks a word it needs, or lies outside the space.
    """
    value.check(space)
    distance = value.max_distance or usual_distance(space, max_distance)
    if distance is None:
        raise InvalidSubscription(_no_distance(space), field="max_distance")
    tokens = sorted({*analyzer.tokens(value.query), *(value.terms or ())})
    if not tokens and isinstance(value, TopK):
        raise InvalidSubscription(_NO_WORD, field="query")
    if not tokens and isinstance(value, Similar) and value.threshold > 1 - value.text_weight:
        raise InvalidSubscription(unreachable(value.threshold, value.text_weight), field="query")
    terms = words.ids_of(tokens, add=True)
    return Subscriptions.of(
        np.array([0, 1]),
        np.array([0, len(terms)]),
        terms,
        Regions.from_shapes([Box(*value.place, *value.place)], space),
        ids=_arrow.one_id(value.id),
        expires=np.array([microseconds_of(value.expires)]),
        kind=np.array([SIMILAR if isinstance(value, Similar) else TOPK]),
        scoring=_scoring_of(value, distance),
    )


def _scoring_of(value: Similar | TopK, distance: float) -> ScoreParameters:
    text_weight, max_distance = np.array([value.text_weight]), np.array([distance])
    if isinstance(value, TopK):
        return ScoreParameters(
            text_weight, np.zeros(1), max_distance, np.array([TFIDF], np.uint8), np.array([value.k], np.int32)
        )
    similarity = np.array([SIMILARITY_NAMES.index(value.similarity)], np.uint8)
    return ScoreParameters(text_weight, np.array([value.threshold]), max_distance, similarity)


class SubscriptionReading(NamedTuple):
    """What the readers of all kinds of subscriptions need beside the rows.

    Words of queries are added to `words`. `max_distance` is that of scored rows that give none. With `keep_texts` rows
    get their request texts.
    """

    space: Space
    words: WordTable
    analyzer: Analyzer
    max_distance: float | None
    keep_texts: bool


def read_scored(rows: TableRows, kind: int, reading: SubscriptionReading) -> Subscriptions:
    """Return a table of subscriptions that are all of one scored kind as columns of the same rows.

    What is wrong with a row is noted among the faults of `rows`; such a row stays in its place and means nothing.
    """
    space = reading.space
    place, is_placed = _places(rows, space)
    read = _scoring if kind == SIMILAR else _topk_scoring
    scoring, is_scored = read(rows, space, usual_distance(space, reading.max_distance))
    queries, is_plain = _plain_texts(rows)
    lists = rows.lists("terms")
    _refuse_by_value(rows, kind, np.flatnonzero(~(is_placed & is_scored & is_plain)), space)
    rows.faults.add_where(np.isnan(scoring.max_distance), distance_name(space), _no_distance(space))
    term_start, terms = _term_sets(rows, queries, lists, reading.words, reading.analyzer)
    _refuse_wordless(rows, kind, np.diff(term_start) == 0, scoring)
    n = len(rows)
    form = np.where(rows.faults.is_bad, ANYWHERE, BOX)
    regions, _ = Regions.from_arrays(space, form, np.hstack([place, place]))
    kinds = np.full(n, kind, np.uint8)
    found = Subscriptions.of(np.arange(n + 1), term_start, terms, regions, kind=kinds, scoring=scoring)
    if not reading.keep_texts:
        return found
    _, has_distance = rows.numbers_of(distance_name(space))
    return replace(found, texts=scored_texts(queries, lists, has_distance))


def _refuse_wordless(rows: TableRows, kind: int, is_wordless: Mask, scoring: ScoreParameters) -> None:
    """Note the rows without words that need some."""
    if kind == TOPK:
        rows.faults.add_where(is_wordless, "query", _NO_WORD)
        return
    is_wordless &= scoring.threshold > 1 - scoring.text_weight
    rows.faults.add_where(
        is_wordless, "query", lambda row: unreachable(float(scoring.threshold[row]), float(scoring.text_weight[row]))
    )


def distance_name(space: Space) -> str:
    """Return the name of the column of largest distances."""
    return "max_distance_m" if space.is_earth else "max_distance"


def _no_distance(space: Space) -> str:
    name = distance_name(space)
    return f"{name} is not given and the hub has none; give it here, or to the hub as max_distance"


# --- what the model says ----------------------------------------------------------------------------------------


def _refuse_by_value(rows: TableRows, kind: int, which: Rows, space: Space) -> None:
    """Make a `Similar` or `TopK` of each of these rows, and note what it is refused for."""
    which = which[~rows.faults.is_bad[which]]
    if not len(which):
        return
    values = rows.taken(which, subscription_names(space))
    is_json = {name for name in values.column_names if rows.cells(name) == JSON_CELLS}
    if rows.has("kind") and rows.cells("kind") == CSV_CELLS:
        is_json.update(NUMBER_NAMES, ["terms"])
    for row, value in zip(which.tolist(), values.to_pylist(), strict=True):
        given = {name: _cell_value(each, name in is_json) for name, each in value.items()}
        # What another kind uses is no fault of a row in a table.
        unused = [name for name, kinds in KINDS_OF.items() if KIND_NAMES[kind] not in kinds]
        given = {name: each for name, each in given.items() if name not in unused}
        if [each for each in (given.pop(GEOMETRY_COLUMN, None), given.pop("geometry", None)) if each is not None]:
            given["region"] = "the geometry"
        try:
            subscription_from(given)
        except InvalidInput as error:
            field = distance_name(space) if error.field == "max_distance" else error.field
            rows.faults.add(row, field or "kind", one_line(error))


def _cell_value(cell: Any, is_json: bool) -> Any:
    """Return what a cell says; what should be JSON and is none stays as it is, for the error to show."""
    if isinstance(cell, Decimal):
        return float(cell)
    value = json_or_none(cell) if is_json and cell is not None else None
    return cell if value is None else value


# --- columns ----------------------------------------------------------------------------------------------------


def _places(rows: TableRows, space: Space) -> tuple[Floats, Mask]:
    """Return the x and y of each row, and which rows have a point and no other form of region."""
    box, circle = (EARTH_BOX, EARTH_CIRCLE) if space.is_earth else (PLANE_BOX, PLANE_CIRCLE)
    (x, has_x), (y, has_y) = rows.numbers_of(circle[0]), rows.numbers_of(circle[1])
    is_good = has_x & has_y
    if space.is_earth:
        is_good &= (np.abs(x) <= 180) & (np.abs(y) <= 90)
    else:
        is_good &= np.isfinite(x) & np.isfinite(y)
    for name in (*box, circle[2], "region", "geometry", GEOMETRY_COLUMN):
        if rows.has(name):
            is_good &= ~as_mask(rows.column(name).is_valid())
    return np.column_stack([x, y]), is_good


def _scoring(rows: TableRows, space: Space, usual: float | None) -> tuple[ScoreParameters, Mask]:
    """Return how each row is scored, and which rows may be scored so; a `max_distance` that nobody gives is NaN."""
    text_weight, distance, is_good = _weighing(rows, space, usual)
    threshold, has_threshold = rows.numbers_of("threshold")
    similarity = _functions(rows)
    is_good &= has_threshold & (threshold > 0) & (threshold <= 1) & (similarity != _UNKNOWN_FUNCTION)
    return ScoreParameters(text_weight, threshold, distance, similarity), is_good


def _weighing(rows: TableRows, space: Space, usual: float | None) -> tuple[Floats, Floats, Mask]:
    """Return the `text_weight` and `max_distance` of each row, and which rows may have theirs."""
    text_weight, has_weight = rows.numbers_of("text_weight")
    text_weight = np.where(has_weight, text_weight, USUAL_TEXT_WEIGHT)
    distance, has_distance = rows.numbers_of(distance_name(space))
    is_good: Mask = (text_weight >= 0) & (text_weight <= 1)
    is_good &= ~has_distance | ((distance > 0) & np.isfinite(distance))
    return text_weight, np.where(has_distance, distance, np.nan if usual is None else usual), is_good


def _topk_scoring(rows: TableRows, space: Space, usual: float | None) -> tuple[ScoreParameters, Mask]:
    """Return how each row of kind `topk` is scored, and which rows may be scored so."""
    n = len(rows)
    text_weight, distance, is_good = _weighing(rows, space, usual)
    k, has_k = rows.numbers_of("k")
    k = np.where(has_k, k, USUAL_K)
    is_good &= (k >= 1) & (k <= MAX_K) & (k == np.floor(k))
    wanted = np.where(is_good, k, 0).astype(np.int32)
    return ScoreParameters(text_weight, np.zeros(n), distance, np.full(n, TFIDF, np.uint8), wanted), is_good


def _functions(rows: TableRows) -> np.ndarray:
    """Return the text function of each row; null is tsim."""
    if not rows.has("similarity"):
        return np.full(len(rows), TSIM, np.uint8)
    column = rows.texts("similarity").cast(pa.string())
    known = _arrow.array_of(pc.index_in(column, _arrow.strings(SIMILARITY_NAMES)), null=_UNKNOWN_FUNCTION)
    return np.where(as_mask(column.is_valid()), known, TSIM).astype(np.uint8)


def _plain_texts(rows: TableRows) -> tuple[pa.ChunkedArray, Mask]:
    """Return the queries, and which of them are plain text beyond doubt; what is no text at all is null there."""
    is_text_or_null = np.ones(len(rows), np.bool_)
    if rows.has("query") and pa.types.is_struct(rows.column("query").type):
        is_text_or_null = ~as_mask(rows.column("query").is_valid())
        texts = pa.chunked_array([pa.nulls(len(rows), pa.string())])
    elif rows.has("query") and rows.cells("query") == JSON_CELLS:
        values = [None if text is None else json_or_none(text) for text in rows.column("query").to_pylist()]
        is_text_or_null = np.array([isinstance(value, str | None) for value in values], np.bool_)
        texts = pa.chunked_array(
            [pa.array([value if isinstance(value, str) else None for value in values], pa.string())]
        )
    else:
        texts = rows.texts("query")
    return texts, is_text_or_null & ~as_mask(pc.match_substring_regex(texts, _MAYBE_OPERATORS))


# --- words ------------------------------------------------------------------------------------------------------


def _term_sets(
    rows: TableRows,
    queries: pa.ChunkedArray,
    lists: tuple[np.ndarray, pa.ChunkedArray],
    words: WordTable,
    analyzer: Analyzer,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the words of each good row, those of its query and its list, each once, in the order of their strings."""
    start, terms = analyzer.encode(without_bad(queries, rows.faults.is_bad), words, add=True)
    row = np.repeat(np.arange(len(rows)), np.diff(start))
    list_start, listed = lists
    if len(listed):
        list_row = np.repeat(np.arange(len(rows)), np.diff(list_start))
        kept = np.flatnonzero(~rows.faults.is_bad[list_row])
        row = np.concatenate([row, list_row[kept]])
        terms = np.concatenate([terms, words.ids_of_column(listed.take(_arrow.numbers(kept)), add=True)])
    return _sets_in_string_order(row, terms, len(rows), words)


def without_bad(texts: pa.ChunkedArray, is_bad: Mask) -> pa.ChunkedArray:
    """Return the texts with null in place of those of bad rows, whose words nobody needs."""
    if not is_bad.any():
        return texts
    if pa.types.is_string_view(texts.type):  # which `if_else` does not take
        texts = texts.cast(pa.large_string())
    return pc.if_else(pa.array(is_bad), pa.scalar(None, texts.type), texts)


def _sets_in_string_order(
    row: np.ndarray, terms: np.ndarray, n: int, words: WordTable
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each of `n` rows its terms, each once, in the order of the words' strings in UTF-8."""
    used = _distinct(terms)
    in_order = used[_string_order(used, words)]
    rank = np.empty(int(used.max(initial=-1)) + 1, np.int64)
    rank[in_order] = np.arange(len(used))
    keys = _distinct((row << 32) | rank[terms])
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(keys >> 32, minlength=n), out=start[1:])
    return start, in_order[keys & 0xFFFFFFFF]


def _distinct(values: np.ndarray) -> np.ndarray:
    """Return the values ascending, each once; `np.unique` hashes them first and takes many times as long."""
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    distinct: np.ndarray = ordered[is_first]
    return distinct


def _string_order(terms: np.ndarray, words: WordTable) -> np.ndarray:
    if len(terms) <= _FEW_WORDS:
        strings = [words.word(term) for term in terms.tolist()]
        return np.array(sorted(range(len(strings)), key=strings.__getitem__), np.int64)
    order: np.ndarray = _arrow.array_of(pc.sort_indices(words.words().take(_arrow.numbers(terms))))
    return order
