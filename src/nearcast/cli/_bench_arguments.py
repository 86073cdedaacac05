"""What a command of `nearcast bench` was given, as one value."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearcast.cli._console import UsageMistake

#: More subscriptions or messages do not fit into memory.
MOST_ROWS = 100_000_000
#: The options of the benchmarks of indexes, in the order in which a report repeats them.
_REPEATED = (
    "window",
    "warm_up",
    "threads",
    "indexes",
    "region_area",
    "max_distance",
    "max_distance_share",
    "churn",
    "sizes",
    "limit_s",
    "figure",
    "scale",
    "out",
)


@dataclass(frozen=True)
class BenchArguments:
    """The arguments of one of the benchmarks, named as its options; None or False is one that was not given.

    `bench` is the name of the command, `kind` that of the subscriptions it measures. The data and the report are
    options of all benchmarks; each takes some of the others.
    """

    bench: str
    kind: str
    workload: Path | None
    subscriptions: int | None
    messages: int | None
    source: str | None
    data: Path | None
    seed: int
    space: str | None
    json_file: Path | None
    figure: str | None
    scale: float | None
    out: Path | None
    indexes: str | None = None
    churn: bool = False
    region_area: str | None = None
    sizes: str | None = None
    limit_s: float | None = None
    resume: bool = False
    max_distance: float | None = None
    max_distance_share: float | None = None
    window: str | None = None
    warm_up: int | None = None
    threads: int | None = None
    window_mode: list[str] | None = None
    batch: int | None = None
    files: int | None = None
    plan: str = ""
    partitions: int | None = None
    master: str = ""
    with_steps: bool = True
    with_match: bool = True
    soak: str | None = None
    tiny: int | None = None
    kafka: str | None = None

    def __post_init__(self) -> None:
        for option, n in (("--subscriptions", self.subscriptions), ("--messages", self.messages)):
            must_fit(option, n or 1)

    def command(self, options: tuple[str, ...] = _REPEATED, **more: Any) -> str:
        """Return the command that repeats the run: the data, these options, and those given here."""
        given: dict[str, Any] = {
            "workload": self.workload,
            "subscriptions": self.subscriptions,
            "messages": self.messages,
            "source": self.source,
            "seed": None if self.workload is not None else self.seed,
            "space": self.space,
            **{name: getattr(self, name) for name in options},
            **more,
        }
        words = ["nearcast", "bench", self.bench]
        for option, value in given.items():
            if value is None or value is False:
                continue
            for each in value if isinstance(value, list) else [value]:
                words.append(f"--{option.replace('_', '-')}")
                words += [] if each is True else [str(each)]
        return shlex.join(words)


def must_fit(option: str, n: int) -> None:
    """Refuse more rows than fit."""
    if n > MOST_ROWS:
        raise UsageMistake(f"{option} {n}: more than {MOST_ROWS:,} do not fit; ask for fewer")
