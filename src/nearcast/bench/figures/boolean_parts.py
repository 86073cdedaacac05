"""What the figures of boolean subscriptions have in common: their panels, their data, how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nearcast.bench.data.workloads import Recipe
from nearcast.bench.figures.figure import Figure, Panel, Point, Series
from nearcast.bench.figures.race import race

TIME = Panel("us_per_message", "µs per message", is_log=True)
CANDIDATES = Panel("candidates_per_message", "entries looked at per message", is_log=True)
VERIFIED = Panel("verified_per_message", "verified per message", is_log=True)
MATCHES = Panel("matches_per_message", "matches per message", is_common=True)
BUILD = Panel("build_s", "seconds to build", is_log=True)
BYTES = Panel("bytes_per_subscription", "bytes per subscription")

CHECKED = (
    "all indexes agree on every message that several were asked, and with scan on a sample; the column messages of the"
    " CSV tells how many each was asked"
)

#: Regions take up 0.01 % to 1 % of the space, as in the AP-Tree paper.
AREA = (0.0001, 0.01)
USUAL = Recipe(region_area=AREA)


def boolean_figure(
    name: str, paper: str, title: str, x_label: str, points: Sequence[Point], series: Sequence[Series], **more: Any
) -> Figure:
    """Return a figure that races its series at each point."""
    usual: dict[str, Any] = {
        "panels": (TIME, CANDIDATES, VERIFIED, MATCHES),
        "measure": race,
        "checked": CHECKED,
        "subscriptions": 100_000,
        "messages": 1_000,
    }
    return Figure(name=name, paper=paper, title=title, x_label=x_label, points=points, series=series, **usual | more)


def named(*specs: str) -> tuple[Series, ...]:
    """Return series that are called as their indexes are."""
    return tuple(Series(spec, spec) for spec in specs)
