"""The rows of the report: what was measured, beside what the project aims at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: A stalled client or dead endpoints leave at least this share to the others.
_SHARE = 0.9


@dataclass(frozen=True)
class ServerFigure:
    """A number of a row; `aim` is the least it should be, or with `is_most` the most, None where there is no aim."""

    row: str
    name: str
    value: float | None
    unit: str
    aim: float | None = None
    is_most: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the figure as the report has it."""
        value = None if self.value is None else round(self.value, 3)
        found = {"row": self.row, "figure": self.name, "value": value, "unit": self.unit}
        if self.aim is None:
            return found
        met = None if value is None else value <= self.aim if self.is_most else value >= self.aim
        return {**found, "aim": self.aim, "aim_is": "at most" if self.is_most else "at least", "is_met": met}


def figures_of_singles(found: dict[str, Any]) -> list[ServerFigure]:
    """Return the figures of single publishes."""
    return [
        ServerFigure("singles", "publishes", found["per_s"], "/s", 2_000),
        ServerFigure("singles", "to the event, p50", found["p50_ms"], "ms"),
        ServerFigure("singles", "to the event, p99", found["p99_ms"], "ms", 50, is_most=True),
    ]


def figures_of_streams(found: dict[str, Any]) -> list[ServerFigure]:
    """Return the figures of open streams."""
    alone, beside = found["alone"], found["beside_stalled"]
    size, opened = found["bytes"], found["bytes_open"]
    each = None if opened is None else (opened - found["bytes_before"]) / max(found["streams"], 1) / 1e3
    share = beside["per_s"] / alone["per_s"] if alone["per_s"] else None
    return [
        ServerFigure("streams", "streams open", found["streams"], ""),
        ServerFigure("streams", "memory of the server", None if size is None else size / 1e9, "GB", 1.5, is_most=True),
        ServerFigure("streams", "memory a stream", each, "kB"),
        ServerFigure("streams", "events", alone["per_s"], "/s", found["streams"]),
        ServerFigure("streams", "to the event, p50", alone["p50_ms"], "ms"),
        ServerFigure("streams", "to the event, p99", alone["p99_ms"], "ms", 500, is_most=True),
        ServerFigure("streams", "events beside a stalled client", share, "of those alone", _SHARE),
        ServerFigure("streams", "to the event beside it, p99", beside["p99_ms"], "ms", 500, is_most=True),
    ]


def figures_of_webhooks(found: dict[str, Any]) -> list[ServerFigure]:
    """Return the figures of webhooks."""
    share = found["per_s_beside_dead"] / found["per_s"] if found["per_s"] else None
    return [
        ServerFigure("webhooks", "webhooks", found["per_s"], "/s", 500),
        ServerFigure("webhooks", "beside dead endpoints", share, "of those alone", _SHARE),
    ]


def figures_of_resume(found: dict[str, Any]) -> list[ServerFigure]:
    """Return the figures of subscribers that resume."""
    return [
        ServerFigure("resume", "deliveries published", found["deliveries"], ""),
        ServerFigure("resume", "missed by each", found["missed"], ""),
        ServerFigure("resume", "to the last of them, median", found["median_ms"], "ms"),
        ServerFigure("resume", "to the last of them, slowest", found["largest_ms"], "ms", 200, is_most=True),
    ]


def _rate(row: str, name: str, aim: float) -> Callable[[dict[str, Any]], list[ServerFigure]]:
    return lambda found: [ServerFigure(row, name, found["per_s"], "/s", aim)]


#: What makes figures of the answer of the load generator's job of the same name, in the order of the report.
LOADS: dict[str, Callable[[dict[str, Any]], list[ServerFigure]]] = {
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


def figure_of_start(row: str, seconds: float) -> ServerFigure:
    """Return the figure of a start."""
    if row == READY:
        return ServerFigure(row, "ready with a minute of log", seconds, "s", 10, is_most=True)
    return ServerFigure(row, "ready from the log alone", seconds, "s", 90, is_most=True)
