"""Data files that workloads are drawn from: the words and the place of each row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.bench.data.word_lists import Rows, WordColumn, distinct
from nearcast.columns import NO_TIME
from nearcast.errors import InvalidColumns

if TYPE_CHECKING:
    from nearcast.bench.data.places import Floats
    from nearcast.tables.cells import TableRows


class DataFile(NamedTuple):
    """The rows of a data file that have words and a place; `names` are the columns of the place.

    `times` are microseconds, NO_TIME where there is none.
    """

    name: str
    lists: WordColumn
    places: Floats
    names: tuple[str, str]
    times: Rows


def read_source(path: Path) -> DataFile:
    """Return what can be drawn from a file with the columns `text` and `lon`, `lat` or `x`, `y`.

    Times come from `time` or `ts`, if there is one of them.
    """
    from nearcast.files import read_batches
    from nearcast.tables.cells import TableRows
    from nearcast.text import Analyzer
    from nearcast.text.words import WordTable

    table, analyzer = WordTable(), Analyzer()
    starts, terms, places, times, names = [np.zeros(1, np.int64)], [], [], [], None
    for batch in read_batches(path):
        names = _place_names(path, [name for name in batch.column_names if not name.startswith("nearcast.")])
        rows = TableRows(batch, path.name, 0)
        start, found = analyzer.encode(rows.texts("text"), table, add=True)
        starts.append(start[1:] + starts[-1][-1])
        terms.append(found)
        places.append(np.column_stack([_numbers(rows, name) for name in names]))
        times.append(_times(rows))
    if names is None:
        raise InvalidColumns(f"{path} has no rows; a workload is drawn from rows with text and a place")
    start, at = np.concatenate(starts), np.concatenate(places)
    row = np.repeat(np.arange(len(at)), np.diff(start))
    lists = distinct(row, np.concatenate(terms), len(at), table.words())
    usable = np.flatnonzero((np.diff(lists.start) > 0) & np.isfinite(at).all(axis=1))
    return DataFile(path.name, lists.take(usable), at[usable], names, np.concatenate(times)[usable])


def _numbers(rows: TableRows, name: str) -> Floats:
    """Return a column of coordinates, NaN where there is none."""
    values, given = rows.numbers_of(name)
    return np.where(given & ~rows.faults.is_bad, values, np.nan)


def _times(rows: TableRows) -> Rows:
    """Return a column of times, if there is one that can be read as such."""
    try:
        return rows.times("time" if rows.has("time") else "ts")
    except InvalidColumns:
        return np.full(len(rows), NO_TIME, np.int64)


def _place_names(path: Path, columns: list[str]) -> tuple[str, str]:
    for names in (("lon", "lat"), ("x", "y")):
        if {"text", *names} <= set(columns):
            return names
    raise InvalidColumns(
        f"{path} has the columns {', '.join(columns)}; a workload is drawn from text and lon, lat (or x, y)"
    )
