"""The options of top-k subscriptions, which every index for them takes beside its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nearcast.errors import UnknownIndex

#: Policies of buffers; the number of one is its place here.
POLICIES = ("kmax", "skyband", "cskyband")
#: Names of the indexes over the messages of a window, the default first.
MESSAGE_INDEXES = ("blocks", "ir-tree", "scan")
#: What every index for top-k subscriptions takes beside its own options, with the defaults; `nearcast.topk` reads them.
TOPK_OPTIONS: dict[str, Any] = {"buffer": "cskyband", "kmax": 60, "ratio": 0.95, "messages": "blocks"}


@dataclass(frozen=True)
class TopKOptions:
    """`buffer`: what is kept for each subscription, kmax, skyband or cskyband; `messages`: the index over the window.

    `kmax` is the length of the buffers of that name, at least half as long again as k. `ratio` is which share of the
    k-th score the θ of `skyband` is.
    """

    buffer: str = TOPK_OPTIONS["buffer"]
    kmax: int = TOPK_OPTIONS["kmax"]
    ratio: float = TOPK_OPTIONS["ratio"]
    messages: str = TOPK_OPTIONS["messages"]

    def __post_init__(self) -> None:
        for name, known in (("buffer", POLICIES), ("messages", MESSAGE_INDEXES)):
            if getattr(self, name) not in known:
                raise UnknownIndex(f"there is no {name}={getattr(self, name)}; choose one of {', '.join(known)}")
        if self.kmax < 1:
            raise UnknownIndex(f"kmax={self.kmax} is no length of a buffer; choose 1 or more")
        if not 0.0 < self.ratio <= 1.0:
            raise UnknownIndex(f"ratio={self.ratio} is no share of a score; choose above 0, up to 1")

    @property
    def policy(self) -> int:
        """Return the number of the buffer's policy."""
        return POLICIES.index(self.buffer)

    @classmethod
    def of(cls, options: dict[str, Any]) -> TopKOptions:
        """Return the options among those of an index."""
        return cls(**options)
