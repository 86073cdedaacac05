"""What a peer is: another program that holds boxes with words, and says which of them each message reaches."""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from nearcast.errors import NearcastError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.peers.workload import BoxSubscriptions, PointMessages

    Rows = NDArray[np.int64]
    Seconds = NDArray[np.float64]


class PeerFailed(NearcastError):
    """A peer is there and cannot do its work; the message says why, in one line."""


class Pairs(NamedTuple):
    """Answers, in any order: message row `messages[i]` reaches subscription row `subscriptions[i]`."""

    messages: Rows
    subscriptions: Rows

    @classmethod
    def none(cls) -> Pairs:
        """Return no answers."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    @classmethod
    def joined(cls, pieces: list[Pairs]) -> Pairs:
        """Return all pairs of some pieces."""
        if not pieces:
            return cls.none()
        return cls(*(np.concatenate(column) for column in zip(*pieces, strict=True)))

    def ascending(self) -> Pairs:
        """Return the pairs by message, then subscription; one that comes twice stays twice, which is a wrong answer."""
        messages, subscriptions = (np.asarray(each, np.int64) for each in self)
        order = np.lexsort((subscriptions, messages))
        return Pairs(messages[order], subscriptions[order])

    @property
    def digest(self) -> str:
        """Return a hash of all pairs, whatever their order."""
        found = hashlib.blake2b(digest_size=8)
        for column in self.ascending():
            found.update(np.ascontiguousarray(column, "<i8").data)
        return found.hexdigest()


class TimedPairs(NamedTuple):
    """What a peer answered, and the seconds of each of its calls by the wall clock."""

    pairs: Pairs
    seconds: Seconds


@dataclass(frozen=True)
class PeerSettings:
    """What peers are told: the address of a Maven repository, None for the usual one."""

    maven: str | None = None


class Peer(ABC):
    """A program that a user might take instead; one object is loaded once, asked often, and closed.

    `match` takes all messages with one call where `singly` is False, else each with a call of its own. Its clock runs
    from messages in memory to answers in memory, in the program that asks; `load` is timed likewise. Both raise
    `PeerFailed`. Answers may come in any order.
    """

    name: ClassVar[str]
    #: What it is and how it finds its candidates, in a phrase.
    about: ClassVar[str]

    def __init__(self, settings: PeerSettings) -> None:
        self.settings = settings

    @abstractmethod
    def why_missing(self) -> str | None:
        """Return why it cannot be run here, in one line; None if it can. It may fetch what it needs."""

    @abstractmethod
    def version(self) -> str:
        """Return the name and the version of what answers; asked only when it is not missing."""

    @abstractmethod
    def load(self, subscriptions: BoxSubscriptions) -> float:
        """Take all subscriptions in; return the seconds until the first message can be asked."""

    @abstractmethod
    def match(self, messages: PointMessages, *, singly: bool) -> TimedPairs:
        """Return whom the messages reach, by rows."""

    @abstractmethod
    def close(self) -> None:
        """Let go of processes and files; may be called twice, and before `load`."""


def timed(work: Callable[[], Pairs]) -> TimedPairs:
    """Return the answers of one call, with its seconds."""
    began = time.perf_counter()
    pairs = work()
    return TimedPairs(pairs, np.array([time.perf_counter() - began]))


def timed_singly(messages: PointMessages, match: Callable[[PointMessages], Pairs]) -> TimedPairs:
    """Return the answers of one call for each message, with the seconds of each; rows are those of `messages`."""
    seconds, pieces = np.empty(len(messages)), []
    singles = [messages.take(np.array([row])) for row in range(len(messages))]
    for row, single in enumerate(singles):
        began = time.perf_counter()
        pairs = match(single)
        seconds[row] = time.perf_counter() - began
        pieces.append(Pairs(pairs.messages + row, pairs.subscriptions))
    return TimedPairs(Pairs.joined(pieces), seconds)
