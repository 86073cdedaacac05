"""Messages and subscriptions of a script as plain values, and the columns made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nearcast.columns import SIMILAR, TOPK, Messages, ScoreParameters, Subscriptions
from nearcast.geo import Box, Circle, Regions, Shape, Space
from nearcast.model import SIMILARITIES, Similar, TopK
from nearcast.query import Query, compile_trees
from nearcast.similarity import TFIDF
from nearcast.testing.plain import WHOLE_MESSAGE, Place, Weights, totals_of, words_of

if TYPE_CHECKING:
    from nearcast.text.words import WordTable

#: A query and a region, None: anywhere; or a scored subscription with a `max_distance`, its id of no meaning.
#: Top-k ones begin with the threshold 0.
Wanted = tuple[Query, Shape | None] | Similar | TopK
#: The words of a message in order, and its place: x_min, y_min, x_max, y_max.
Said = tuple[Sequence[str], Place]


def is_scored(wanted: Wanted) -> bool:
    """Tell whether a subscription is of a kind that is scored."""
    return isinstance(wanted, Similar | TopK)


def reads_whole_message(wanted: Wanted) -> bool:
    """Tell whether a message must come with its totals to be scored."""
    return isinstance(wanted, TopK) or (isinstance(wanted, Similar) and wanted.similarity in WHOLE_MESSAGE)


def point_box(x: float, y: float) -> Box:
    """Return the region of a scored subscription: the box that is its place alone."""
    return Box(x, y, x, y)


def region_of(wanted: Wanted, *, scored: bool) -> Shape | None:
    """Return where to move a slot to, that is like `wanted`: for a scored slot a point of that region."""
    region = point_box(*wanted.place) if isinstance(wanted, Similar | TopK) else wanted[1]
    return point_box(*_point_of(region)) if scored else region


def moved(wanted: Wanted, region: Shape | None) -> Wanted:
    """Return what a slot with `wanted` holds after a move to `region`, which `region_of` gave."""
    if not isinstance(wanted, Similar | TopK):
        return wanted[0], region
    assert isinstance(region, Box), "a scored subscription moves to a point"
    return replace(wanted, place=(region.x_min, region.y_min))


def _point_of(region: Shape | None) -> tuple[float, float]:
    if region is None:
        return 0.0, 0.0
    if isinstance(region, Box):
        return region.x_min, region.y_min
    if isinstance(region, Circle):
        return region.x, region.y
    import shapely

    x, y = shapely.get_coordinates(region.geometry)[0].tolist()
    return x, y


def subscriptions_of(wanted: Sequence[Wanted], space: Space, words: WordTable) -> Subscriptions:
    """Return columns of these subscriptions, of any mix of kinds; raise for one that cannot be stored."""
    plain = [each for each in wanted if not isinstance(each, Similar | TopK)]
    scored = [each for each in wanted if isinstance(each, Similar | TopK)]
    if not scored:
        return _within_columns(plain, space, words)
    order = np.argsort([is_scored(each) for each in wanted], kind="stable")
    row_of = np.empty(len(wanted), np.int64)
    row_of[order] = np.arange(len(wanted))
    columns = Subscriptions.concat([_within_columns(plain, space, words), _scored_columns(scored, space, words)])
    return columns.take(row_of)


def _within_columns(wanted: Sequence[tuple[Query, Shape | None]], space: Space, words: WordTable) -> Subscriptions:
    regions = Regions.from_shapes([region for _, region in wanted], space)
    has_region = np.array([region is not None for _, region in wanted], bool)
    compiled = compile_trees([query for query, _ in wanted], words, has_region=has_region)
    if compiled.errors:
        raise compiled.errors[0][1]
    return Subscriptions.of(compiled.clause_start, compiled.code_start, compiled.code, regions)


def _scored_columns(wanted: Sequence[Similar | TopK], space: Space, words: WordTable) -> Subscriptions:
    terms = [words_of(each) for each in wanted]
    code_start = np.zeros(len(wanted) + 1, np.int64)
    np.cumsum([len(each) for each in terms], out=code_start[1:])
    scoring = ScoreParameters(
        np.array([each.text_weight for each in wanted], np.float64),
        np.array([0.0 if isinstance(each, TopK) else each.threshold for each in wanted], np.float64),
        np.array([each.max_distance for each in wanted], np.float64),
        np.array([_function_of(each) for each in wanted], np.uint8),
        np.array([each.k if isinstance(each, TopK) else 0 for each in wanted], np.int32),
    )
    return Subscriptions.of(
        np.arange(len(wanted) + 1),
        code_start,
        words.ids_of([word for each in terms for word in each], add=True),
        Regions.from_shapes([point_box(*each.place) for each in wanted], space),
        kind=np.array([TOPK if isinstance(each, TopK) else SIMILAR for each in wanted], np.uint8),
        scoring=scoring,
    )


def _function_of(wanted: Similar | TopK) -> int:
    return TFIDF if isinstance(wanted, TopK) else SIMILARITIES.index(wanted.similarity)


def messages_of(
    said: Sequence[Said], words: WordTable, *, add_words: bool = False, weights: Weights | None = None
) -> Messages:
    """Return columns of these messages; words that are not in the table are -1 unless `add_words`.

    With `weights` they come with their totals: all words counted and weighed, those of the table and others.
    """
    start = np.zeros(len(said) + 1, np.int64)
    np.cumsum([len(tokens) for tokens, _ in said], out=start[1:])
    terms = words.ids_of([token for tokens, _ in said for token in tokens], add=add_words)
    totals = None if weights is None else [totals_of(tokens, weights) for tokens, _ in said]
    return Messages.of(
        start,
        terms,
        np.array([place for _, place in said], np.float64).reshape(-1, 4),
        totals=None if totals is None else np.array(totals, np.float64),
    )
