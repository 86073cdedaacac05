"""Workloads of subscriptions that move among messages that live for a while.

Words are those of a workload of `workloads`, generated or from a data file; places are others. Subscriptions have
their regions around the objects of a `Movement`. Messages lie where those of the workload do, scaled onto the map. The
same number is alive at any time: those at the beginning have come in the timestamps before it, one share in each.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast.bench.data.drawn_tables import boolean_table, numbered
from nearcast.bench.data.places import halves_of_area
from nearcast.bench.data.workloads import Recipe, drawn_from, generated, save_tables
from nearcast.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.data.movement.movement import Movement
    from nearcast.bench.data.places import Floats
    from nearcast.bench.data.sources import DataFile
    from nearcast.bench.data.workloads import Workload

#: Table 3 of the AP-Tree paper, whose bold type is lost: how many timestamps a message lives, and the area of regions
#: as a share of the map.
LIFE, REGION_AREA = 10, 0.0001
#: Single places far off do not squeeze the others on the map.
_SCALED = (0.001, 0.999)
#: How far a message lies from the one whose words it has again, as a share of the map.
_JITTER = 0.01
_REGIONS, _PLACES = range(20, 22)


@dataclass(frozen=True)
class MovingRecipe:
    """What is drawn for a workload that moves: `messages` are alive at any time, each for `life` timestamps.

    `region_area` is the share of the map that the region of a `within` subscription takes up. `source` has words and
    places; without one they are generated.
    """

    messages: int
    kind: str = "within"
    life: int = LIFE
    region_area: float = REGION_AREA
    source: DataFile | None = None
    seed: int = 1
    recipe: Recipe = field(default_factory=Recipe)

    def __post_init__(self) -> None:
        for name, least in (("messages", 1), ("life", 1)):
            if getattr(self, name) < least:
                raise InvalidInput(f"{name} is {getattr(self, name)}; expected {least} or more", field=name)
        if not 0 < self.region_area <= 1:
            raise InvalidInput(
                f"region_area is {self.region_area}; expected a share of the map above 0 and up to 1",
                field="region_area",
            )


@dataclass(frozen=True)
class MovingWorkload:
    """Subscriptions, messages in order of time, and the reports of places; subscription i is object i of the movement.

    Message i arrives in timestamp `arrives[i]`, -1 and less for those that are alive at the beginning.
    """

    about: dict[str, Any]
    movement: Movement
    subscriptions: pa.Table
    messages: pa.Table
    arrives: NDArray[np.int64]

    def messages_at(self, timestamp: int) -> pa.Table:
        """Return the messages that arrive in a timestamp."""
        first, last = np.searchsorted(self.arrives, [timestamp, timestamp + 1]).tolist()
        return self.messages.slice(first, last - first)

    def messages_before(self) -> pa.Table:
        """Return the messages that are alive at the beginning."""
        return self.messages.slice(0, int(np.searchsorted(self.arrives, 0)))

    def moves_at(self, timestamp: int) -> pa.Table:
        """Return the reports of a timestamp, as `Hub.move_many` takes them."""
        return self._moves(*self.movement.at(timestamp))

    def changes(self) -> pa.Table:
        """Return all reports, as `nearcast match --changes` takes them."""
        moves = self._moves(*self.movement.reports)
        op = pa.array(["move"]).take(pa.array(np.zeros(moves.num_rows, np.int64)))
        return moves.add_column(0, "op", op)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write subscriptions, messages and changes into a folder; the files are put in place together."""
        tables = {
            "subscriptions.parquet": self.subscriptions,
            "messages.parquet": self.messages,
            "changes.parquet": self.changes(),
        }
        save_tables(folder, tables, self.about)

    @cached_property
    def _ids(self) -> pa.Array:
        return self.subscriptions["id"].combine_chunks()

    def _moves(self, objects: NDArray[np.int32], places: Floats, times: NDArray[np.int64]) -> pa.Table:
        x, y = _names(self.movement)
        columns = {"id": self._ids.take(pa.array(objects)), x: places[:, 0].copy(), y: places[:, 1].copy()}
        return pa.table(columns | {"time": _timestamps(times)})


