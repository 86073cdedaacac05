"""How long does a new user wait? Times the first screen of the README in fresh processes, with and without a cache.

Every process is a Python of its own. `import` is `import nearcast`; `cold` begins with an empty cache of kernels and
compiles; `warm` finds in the cache what `cold` left there. A process is timed from its start to its end.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from nearcast.bench.report import machine

#: What the README shows first. `tests/test_first_use.py` compares them.
FIRST_SCREEN = """\
from nearcast import Box, Circle, Hub, Message, Within

hub = Hub("earth")
hub.subscribe(Within("anna", "ipad (discount OR sale) AND NOT used", Box(13.30, 52.45, 13.50, 52.55)))
hub.subscribe(Within("bert", '"hot dog"', Circle(13.405, 52.52, 800)))  # metres

for delivery in hub.publish(Message("m1", "Big SALE: every iPad at half price", (13.40, 52.50))):
    print(delivery.subscription_id, "gets", delivery.message_id)

print(hub.explain(Message("m2", "the best hot dog in town", (13.42, 52.52)), "bert"))
"""
_IMPORT = "import nearcast"
_CASES = ("import", "cold", "warm")


def measure(repeats: int, tell: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Return the seconds of wall clock and of processor time of each case; the median of `repeats` runs."""
    cases: dict[str, list[tuple[float, float]]] = {name: [] for name in _CASES}
    for number in range(repeats):
        tell(f"run {number + 1} of {repeats}")
        with tempfile.TemporaryDirectory() as folder:
            _seconds(_IMPORT, folder)  # what is imported is read from disk and turned to bytecode once
            cases["import"].append(_seconds(_IMPORT, folder))
            cases["cold"].append(_seconds(FIRST_SCREEN, folder))
            cases["warm"].append(_seconds(FIRST_SCREEN, folder))
    return {"machine": machine(), "repeats": repeats} | {
        name: {
            "wall_s": statistics.median(wall for wall, _ in found),
            "cpu_s": statistics.median(cpu for _, cpu in found),
        }
        for name, found in cases.items()
    }


def _seconds(program: str, cache: str) -> tuple[float, float]:
    """Run a program in a fresh process; return its seconds on the wall and on the processor."""
    environment = os.environ | {"NEARCAST_CACHE_DIR": cache, "NEARCAST_CACHE": "1"}
    began, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, used


def lines_of(report: dict[str, Any]) -> list[str]:
    """Return a report as lines of Markdown."""
    on = report["machine"]
    rows = [f"| {name} | {report[name]['wall_s']:.2f} | {report[name]['cpu_s']:.2f} |" for name in _CASES]
    return [
        f"Machine: {on['cpu']}, {on['cores']} cores; Python {on['python']}, Numba {on['numba']}.",
        "",
        "| first screen of the README | wall s | CPU s |",
        "|---|---:|---:|",
        *rows,
    ]
