"""The table of a race as one picture: bars a peer at each size, for all at once, singly and loading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nearcast.bench.figures.figure import Figure, Panel, Point, Row, Series
from nearcast.bench.figures.plot import write_figure
from nearcast.bench.peers.race import MEASURED

_PANELS = (
    Panel("us_per_message", "µs a message, all at once", is_log=True),
    Panel("p50_us", "µs a message, one by one (median)", is_log=True),
    Panel("load_s", "s to load", is_log=True),
)
_COLUMNS = ("load_s", "us_per_message", "p50_us", "p99_us", "messages", "version")


def draw_peers(results: Sequence[dict[str, Any]], note: str, folder: Path) -> list[Path]:
    """Write `peers.png` and `peers.csv` into a folder and return their paths; none where nothing was measured."""
    rows = [_row(result) for result in results if result["state"] == MEASURED]
    if not rows:
        return []
    names = list(dict.fromkeys(row["series"] for row in rows))
    figure = Figure(
        name="peers",
        paper="words inside a box",
        title="What a user would take instead",
        x_label="subscriptions",
        points=[Point(x) for x in dict.fromkeys(row["x"] for row in rows)],
        series=[Series(name, name) for name in names],
        panels=_PANELS,
        measure=_measured_before,
    )
    return write_figure(figure, rows, note, folder, "peers")


def _row(result: dict[str, Any]) -> Row:
    head = {"x": f"{result['subscriptions']:,}", "series": result["peer"]}
    return head | {name: result[name] for name in _COLUMNS}


def _measured_before(*_: Any) -> Iterator[Row]:
    """Yield nothing: the rows of this figure come from the race."""
    yield from ()
