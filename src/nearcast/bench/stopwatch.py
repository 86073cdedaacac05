"""CPU time by phase: what a message costs in the index, in the buffers, in searches of the window."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearcast.engine import State

#: Finding whom a message concerns; putting it into buffers and taking others out; searching the window for buffers that
#: ran dry; telling the index of thresholds; keeping the messages themselves. What is left is called other.
PHASES = ("match", "buffers", "searches", "thresholds", "window", "other")


class Stopwatch:
    """Seconds of CPU time of this process by phase; a phase within another one does not count for that one.

    `watch` puts it between the parts of an engine with top-k subscriptions. What no other phase takes is `other`.
    """

    def __init__(self, phases: Sequence[str] = PHASES) -> None:
        self.seconds = dict.fromkeys(phases, 0.0)
        self._open: list[str] = []
        self._since = 0.0

    def watch(self, state: State) -> None:
        """Time the parts of an engine from now on."""
        topk = state.topk
        assert topk is not None
        for owner, method, phase in (
            (state.index, "match", "match"),
            (state.index, "set_thresholds", "thresholds"),
            (topk, "_walk", "buffers"),
            (topk, "_search_for_short", "searches"),
            (topk.messages, "append", "window"),
            (topk.messages, "drop_before", "window"),
        ):
            self.watch_call(owner, method, phase)

    def watch_call(self, owner: Any, method: str, phase: str) -> None:
        """Count the calls of a method of one object for a phase from now on."""
        setattr(owner, method, self._timed(getattr(owner, method), phase))

    def measured(self, work: Callable[[], Any]) -> Any:
        """Return what a call returns, having timed it."""
        return self._timed(work, "other")()

    @property
    def total(self) -> float:
        """Return the seconds of all phases."""
        return sum(self.seconds.values())

    def _timed(self, work: Callable[..., Any], phase: str) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            self._begin(phase)
            try:
                return work(*arguments, **options)
            finally:
                self._end()

        return timed

    def _begin(self, phase: str) -> None:
        self._note()
        self._open.append(phase)

    def _end(self) -> None:
        self._note()
        self._open.pop()

    def _note(self) -> None:
        """Give the time since the last note to the phase under way."""
        now = time.process_time()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now
