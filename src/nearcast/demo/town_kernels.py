"""What a town needs, compiled in a process of its own while the evening is told: most machines have a second core.

`python -m nearcast.demo.town_kernels` lets a few people do once, on a hub of their own, all that they do in the town.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

if TYPE_CHECKING:
    from nearcast.demo.streets import Place
    from nearcast.durable import DurableHub

_LINE = "  compiling kernels of the town for this machine: up to a minute, the first time only"
_IS_OFF = "0"


@contextlib.contextmanager
def compiling(console: Console) -> Iterator[None]:
    """Compile during the `with` statement, and wait for the end of it afterwards; a line says so."""
    if os.environ.get("NUMBA_DISABLE_JIT", _IS_OFF) != _IS_OFF or os.environ.get("NEARCAST_CACHE") == _IS_OFF:
        yield  # nothing is compiled, or nothing kept
        return
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([sys.executable, "-m", __name__], stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        yield
        if process.poll() is None:
            console.print(_LINE, highlight=False, soft_wrap=True)
            process.wait()  # whether or not it went well: the town compiles what is missing
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Subscribe, publish and walk once, on the kind of hub that the town has."""
    from nearcast.demo.people import townspeople
    from nearcast.demo.streets import grid_streets
    from nearcast.demo.town import town_settings
    from nearcast.server.tenants import opened_hub

    streets = grid_streets(np.random.default_rng([1, 1]))
    people = townspeople(streets, np.random.default_rng([1, 2]))
    with tempfile.TemporaryDirectory(prefix="nearcast-kernels-", ignore_cleanup_errors=True) as folder:
        hub = opened_hub(Path(folder) / "hub", town_settings(Path(folder)))
        for person in people[:4]:
            for each in person.subscriptions:
                hub.subscribe(each, subscriber=person.name)
        walkers = [each for each in people[:4] if each.walks]
        for step in range(3):  # whoever has moved is held by another structure, and leaves its lists with the next move
            _publish(hub, streets.crossings[people[0].crossing + step], step)
            for person in walkers:
                hub.move_subscriber(person.name, streets.crossings[person.crossing + 1 + 3 * step])
        hub.beat()
        hub.close()


def _publish(hub: DurableHub, place: Place, step: int) -> None:
    """Publish a few messages at a crossing, each alone, as the server does."""
    expires = datetime.now(UTC) + timedelta(minutes=5)
    for n, text in enumerate(("ramen", "free jazz concert tonight", "used lamp on sale, half the price")):
        post = {"id": f"{step}-{n}", "text": text, "lon": place[0], "lat": place[1], "expires": expires}
        hub.publish_many([post])


if __name__ == "__main__":
    main()
