"""The right answers to a workload: of `trigger` to all messages, compared with `scan` on a sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.bench.answers import Answers, scan_sample
from nearcast.bench.peers.contract import Pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.encoding import EncodedWorkload
    from nearcast.bench.timing import Say
    from nearcast.indexes import Matches


class Reference:
    """Known answers by message row; `n_scanned` of them are those of `scan`."""

    def __init__(self, columns: EncodedWorkload, say: Say) -> None:
        sample = scan_sample(len(columns.subscriptions), len(columns.messages))
        say(f"asking scan about {len(sample):,} messages")
        answers = Answers(sample, _answers(columns.with_messages(sample), "scan"))
        self._matches = _answers(columns, "trigger")
        answers.check("trigger", self._matches)
        self.n_scanned = len(sample)

    def pairs(self, rows: NDArray[np.int64]) -> Pairs:
        """Return the right answers to some messages, numbered as they come in `rows`."""
        start, slots = self._matches.start, self._matches.slots
        pieces = [slots[start[row] : start[row + 1]] for row in rows.tolist()]
        at = np.repeat(np.arange(len(rows)), [len(piece) for piece in pieces])
        return Pairs(at, np.concatenate([np.empty(0, np.int64), *pieces]).astype(np.int64))

    def difference(self, rows: NDArray[np.int64], found: Pairs) -> str | None:
        """Return in what answers to some messages are wrong, None if they are right."""
        expected, found = self.pairs(rows).ascending(), found.ascending()
        if expected.digest == found.digest:
            return None
        counts = [np.bincount(each.messages, minlength=len(rows)) for each in (found, expected)]
        for at in range(len(rows)):
            ours, theirs = (
                each.subscriptions[np.searchsorted(each.messages, at) :][: count[at]]
                for each, count in zip((found, expected), counts, strict=True)
            )
            if not np.array_equal(ours, theirs):
                extra, lacking = np.setdiff1d(ours, theirs)[:3], np.setdiff1d(theirs, ours)[:3]
                return (
                    f"message {rows[at]}: {len(ours)} answers where {len(theirs)} are right"
                    f" (too many: {extra.tolist()}, missing: {lacking.tolist()})"
                )
        return "answers to messages that were not asked"


def _answers(columns: EncodedWorkload, spec: str) -> Matches:
    index = columns.new_index(spec)
    index.insert(columns.subscriptions)
    return index.match(columns.messages)
