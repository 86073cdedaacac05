"""`nearcast generate --moving`: subscriptions that move, as three files."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearcast.cli._bench_data import data_file, data_folders
from nearcast.cli._console import UsageMistake
from nearcast.errors import InvalidInput

if TYPE_CHECKING:
    from nearcast.bench.data.movement.movement import Movement
    from nearcast.bench.data.movement.roads import RoadNet
    from nearcast.bench.data.sources import DataFile

TIMESTAMPS, INTERVAL, MOBILITY, SPEED = 100, "30s", 0.2, 1.0
TOWN = "town"

MovingOption = Annotated[
    bool, typer.Option("--moving", help="Let subscriptions move and messages live: also write changes.parquet.")
]
RoadsOption = Annotated[
    str | None,
    typer.Option(
        "--roads",
        metavar="NAME",
        help="Moving: a network in road_*_nodes.parquet of --data, as oldenburg; town, made up, unless given.",
    ),
]
ReplayOption = Annotated[
    str | None,
    typer.Option(
        "--replay", metavar="NAME|FILE", help="Moving: go where the objects of a file went (obj, ts, lon, lat)."
    ),
]
SpeedOption = Annotated[
    float | None, typer.Option("--speed", metavar="F", help="Moving: so many times as fast as usual; 1 unless given.")
]
MobilityOption = Annotated[
    float | None,
    typer.Option(
        "--mobility",
        metavar="SHARE",
        help=f"Moving: who moves and reports at each timestamp; {MOBILITY:g} unless given.",
    ),
]
TimestampsOption = Annotated[
    int | None, typer.Option("--timestamps", min=1, help=f"Moving: how many; {TIMESTAMPS} unless given.")
]
IntervalOption = Annotated[
    str | None, typer.Option("--interval", metavar="TIME", help=f"Moving: between timestamps; {INTERVAL} unless given.")
]
LifeOption = Annotated[
    int | None,
    typer.Option("--life", min=1, metavar="N", help="Moving: timestamps that a message lives; 10 unless given."),
]
AreaOption = Annotated[
    float | None,
    typer.Option(
        "--region-area", metavar="SHARE", help="Moving: of the map, for regions of within; 0.0001 unless given."
    ),
]


@dataclass(frozen=True)
class MovingArguments:
    """The options that say how subscriptions move; None is one that was not given."""

    roads: str | None = None
    replay: str | None = None
    speed: float | None = None
    mobility: float | None = None
    timestamps: int | None = None
    interval: str | None = None
    life: int | None = None
    region_area: float | None = None

    def must_be_left_out(self) -> None:
        """Refuse all of them."""
        for each in fields(self):
            if getattr(self, each.name) is not None:
                raise UsageMistake(f"--{each.name.replace('_', '-')} is for --moving; add that or leave this out")

    def check(self) -> None:
        """Refuse shares that are none, and a speed at which trips do not end."""
        from nearcast.bench.data.movement.trips import MOST_SPEED

        for name, most in (("mobility", 1.0), ("region_area", 1.0), ("speed", MOST_SPEED)):
            value = getattr(self, name)
            if value is not None and not 0 < value <= most:
                option = name.replace("_", "-")
                raise UsageMistake(f"--{option} {value}: expected a number above 0 and up to {most:g}")

    def movement(self, n: int, *, seed: int, data: Path | None, space: str | None) -> Movement:
        """Return how `n` subscriptions move."""
        from nearcast.bench.data.movement.replay import replayed
        from nearcast.bench.data.movement.trips import trips_over

        timestamps, interval_s = self.timestamps or TIMESTAMPS, self._interval_s()
        if self.replay is not None:
            self._check_replay()
            found = replayed(data_file("--replay", self.replay, data), n, timestamps=timestamps, interval_s=interval_s)
            return _in_space(found, space, f"--replay {self.replay}")
        found = trips_over(
            self._road_net(seed, data, space),
            n,
            timestamps=timestamps,
            mobility=MOBILITY if self.mobility is None else self.mobility,
            speed=SPEED if self.speed is None else self.speed,
            interval_s=interval_s,
            seed=seed,
        )
        return _in_space(found, space, f"--roads {self.roads}")

    def _road_net(self, seed: int, data: Path | None, space: str | None) -> RoadNet:
        from nearcast.bench.data.movement.roads import read_roads
        from nearcast.bench.data.movement.town import grid_town

        if self.roads in (None, TOWN):
            return grid_town(space or "plane", seed)
        try:
            return read_roads(str(self.roads), data_folders(data))
        except InvalidInput as error:
            raise UsageMistake(f"--roads {self.roads}: {error}; --data says where they are") from None

    def _check_replay(self) -> None:
        """Refuse what a recorded file has by itself."""
        for name in ("roads", "speed", "mobility"):
            if getattr(self, name) is not None:
                raise UsageMistake(f"--replay goes where a file says, when it says; leave out --{name}")

    def _interval_s(self) -> float:
        from nearcast.window import length_of

        try:
            return length_of(self.interval or INTERVAL, "interval", "expected a time like 30s, 1m, 2h") / 1e6
        except InvalidInput as error:
            raise UsageMistake(f"--interval {self.interval}: {error}") from None


def write_moving(
    out: Path,
    given: MovingArguments,
    *,
    kind: str,
    subscriptions: int,
    messages: int,
    seed: int,
    source: str | None,
    data: Path | None,
    space: str | None,
) -> str:
    """Write a workload that moves into a folder; return what there is to say of it."""
    from nearcast.bench.data.moving import LIFE, REGION_AREA, MovingRecipe, moving_workload

    given.check()
    movement = given.movement(subscriptions, seed=seed, data=data, space=space)
    recipe = MovingRecipe(
        messages,
        kind=kind,
        life=LIFE if given.life is None else given.life,
        region_area=REGION_AREA if given.region_area is None else given.region_area,
        source=_source(source, data),
        seed=seed,
    )
    made = moving_workload(movement, recipe)
    made.save(out)
    about = made.about
    window = " --window 1000" if kind == "topk" else ""
    distance = " --max-distance 500" if kind != "within" else ""
    counts = f"{about['subscriptions']:,} subscriptions, {about['messages']:,} messages and {about['moves']:,} moves"
    return (
        f"{counts} in {out}; try:\n"
        f"  nearcast match --subscriptions {out}/subscriptions.parquet --messages {out}/messages.parquet"
        f" --changes {out}/changes.parquet --lifetime expires{window}{distance} --out deliveries.parquet"
    )


def _source(source: str | None, data: Path | None) -> DataFile | None:
    from nearcast.bench.data.sources import read_source

    return None if source is None else read_source(data_file("--source", source, data))


def _in_space(movement: Movement, space: str | None, what: str) -> Movement:
    if space not in (None, movement.space.kind):
        raise UsageMistake(f"--space {space}: {what} lies on the {movement.space.kind}; leave it out")
    return movement
