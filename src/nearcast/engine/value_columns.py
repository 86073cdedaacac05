"""Single values as columns of one row, in the terms of a state: what `subscribe` and `publish` of a hub encode."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nearcast import _arrow
from nearcast.columns import NO_TIME, WITHIN, Messages, Subscriptions, microseconds_of
from nearcast.geo import Regions
from nearcast.model import Similar, TopK
from nearcast.query import compile_query
from nearcast.request_texts import RequestText
from nearcast.tables.message_limits import check_bytes, check_words
from nearcast.tables.requests import is_cut
from nearcast.tables.scored_rows import columns_of
from nearcast.text.words import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nearcast.engine.state import State
    from nearcast.geo import Space
    from nearcast.model import Message, Subscription, Within
    from nearcast.text import Analyzer
    from nearcast.text.words import WordTable

_NO_TERMS = np.empty(0, np.int32)
_NEVER = np.array([NO_TIME])
#: Stands between the words of a text and the given terms: no phrase reaches over it.
_GAP = np.array([UNKNOWN], np.int32)


def subscription_columns(
    value: Subscription, space: Space, words: WordTable, analyzer: Analyzer, max_distance: float | None
) -> Subscriptions:
    """Return a checked subscription with its request text; its words are added to `words`.

    `max_distance` is for a scored subscription that gives none.
    """
    if isinstance(value, Similar | TopK):
        columns = columns_of(value, space, words, analyzer, max_distance)
        text = RequestText(value.query, value.terms, value.max_distance is not None)
        columns = replace(columns, texts=_arrow.one_binary(text.encoded()))
    else:
        columns = _within_columns(value, space, words, analyzer)
    return columns if value.min_move is None else replace(columns, min_move=np.array([value.min_move]))


def _within_columns(value: Within, space: Space, words: WordTable, analyzer: Analyzer) -> Subscriptions:
    compiled = compile_query(value.query, words, analyzer=analyzer, has_region=value.region is not None)
    if compiled.errors:
        raise compiled.errors[0][1]
    regions = Regions.from_shapes([value.region], space)
    keeps_region = is_cut(value.region, space) or len(compiled.code_start) == 1  # the index need not know it
    text = RequestText(value.query, keeps_region=keeps_region, region=value.region if keeps_region else None)
    return Subscriptions(
        ids=_arrow.one_id(value.id),
        kind=np.array([WITHIN], np.uint8),
        clause_start=compiled.clause_start,
        code_start=compiled.code_start,
        code=compiled.code,
        regions=regions,
        expires=np.array([microseconds_of(value.expires)]),
        texts=_arrow.one_binary(text.encoded()),
    )


def message_columns(state: State, value: Message, *, is_published: bool) -> Messages:
    """Return a checked message with all that the state needs of it; window and live store get to know its words.

    One that is only asked about (`is_published` is False) adds no words, and cannot be published.
    """
    check_bytes(value.text, value.terms, state.analyzer)
    given = value.terms or ()
    read = state.analyzer.tokens(value.text) if value.text else []
    check_words(len(read) + len(given), value.text, state.analyzer)
    terms = _terms_of(state.words, read, given, add=False)
    totals = np.array([state.weights.total([*read, *given])]) if state.needs_totals else None
    window_terms = None
    if state.topk is not None and is_published:
        window_terms = _terms_of(state.topk.word_table, read, given, add=True)
    live_terms = None
    if state.live is not None and is_published:
        live_terms = _terms_of(state.live.word_table, read, given, add=True)
    return Messages(
        ids=[value.id],
        term_start=np.array([0, len(terms)]),
        terms=terms,
        box=np.array([value.box]),
        time=_NEVER if value.time is None else np.array([microseconds_of(value.time)]),
        expires=_NEVER if value.expires is None else np.array([microseconds_of(value.expires)]),
        totals=totals,
        window_terms=window_terms,
        live_terms=live_terms,
    )


def _terms_of(known: WordTable, read: list[str], given: Sequence[str], *, add: bool) -> NDArray[np.int32]:
    """Return the terms of the words of the text, then those of the given terms, with a gap between."""
    if not given:
        return known.ids_of(read, add=add) if read else _NO_TERMS
    if not read:
        return known.ids_of(given, add=add)
    return np.concatenate([known.ids_of(read, add=add), _GAP, known.ids_of(given, add=add)])
