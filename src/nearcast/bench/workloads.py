"""Workloads: subscriptions and messages as tables in interchange columns, made from a seed or from a data file.

Generated: words by Zipf's law over a made-up vocabulary, places in clusters with some noise between them. From a file:
words and places of its rows, different rows for messages and subscriptions. The same arguments give the same tables;
generated messages do not depend on how many subscriptions are asked for, nor the other way round.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.bench.places import CLUSTERS, NOISE_SHARE, REGION_SHARE, EarthPlaces, Floats, PlanePlaces
from nearcast.bench.sources import Source, read_source
from nearcast.bench.word_lists import (
    Count,
    Rows,
    WordLists,
    counted_zipf_lists,
    first_words,
    merged_rows,
    some_words,
    zipf_lists,
)
from nearcast.columns import KIND_NAMES, NO_TIME
from nearcast.errors import InvalidColumns, InvalidInput

__all__ = ["Recipe", "Workload", "drawn_from", "generated", "open_workload", "save_workload"]

VOCABULARY = 100_000
MESSAGE_WORDS = (5, 15)
SUBSCRIPTION_WORDS = (1, 5)

#: How far a row of a data file moves each time it serves once more, in degrees or units.
JITTER = 0.02

_ABOUT_KEY = b"nearcast.workload"
_FILES = ("subscriptions.parquet", "messages.parquet")


@dataclass(frozen=True)
class Workload:
    """Subscriptions and messages in interchange columns, with what is to be said about them in a report."""

    about: dict[str, Any]
    subscriptions: pa.Table
    messages: pa.Table


@dataclass(frozen=True)
class Recipe:
    """What is drawn for the rows of a workload: evenly between two ends, which are equal to fix a value.

    Numbers of words that are given are met exactly where there are enough words. None: messages have the words of
    their row, or 5 to 15 generated ones, and subscriptions 1 to 5, before repeats go where they are generated.
    """

    message_words: Count | None = None
    subscription_words: Count | None = None
    text_weight: tuple[float, float] = (0.0, 1.0)
    threshold: tuple[float, float] = (0.5, 1.0)
    similarity: str | None = None
    #: Of top-k subscriptions: how many messages each wants, and whether their words come by Zipf's law, the most common
    #: first, and not from a message at the same place.
    k: int = 20
    zipf_words: bool = False
    #: Messages have a time, and come in its order.
    timed: bool = False


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
    # One generator for each part, so that the size of one part does not change the other.
    layout, of_messages, of_subscriptions = (np.random.default_rng([seed, part]) for part in range(3))
    places = (EarthPlaces if space == "earth" else PlanePlaces)(layout)
    words = _vocabulary()
    names = ("lon", "lat") if space == "earth" else ("x", "y")
    about = {
        "source": "generated",
        "distribution": f"Zipf words of {VOCABULARY:,}, {CLUSTERS} clusters and {NOISE_SHARE:.0%} noise on the {space}",
    }
    at = places.draw(of_messages, messages)
    said = _generated_words(of_messages, messages, words, recipe.message_words, MESSAGE_WORDS)
    times = _generated_times(of_messages, messages) if recipe.timed else None
    message_table = _message_table(said, at, names, times)
    at = places.draw(of_subscriptions, subscriptions)
    if kind == "topk" and not recipe.zipf_words:
        said = _generated_words(of_subscriptions, subscriptions, words, recipe.message_words, MESSAGE_WORDS)
        asked = some_words(of_subscriptions, said, recipe.subscription_words or SUBSCRIPTION_WORDS)
    else:
        asked = _generated_words(of_subscriptions, subscriptions, words, recipe.subscription_words, SUBSCRIPTION_WORDS)
    half = places.half_sides(of_subscriptions, at)
    table = _subscription_table(kind, of_subscriptions, asked, at, half, names, recipe)
    return _workload(about, kind, seed, table, message_table)


def drawn_from(
    source: str | os.PathLike[str] | Source,
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
    source = source if isinstance(source, Source) else read_source(Path(source))
    name, lists, places, names, times = source
    rng = np.random.default_rng([seed, 3])
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
    about = {"source": name, "distribution": "words and places of its rows"}
    table = _subscription_table(kind, rng, asked, at, half, names, recipe)
    said = lists.take(mine)
    if recipe.message_words is not None:
        said = first_words(rng, merged_rows(said, rows_each), recipe.message_words)
    mine = mine[::rows_each]
    return _workload(
        about, kind, seed, table, _message_table(said, places[mine], names, times[mine] if recipe.timed else None)
    )


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
    import pyarrow.parquet as pq

    folder = Path(folder)
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    tables = (workload.subscriptions, workload.messages)
    partial = [folder / f".{name}.{os.getpid()}.partial" for name in _FILES]
    about = {_ABOUT_KEY: json.dumps(workload.about)}
    try:
        for table, path in zip(tables, partial, strict=True):
            pq.write_table(table.replace_schema_metadata(about), path, compression="zstd")
        for name, path in zip(_FILES, partial, strict=True):
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


def _generated_words(rng: np.random.Generator, n: int, words: pa.Array, given: Count | None, usual: Count) -> WordLists:
    return zipf_lists(rng, n, words, usual) if given is None else counted_zipf_lists(rng, n, words, given)


def _common_first(lists: WordLists) -> pa.Array:
    """Return the words, those of the most rows first."""
    return lists.words.take(pa.array(np.argsort(-np.bincount(lists.terms, minlength=len(lists.words)), kind="stable")))


def _rows_for(lists: WordLists, count: Count) -> int:
    """Return how many rows have enough words for one message, nearly always: twice as many as on the average."""
    return max(1, round(2 * count[1] * (len(lists.start) - 1) / len(lists.terms)))


# --- times --------------------------------------------------------------------------------------------------------

_FIRST_TIME = 1_800_000_000_000_000
#: How many generated messages come a second, on the average.
GENERATED_PER_S = 1.0


def _generated_times(rng: np.random.Generator, n: int) -> Rows:
    """Return the microseconds at which messages come, at random and evenly on the average."""
    return _FIRST_TIME + np.cumsum(rng.exponential(1e6 / GENERATED_PER_S, n)).astype(np.int64)


def _latest_first_apart(rng: np.random.Generator, source: Source, n: int) -> Rows:
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


def _numbered(prefix: str, n: int) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pa.array(np.arange(n)).cast(pa.string()), "")


def _repeated(word: str, n: int) -> pa.Array:
    return pa.array([word]).take(pa.array(np.zeros(n, np.int64)))


def _message_table(lists: WordLists, places: Floats, names: tuple[str, str], times: Rows | None = None) -> pa.Table:
    x, y = names
    table = pa.table(
        {"id": _numbered("m", len(places)), "terms": lists.to_arrow(), x: places[:, 0].copy(), y: places[:, 1].copy()}
    )
    return table if times is None else table.append_column("time", pa.array(times).cast(pa.timestamp("us", "UTC")))


def _subscription_table(
    kind: str,
    rng: np.random.Generator,
    asked: WordLists,
    places: Floats,
    half: Floats,
    names: tuple[str, str],
    recipe: Recipe,
) -> pa.Table:
    n = len(places)
    columns: dict[str, Any] = {"id": _numbered("s", n), "kind": _repeated(kind, n)}
    columns["query"] = pc.binary_join(asked.to_arrow(), " AND " if kind == "within" else " ")
    if kind == "within":
        return pa.table(columns | _box_columns(places, half, is_earth=names[0] == "lon"))
    columns |= {names[0]: places[:, 0].copy(), names[1]: places[:, 1].copy()}
    columns["text_weight"] = rng.uniform(*recipe.text_weight, n)
    if kind == "topk":
        return pa.table(columns | {"k": np.full(n, recipe.k, np.int32)})
    columns["threshold"] = rng.uniform(*recipe.threshold, n)
    if recipe.similarity is not None:
        columns["similarity"] = _repeated(recipe.similarity, n)
    return pa.table(columns)


def _box_columns(places: Floats, half: Floats, *, is_earth: bool) -> dict[str, Floats]:
    low, high = places - half, places + half
    if is_earth:
        low, high = np.maximum(low, (-180, -90)), np.minimum(high, (180, 90))
    names = ("west", "south", "east", "north") if is_earth else ("x_min", "y_min", "x_max", "y_max")
    return dict(zip(names, (low[:, 0], low[:, 1], high[:, 0], high[:, 1]), strict=True))
