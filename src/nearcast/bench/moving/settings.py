"""The setting of an experiment with moving subscriptions, after Table 3 of the AP-Tree paper, and its workload.

The table's bold type is lost. The defaults are 20 % mobility, regions of 0.01 % of the map and the usual speed. A
message lives for ten timestamps of 30 s, so that a tenth of those alive arrives at each. The paper has a million
subscriptions and messages, and 100 timestamps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.bench.data.moving import LIFE, REGION_AREA, MovingRecipe, moving_workload

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.data.movement.movement import Movement
    from nearcast.bench.data.movement.trips import TripPlan
    from nearcast.bench.data.moving import MovingWorkload
    from nearcast.bench.data.places import Floats
    from nearcast.bench.data.sources import DataFile
    from nearcast.bench.encoding import EncodedWorkload

#: The names of what needs no data file: generated words, a made-up town.
SYNTHETIC, TOWN = "synthetic", "town"
#: The paper's names of words and maps, and what stands for them here.
WORD_SETS = {"TWEETS": "msg_boston311", "GN": "poi_us_venues"}
MAPS = {"ODB": "oldenburg", "SAN": "san_joaquin"}
TAXIS = "traj_sf_cabs_week"


@dataclass(frozen=True)
class MovingSetting:
    """What one experiment runs on; `messages` are alive at any time. A `replay` takes the place of trips over roads."""

    subscriptions: int
    messages: int
    timestamps: int
    words: str = SYNTHETIC
    roads: str = TOWN
    mobility: float = 0.2
    speed: float = 1.0
    region_area: float = REGION_AREA
    replay: str | None = None
    kind: str = "within"
    life: int = LIFE
    seed: int = 1

    @property
    def label(self) -> str:
        """The words and the map, as the paper calls them."""
        words = next((name for name, file in WORD_SETS.items() if file == self.words), self.words)
        place = self.replay or next((name for name, net in MAPS.items() if net == self.roads), self.roads)
        return f"{words}-{place}"


@dataclass
class SettingData:
    """Makes the workloads of settings from data files in some folders; files and paths are read and found once."""

    folders: Sequence[Path] = ()
    about: dict[str, Any] = field(default_factory=dict)
    _sources: dict[str, DataFile] = field(default_factory=dict)
    _plans: dict[tuple[str, int], TripPlan] = field(default_factory=dict)

    def workload(self, setting: MovingSetting) -> MovingWorkload:
        """Return the workload of a setting."""
        recipe = MovingRecipe(
            setting.messages,
            kind=setting.kind,
            life=setting.life,
            region_area=setting.region_area,
            source=self._source(setting.words),
            seed=setting.seed,
        )
        made = moving_workload(self._movement(setting), recipe)
        self.about = made.about | {"space": made.movement.space.kind}
        return made

    def words(self, setting: MovingSetting, n_messages: int) -> EncodedWorkload:
        """Return the subscriptions of a setting in columns, and so many messages that have all of their words."""
        from nearcast.bench.encoding import EncodedWorkload
        from nearcast.tables import Rejected, read_messages, read_subscriptions
        from nearcast.text import Analyzer
        from nearcast.text.words import WordTable

        # One half is alive at the beginning, the other arrives in the only timestamp.
        halves = replace(setting, messages=-(-n_messages // 2), timestamps=1, life=1)
        made, table, analyzer, rejected = self.workload(halves), WordTable(), Analyzer(), Rejected()
        space, said = made.movement.space, made.messages.slice(0, n_messages)
        subscriptions = read_subscriptions(made.subscriptions, space, table, analyzer, rejected=rejected)
        messages = read_messages(said, space, table, analyzer, add_words=True, rejected=rejected)
        return EncodedWorkload(space, table, subscriptions, messages)

    def places(self, setting: MovingSetting) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return the times (T,) of timestamps, and the x (T, n) and y (T, n) of all objects at them."""
        moved = self._movement(setting)
        places, _ = moved.dense()
        return moved.times, np.ascontiguousarray(places[..., 0]), np.ascontiguousarray(places[..., 1])

    def file(self, name: str) -> Path | None:
        """Return the data file of a name, None where there is none."""
        given = Path(name)
        tried = [given, *(folder / each for folder in self.folders for each in (name, f"{name}.parquet"))]
        return next((path for path in tried if path.is_file()), None)

    def lacks(self, setting: MovingSetting) -> str | None:
        """Return the name of the first data file or network that a setting needs and that is not there."""
        from nearcast.bench.data.movement.roads import names_of_roads

        if setting.words != SYNTHETIC and self.file(setting.words) is None:
            return setting.words
        if setting.replay is not None:
            return setting.replay if self.file(setting.replay) is None else None
        return setting.roads if setting.roads not in (TOWN, *names_of_roads(self.folders)) else None

    def _movement(self, setting: MovingSetting) -> Movement:
        from nearcast.bench.data.movement.replay import replayed
        from nearcast.bench.data.movement.trips import trips_over

        n, timestamps = setting.subscriptions, setting.timestamps
        if setting.replay is not None:
            path = self.file(setting.replay)
            assert path is not None
            return replayed(path, n, timestamps=timestamps)
        plan = self._plan(setting.roads, setting.seed)
        return trips_over(
            plan, n, timestamps=timestamps, mobility=setting.mobility, speed=setting.speed, seed=setting.seed
        )

    def _plan(self, roads: str, seed: int) -> TripPlan:
        from nearcast.bench.data.movement.roads import read_roads
        from nearcast.bench.data.movement.town import grid_town
        from nearcast.bench.data.movement.trips import TripPlan

        if (roads, seed) not in self._plans:
            net = grid_town("plane", seed) if roads == TOWN else read_roads(roads, self.folders)
            self._plans[roads, seed] = TripPlan(net, seed)
        return self._plans[roads, seed]

    def _source(self, words: str) -> DataFile | None:
        from nearcast.bench.data.sources import read_source

        if words == SYNTHETIC:
            return None
        if words not in self._sources:
            path = self.file(words)
            assert path is not None
            self._sources[words] = read_source(path)
        return self._sources[words]
