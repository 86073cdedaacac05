"""Runs the rows in order: answers are compared first, then servers are started, loaded and killed."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nearcast.bench.aims import AimedFigure
from nearcast.bench.server.answers import check_events
from nearcast.bench.server.data_folders import make_folder, without_snapshot
from nearcast.bench.server.load_process import LoadProcess
from nearcast.bench.server.rows import LOADS, LOG_ALONE, NAMES, READY, figure_of_start
from nearcast.bench.server.server_process import ServerProcess
from nearcast.bench.server.workload import ServerSizes
from nearcast.errors import NearcastError


def run_server(
    sizes: ServerSizes,
    *,
    seed: int,
    command: str,
    only: str | None = None,
    folder: Path | None = None,
    begin: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Return the report of all rows, or of one; `begin` is called with what is done next."""
    own = Path(tempfile.mkdtemp(prefix="nearcast-bench-", dir=folder))
    try:
        names = NAMES if only is None else (only,)
        begin(f"making {sizes.subscriptions:,} subscriptions")
        data = make_folder(own / "data", sizes, seed)
        copy = without_snapshot(data, own / "log-alone") if LOG_ALONE in names else None
        with _load(sizes, seed) as load:
            n_compared, figures = _measure(data, names, load, begin, sizes, seed)
        if copy is not None:
            begin("starting from the log alone")
            figures.append(figure_of_start(LOG_ALONE, _ready_s(copy)))
        return {
            "command": command,
            **sizes.to_json(),
            "seed": seed,
            "events_compared": n_compared,
            "figures": [figure.to_json() for figure in figures],
        }
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _measure(
    data: Path,
    names: tuple[str, ...],
    load: LoadProcess,
    begin: Callable[[str], None],
    sizes: ServerSizes,
    seed: int,
) -> tuple[int, list[AimedFigure]]:
    """Return how many events were compared, and the figures of the rows on one data folder."""
    figures: list[AimedFigure] = []
    with _server(data, kills=READY in names) as server:
        begin("comparing answers")
        n_compared = check_events(load.run("compare", server), sizes, seed)
        if READY in names:
            begin("logging a minute")
            load.run("minute", server)
        else:
            figures += _loaded(names, load, server, begin)
    if READY in names:
        begin("starting with a minute of log")
        with _server(data) as server:
            figures.append(figure_of_start(READY, server.ready_s))
            figures += _loaded(names, load, server, begin)
    return n_compared, figures


def _loaded(
    names: tuple[str, ...], load: LoadProcess, server: ServerProcess, begin: Callable[[str], None]
) -> list[AimedFigure]:
    figures: list[AimedFigure] = []
    for name in LOADS:
        if name in names:
            begin(f"measuring {name}")
            try:
                figures += LOADS[name](load.run(name, server))
            except NearcastError as error:  # the other rows are worth their time
                figures.append(AimedFigure(f"failed: {error}", None, "", row=name))
    return figures


def _ready_s(data: Path) -> float:
    with _server(data, kills=True) as server:
        return server.ready_s


@contextlib.contextmanager
def _server(data: Path, *, kills: bool = False) -> Iterator[ServerProcess]:
    server = ServerProcess(data)
    try:
        yield server
    finally:
        server.end(kills=kills)


@contextlib.contextmanager
def _load(sizes: ServerSizes, seed: int) -> Iterator[LoadProcess]:
    load = LoadProcess(sizes, seed)
    try:
        yield load
    finally:
        load.end()
