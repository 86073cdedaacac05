"""`nearcast bench peers`: what a user would take instead, raced on one workload."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._bench_arguments import BenchArguments, must_fit
from nearcast.cli._bench_data import DataChoice, DataOption, SourceOption
from nearcast.cli._bench_options import JsonFileOption, check_json, write_json
from nearcast.cli._console import StepProgress, UsageMistake, stdout
from nearcast.cli._options import SeedOption

if TYPE_CHECKING:
    from nearcast.bench.peers.contract import Peer


def peers(
    subscriptions: Annotated[
        str, typer.Option(metavar="N[,N]", help="How many boolean subscriptions; several numbers are several tables.")
    ] = "100000",
    messages: Annotated[int, typer.Option(min=1, help="How many messages.")] = 1_000,
    source: SourceOption = None,
    data: DataOption = None,
    only: Annotated[
        str | None, typer.Option(metavar="A,B", help="Peers to measure; list shows them. All unless given.")
    ] = None,
    budget: Annotated[
        float, typer.Option(metavar="S", help="Seconds that a peer may take to load, and to be asked.")
    ] = 120.0,
    topk: Annotated[
        int, typer.Option("--topk", min=1, metavar="N", help="How many subscriptions the race of top-k answers has.")
    ] = 10_000,
    window: Annotated[int, typer.Option(min=1, help="Of top-k: how many messages the window holds.")] = 10_000,
    k: Annotated[int, typer.Option("--k", min=1, max=1000, help="Of top-k: how many messages a list has.")] = 20,
    rate: Annotated[int, typer.Option(min=1, help="Of top-k: how many messages come in a second.")] = 1_000,
    maven: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Repository of the jars; NEARCAST_MAVEN, else Maven's usual one."),
    ] = None,
    seed: SeedOption = 1,
    json_file: JsonFileOption = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for peers.png and peers.csv.")] = None,
) -> int:
    """Race what a user would take instead: databases, Lucene Monitor, an R-tree; answers are checked first."""
    if only == "list":
        return _list()
    given = PeerArguments(**locals())
    check_json(json_file)
    _check(given)
    report = _raced(given)
    _print(report, out)
    write_json(report, json_file)
    return 0


@dataclass(frozen=True)
class PeerArguments:
    """The arguments of the command, named as its options."""

    subscriptions: str
    messages: int
    source: str | None
    data: Path | None
    only: str | None
    budget: float
    topk: int
    window: int
    k: int
    rate: int
    maven: str | None
    seed: int
    json_file: Path | None
    out: Path | None

    @property
    def sizes(self) -> list[int]:
        """Return the numbers of a list such as 100000,1000000, from the smallest on."""
        try:
            sizes = sorted(int(each) for each in self.subscriptions.split(","))
        except ValueError:
            sizes = []
        if not sizes or sizes[0] < 1 or len(set(sizes)) < len(sizes):
            raise UsageMistake(
                f"--subscriptions {self.subscriptions}: give different numbers from 1 on, as in 100000,1000000"
            )
        must_fit("--subscriptions", sizes[-1])
        return sizes

    @property
    def names(self) -> list[str]:
        """Return what was asked for: peers, and the race of top-k answers."""
        from nearcast.bench.peers.registry import PEERS, TOPK

        there = [*(peer.name for peer in PEERS), TOPK]
        if self.only is None:
            return there
        asked = [name for name in self.only.split(",") if name]
        for name in asked:
            if name not in there:
                raise UsageMistake(f"--only {name}: there is no such peer; choose from {', '.join(there)}")
        if not asked:
            raise UsageMistake("--only names none; --only list shows them")
        return list(dict.fromkeys(asked))

    @property
    def command(self) -> str:
        """Return the command that repeats the run; the data, the budget and what was asked for."""
        words = ["nearcast", "bench", "peers"]
        for option in ("subscriptions", "messages", "source", "only", "budget", "topk", "window", "k", "rate", "seed"):
            value = getattr(self, option)
            if value is not None:
                words += [f"--{option}", f"{value:g}" if isinstance(value, float) else str(value)]
        return shlex.join(words)

    def choice(self, kind: str, subscriptions: int, messages: int) -> DataChoice:
        """Return the data of a race."""
        arguments = BenchArguments(
            bench="peers",
            kind=kind,
            workload=None,
            subscriptions=subscriptions,
            messages=messages,
            source=self.source,
            data=self.data,
            seed=self.seed,
            space=None,
            json_file=self.json_file,
            figure=None,
            scale=None,
            out=self.out,
        )
        return DataChoice(arguments, messages)


def _list() -> int:
    from nearcast.bench.peers.registry import PEERS, TOPK, TOPK_ABOUT

    for name, about in (*((peer.name, peer.about) for peer in PEERS), (TOPK, TOPK_ABOUT)):
        stdout().print(f"{name}: {about}", highlight=False, markup=False, soft_wrap=True)
    return 0


def _check(given: PeerArguments) -> None:
    """Refuse, before any work is done, what cannot be done."""
    from nearcast.bench.figures.plot import must_be_able_to_draw

    _ = given.sizes, given.names
    if not 0 < given.budget < float("inf"):
        raise UsageMistake(f"--budget {given.budget}: give a number of seconds above 0")
    for option, n in (("--topk", given.topk), ("--window", given.window), ("--rate", given.rate)):
        must_fit(option, n)
    if given.out is not None:
        if not given.out.is_dir():
            raise UsageMistake(f"--out {given.out}: there is no such folder; make it first")
        must_be_able_to_draw()


def _raced(given: PeerArguments) -> dict[str, Any]:
    """Run the races that were asked for; return their report."""
    from nearcast.bench.peers.registry import PEERS, TOPK
    from nearcast.bench.peers.run import QUESTION
    from nearcast.bench.report import machine

    about: dict[str, Any] = {"question": QUESTION, "command": given.command}
    report: dict[str, Any] = {"workload": about, "machine": machine(), "results": []}
    chosen = [peer for name in given.names for peer in PEERS if peer.name == name]
    with StepProgress() as steps:
        if chosen:
            report |= _raced_peers(given, chosen, about, steps)
        if TOPK in given.names:
            report["topk"] = _raced_topk(given, steps)
    return report


def _raced_peers(
    given: PeerArguments, chosen: list[type[Peer]], about: dict[str, Any], steps: StepProgress
) -> dict[str, Any]:
    from nearcast.bench.peers.contract import PeerSettings
    from nearcast.bench.peers.run import PeerRequest, run_peers

    steps.begin("preparing the workload")
    workload = given.choice("within", given.sizes[-1], given.messages).workload()
    request = PeerRequest(given.sizes, chosen, given.budget, PeerSettings(given.maven))
    raced = run_peers(workload, request, steps.begin)
    more = {"sizes": given.sizes, "budget_s": given.budget, "checked": raced["checked"]}
    return {"workload": about | workload.about | more, "results": raced["results"]}


def _raced_topk(given: PeerArguments, steps: StepProgress) -> dict[str, Any]:
    from nearcast.bench.data.recipe import Recipe
    from nearcast.bench.peers.topk_race import TopkRequest, run_topk_race

    steps.begin("preparing the top-k workload")
    request = TopkRequest(given.window, given.rate, given.budget)
    workload = given.choice("topk", given.topk, request.n_messages).workload(Recipe(k=given.k))
    return run_topk_race(workload, request, steps.begin)


def _print(report: dict[str, Any], out: Path | None) -> None:
    from nearcast.bench.peers.picture import draw_peers
    from nearcast.bench.peers.report import print_peers

    print_peers(report, stdout())
    if out is None or not report["results"]:
        return
    about, on = report["workload"], report["machine"]
    note = f"{about['messages']:,} messages, {about['source']}; {on['cores']} cores, {on['cpu']}; a core each"
    for path in draw_peers(report["results"], note, out):
        stdout().print(f"Written: {path}", highlight=False, markup=False, soft_wrap=True)
