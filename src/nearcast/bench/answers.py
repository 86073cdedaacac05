"""Are the answers right? No time is worth reporting before that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.bench.timing import Say, spread
from nearcast.errors import NearcastError

if TYPE_CHECKING:
    import numpy.typing as npt

    from nearcast.bench.encoding import Encoded
    from nearcast.indexes import Matches

    Rows = npt.NDArray[np.int64]

#: Tries of one subscription on one message that `scan` may take: some seconds.
SCAN_TRIES = 200_000_000
SCAN_MESSAGES = (20, 500)
#: Answers to all messages that fit into memory several times over; where there would be more, fewer messages are asked.
MOST_ANSWERS = 50_000_000


class AnswersDiffer(NearcastError):
    """Two indexes disagree: a defect in one of them, and no time is worth reporting."""


class Answers:
    """The answers so far: those of `scan` on the sample, and those of the first other index on all messages."""

    def __init__(self, sample: Rows, expected: Matches):
        self.sample, self._expected = sample, expected
        self._all: Matches | None = None
        self._first = ""

    def check(self, spec: str, matches: Matches, rows: Rows | None = None) -> None:
        """Raise `AnswersDiffer` unless the answers of an index, to the sample if it is `scan`, are those known.

        Where it was asked some messages only, `rows` says which.
        """
        sample = self._expected
        if rows is not None:
            self._check_some(spec, matches, rows)
            return
        if is_scan(spec):
            _check_rows(spec, matches, np.arange(len(sample)), "scan", sample, np.arange(len(sample)))
            return
        _check_rows(spec, matches, self.sample, "scan", sample, np.arange(len(sample)))
        if self._all is None:
            self._all, self._first = matches, spec
        elif matches != self._all:
            every = np.arange(len(matches))
            _check_rows(spec, matches, every, self._first, self._all, every)

    def some_messages(self, n: int, n_messages: int) -> Rows:
        """Return `n` of the messages or a few more, spread over all; those of the sample come first."""
        if n <= len(self.sample):
            return self.sample[spread(len(self.sample), n)]
        return np.union1d(self.sample, spread(n_messages, n))

    def _check_some(self, spec: str, matches: Matches, rows: Rows) -> None:
        asked = np.flatnonzero(np.isin(rows, self.sample))
        _check_rows(spec, matches, asked, "scan", self._expected, np.searchsorted(self.sample, rows[asked]))
        if self._all is not None:
            _check_rows(spec, matches, np.arange(len(rows)), self._first, self._all, rows)


def answers_of_scan(columns: Encoded, say: Say) -> tuple[Encoded, Answers]:
    """Ask `scan` about a sample; return its answers, and the columns with no more messages than can be answered."""
    sample = scan_sample(len(columns.subscriptions), len(columns.messages))
    say(f"asking scan about {len(sample):,} messages")
    oracle = columns.new_index("scan")
    oracle.insert(columns.subscriptions)
    expected = oracle.match(columns.messages.take(sample))
    most = int(MOST_ANSWERS * len(sample) / max(len(expected.slots), 1))
    if len(columns.messages) > max(most, len(sample)):
        return answers_of_scan(columns.with_messages(spread(len(columns.messages), max(most, len(sample)))), say)
    return columns, Answers(sample, expected)


def scan_sample(n_subscriptions: int, n_messages: int) -> Rows:
    """Return the message rows that `scan` is asked: as many as take some seconds, spread over all."""
    fewest, most = SCAN_MESSAGES
    return spread(n_messages, min(max(SCAN_TRIES // max(n_subscriptions, 1), fewest), most, n_messages))


def is_scan(spec: str) -> bool:
    """Tell whether an index is `scan`, which is asked about the sample only."""
    return spec.partition(":")[0] == "scan"


def _check_rows(spec: str, found: Matches, rows: Rows, other: str, expected: Matches, expected_rows: Rows) -> None:
    """Compare the slots and scores of `rows` of one answer with `expected_rows` of another."""
    for row, expected_row in zip(rows.tolist(), expected_rows.tolist(), strict=True):
        ours, theirs = found.slots_of(row), expected.slots_of(expected_row)
        if not np.array_equal(ours, theirs):
            extra, missing = np.setdiff1d(ours, theirs)[:3], np.setdiff1d(theirs, ours)[:3]
            raise AnswersDiffer(
                f"message {row}: {spec} gives {len(ours)} slots and {other} {len(theirs)}"
                f" (only {spec}: {extra.tolist()}, only {other}: {missing.tolist()}); no times are reported"
            )
        scores = found.score[found.start[row] : found.start[row + 1]]
        expected_scores = expected.score[expected.start[expected_row] : expected.start[expected_row + 1]]
        wrong = np.flatnonzero(scores != expected_scores)
        if len(wrong):
            at = wrong[0]
            raise AnswersDiffer(
                f"message {row}: {spec} scores slot {ours[at]} {scores[at]!r} and {other} {expected_scores[at]!r};"
                " no times are reported"
            )
