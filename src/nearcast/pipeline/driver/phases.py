"""Wall-clock seconds of a batch by phase, from its input to its commit and what follows it."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class PhaseSeconds:
    """How long each phase of a batch took, in seconds of wall time."""

    #: Listing the input; rows of Kafka and DataFrames are encoded here as well. Known to a stream on Spark only.
    arrive: float = 0.0
    #: A rebalance, or another vocabulary, before the batch.
    ready: float = 0.0
    #: Reading, checking and encoding files.
    read: float = 0.0
    #: One order for all rows, and the registrar.
    order: float = 0.0
    #: The jobs of all partitions, with what a divided window was asked.
    match: float = 0.0
    #: Routes and the manifest.
    commit: float = 0.0
    #: Handing over to sinks, and removing what is no longer needed.
    publish: float = 0.0


#: Of a batch that nobody has timed.
NO_PHASES = PhaseSeconds()


class PhaseClock:
    """Measures one phase after the other, without a gap."""

    def __init__(self) -> None:
        self._began = self._last = time.perf_counter()
        self._seconds: dict[str, float] = {}

    def end(self, phase: str) -> None:
        """End a phase, named as a field of `PhaseSeconds`; the next one begins."""
        now = time.perf_counter()
        self._seconds[phase] = now - self._last
        self._last = now

    @property
    def total(self) -> float:
        """The seconds since it was made."""
        return time.perf_counter() - self._began

    @property
    def seconds(self) -> PhaseSeconds:
        """The phases that have ended."""
        return PhaseSeconds(**self._seconds)
