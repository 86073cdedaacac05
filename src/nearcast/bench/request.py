"""What a benchmark is to measure, as one value for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nearcast.bench.data.distances import MaxDistance

if TYPE_CHECKING:
    from nearcast.spark.stream_options import WindowMode
    from nearcast.window import Window


@dataclass(frozen=True)
class BenchRequest:
    """What to measure on a workload, and how; a benchmark reads the fields of its kind.

    `indexes` are specifications in the order of the report, which repeats `command`. `space` is "earth" or "plane"
    where the columns do not tell it.
    """

    indexes: Sequence[str] = ()
    space: str | None = None
    command: str = ""
    #: Boolean and similar subscriptions: also match while some of them come and go.
    churn: bool = False
    #: Boolean ones: numbers of subscriptions, each measured, and how long an index may be built and asked there.
    sizes: Sequence[int] = ()
    limit_s: float = 60.0
    #: Similar and top-k ones: how far `near` reaches.
    max_distance: MaxDistance = field(default_factory=MaxDistance)
    #: Top-k ones: the window, how many arrivals are measured, and how many come before them; None: the usual number.
    window: Window | None = None
    n_measured: int = 0
    n_warm_up: int | None = None
    #: Threads of top-k arrivals, or of the local engine beside Spark.
    threads: int = 1
    #: On Spark: how subscriptions are spread, and whether steps are timed too.
    plan: str = "trigger"
    partitions: int = 1
    with_steps: bool = True
    #: Whether all messages are also matched at once, and by the local engine a second time.
    with_match: bool = True
    #: Where the stream holds the window: each is timed.
    window_modes: Sequence[WindowMode] = ("shared",)
    #: A topic of Kafka to time as well, None for none, and the records of a batch.
    topic: str | None = None
    batch: int = 0
