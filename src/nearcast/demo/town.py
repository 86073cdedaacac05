"""A living town behind a real server on loopback: streets, people, messages and a page on which to watch them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from nearcast.demo.compiling import told_of_compiling
from nearcast.demo.streets import Streets, grid_streets

if TYPE_CHECKING:
    from nearcast.demo.town_life import TownLife
    from nearcast.server.settings import Settings

#: How long the town plays where nobody watches, and how much longer it waits for events that have not come.
PLAY_S, GRACE_S = 20.0, 120.0
#: Seconds that one call may take: the first ones wait for the compiler.
_CALL_S = 600.0
_TICK_S = 0.25


def has_server() -> bool:
    """Tell whether the packages of the server are installed."""
    try:
        import nearcast.server.run  # noqa: F401
    except ImportError:
        return False
    return True


def play(
    console: Console,
    *,
    seconds: float | None = None,
    seed: int = 1,
    on_open: Callable[[str], None] = lambda _: None,
    is_over: Callable[[], bool] = lambda: False,
) -> bool:
    """Run the town for some seconds, or until interrupted, and tell whether all events came that should have.

    `on_open` gets the address when people have moved in; the town ends early when `is_over` says so.
    """
    streets = grid_streets(np.random.default_rng([seed, 1]))
    with (
        tempfile.TemporaryDirectory(prefix="nearcast-town-", ignore_cleanup_errors=True) as folder,
        told_of_compiling(console),
        _signals_noted() as noted,
    ):
        overlay = Path(folder) / "streets.geojson"
        overlay.write_text(json.dumps(streets.geojson()))
        with _server(town_settings(Path(folder), overlay)) as url:
            life = _life(console, url, streets, seed, seconds, on_open, lambda: bool(noted) or is_over())
            return asyncio.run(life)


def town_settings(folder: Path, overlay: Path | None = None) -> Settings:
    """Return settings of a server for a town: any port, any disk, webhooks to this machine."""
    from nearcast.server.settings import load_settings

    given: dict[str, dict[str, Any]] = {
        "server": {"port": 0, "data": str(folder / "data"), "grace_seconds": 1.0},
        "hub": {"window": "500", "max_distance": 3000.0},
        "limits": {"free_bytes": 0},
        "webhooks": {"allow": ("127.0.0.1",)},
    }
    if overlay is not None:
        given["server"]["overlay"] = str(overlay)
    return load_settings(environment={}, given=given)


@contextlib.contextmanager
def _server(settings: Settings) -> Iterator[str]:
    """Serve in a thread, so that nothing is left should this process be killed; yields the address."""
    from nearcast.server.run import bound_socket, make_server

    server, ready = make_server(settings), threading.Event()
    socket = bound_socket(settings.server.host, settings.server.port)
    server.on_ready = ready.set
    thread = threading.Thread(target=server.run, args=([socket],), name="town-server", daemon=True)
    thread.start()
    try:
        while not ready.wait(_TICK_S):
            if not thread.is_alive():
                raise server.app.state.failure or RuntimeError("the server of the town did not start")
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        logging.getLogger("uvicorn.error").disabled = True  # streams that are cut off are no news to who ends the town
        server.should_exit = True
        thread.join()
        socket.close()


async def _life(
    console: Console,
    url: str,
    streets: Streets,
    seed: int,
    seconds: float | None,
    on_open: Callable[[str], None],
    is_over: Callable[[], bool],
) -> bool:
    """Let people move in and live until it is over; return whether nothing is missing."""
    from nearcast.client import AsyncClient
    from nearcast.demo.flaky_receiver import FlakyReceiver
    from nearcast.demo.town_life import TownLife

    async with AsyncClient(url, timeout=_CALL_S) as client, FlakyReceiver().running() as receiver:
        life = TownLife(client, streets, receiver, seed)
        with console.status("people move in; the first time, kernels are compiled for a minute or two"):
            if not await _ends_before(life.move_in(), is_over):
                return True
        until = "Ctrl-C ends it" if seconds is None else f"it plays {seconds:g} s"
        _say(console, f"[bold]A living town[/bold], {life.n_subscriptions} subscriptions; {until}. Watch it at {url}/")
        on_open(url)
        async with life.going_on() as failed:
            await _watch(console, life, seconds, lambda: is_over() or failed.done())
            if failed.done():
                failed.result()
    _say(console, f"  {life.tally}")
    missing = life.tally.missing() if seconds is not None else []
    for each in missing:
        _say(console, f"  [red]missing[/red]: {each}")
    return not missing or is_over()


async def _ends_before(work: Coroutine[Any, Any, None], is_over: Callable[[], bool]) -> bool:
    """Do some work and tell whether it came to its end; it is given up once it is over."""
    task = asyncio.ensure_future(work)
    while not task.done():
        if is_over():
            task.cancel()
        await asyncio.wait([task], timeout=_TICK_S)
    return not task.cancelled() and task.result() is None


async def _watch(console: Console, life: TownLife, seconds: float | None, is_over: Callable[[], bool]) -> None:
    """Show the counts until time is up and everything came, or the grace is up as well."""
    clock = asyncio.get_running_loop().time
    began = clock()
    with console.status("") as status:
        while not is_over():
            await asyncio.sleep(_TICK_S)
            status.update(str(life.tally))
            spent = clock() - began
            if seconds is not None and spent >= seconds and (not life.tally.missing() or spent >= seconds + GRACE_S):
                return


@contextlib.contextmanager
def _signals_noted() -> Iterator[list[int]]:
    """Note Ctrl-C and SIGTERM instead of raising anywhere: the town looks, ends, and leaves nothing behind."""
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    for each in before:
        signal.signal(each, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _say(console: Console, line: str) -> None:
    console.print(line, highlight=False, soft_wrap=True)
