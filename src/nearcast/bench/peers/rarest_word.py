"""A rarest-word list in plain Python: what one writes in an afternoon."""

from __future__ import annotations

import platform
import time
from typing import TYPE_CHECKING

import numpy as np

from nearcast.bench.peers.contract import Pairs, Peer, PeerSettings, TimedPairs, timed, timed_singly
from nearcast.bench.peers.workload import WordNumbers

if TYPE_CHECKING:
    from nearcast.bench.peers.workload import BoxSubscriptions, PointMessages

#: A subscription in the list of its rarest word: its row, its other words, its box.
_Entry = tuple[int, frozenset[str], float, float, float, float]


class RarestWordPeer(Peer):
    """A dict from a word to the subscriptions of which it is the rarest word; box, then the other words, are tested."""

    name = "rarest-word"
    about = "a dict of lists by the rarest word, plain Python"

    def __init__(self, settings: PeerSettings) -> None:
        super().__init__(settings)
        self._lists: dict[str, list[_Entry]] = {}

    def why_missing(self) -> str | None:
        """Return None: Python is there."""
        return None

    def version(self) -> str:
        """Return the version of Python."""
        return f"Python {platform.python_version()}"

    def load(self, subscriptions: BoxSubscriptions) -> float:
        """Enter each subscription under its rarest word."""
        began = time.perf_counter()
        numbers = WordNumbers(subscriptions)
        rarest = numbers.words_of(numbers.rarest())
        asked, boxes = subscriptions.words.to_pylist(), subscriptions.box.tolist()
        for row, (word, words, box) in enumerate(zip(rarest, asked, boxes, strict=True)):
            self._lists.setdefault(word, []).append((row, frozenset(words), *box))
        return time.perf_counter() - began

    def match(self, messages: PointMessages, *, singly: bool) -> TimedPairs:
        """Walk the lists of all words of each message."""
        return timed_singly(messages, self._found) if singly else timed(lambda: self._found(messages))

    def close(self) -> None:
        """Let go of the lists."""
        self._lists = {}

    def _found(self, messages: PointMessages) -> Pairs:
        rows: list[int] = []
        found: list[int] = []
        every = zip(messages.words.to_pylist(), messages.place.tolist(), strict=True)
        for message, (words, (x, y)) in enumerate(every):
            said, before = set(words), len(found)
            for word in said:
                for row, asked, x_min, y_min, x_max, y_max in self._lists.get(word, ()):
                    if x_min <= x <= x_max and y_min <= y <= y_max and asked <= said:
                        found.append(row)
            rows += [message] * (len(found) - before)
        return Pairs(np.array(rows, np.int64), np.array(found, np.int64))
