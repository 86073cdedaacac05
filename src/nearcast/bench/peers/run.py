"""The race of all peers: each size of one workload, each peer in turn, answers compared before anything is timed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nearcast.bench.peers.contract import PeerSettings
from nearcast.bench.peers.race import MEASURED, Contestant
from nearcast.bench.peers.reference import Reference
from nearcast.bench.peers.registry import PEERS
from nearcast.bench.peers.workload import PeerWorkload, peer_workload

if TYPE_CHECKING:
    from nearcast.bench.data.workloads import Workload
    from nearcast.bench.peers.contract import Peer
    from nearcast.bench.timing import Say

QUESTION = "What does a message cost in what a user would take instead: all of some words, inside a box?"
OURS = "nearcast"


@dataclass(frozen=True)
class PeerRequest:
    """Which peers to measure at which numbers of subscriptions, and how long each may take for each step."""

    sizes: Sequence[int]
    peers: Sequence[type[Peer]] = PEERS
    budget_s: float = 120.0
    settings: PeerSettings = field(default_factory=PeerSettings)


def run_peers(workload: Workload, request: PeerRequest, say: Say) -> dict[str, Any]:
    """Return a row for each size and peer, and how many messages were compared with `scan`; sizes are first rows."""
    rows, scanned = [], 0
    contestants = [Contestant(kind, request.settings, request.budget_s) for kind in request.peers]
    for size in sorted(request.sizes):
        say(f"{size:,} subscriptions: encoding")
        here, reference = _at_size(workload, size, say)
        scanned = reference.n_scanned
        rows += list(_raced(here, reference, contestants, say))
    checked = f"each peer equals trigger on every message it was asked, trigger equals scan on {scanned:,}"
    return {"results": rows, "checked": checked}


def _at_size(workload: Workload, size: int, say: Say) -> tuple[PeerWorkload, Reference]:
    from dataclasses import replace

    from nearcast.bench.encoding import encoded

    first = replace(workload, subscriptions=workload.subscriptions.slice(0, size))
    return peer_workload(first), Reference(encoded(first), say)


def _raced(
    workload: PeerWorkload, reference: Reference, contestants: Sequence[Contestant], say: Say
) -> Iterator[dict[str, Any]]:
    ours = None
    for number, contestant in enumerate(contestants, 1):
        name = contestant.kind.name
        say(f"{len(workload.subscriptions):,} subscriptions: {name}, {number} of {len(contestants)}")
        row = contestant.row(workload, reference)
        if name == OURS and row["state"] == MEASURED:
            ours = row["us_per_message"]
        is_timed = ours is not None and row["us_per_message"] is not None
        yield row | {"times_ours": round(row["us_per_message"] / ours, 1) if is_timed else None}
