"""The data of a benchmark: options that choose it, and the workload they choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._bench_arguments import BenchArguments
from nearcast.cli._console import UsageMistake

if TYPE_CHECKING:
    from nearcast.bench.data.sources import DataFile
    from nearcast.bench.data.workloads import Recipe, Workload
    from nearcast.window import Window

SUBSCRIPTIONS = 100_000

WorkloadOption = Annotated[
    Path | None,
    typer.Option(
        "--workload",
        metavar="FOLDER",
        help="Folder with subscriptions.parquet and messages.parquet; else generated.",
    ),
]
SubscriptionsOption = Annotated[
    int | None, typer.Option("--subscriptions", min=1, help=f"How many; {SUBSCRIPTIONS:,} unless given.")
]
MessagesOption = Annotated[int | None, typer.Option("--messages", min=1, help="How many.")]
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="NAME|FILE",
        help="Draw the workload from a data file; a NAME is looked up in --data. synthetic: generated.",
    ),
]
DataOption = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Folder of data files; ../shared/data where it exists.")
]


@dataclass(frozen=True)
class DataChoice:
    """The data that arguments choose: a workload from a folder, drawn from a data file, or generated.

    `usual_messages` are matched unless a number is given.
    """

    given: BenchArguments
    usual_messages: int

    def workload(self, recipe: Recipe | None = None) -> Workload:
        """Open the workload, or draw or generate it by a recipe."""
        from nearcast.bench.data.workloads import Recipe, open_workload

        given = self.given
        if given.workload is None:
            return self.drawer()(recipe or Recipe(), given.subscriptions or SUBSCRIPTIONS, self.n_measured)
        if given.source or given.subscriptions or given.messages:
            raise UsageMistake("--workload is a whole workload; leave out --source, --subscriptions and --messages")
        return open_workload(given.workload)

    def stream(self, window: Window | None, n_warm_up: int | None) -> tuple[Workload, Window]:
        """Open, draw or generate a workload whose messages fill a window before others arrive; return the window too.

        Of a data file no more than three quarters of the rows become messages.
        """
        from nearcast.bench.data.workloads import Recipe, open_workload
        from nearcast.bench.streams import usual_warm_up, usual_window

        given = self.given
        if given.workload is not None:
            if given.source or given.subscriptions:
                raise UsageMistake("--workload is a whole workload; leave out --source and --subscriptions")
            opened = open_workload(given.workload)
            return opened, window or usual_window(opened.messages.num_rows, self.n_measured, n_warm_up)
        most = None if self._source is None else 3 * len(self._source.places) // 4
        window = window or usual_window(most, self.n_measured, n_warm_up)
        n_after = self.n_measured + (usual_warm_up(window) if n_warm_up is None else n_warm_up)
        n_before = _filling(window, None if most is None else most - n_after)
        recipe = Recipe(timed=window.is_by_time)
        return self.drawer()(recipe, given.subscriptions or SUBSCRIPTIONS, n_before + n_after), window

    @property
    def n_measured(self) -> int:
        """Return of how many messages the arrival is measured."""
        return self.given.messages or self.usual_messages

    def drawer(self) -> Callable[[Recipe, int, int], Workload]:
        """Return what makes a workload of a recipe and two sizes; a data file is read once."""
        from nearcast.bench.data.workloads import drawn_from, generated

        source = self._source
        if source is None:
            space = self.given.space or "plane"
            return lambda recipe, subscriptions, messages: generated(
                **self._asked(subscriptions, messages), space=space, recipe=recipe
            )
        return lambda recipe, subscriptions, messages: drawn_from(
            source, **self._asked(subscriptions, messages), recipe=recipe
        )

    def drawer_from(self, source: str) -> Callable[[Recipe, int, int], Workload]:
        """Return the same for another source."""
        return replace(self, given=replace(self.given, source=source)).drawer()

    def lacks(self, source: str) -> bool:
        """Tell whether there is no data file of that name."""
        if source == "synthetic":
            return False
        try:
            self._source_file(source)
        except UsageMistake:
            return True
        return False

    @cached_property
    def _source(self) -> DataFile | None:
        """Return the rows of the data file, None where the workload is generated."""
        from nearcast.bench.data.sources import read_source

        source = self.given.source
        return None if source in (None, "synthetic") else read_source(self._source_file(str(source)))

    def _asked(self, subscriptions: int, messages: int) -> dict[str, Any]:
        return {"kind": self.given.kind, "subscriptions": subscriptions, "messages": messages, "seed": self.given.seed}

    def _source_file(self, source: str) -> Path:
        return data_file("--source", source, self.given.data)


def _filling(window: Window, most: int | None) -> int:
    """Return how many messages come first, to fill the window: of a window of time several times, or all there are."""
    from nearcast.bench.data.workloads import GENERATED_PER_S
    from nearcast.bench.streams import TURNS

    if window.count is not None:
        return window.count
    assert window.length is not None
    return round(TURNS * window.length / 1e6 * GENERATED_PER_S) + 1 if most is None else max(1, most)


def data_file(option: str, name: str, data: Path | None) -> Path:
    """Return the path of a data file that an option names; a name without a folder is looked up."""
    if Path(name).exists():
        return Path(name)
    folders = data_folders(data)
    for folder in folders:
        for path in (folder / name, folder / f"{name}.parquet"):
            if path.is_file():
                return path
    tried = " or ".join(map(str, folders))
    raise UsageMistake(f"{option} {name}: there is no such file, nor {name}.parquet in {tried}")


def data_folders(data: Path | None) -> list[Path]:
    """Return where data files may lie: as given, else beside the folder we are in and the checkout we run from."""
    import nearcast

    if data is not None:
        return [data]

    checkout = Path(nearcast.__file__).parents[2]
    return list(dict.fromkeys(Path(base).resolve().parent / "shared" / "data" for base in (Path.cwd(), checkout)))
