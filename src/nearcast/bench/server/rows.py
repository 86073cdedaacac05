"""The rows of the report: what was measured, beside what the project aims at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nearcast.bench.aims import Aim, AimedFigure

#: A stalled client or dead endpoints leave at least this share to the others.
_SHARE = 0.9


def figures_of_singles(found: dict[str, Any]) -> list[AimedFigure]:
    """Return the figures of single publishes."""
    return [
        AimedFigure("publishes", found["per_s"], "/s", Aim.at_least(2_000), row="singles"),
        AimedFigure("to the event, p50", found["p50_ms"], "ms", row="singles"),
        AimedFigure("to the event, p99", found["p99_ms"], "ms", Aim.at_most(50), row="singles"),
    ]


def figures_of_streams(found: dict[str, Any]) -> list[AimedFigure]:
    """Return the figures of open streams."""
    alone, beside = found["alone"], found["beside_stalled"]
    size, opened = found["bytes"], found["bytes_open"]
    each = None if opened is None else (opened - found["bytes_before"]) / max(found["streams"], 1) / 1e3
    share = beside["per_s"] / alone["per_s"] if alone["per_s"] else None
    return [
        AimedFigure("streams open", found["streams"], "", row="streams"),
        AimedFigure(
            "memory of the server", None if size is None else size / 1e9, "GB", Aim.at_most(1.5), row="streams"
        ),
        AimedFigure("memory a stream", each, "kB", row="streams"),
        AimedFigure("events", alone["per_s"], "/s", Aim.at_least(found["streams"]), row="streams"),
        AimedFigure("to the event, p50", alone["p50_ms"], "ms", row="streams"),
        AimedFigure("to the event, p99", alone["p99_ms"], "ms", Aim.at_most(500), row="streams"),
        AimedFigure("events beside a stalled client", share, "of those alone", Aim.at_least(_SHARE), row="streams"),
        AimedFigure("to the event beside it, p99", beside["p99_ms"], "ms", Aim.at_most(500), row="streams"),
    ]


def figures_of_webhooks(found: dict[str, Any]) -> list[AimedFigure]:
    """Return the figures of webhooks."""
    share = found["per_s_beside_dead"] / found["per_s"] if found["per_s"] else None
    return [
        AimedFigure("webhooks", found["per_s"], "/s", Aim.at_least(500), row="webhooks"),
        AimedFigure("beside dead endpoints", share, "of those alone", Aim.at_least(_SHARE), row="webhooks"),
    ]


def figures_of_resume(found: dict[str, Any]) -> list[AimedFigure]:
    """Return the figures of subscribers that resume."""
    return [
        AimedFigure("deliveries published", found["deliveries"], "", row="resume"),
        AimedFigure("missed by each", found["missed"], "", row="resume"),
        AimedFigure("to the last of them, median", found["median_ms"], "ms", row="resume"),
        AimedFigure("to the last of them, slowest", found["largest_ms"], "ms", Aim.at_most(200), row="resume"),
    ]


def _rate(row: str, name: str, aim: float) -> Callable[[dict[str, Any]], list[AimedFigure]]:
    return lambda found: [AimedFigure(name, found["per_s"], "/s", Aim.at_least(aim), row=row)]


#: What makes figures of the answer of the load generator's job of the same name, in the order of the report.
LOADS: dict[str, Callable[[dict[str, Any]], list[AimedFigure]]] = {
    "singles": figures_of_singles,
    "lines": _rate("lines", "messages by NDJSON", 20_000),
    "arrow": _rate("arrow", "messages as Arrow", 40_000),
    "locations": _rate("locations", "locations in batches", 10_000),
    "streams": figures_of_streams,
    "webhooks": figures_of_webhooks,
    "resume": figures_of_resume,
}
READY, LOG_ALONE = "ready", "log-alone"
#: The names of all rows.
NAMES = (READY, *LOADS, LOG_ALONE)


def figure_of_start(row: str, seconds: float) -> AimedFigure:
    """Return the figure of a start."""
    if row == READY:
        return AimedFigure("ready with a minute of log", seconds, "s", Aim.at_most(10), row=row)
    return AimedFigure("ready from the log alone", seconds, "s", Aim.at_most(90), row=row)