def moving_workload(movement: Movement, asked: MovingRecipe) -> MovingWorkload:
    """Return a workload with a subscription for each object of a movement."""
    n, arrives = movement.n_objects, _arrivals(asked, len(movement.times))
    drawn = _drawn(movement, asked, n, len(arrives))
    interval = int(movement.times[0]) - movement.begin
    times = movement.begin + (arrives + 1) * interval
    messages = _message_table(drawn, movement, asked, times, times + asked.life * interval)
    about = drawn.about | {
        "movement": movement.name,
        "subscriptions": n,
        "messages": messages.num_rows,
        "live_messages": asked.messages,
        "timestamps": len(movement.times),
        "moves": len(movement.reports.objects),
    }
    return MovingWorkload(about, movement, _subscription_table(drawn, movement, asked), messages, arrives)


def _drawn(movement: Movement, asked: MovingRecipe, n: int, n_messages: int) -> Workload:
    """Return a workload whose words are wanted; of a data file no more than half of the rows become messages."""
    kind, seed, recipe = asked.kind, asked.seed, asked.recipe
    if asked.source is None:
        drawn = generated(kind=kind, subscriptions=n, messages=n_messages, seed=seed, recipe=recipe)
        what = drawn.about["distribution"].partition(" on the ")[0]
        return replace(drawn, about=drawn.about | {"distribution": f"{what} on the map {movement.name}"})
    some = max(1, min(n_messages, len(asked.source.places) // 2))
    drawn = drawn_from(asked.source, kind=kind, subscriptions=n, messages=some, seed=seed, recipe=recipe)
    return replace(drawn, about=drawn.about | {"distribution": f"words and places of its rows, on {movement.name}"})


def _arrivals(asked: MovingRecipe, timestamps: int) -> NDArray[np.int64]:
    """Return the timestamp in which each message arrives: a share of those alive in each, those of before from -1 down.

    Of the messages alive at the beginning those that come first are the first to go.
    """
    upto = np.round(np.arange(asked.life + timestamps + 1) * asked.messages / asked.life).astype(np.int64)
    return np.repeat(np.arange(-asked.life, timestamps), np.diff(upto))


def _message_table(
    drawn: Workload, movement: Movement, asked: MovingRecipe, times: NDArray[np.int64], expires: NDArray[np.int64]
) -> pa.Table:
    """Return the messages at places of the map; where there are too few, some come again a little way off."""
    x, y = _names(movement)
    given, n = drawn.messages, len(times)
    names = ("lon", "lat") if "lon" in given.column_names else ("x", "y")
    rows = np.arange(n) % given.num_rows
    places = _on_map(np.column_stack([given[name].to_numpy() for name in names]), movement)[rows]
    rng = np.random.default_rng([asked.seed, _PLACES])
    again = np.arange(n) >= given.num_rows
    places[again] += rng.normal(0, _JITTER, (int(again.sum()), 2)) * movement.extent
    places = np.clip(places, movement.bounds[:2], movement.bounds[2:])
    return pa.table(
        {
            "id": numbered("m", n),
            "terms": given["terms"].take(pa.array(rows)),
            x: places[:, 0].copy(),
            y: places[:, 1].copy(),
            "time": _timestamps(times),
            "expires": _timestamps(expires),
        }
    )


def _subscription_table(drawn: Workload, movement: Movement, asked: MovingRecipe) -> pa.Table:
    """Return the subscriptions, each with its region around its object, or at its place where it is scored."""
    given, (x, y) = drawn.subscriptions, _names(movement)
    if asked.kind == "within":
        rng, area = np.random.default_rng([asked.seed, _REGIONS]), (asked.region_area, asked.region_area)
        half = halves_of_area(rng, movement.extent, area, movement.n_objects)
        return boolean_table(given["query"].combine_chunks(), movement.first, half, (x, y))
    kept = given.drop_columns([name for name in ("lon", "lat", "x", "y") if name in given.column_names])
    for name, column in zip((x, y), movement.first.T, strict=True):
        kept = kept.append_column(name, pa.array(column.copy()))
    return kept


def _on_map(places: Floats, movement: Movement) -> Floats:
    """Return places scaled onto the box of a map."""
    low, high = np.quantile(places, _SCALED, axis=0)
    share = (places - low) / np.where(high > low, high - low, 1.0)
    corner = np.array(movement.bounds[:2])
    scaled: Floats = corner + np.clip(share, 0, 1) * movement.extent
    return scaled


def _names(movement: Movement) -> tuple[str, str]:
    return ("lon", "lat") if movement.space.is_earth else ("x", "y")


def _timestamps(microseconds: NDArray[np.int64]) -> pa.Array:
    return pa.array(microseconds).cast(pa.timestamp("us", "UTC"))
