"""`nearcast bench peers`: what a user would take instead, raced on one workload."""

from __future__ import annotations

import shlex
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
    maven: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Repository of the jars; NEARCAST_MAVEN, else Maven's usual one."),
    ] = None,
    seed: SeedOption = 1,
    json_file: JsonFileOption = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for peers.png and peers.csv.")] = None,
) -> int:
    """Race what a user would take instead: databases, Lucene Monitor, an R-tree; answers are checked first."""
    from nearcast.bench.peers.registry import PEERS

    if only == "list":
        for peer in PEERS:
            stdout().print(f"{peer.name}: {peer.about}", highlight=False, markup=False, soft_wrap=True)
        return 0
    check_json(json_file)
    sizes, chosen = _sizes(subscriptions), _chosen(only)
    _check_rest(budget, out)
    given = {"subscriptions": subscriptions, "messages": messages, "source": source, "only": only}
    command = _command(given | {"budget": f"{budget:g}", "seed": seed, "out": out})
    choice = DataChoice(_arguments(sizes[-1], messages, source, data, seed, json_file, out), messages)
    report = _raced(choice, sizes, chosen, budget, maven, command)
    _print(report, out)
    write_json(report, json_file)
    return 0


def _raced(
    choice: DataChoice, sizes: list[int], chosen: list[type[Peer]], budget: float, maven: str | None, command: str
) -> dict[str, Any]:
    from nearcast.bench.peers.contract import PeerSettings
    from nearcast.bench.peers.run import QUESTION, PeerRequest, run_peers
    from nearcast.bench.report import machine

    with StepProgress() as steps:
        steps.begin("preparing the workload")
        workload = choice.workload()
        request = PeerRequest(sizes, chosen, budget, PeerSettings(maven))
        raced = run_peers(workload, request, steps.begin)
    about = {"question": QUESTION, **workload.about, "sizes": sizes, "budget_s": budget}
    about |= {"checked": raced["checked"], "command": command}
    return {"workload": about, "machine": machine(), "results": raced["results"]}


def _print(report: dict[str, Any], out: Path | None) -> None:
    from nearcast.bench.peers.picture import draw_peers
    from nearcast.bench.peers.report import print_peers

    print_peers(report, stdout())
    if out is None:
        return
    about, on = report["workload"], report["machine"]
    note = f"{about['messages']:,} messages, {about['source']}; {on['cores']} cores, {on['cpu']}; a core each"
    for path in draw_peers(report["results"], note, out):
        stdout().print(f"Written: {path}", highlight=False, markup=False, soft_wrap=True)


def _arguments(
    subscriptions: int,
    messages: int,
    source: str | None,
    data: Path | None,
    seed: int,
    json_file: Path | None,
    out: Path | None,
) -> BenchArguments:
    return BenchArguments(
        "peers",
        "within",
        workload=None,
        subscriptions=subscriptions,
        messages=messages,
        source=source,
        data=data,
        seed=seed,
        space=None,
        json_file=json_file,
        figure=None,
        scale=None,
        out=out,
    )


def _sizes(given: str) -> list[int]:
    """Return the numbers of a list such as 100000,1000000, from the smallest on."""
    try:
        sizes = sorted(int(each) for each in given.split(","))
    except ValueError:
        sizes = []
    if not sizes or sizes[0] < 1 or len(set(sizes)) < len(sizes):
        raise UsageMistake(f"--subscriptions {given}: give different numbers from 1 on, as in 100000,1000000")
    must_fit("--subscriptions", sizes[-1])
    return sizes


def _chosen(only: str | None) -> list[type[Peer]]:
    from nearcast.bench.peers.registry import PEERS

    if only is None:
        return list(PEERS)
    asked = [name for name in only.split(",") if name]
    there = {peer.name: peer for peer in PEERS}
    for name in asked:
        if name not in there:
            raise UsageMistake(f"--only {name}: there is no such peer; choose from {', '.join(there)}")
    if not asked:
        raise UsageMistake("--only names none; --only list shows them")
    return [there[name] for name in dict.fromkeys(asked)]


def _check_rest(budget: float, out: Path | None) -> None:
    from nearcast.bench.figures.plot import must_be_able_to_draw

    if not 0 < budget < float("inf"):
        raise UsageMistake(f"--budget {budget}: give a number of seconds above 0")
    if out is not None:
        if not out.is_dir():
            raise UsageMistake(f"--out {out}: there is no such folder; make it first")
        must_be_able_to_draw()


def _command(given: dict[str, Any]) -> str:
    words = ["nearcast", "bench", "peers"]
    for option, value in given.items():
        if value is not None:
            words += [f"--{option}", str(value)]
    return shlex.join(words)
