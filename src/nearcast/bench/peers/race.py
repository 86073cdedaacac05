"""Measures one peer at one size within a budget: what would take longer is skipped, with an estimate."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.bench.limits import Expectation
from nearcast.bench.peers.contract import Peer, PeerFailed, PeerSettings
from nearcast.bench.timing import PASSES, spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.peers.contract import TimedPairs
    from nearcast.bench.peers.reference import Reference
    from nearcast.bench.peers.workload import PeerWorkload

#: A peer is first loaded with such a share of the subscriptions, where that is not too few to tell anything.
TRIAL_SHARE, FEWEST_TRIAL = 0.1, 5_000
#: Messages asked first, to see how long one takes; and the fewest that a time is told of.
TRIAL_MESSAGES, FEWEST_MESSAGES = 5, 10
#: What became of a peer.
MEASURED, MISSING, SKIPPED, DISAGREES, FAILED = "measured", "missing", "skipped", "disagrees", "failed"
_FIGURES = ("load_s", "messages", "us_per_message", "p50_us", "p99_us", "matches_per_message", "digest")


class OverBudget(Exception):
    """Measuring a peer would take longer than it may; the message says how long."""


@dataclass
class Contestant:
    """A peer over several sizes: what loading it took before tells what the next size will take."""

    kind: type[Peer]
    settings: PeerSettings
    budget_s: float

    def __post_init__(self) -> None:
        self._expected = Expectation(self.budget_s, self._limit)
        self._version: str | None = None

    @property
    def _limit(self) -> str:
        return f"the budget is --budget {self.budget_s:g}"

    def row(self, workload: PeerWorkload, reference: Reference) -> dict[str, Any]:
        """Return what was measured, or why nothing was."""
        n = len(workload.subscriptions)
        row: dict[str, Any] = {"peer": self.kind.name, "subscriptions": n, "version": None, "state": MEASURED}
        row |= dict.fromkeys(_FIGURES) | {"note": None}
        peer = self.kind(self.settings)
        try:
            why = peer.why_missing()
            if why is not None:
                return row | {"state": MISSING, "note": why}
            self._version = self._version or peer.version()
            row["version"] = self._version
            self._must_be_affordable(workload)
            return row | self._measured(peer, workload, reference)
        except OverBudget as error:
            return row | {"state": SKIPPED, "note": str(error)}
        except (PeerFailed, OSError, MemoryError) as error:
            return row | {"state": FAILED, "note": " ".join(str(error).split()) or type(error).__name__}
        finally:
            peer.close()

    def _must_be_affordable(self, workload: PeerWorkload) -> None:
        """Raise `OverBudget` where loading all would take too long, going by a smaller size or by a part of this."""
        n = len(workload.subscriptions)
        part = int(n * TRIAL_SHARE)
        if not self._expected.known and part >= FEWEST_TRIAL:
            trial = self.kind(self.settings)
            try:
                trial.why_missing()
                self._expected.note(part, trial.load(workload.subscriptions.first(part)), 0)
            finally:
                trial.close()
        why = self._expected.why_not(n, None)
        if why is not None:
            raise OverBudget(why.replace("build", "loading"))

    def _measured(self, peer: Peer, workload: PeerWorkload, reference: Reference) -> dict[str, Any]:
        loaded = peer.load(workload.subscriptions)
        self._expected.note(len(workload.subscriptions), loaded, 0)
        figures: dict[str, Any] = {"load_s": round(loaded, 3)}
        rows = self._affordable_rows(peer, workload)
        figures |= {"messages": len(rows)}
        asked = workload.messages.take(rows)
        for singly in (True, False):  # the first answers of each way warm up as well
            wrong = reference.difference(rows, peer.match(asked, singly=singly).pairs)
            if wrong is not None:
                return {"state": DISAGREES, "note": wrong}
        singles = peer.match(asked, singly=True)
        expected = reference.pairs(rows)
        return figures | {
            "us_per_message": round(self._best_pass_s(lambda: peer.match(asked, singly=False)) * 1e6 / len(rows), 2),
            "p50_us": round(float(np.percentile(singles.seconds, 50)) * 1e6, 2),
            "p99_us": round(float(np.percentile(singles.seconds, 99)) * 1e6, 2),
            "matches_per_message": round(len(expected.messages) / len(rows), 2),
            "digest": expected.digest,
        }

    def _affordable_rows(self, peer: Peer, workload: PeerWorkload) -> NDArray[np.int64]:
        """Return which messages can be asked: each several times, singly and at once, within the budget."""
        n = len(workload.messages)
        few = workload.messages.take(spread(n, min(TRIAL_MESSAGES, n)))
        peer.match(few, singly=True)
        each = float(np.mean(peer.match(few, singly=True).seconds))
        most = int(self.budget_s / max(each, 1e-9) / (3 + PASSES))
        if most < min(FEWEST_MESSAGES, n):
            raise OverBudget(
                f"a message takes {each:,.3g} s, {min(FEWEST_MESSAGES, n) * each * (3 + PASSES):,.3g} s are expected"
                f" for {FEWEST_MESSAGES} in all passes; {self._limit}"
            )
        return spread(n, min(most, n))

    def _best_pass_s(self, match: Any) -> float:
        """Return the seconds of the quickest of some passes, of which there are fewer where they take long."""
        passes: list[float] = []
        began = time.perf_counter()
        while len(passes) < PASSES and (not passes or time.perf_counter() - began < self.budget_s):
            found: TimedPairs = match()
            passes.append(float(found.seconds.sum()))
        return min(passes)
