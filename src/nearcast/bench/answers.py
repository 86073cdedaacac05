"""Compares the answers of indexes with each other and with `scan`, before any time is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.bench.timing import Say, spread
from nearcast.errors import NearcastError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.encoding import EncodedWorkload
    from nearcast.indexes import Matches

    Rows = NDArray[np.int64]

#: Tries of one subscription on one message that `scan` may take: some seconds.
SCAN_TRIES = 200_000_000
SCAN_MESSAGES = (20, 500)
#: Answers to all messages that fit into memory several times over; where there would be more, fewer messages are asked.
MOST_ANSWERS = 50_000_000


class AnswersDiffer(NearcastError):
    """Two indexes disagree: a defect in one of them, and no time is worth reporting."""


class Answers:
    """Known answers: of `scan` to a sample of messages, and to each message of the first index that matched it."""

    def __init__(self, sample: Rows, expected: Matches):
        self.sample, self._expected = sample, expected
        self._known: list[_KnownAnswers] = []

    def check(self, spec: str, matches: Matches, rows: Rows | None = None) -> None:
        """Raise `AnswersDiffer` unless the answers of an index, to the sample if it is `scan`, are those known.

        Where it was asked some messages only, `rows` says which.
        """
        if rows is None:
            rows = self.sample if is_scan(spec) else np.arange(len(matches))
        found = _KnownAnswers(spec, rows, matches)
        found.must_equal(_KnownAnswers("scan", self.sample, self._expected))
        if is_scan(spec):
            return
        is_new = np.ones(len(found.rows), np.bool_)
        for known in self._known:
            found.must_equal(known)
            is_new &= ~np.isin(found.rows, known.rows)
        if is_new.any():
            self._known.append(found)

    def some_messages(self, n: int, n_messages: int) -> Rows:
        """Return `n` of the messages or a few more, spread over all; those of the sample come first."""
        if n <= len(self.sample):
            return self.sample[spread(len(self.sample), n)]
        return np.union1d(self.sample, spread(n_messages, n))


class _KnownAnswers(NamedTuple):
    """The matches of one index, and the rows of the messages it matched, ascending."""

    spec: str
    rows: Rows
    matches: Matches

    def must_equal(self, other: _KnownAnswers) -> None:
        """Raise `AnswersDiffer` unless both say the same of all messages that both were asked."""
        if np.array_equal(self.rows, other.rows) and self.matches == other.matches:
            return
        _, ours, theirs = np.intersect1d(self.rows, other.rows, return_indices=True)
        for at, other_at in zip(ours.tolist(), theirs.tolist(), strict=True):
            self._must_equal_at(at, other, other_at)

    def _must_equal_at(self, at: int, other: _KnownAnswers, other_at: int) -> None:
        where, spec = f"message {self.rows[at]}: {self.spec}", self.spec
        ours, theirs = self.matches.slots_of(at), other.matches.slots_of(other_at)
        if not np.array_equal(ours, theirs):
            extra, missing = np.setdiff1d(ours, theirs)[:3], np.setdiff1d(theirs, ours)[:3]
            raise AnswersDiffer(
                f"{where} gives {len(ours)} slots and {other.spec} {len(theirs)}"
                f" (only {spec}: {extra.tolist()}, only {other.spec}: {missing.tolist()}); no times are reported"
            )
        scores, expected = _scores_of(self.matches, at), _scores_of(other.matches, other_at)
        wrong = np.flatnonzero(scores != expected)
        if len(wrong):
            first = wrong[0]
            raise AnswersDiffer(
                f"{where} scores slot {ours[first]} {scores[first]!r} and {other.spec} {expected[first]!r};"
                " no times are reported"
            )


def _scores_of(matches: Matches, row: int) -> NDArray[np.float64]:
    return matches.score[matches.start[row] : matches.start[row + 1]]


def answers_of_scan(columns: EncodedWorkload, say: Say) -> tuple[EncodedWorkload, Answers]:
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
