"""The geometry of a known measurement of another system: 23,000 fences of 5 km around places in the United States.

tidwall/tile38#491 sets as many points at the same places, each of which enters some fences and leaves others. By
symmetry a fence's centre is a live message here, and whoever moves carries the circle: what it enters and leaves is the
same. Every mover goes to the place of another, over and over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nearcast.bench.aims import Aim
from nearcast.bench.answers import AnswersDiffer
from nearcast.bench.data.drawn_tables import numbered
from nearcast.bench.data.places import EarthPlaces
from nearcast.bench.moving.settings import WORD_SETS
from nearcast.bench.timing import cpu_us, spread

if TYPE_CHECKING:
    from nearcast.bench.data.places import Floats
    from nearcast.bench.moving.settings import SettingData
    from nearcast.hub import Hub

FENCES, FENCES_AIM = 23_000, Aim.at_least(60_000, "on one core (6,000 on 16)")
_RADIUS_M, _ROUNDS, _SAMPLE = 5_000.0, 3, 50
_NAMES = ["subscription_id", "message_id", "change"]


def anchor_rate(files: SettingData, n: int, batch: int, index: str, seed: int) -> float:
    """Return how many moves a second a hub makes, by CPU time; what some of them deliver is compared with `scan`."""
    rng = np.random.default_rng(seed)
    places = _places(files, n, rng)
    rounds = [places[rng.permutation(n)] for _ in range(_ROUNDS)]
    hub = _hub(places, np.arange(n), index)
    tables = [_moves(places, np.arange(n)) for places in rounds]
    told = [hub.move_many(tables[0]).to_table().select(_NAMES)]
    _check(places, rounds[0], told[0], index)
    seconds = 0.0
    for table in tables[1:]:
        for first in range(0, n, batch):
            part = table.slice(first, batch)
            seconds += cpu_us(lambda part=part: len(hub.move_many(part))) / 1e6  # type: ignore[misc]
    hub.close()
    return n * (_ROUNDS - 1) / max(seconds, 1e-9)


def _hub(places: Floats, movers: np.ndarray, index: str) -> Hub:
    """Return a hub with a live message at each place, and with some movers, who begin at theirs."""
    from nearcast.hub import Hub

    hub, n = Hub("earth", index=index, lifetime="7d"), len(movers)
    circles = {
        "id": numbered("s", len(places)).take(pa.array(movers)),
        "query": pa.array(["fence"] * n),
        "lon": places[movers, 0],
        "lat": places[movers, 1],
        "radius_m": np.full(n, _RADIUS_M),
    }
    hub.subscribe_many(pa.table(circles))
    fences = {
        "id": numbered("m", len(places)),
        "text": pa.array(["fence"] * len(places)),
        "lon": places[:, 0].copy(),
        "lat": places[:, 1].copy(),
        "time": pa.array(np.zeros(len(places), np.int64)).cast(pa.timestamp("us", "UTC")),
    }
    hub.publish_many(pa.table(fences))
    hub.close()
    return hub


def _moves(places: Floats, movers: np.ndarray) -> pa.Table:
    ids = numbered("s", len(places)).take(pa.array(movers))
    return pa.table({"id": ids, "lon": places[movers, 0], "lat": places[movers, 1]})


def _check(before: Floats, after: Floats, told: pa.Table, index: str) -> None:
    """Raise `AnswersDiffer` unless some movers are told what `scan` tells them."""
    import pyarrow.compute as pc

    movers = spread(len(before), min(_SAMPLE, len(before)))
    plain = _hub(before, movers, "scan:live=scan").move_many(_moves(after, movers)).to_table().select(_NAMES)
    sampled = told.filter(pc.is_in(told[0], _moves(after, movers)["id"].combine_chunks()))
    if not sampled.equals(plain):
        raise AnswersDiffer(
            f"{index} tells some movers {sampled.num_rows:,} changes that are not the {plain.num_rows:,} of scan; no"
            " times are reported"
        )


def _places(files: SettingData, n: int, rng: np.random.Generator) -> Floats:
    """Return places in cities: of venues where there is a file of them, else made-up ones."""
    from nearcast.bench.data.sources import read_source

    path = files.file(WORD_SETS["GN"])
    if path is None:
        return EarthPlaces(rng).draw(rng, n)
    every = read_source(path).places
    places: Floats = every[rng.choice(len(every), n, replace=len(every) < n)]
    return places
