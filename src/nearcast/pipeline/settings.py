"""Settings that a stream begins with and keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nearcast.engine.lifetime import Lifetime
from nearcast.errors import InvalidInput, Remedy
from nearcast.geo import Space
from nearcast.indexes import DEFAULT_INDEX
from nearcast.text import Analyzer
from nearcast.window import Window

#: How columns are renamed, in the reasons of rejected files: those who read them began with a command, or in Python.
RENAMING = {
    Remedy.NAME_COLUMN: ", --map {field}=NAME or renames={{'{field}': 'NAME'}}",
    Remedy.RENAME_COLUMN: ", --map NAME={field} or renames={{'NAME': '{field}'}}",
}


@dataclass(frozen=True)
class PipelineSettings:
    """How messages and subscriptions are read and matched; the same in every process of a stream.

    `max_distance` is for scored subscriptions that give none. `renames` is {new: old}, of columns on the way in.
    """

    space: Space
    analyzer: Analyzer = field(default_factory=Analyzer)
    index: str = DEFAULT_INDEX
    window: Window | None = None
    max_distance: float | None = None
    plan: str = "trigger"
    partitions: int = 1
    renames: dict[str, str] = field(default_factory=dict)
    #: Parts that the window is divided into; 0: every partition holds the whole of it.
    window_parts: int = 0
    #: Whether the workers of a host share one window, which is its one part: see `host_window`.
    window_by_host: bool = False
    #: How long messages live; None: they are instants. Every partition holds all that live.
    lifetime: Lifetime | None = None
    tell_expiry: bool = False

    def __post_init__(self) -> None:
        if self.window_parts and self.window is None:
            raise InvalidInput(
                f"the window is to be divided into {self.window_parts} parts, and there is none; give one, such as 15m"
                if not self.window_by_host
                else "workers are to share a window, and there is none; give one, such as 15m",
                field="window",
            )
        if self.window_by_host and self.window_parts != 1:
            raise InvalidInput(
                f"the window is to be held once for each host, and divided into {self.window_parts} parts; expected 1",
                field="window_parts",
            )
        if self.tell_expiry and self.lifetime is None:
            raise InvalidInput("tell_expiry needs a lifetime: without one no message expires", field="tell_expiry")

    @property
    def has_steps(self) -> bool:
        """Tell whether every change is a step, as every message is."""
        return self.window is not None or self.lifetime is not None

    @property
    def has_clock_steps(self) -> bool:
        """Tell whether a report that moves event time makes that a step of its own: it slides a window of time."""
        return self.lifetime is not None and self.window is not None and self.window.is_by_time

    @property
    def tells_ticks(self) -> bool:
        """Tell whether answers change by event time alone, wherever it was moved."""
        return self.has_clock_steps or self.tell_expiry

    def fingerprint(self) -> dict[str, Any]:
        """Return what a checkpoint is compared by, as JSON has it."""
        analyzer = self.analyzer.to_json()
        names = ("language", "stem", "stop_words", "segmenter")
        return {
            "space": self.space.kind,
            "window": None if self.window is None else str(self.window),
            "lifetime": None if self.lifetime is None else str(self.lifetime),
            "tell_expiry": self.tell_expiry or None,
            "index": self.index,
            "max_distance": self.max_distance,
            **{name: analyzer[name] for name in names},
            "rules_of_words": analyzer["rules"],
        }
