"""Recorded trajectories, repeated: reads a file with a row for each place of an object."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nearcast.bench.data.movement.movement import INTERVAL_S, Movement, Reports, timestamps_after
from nearcast.columns import NO_TIME
from nearcast.errors import InvalidColumns, InvalidInput
from nearcast.geo import Space

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.data.places import Floats

#: The columns of a place, and how many of its units are one.
_PLACES = ((("lon", "lat"), 1.0), (("lon_e5", "lat_e5"), 1e5), (("x", "y"), 1.0))
_TIMES = ("ts", "time")
#: Single places far off do not stretch the map.
_BOUNDS = (0.001, 0.999)


def replayed(path: Path, n: int, *, timestamps: int, interval_s: float = INTERVAL_S) -> Movement:
    """Return the movement of `n` objects that go where those of a file went, from the first of its times on.

    The file has `obj`, `ts` or `time`, and a place: `lon`, `lat`, or `lon_e5`, `lat_e5` in hundred-thousandths of a
    degree, or `x`, `y`. Rows that lack one of these are left out. Where it has fewer objects than `n`, several go the
    same way; where it has more, the first are taken. An object is at its first place until it reports another.
    """
    if n < 1 or timestamps < 1 or not 0 < interval_s < float("inf"):
        raise InvalidInput(f"a replay of {n} objects over {timestamps} times {interval_s} s; expected more than 0")
    recorded, space = _recorded(path)
    names, at_first, objects = np.unique(recorded.objects, return_index=True, return_inverse=True)
    begin = int(recorded.times[0])
    times = timestamps_after(begin, timestamps, interval_s)
    played = (recorded.times > begin) & (recorded.times <= times[-1])
    rows, follower = _followers(objects[played], len(names), n)
    reports = Reports(follower, recorded.places[played][rows], recorded.times[played][rows])
    low, high = np.quantile(recorded.places, _BOUNDS, axis=0)
    return Movement(
        name=path.stem,
        space=space,
        bounds=(float(low[0]), float(low[1]), float(high[0]), float(high[1])),
        begin=begin,
        first=recorded.places[at_first][np.arange(n) % len(names)],
        times=times,
        start=np.append(0, np.searchsorted(reports.times, times, side="right")),
        reports=reports,
    )


def _followers(objects: NDArray[np.int64], n_recorded: int, n: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the rows of reports, and which of `n` objects goes there: number i follows recorded number i mod all."""
    rounds = -(-n // n_recorded)
    rows = np.repeat(np.arange(len(objects)), rounds)
    follower = objects[rows] + np.tile(np.arange(rounds) * n_recorded, len(objects))
    kept = follower < n
    return rows[kept], follower[kept].astype(np.int32)


def _recorded(path: Path) -> tuple[Reports, Space]:
    """Return all places of a file in order of time; rows that lack something, or lie off the earth, are left out."""
    from nearcast.files import read_table
    from nearcast.tables.cells import TableRows

    table = read_table(path)
    place = next((each for each in _PLACES if set(each[0]) <= set(table.column_names)), None)
    time = next((name for name in _TIMES if name in table.column_names), None)
    if place is None or time is None or "obj" not in table.column_names:
        has = ", ".join(table.column_names)
        raise InvalidColumns(f"{path} has the columns {has}; a replay needs obj, ts (or time), and lon, lat (or x, y)")
    (x, y), unit = place
    space, rows = Space.plane() if x == "x" else Space.earth(), TableRows(table, path.name, 0)
    places: Floats = np.column_stack([rows.numbers_of(name)[0] / unit for name in (x, y)])
    times = rows.times(time)
    is_whole = np.isfinite(places).all(axis=1) & (times != NO_TIME) & ~rows.faults.is_bad
    is_whole &= table["obj"].is_valid().to_numpy()
    if space.is_earth:
        is_whole &= (np.abs(places) <= (180.0, 90.0)).all(axis=1)
    order = np.flatnonzero(is_whole)
    if not len(order):
        raise InvalidColumns(f"{path} has no row with obj, {time} and a place; a replay needs some")
    order = order[np.argsort(times[order], kind="stable")]
    return Reports(table["obj"].take(order).to_numpy(), places[order], times[order]), space
