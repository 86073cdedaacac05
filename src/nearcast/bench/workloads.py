"""Workloads: subscriptions and messages as tables in interchange columns, made from a seed or from a data file.

Generated: words by Zipf's law over a made-up vocabulary, places in clusters with some noise between them. From a file:
words and places of its rows, different rows for messages and subscriptions. The same arguments give the same tables;
generated messages do not depend on how many subscriptions are asked for, nor the other way round.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.columns import KIND_NAMES, gathered
from nearcast.errors import InvalidColumns, InvalidInput

if TYPE_CHECKING:
    from nearcast.tables.cells import TableRows

__all__ = ["Workload", "drawn_from", "generated", "open_workload", "save_workload"]

VOCABULARY = 100_000
MESSAGE_WORDS = (5, 15)
SUBSCRIPTION_WORDS = (1, 5)

#: The side of a generated plane, and of a region as a share of the extent.
PLANE_SIDE = 10_000.0
REGION_SHARE = (0.001, 0.02)
#: The half side of a generated region on the earth.
REGION_HALF_SIDE_KM = (0.5, 10.0)
KM_PER_DEGREE = 111.195
CLUSTERS = 200
NOISE_SHARE = 0.2
#: How far a row of a data file moves each time it serves once more, in degrees or units.
JITTER = 0.02

_ABOUT_KEY = b"nearcast.workload"
_FILES = ("subscriptions.parquet", "messages.parquet")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Workload:
    """Subscriptions and messages in interchange columns, with what is to be said about them in a report."""

    about: dict[str, Any]
    subscriptions: pa.Table
    messages: pa.Table


class _Lists(NamedTuple):
    """A column of lists of words: row i has words[terms[start[i]:start[i + 1]]]."""

    start: npt.NDArray[np.int64]
    terms: npt.NDArray[np.int32]
    words: pa.Array

    def take(self, rows: npt.NDArray[np.int64]) -> _Lists:
        start, positions = gathered(self.start, rows)
        return _Lists(start, self.terms[positions], self.words)

    def to_arrow(self) -> pa.Array:
        return pa.ListArray.from_arrays(pa.array(self.start, pa.int32()), self.words.take(pa.array(self.terms)))


def generated(
    *, kind: str = "within", subscriptions: int, messages: int, seed: int = 1, space: str = "plane"
) -> Workload:
    """Return a made-up workload: Zipf words, clustered places on the plane or the earth."""
    _check_counts(kind, subscriptions, messages)
    if space not in ("plane", "earth"):
        raise InvalidInput(f"space is {space!r}; expected 'earth' or 'plane'", field="space")
    # One generator for each part, so that the size of one part does not change the other.
    layout, of_messages, of_subscriptions = (np.random.default_rng([seed, part]) for part in range(3))
    places = (_EarthPlaces if space == "earth" else _PlanePlaces)(layout)
    words = pa.array([_word(rank) for rank in range(VOCABULARY)])
    names = ("lon", "lat") if space == "earth" else ("x", "y")
    about = {
        "source": "generated",
        "distribution": f"Zipf words of {VOCABULARY:,}, {CLUSTERS} clusters and {NOISE_SHARE:.0%} noise on the {space}",
    }
    at = places.draw(of_messages, messages)
    message_table = _message_table(_zipf_lists(of_messages, messages, words, MESSAGE_WORDS), at, names)
    at = places.draw(of_subscriptions, subscriptions)
    asked = _zipf_lists(of_subscriptions, subscriptions, words, SUBSCRIPTION_WORDS)
    half = places.half_sides(of_subscriptions, at)
    table = _subscription_table(kind, of_subscriptions, asked, at, half, names)
    return _workload(about, kind, seed, table, message_table)


def drawn_from(
    path: str | os.PathLike[str], *, kind: str = "within", subscriptions: int, messages: int, seed: int = 1
) -> Workload:
    """Return a workload of the rows of a data file with the columns `text` and `lon`, `lat` or `x`, `y`.

    Messages and subscriptions come from different rows. When more subscriptions are asked for than rows are left, a row
    serves several times, with other words and a place moved by a little.
    """
    _check_counts(kind, subscriptions, messages)
    lists, places, names = _read_source(Path(path))
    if len(places) <= messages:
        raise InvalidInput(
            f"{path} has {len(places):,} rows with words and a place; {messages:,} messages leave no subscriptions",
            field="messages",
        )
    rng = np.random.default_rng([seed, 3])
    order = rng.permutation(len(places))
    mine, pool = order[:messages], order[messages:]
    rows = pool[np.arange(subscriptions) % len(pool)]
    at = places[rows]
    at[len(pool) :] += rng.normal(0, JITTER, (max(subscriptions - len(pool), 0), 2))
    if names == ("lon", "lat"):
        at = np.clip(at, (-180, -90), (180, 90))
    asked = _some_words(rng, lists.take(rows), SUBSCRIPTION_WORDS)
    extent = np.quantile(places, 0.999, axis=0) - np.quantile(places, 0.001, axis=0)
    half = extent / 2 * rng.uniform(*REGION_SHARE, subscriptions)[:, None]
    about = {"source": Path(path).name, "distribution": "words and places of its rows"}
    message_table = _message_table(lists.take(mine), places[mine], names)
    return _workload(about, kind, seed, _subscription_table(kind, rng, asked, at, half, names), message_table)


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


def _word(rank: int) -> str:
    """Return a pronounceable word of its own for each rank; common words are shorter."""
    syllables = []
    rank += len(_SYLLABLES)
    while rank:
        rank, digit = divmod(rank, len(_SYLLABLES))
        syllables.append(_SYLLABLES[digit])
    return "".join(syllables)


def _zipf_lists(rng: np.random.Generator, n: int, words: pa.Array, count: tuple[int, int]) -> _Lists:
    """Return `n` rows of distinct words, drawn with a probability of 1 / rank; `count` is before repeats go."""
    cumulative = np.cumsum(1.0 / np.arange(1, len(words) + 1))
    row = np.repeat(np.arange(n), rng.integers(count[0], count[1] + 1, n))
    terms = np.searchsorted(cumulative, rng.random(row.size) * cumulative[-1])
    return _distinct(row, terms, n, words)


def _distinct(row: npt.NDArray[np.int64], terms: npt.NDArray[Any], n: int, words: pa.Array) -> _Lists:
    """Return the first of each word of each row, in order."""
    _, first = np.unique((row << 32) | terms, return_index=True)
    first.sort()
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(row[first], minlength=n), out=start[1:])
    return _Lists(start, terms[first].astype(np.int32), words)


def _some_words(rng: np.random.Generator, lists: _Lists, count: tuple[int, int]) -> _Lists:
    """Return for each row `count` of its words at random, all where it has fewer."""
    have = np.diff(lists.start)
    row = np.repeat(np.arange(len(have)), have)
    shuffled = np.lexsort((rng.random(row.size), row))
    wanted = np.minimum(rng.integers(count[0], count[1] + 1, len(have)), have)
    chosen = shuffled[np.arange(row.size) - lists.start[row] < wanted[row]]
    start = np.zeros(len(have) + 1, np.int64)
    np.cumsum(wanted, out=start[1:])
    return _Lists(start, lists.terms[chosen], lists.words)


# --- places -------------------------------------------------------------------------------------------------------


class _PlanePlaces:
    """Gaussian clusters of unequal size on a square, and noise between them."""

    low, high = np.array([0.0, 0.0]), np.array([PLANE_SIDE, PLANE_SIDE])
    spread = (20.0, 150.0)

    def __init__(self, rng: np.random.Generator):
        self._centre = rng.uniform(self.low, self.high, (CLUSTERS, 2))
        self._share = rng.dirichlet(np.full(CLUSTERS, 0.5))
        self._spread = rng.uniform(*self.spread, CLUSTERS)

    def draw(self, rng: np.random.Generator, n: int) -> Floats:
        cluster = rng.choice(CLUSTERS, n, p=self._share)
        places = self._centre[cluster] + rng.normal(size=(n, 2)) * self._spread[cluster][:, None]
        noise = rng.random(n) < NOISE_SHARE
        places[noise] = rng.uniform(self.low, self.high, (noise.sum(), 2))
        return np.clip(places, self.low, self.high)

    def half_sides(self, rng: np.random.Generator, places: Floats) -> Floats:
        """Return half the width and height of a region at each place."""
        side: Floats = (self.high - self.low) * rng.uniform(*REGION_SHARE, len(places))[:, None]
        return side / 2


class _EarthPlaces(_PlanePlaces):
    """The same in degrees: cities and the land between them, away from the poles."""

    low, high = np.array([-179.0, -56.0]), np.array([179.0, 70.0])
    spread = (0.02, 0.3)

    def half_sides(self, rng: np.random.Generator, places: Floats) -> Floats:
        """Return half the width and height in degrees of a square in kilometres."""
        height = rng.uniform(*REGION_HALF_SIDE_KM, len(places)) / KM_PER_DEGREE
        return np.column_stack([height / np.cos(np.radians(places[:, 1])), height])


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


def _message_table(lists: _Lists, places: Floats, names: tuple[str, str]) -> pa.Table:
    x, y = names
    return pa.table(
        {"id": _numbered("m", len(places)), "terms": lists.to_arrow(), x: places[:, 0].copy(), y: places[:, 1].copy()}
    )


def _subscription_table(
    kind: str, rng: np.random.Generator, asked: _Lists, places: Floats, half: Floats, names: tuple[str, str]
) -> pa.Table:
    n = len(places)
    columns: dict[str, Any] = {"id": _numbered("s", n), "kind": pa.array([kind]).take(pa.array(np.zeros(n, np.int64)))}
    columns["query"] = pc.binary_join(asked.to_arrow(), " AND " if kind == "within" else " ")
    if kind == "within":
        return pa.table(columns | _box_columns(places, half, is_earth=names[0] == "lon"))
    columns |= {names[0]: places[:, 0].copy(), names[1]: places[:, 1].copy(), "text_weight": rng.uniform(0, 1, n)}
    columns |= {"threshold": rng.uniform(0.5, 1.0, n)} if kind == "similar" else {"k": np.full(n, 20, np.int32)}
    return pa.table(columns)


def _box_columns(places: Floats, half: Floats, *, is_earth: bool) -> dict[str, Floats]:
    low, high = places - half, places + half
    if is_earth:
        low, high = np.maximum(low, (-180, -90)), np.minimum(high, (180, 90))
    names = ("west", "south", "east", "north") if is_earth else ("x_min", "y_min", "x_max", "y_max")
    return dict(zip(names, (low[:, 0], low[:, 1], high[:, 0], high[:, 1]), strict=True))


# --- data files ---------------------------------------------------------------------------------------------------


def _read_source(path: Path) -> tuple[_Lists, Floats, tuple[str, str]]:
    """Return words and places of the rows that have both."""
    from nearcast.files import read_batches
    from nearcast.tables.cells import TableRows
    from nearcast.text import Analyzer
    from nearcast.text.words import WordTable

    table, analyzer = WordTable(), Analyzer()
    starts, terms, places, names = [np.zeros(1, np.int64)], [], [], None
    for batch in read_batches(path):
        names = _place_names(path, [name for name in batch.column_names if not name.startswith("nearcast.")])
        rows = TableRows(batch, path.name, 0)
        start, found = analyzer.encode(rows.texts("text"), table, add=True)
        starts.append(start[1:] + starts[-1][-1])
        terms.append(found)
        places.append(np.column_stack([_numbers(rows, name) for name in names]))
    if names is None:
        raise InvalidColumns(f"{path} has no rows; a workload is drawn from rows with text and a place")
    start, at = np.concatenate(starts), np.concatenate(places)
    row = np.repeat(np.arange(len(at)), np.diff(start))
    lists = _distinct(row, np.concatenate(terms), len(at), table.words())
    usable = np.flatnonzero((np.diff(lists.start) > 0) & np.isfinite(at).all(axis=1))
    return lists.take(usable), at[usable], names


def _numbers(rows: TableRows, name: str) -> Floats:
    """Return a column of coordinates, NaN where there is none."""
    values, given = rows.numbers_of(name)
    return np.where(given & ~rows.faults.is_bad, values, np.nan)


def _place_names(path: Path, columns: list[str]) -> tuple[str, str]:
    for names in (("lon", "lat"), ("x", "y")):
        if {"text", *names} <= set(columns):
            return names
    raise InvalidColumns(
        f"{path} has the columns {', '.join(columns)}; a workload is drawn from text and lon, lat (or x, y)"
    )
