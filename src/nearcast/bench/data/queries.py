"""Words as boolean queries: all of them, some of several groups, AND and OR mixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.bench.data.word_lists import Count, WordColumn

#: How many of a hundred conjunctions among alternatives exclude a word.
NOT_PER_CENT = 10


def conjunctions(lists: WordColumn) -> pa.Array:
    """Return for each row the query for all of its words."""
    return pc.binary_join(lists.to_arrow(), " AND ")


def alternatives(
    rng: np.random.Generator, asked: WordColumn, further: Callable[[int], WordColumn], count: Count
) -> pa.Array:
    """Return for each row a query for all of its words, or all of those of another row, `count` of them together.

    `further` gives so many more rows of words. One in ten conjunctions excludes a word that it does not ask for.
    """
    n = len(asked.start) - 1
    more = rng.integers(count[0], count[1] + 1, n) - 1
    every = _stacked(asked, further(int(more.sum())))
    owner = np.concatenate([np.arange(n), np.repeat(np.arange(n), more)])
    clauses = _with_not(rng, every, further)
    start = np.zeros(n + 1, np.int32)
    np.cumsum(more + 1, out=start[1:])
    grouped = clauses.take(pa.array(np.argsort(owner, kind="stable")))
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(start), grouped), " OR ")


def mixed(rng: np.random.Generator, asked: WordColumn) -> pa.Array:
    """Return for each row a query like (a OR b) AND (c AND d), as the AP-Tree paper makes them of a row of words.

    The words fall into two groups somewhere; AND or OR is drawn for each group and for what is between them. A row of
    one word asks for it.
    """
    count = np.diff(asked.start)
    split = asked.start[:-1] + 1 + (rng.random(len(count)) * np.maximum(count - 1, 0)).astype(np.int64)
    split = np.minimum(split, asked.start[1:])
    ends = np.column_stack([asked.start[:-1], split, asked.start[1:]]).ravel()
    # Three ends a row make three lists a row, of which the last is empty: it reaches to where the next row begins.
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), asked.words.take(pa.array(asked.terms)))
    groups = [lists.take(pa.array(np.arange(at, 3 * len(count), 3))) for at in (0, 1)]
    left, right = (_parenthesised(_joined(rng, group)) for group in groups)
    between = _chosen(rng, len(count), pa.scalar(" AND "), pa.scalar(" OR "))
    both = pc.binary_join_element_wise(left, right, between)
    return pc.if_else(pa.array(count > 1), both, conjunctions(asked))


def _stacked(a: WordColumn, b: WordColumn) -> WordColumn:
    """Return the rows of both, which have the same vocabulary."""
    return WordColumn(np.concatenate([a.start, b.start[1:] + a.start[-1]]), np.concatenate([a.terms, b.terms]), a.words)


def _with_not(rng: np.random.Generator, lists: WordColumn, further: Callable[[int], WordColumn]) -> pa.Array:
    """Return the conjunctions of the rows, some of them with a word to exclude."""
    n = len(lists.start) - 1
    rows = np.flatnonzero(rng.random(n) * 100 < NOT_PER_CENT)
    others = further(len(rows))
    has_word = np.diff(others.start) > 0
    rows, words = rows[has_word], others.terms[others.start[:-1][has_word]]
    asked = (np.repeat(np.arange(n), np.diff(lists.start)) << 32) | lists.terms
    is_new = ~np.isin((rows << 32) | words, asked)
    excluded = np.full(n, -1, np.int64)
    excluded[rows[is_new]] = words[is_new]
    word = lists.words.take(pa.array(excluded, mask=excluded < 0))
    plain = conjunctions(lists)
    return pc.coalesce(pc.binary_join_element_wise(plain, word, " AND NOT "), plain)


def _joined(rng: np.random.Generator, lists: pa.ListArray) -> pa.Array:
    both = (pc.binary_join(lists, word) for word in (" AND ", " OR "))
    return _chosen(rng, len(lists), *both)


def _chosen(rng: np.random.Generator, n: int, a: Any, b: Any) -> pa.Array:
    return pc.if_else(pa.array(rng.random(n) < 0.5), a, b)


def _parenthesised(queries: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise("(", queries, ")", "")
