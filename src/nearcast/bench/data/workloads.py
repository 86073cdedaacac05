"""Workloads: subscriptions and messages as tables in interchange columns, made from a seed or from a data file.

Generated: words by Zipf's law over a made-up vocabulary, places in clusters with some noise between them. From a file:
words and places of its rows, different rows for messages and subscriptions. The same arguments give the same tables;
generated messages do not depend on how many subscriptions are asked for, nor the other way round.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.bench.data.drawn_tables import boolean_table, message_table, scored_table
from nearcast.bench.data.places import (
    CLUSTERS,
    NOISE_SHARE,
    REGION_SHARE,
    EarthPlaces,
    Floats,
    PlanePlaces,
    halves_of_area,
)
from nearcast.bench.data.queries import alternatives, conjunctions, mixed
from nearcast.bench.data.recipe import Recipe
from nearcast.bench.data.sources import DataFile, read_source
from nearcast.bench.data.word_lists import (
    Count,
    Rows,
    WordColumn,
    counted_zipf_lists,
    first_words,
    merged_rows,
    some_words,
    zipf_lists,
)
from nearcast.columns import KIND_NAMES, NO_TIME
from nearcast.errors import InvalidColumns, InvalidInput

__all__ = ["Recipe", "Workload", "drawn_from", "generated", "open_workload", "save_tables", "save_workload"]

VOCABULARY = 100_000
MESSAGE_WORDS = (5, 15)
SUBSCRIPTION_WORDS = (1, 5)

#: How far a row of a data file moves each time it serves once more, in degrees or units.
JITTER = 0.02

#: What has a generator of its own, so that how it is drawn changes nothing else.
_LAYOUT, _MESSAGES, _SUBSCRIPTIONS, _FROM_FILE, _REGIONS, _RECTANGLES, _QUERIES, _MORE_WORDS, _DRIFT = range(9)

_ABOUT_KEY = b"nearcast.workload"
_FILES = ("subscriptions.parquet", "messages.parquet")


@dataclass(frozen=True)
class Workload:
    """Subscriptions and messages in interchange columns, with what is to be said about them in a report."""

    about: dict[str, Any]
    subscriptions: pa.Table
    messages: pa.Table


_USUAL = Recipe()


def generated(
    *,
    kind: str = "within",
    subscriptions: int,
    messages: int,
    seed: int = 1,
    space: str = "plane",
    recipe: Recipe = _USUAL,
) -> Workload:
    """Return a made-up workload: Zipf words, clustered places on the plane or the earth.

    A top-k subscription has some words of a message that might be there, and its place.
    """
    _check_counts(kind, subscriptions, messages)
    if space not in ("plane", "earth"):
        raise InvalidInput(f"space is {space!r}; expected 'earth' or 'plane'", field="space")
    layout, of_messages, of_subscriptions = (_generator(seed, part) for part in (_LAYOUT, _MESSAGES, _SUBSCRIPTIONS))
    places = (EarthPlaces if space == "earth" else PlanePlaces)(layout)
    words = _vocabulary()
    names = ("lon", "lat") if space == "earth" else ("x", "y")
    about = {
        "source": "generated",
        "distribution": f"Zipf words of {VOCABULARY:,}, {CLUSTERS} clusters and {NOISE_SHARE:.0%} noise on the {space}",
    }
    extent = places.high - places.low
    at = places.draw(of_messages, messages)
    said = _generated_words(of_messages, messages, words, recipe.message_words, MESSAGE_WORDS)
    times = _generated_times(of_messages, messages) if recipe.timed else None
    message_rows = message_table(said, at, _rectangles(seed, recipe, extent, messages), names, times)
    at = places.draw(of_subscriptions, subscriptions)
    if kind == "topk" and not recipe.zipf_words:
        said = _generated_words(of_subscriptions, subscriptions, words, recipe.message_words, MESSAGE_WORDS)
        asked = some_words(of_subscriptions, said, recipe.subscription_words or SUBSCRIPTION_WORDS)
    else:
        asked = _generated_words(of_subscriptions, subscriptions, words, recipe.subscription_words, SUBSCRIPTION_WORDS)
    half = places.half_sides(of_subscriptions, at)
    drawn = _DrawnSubscriptions(of_subscriptions, asked, at, half, extent, names)
    more = _generator(seed, _MORE_WORDS)
    table = _subscription_table(
        kind,
        seed,
        drawn,
        recipe,
        lambda n: _generated_words(more, n, words, recipe.subscription_words, SUBSCRIPTION_WORDS),
    )
    return _workload(about, kind, seed, table, message_rows)


def drawn_from(
    source: str | os.PathLike[str] | DataFile,
    *,
    kind: str = "within",
    subscriptions: int,
    messages: int,
    seed: int = 1,
    recipe: Recipe = _USUAL,
) -> Workload:
    """Return a workload of the rows of a data file with the columns `text` and `lon`, `lat` or `x`, `y`.

    Messages and subscriptions come from different rows. When more subscriptions are asked for than rows are left, a row
    serves several times, with other words and a place moved by a little. Messages that are to have a number of words
    take in those of further rows. Messages in order of time are the latest rows.
    """
    _check_counts(kind, subscriptions, messages)
    source = source if isinstance(source, DataFile) else read_source(Path(source))
    name, lists, places, names, times = source
    rng = _generator(seed, _FROM_FILE)
    rows_each = 1 if recipe.message_words is None else _rows_for(lists, recipe.message_words)
    order = rng.permutation(len(places))
    if recipe.timed:
        order = _latest_first_apart(rng, source, messages * rows_each)
    mine, pool = order[: messages * rows_each], order[messages * rows_each :]
    if not len(pool):
        raise InvalidInput(
            f"{name} has {len(places):,} rows with words and a place; {messages:,} messages leave no subscriptions",
            field="messages",
        )
    rows = pool[np.arange(subscriptions) % len(pool)]
    at = places[rows]
    at[len(pool) :] += rng.normal(0, JITTER, (max(subscriptions - len(pool), 0), 2))
    if names == ("lon", "lat"):
        at = np.clip(at, (-180, -90), (180, 90))
    count = recipe.subscription_words or SUBSCRIPTION_WORDS
    if recipe.zipf_words:
        asked = counted_zipf_lists(rng, subscriptions, _common_first(lists), count)
    else:
        asked = some_words(rng, lists.take(rows), count)
    extent = np.quantile(places, 0.999, axis=0) - np.quantile(places, 0.001, axis=0)
    half = extent / 2 * rng.uniform(*REGION_SHARE, subscriptions)[:, None]
    more = _generator(seed, _MORE_WORDS)
    table = _subscription_table(
        kind,
        seed,
        _DrawnSubscriptions(rng, asked, at, half, extent, names),
        recipe,
        lambda n: some_words(more, lists.take(more.choice(pool, n)), count),
    )
    said = lists.take(mine)
    if recipe.message_words is not None:
        said = first_words(rng, merged_rows(said, rows_each), recipe.message_words)
    mine = mine[::rows_each]
    rectangles = _rectangles(seed, recipe, extent, messages)
    message_rows = message_table(said, places[mine], rectangles, names, times[mine] if recipe.timed else None)
    about = {"source": name, "distribution": "words and places of its rows"}
    return _workload(about, kind, seed, table, message_rows)


def open_workload(folder: str | os.PathLike[str]) -> Workload:
    """Return the workload in a folder that holds `subscriptions.parquet` and `messages.parquet`."""
    import pyarrow.parquet as pq

    from nearcast.files import read_table

    paths = [Path(folder) / name for name in _FILES]
    subscriptions, messages = (read_table(path) for path in paths)
    for path, table in zip(paths, (subscriptions, messages), strict=True):
        if not table.num_rows:
            raise InvalidColumns(f"{path} has no rows; a workload needs some")
    written = (pq.read_schema(paths[0]).metadata or {}).get(_ABOUT_KEY)
    about = json.loads(written) if written else {"source": "folder", "distribution": "as written in the folder"}
    about |= {"subscriptions": subscriptions.num_rows, "messages": messages.num_rows}
    return Workload({"folder": Path(folder).name} | about, subscriptions, messages)


def save_workload(workload: Workload, folder: str | os.PathLike[str]) -> None:
    """Write the two files of a workload; they are put in place when both are complete."""
    save_tables(folder, dict(zip(_FILES, (workload.subscriptions, workload.messages), strict=True)), workload.about)


def save_tables(folder: str | os.PathLike[str], tables: dict[str, pa.Table], about: dict[str, Any]) -> None:
    """Write tables under their names into a folder, put in place when all are complete, with what is to be said."""
    import pyarrow.parquet as pq

    folder = Path(folder)
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    partial = [folder / f".{name}.{os.getpid()}.partial" for name in tables]
    metadata = {_ABOUT_KEY: json.dumps(about)}
    try:
        for table, path in zip(tables.values(), partial, strict=True):
            pq.write_table(table.replace_schema_metadata(metadata), path, compression="zstd")
        for name, path in zip(tables, partial, strict=True):
            os.replace(path, folder / name)
    finally:
        for path in partial:
            path.unlink(missing_ok=True)
        if made and not any(folder.iterdir()):
            folder.rmdir()


# --- words --------------------------------------------------------------------------------------------------------

_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]


@functools.cache
def _vocabulary() -> pa.Array:
    """Return all made-up words, by rank."""
    return pa.array([_word(rank) for rank in range(VOCABULARY)])


def _word(rank: int) -> str:
    """Return a pronounceable word of its own for each rank; common words are shorter."""
    syllables = []
    rank += len(_SYLLABLES)
    while rank:
        rank, digit = divmod(rank, len(_SYLLABLES))
        syllables.append(_SYLLABLES[digit])
    return "".join(syllables)


def _generated_words(
    rng: np.random.Generator, n: int, words: pa.Array, given: Count | None, usual: Count
) -> WordColumn:
    return zipf_lists(rng, n, words, usual) if given is None else counted_zipf_lists(rng, n, words, given)


def _common_first(lists: WordColumn) -> pa.Array:
    """Return the words, those of the most rows first."""
    return lists.words.take(pa.array(np.argsort(-np.bincount(lists.terms, minlength=len(lists.words)), kind="stable")))


def _rows_for(lists: WordColumn, count: Count) -> int:
    """Return how many rows have enough words for one message, nearly always: twice as many as on the average."""
    return max(1, round(2 * count[1] * (len(lists.start) - 1) / len(lists.terms)))


# --- times --------------------------------------------------------------------------------------------------------

_FIRST_TIME = 1_800_000_000_000_000
#: How many generated messages come a second, on the average.
GENERATED_PER_S = 1.0


def _generated_times(rng: np.random.Generator, n: int) -> Rows:
    """Return the microseconds at which messages come, at random and evenly on the average."""
    return _FIRST_TIME + np.cumsum(rng.exponential(1e6 / GENERATED_PER_S, n)).astype(np.int64)


def _latest_first_apart(rng: np.random.Generator, source: DataFile, n: int) -> Rows:
    """Return the rows that have a time: the latest `n` in its order, then the others in any."""
    timed = np.flatnonzero(source.times != NO_TIME)
    if not len(timed):
        raise InvalidInput(f"{source.name} has no column time or ts; messages in order of time need one", field="time")
    timed = timed[np.argsort(source.times[timed], kind="stable")]
    n = min(n, len(timed))
    return np.concatenate([timed[len(timed) - n :], rng.permutation(timed[: len(timed) - n])])


# --- tables -------------------------------------------------------------------------------------------------------


def _check_counts(kind: str, subscriptions: int, messages: int) -> None:
    if kind not in KIND_NAMES:
        raise InvalidInput(f"kind is {kind!r}; expected one of {', '.join(KIND_NAMES)}", field="kind")
    for name, count in (("subscriptions", subscriptions), ("messages", messages)):
        if count < 1:
            raise InvalidInput(f"{name} is {count}; expected 1 or more", field=name)


def _workload(about: dict[str, Any], kind: str, seed: int, subscriptions: pa.Table, messages: pa.Table) -> Workload:
    counts = {"subscriptions": subscriptions.num_rows, "messages": messages.num_rows}
    return Workload({**about, "kind": kind, "seed": seed, **counts}, subscriptions, messages)


def _generator(seed: int, part: int) -> np.random.Generator:
    return np.random.default_rng([seed, part])


class _DrawnSubscriptions(NamedTuple):
    """Subscriptions so far: their words, places and usual half sides, in a space of some extent."""

    rng: np.random.Generator
    asked: WordColumn
    places: Floats
    half: Floats
    extent: Floats
    names: tuple[str, str]


def _subscription_table(
    kind: str, seed: int, drawn: _DrawnSubscriptions, recipe: Recipe, further: Callable[[int], WordColumn]
) -> pa.Table:
    """Return the table of subscriptions; `further` draws so many more rows of words."""
    rng, asked, places, half, extent, names = drawn
    if recipe.drifting:
        order = _drifting_order(seed, asked, places)
        asked, places, half = asked.take(order), places[order], half[order]
    if kind != "within":
        return scored_table(kind, rng, asked, places, names, recipe)
    if recipe.region_area is not None:
        half = halves_of_area(_generator(seed, _REGIONS), extent, recipe.region_area, len(places))
    if recipe.alternatives is not None:
        queries = alternatives(_generator(seed, _QUERIES), asked, further, recipe.alternatives)
    elif recipe.mixed:
        queries = mixed(_generator(seed, _QUERIES), asked)
    else:
        queries = conjunctions(asked)
    return boolean_table(queries, places, half, names)


def _rectangles(seed: int, recipe: Recipe, extent: Floats, n: int) -> Floats | None:
    """Return half the sides of messages, None where they are points."""
    if recipe.message_area is None:
        return None
    return halves_of_area(_generator(seed, _RECTANGLES), extent, recipe.message_area, n)


def _drifting_order(seed: int, asked: WordColumn, places: Floats) -> Rows:
    """Return the rows in an order in which place and words change together: from west to east, word by word."""
    n = len(places)
    west_to_east = np.empty(n)
    west_to_east[np.argsort(places[:, 0], kind="stable")] = np.arange(n) / n
    turn = _generator(seed, _DRIFT).permutation(len(asked.words)) / len(asked.words)
    return np.argsort(west_to_east + turn[asked.terms[asked.start[:-1]]], kind="stable")
