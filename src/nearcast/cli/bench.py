"""`nearcast bench`: time the indexes, having checked their answers."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._console import Steps, UsageMistake, stdout
from nearcast.cli._options import SeedOption, SpaceOption

if TYPE_CHECKING:
    from nearcast.bench.workloads import Workload

SUBSCRIPTIONS, MESSAGES = 100_000, 5_000

app = typer.Typer(help="Time the indexes; the answers are checked first.")


@app.callback()
def bench() -> None:
    """Time the indexes; the answers are checked first."""


@app.command("boolean")
def boolean(
    workload: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder with subscriptions.parquet and messages.parquet; else generated."),
    ] = None,
    subscriptions: Annotated[int | None, typer.Option(min=1, help=f"How many; {SUBSCRIPTIONS:,} unless given.")] = None,
    messages: Annotated[int | None, typer.Option(min=1, help=f"How many; {MESSAGES:,} unless given.")] = None,
    indexes: Annotated[
        str, typer.Option(metavar="A,B", help="Indexes, in the order of the report; options as NAME:KEY=VALUE.")
    ] = "trigger,scan",
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the report here.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="Draw the workload from a data file; a NAME is looked up in --data."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of data files; ../shared/data where it exists.")
    ] = None,
    seed: SeedOption = 1,
    space: SpaceOption = None,
    churn: Annotated[
        bool, typer.Option("--churn", help="Also match while 10,000 subscriptions a second come and go.")
    ] = False,
) -> int:
    """Time boolean matching: index, hub, and with --churn matching under change."""
    from nearcast.bench.report import print_report
    from nearcast.bench.run import run_boolean

    names = split_indexes(indexes)
    if json_file is not None and not json_file.resolve().parent.is_dir():
        raise UsageMistake(f"--json {json_file}: there is no folder {json_file.parent}; make it first")
    choice = _Choice(workload, subscriptions, messages, source, data, seed, space)
    with Steps() as steps:
        steps.begin("preparing the workload")
        command = choice.command(indexes, churn=churn)
        report = run_boolean(choice.workload(), names, space=space, command=command, churn=churn, say=steps.begin)
    print_report(report, stdout())
    if json_file is not None:
        json_file.write_text(json.dumps(report, indent=2) + "\n")
    return 0


def split_indexes(given: str) -> list[str]:
    """Return the specifications of a list such as `trigger:few=4,leaf_rows=2000,scan`; each must be known."""
    from nearcast.geo import Space
    from nearcast.indexes import create

    specs: list[str] = []
    for piece in filter(None, given.split(",")):
        if specs and "=" in piece and ":" not in piece:
            specs[-1] += f",{piece}"  # a further option of the index before
        else:
            specs.append(piece)
    if not specs:
        raise UsageMistake("--indexes names none; nearcast indexes lists them")
    if len(set(specs)) < len(specs):
        raise UsageMistake(f"--indexes {given} names one twice; name each once")
    for spec in specs:
        create(spec, Space.plane())
    return specs


@dataclass(frozen=True)
class _Choice:
    """Which data to take, as far as the command line says it."""

    folder: Path | None
    subscriptions: int | None
    messages: int | None
    source: str | None
    data: Path | None
    seed: int
    space: str | None

    def workload(self) -> Workload:
        """Open, draw or generate the workload."""
        from nearcast.bench import workloads

        if self.folder is not None:
            if self.source or self.subscriptions or self.messages:
                raise UsageMistake("--workload is a whole workload; leave out --source, --subscriptions and --messages")
            return workloads.open_workload(self.folder)
        size = {"subscriptions": self.subscriptions or SUBSCRIPTIONS, "messages": self.messages or MESSAGES}
        size["seed"] = self.seed
        if self.source is not None:
            return workloads.drawn_from(self._source_file(self.source), kind="within", **size)
        return workloads.generated(kind="within", space=self.space or "plane", **size)

    def _source_file(self, source: str) -> Path:
        if Path(source).exists():
            return Path(source)
        folders = [self.data] if self.data is not None else _data_folders()
        for folder in folders:
            for path in (folder / source, folder / f"{source}.parquet"):
                if path.is_file():
                    return path
        tried = " or ".join(map(str, folders))
        raise UsageMistake(f"--source {source}: there is no such file, nor {source}.parquet in {tried}")

    def command(self, indexes: str, *, churn: bool) -> str:
        """Return the command that repeats the run."""
        given: dict[str, Any] = {
            "--workload": self.folder,
            "--subscriptions": self.subscriptions,
            "--messages": self.messages,
            "--source": self.source,
            "--indexes": indexes,
            "--seed": None if self.folder is not None else self.seed,
            "--space": self.space,
        }
        words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        return shlex.join(["nearcast", "bench", "boolean", *words, *(["--churn"] if churn else [])])


def _data_folders() -> list[Path]:
    """Return where data files may lie: beside the folder we are in, and beside the checkout we run from."""
    import nearcast

    checkout = Path(nearcast.__file__).parents[2]
    return list(dict.fromkeys(Path(base).resolve().parent / "shared" / "data" for base in (Path.cwd(), checkout)))
