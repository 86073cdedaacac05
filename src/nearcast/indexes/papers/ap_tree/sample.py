"""Samples of messages, which the cost model estimates probabilities from."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nearcast.columns import gathered, joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages

#: Messages in a sample at most, and of how many that are matched one is kept.
MOST_SAMPLED, ONE_IN = 16_384, 4


@dataclass(frozen=True)
class MessageSample:
    """Messages as kernels read them: words in `terms`, places in `box`, on the earth perhaps across the dateline."""

    term_start: NDArray[np.int64]
    terms: NDArray[np.int32]
    box: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.box)


def no_sample() -> MessageSample:
    """Return the sample that says nothing."""
    return MessageSample(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty((0, 4)))


def sample_of(messages: Messages, rows: NDArray[np.int64] | None = None) -> MessageSample:
    """Return these rows of messages, or as many of all as a sample may have, evenly spaced."""
    if rows is None:
        rows = np.unique(np.linspace(0, len(messages) - 1, min(len(messages), MOST_SAMPLED)).astype(np.int64))
    start, at = gathered(messages.term_start, rows)
    return MessageSample(start, np.ascontiguousarray(messages.terms[at]), np.ascontiguousarray(messages.box[rows]))


class MessageSampler:
    """Samples the messages that are matched: keeps one of `ONE_IN`, the latest, until `taken` is called."""

    def __init__(self) -> None:
        self.n_matched = 0
        self._pieces: deque[MessageSample] = deque()
        self._n = 0

    def see(self, messages: Messages) -> None:
        """Take note of messages."""
        rows = np.arange(-self.n_matched % ONE_IN, len(messages), ONE_IN)[-MOST_SAMPLED:]
        self.n_matched += len(messages)
        if not len(rows):
            return
        self._pieces.append(sample_of(messages, rows))
        self._n += len(rows)
        while len(self._pieces) > 1 and self._n - len(self._pieces[0]) >= MOST_SAMPLED:
            self._n -= len(self._pieces.popleft())

    def taken(self) -> MessageSample:
        """Return what was seen, and begin anew."""
        pieces = list(self._pieces) or [no_sample()]
        self.n_matched, self._n = 0, 0
        self._pieces.clear()
        start = joined([piece.term_start for piece in pieces])
        terms, box = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("terms", "box"))
        return MessageSample(start, terms, box)
