"""The Spark session of a benchmark: a local master, and how many tasks it runs at once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from nearcast.cli._console import UsageMistake

_LOCAL = re.compile(r"local\[(\d+|\*)(,\d+)?\]")


def slots_of(master: str, option: str = "--master") -> int:
    """Return how many tasks a local master runs at once; refuse any other."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        raise UsageMistake(
            f"{option} {master}: expected local[N], such as local[2]; a cluster is timed by its own logs"
        )
    slots = len(os.sched_getaffinity(0)) if found[1] == "*" else int(found[1])
    if not slots:
        raise UsageMistake(f"{option} {master}: expected one slot or more")
    return slots


def bench_session(master: str, settings: Mapping[str, str] | None = None) -> Any:
    """Start a session whose workers are warm, with these settings besides; a task that fails is tried again."""
    from nearcast.spark.session import session, warm

    started = session(master if "," in master else f"{master[:-1]},4]", app="nearcast bench", settings=settings)
    warm(started)
    return started
