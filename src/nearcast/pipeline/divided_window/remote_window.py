"""A partition's view of a window that lies elsewhere: questions to the parts of the window, and their answers.

A home holds the messages of the batch under way and none of those before. What its keeper wants to know of the earlier
ones it looks up among the answers it was given; what is not there it notes as a question, and finds nothing. A run that
left questions counts for nothing: the batch is run again, from where it began, with the answers to them. A question is
known by all that its answer depends on, so the same one is never asked twice in a batch.
"""

from __future__ import annotations

import copy
import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.text.message_words import MessageWords
from nearcast.text.words import WordTable
from nearcast.topk.window.registry import (
    LiveRows,
    MessageIndex,
    WindowAnswers,
    WindowBatch,
    WindowQueries,
    message_index,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.engine import State
    from nearcast.geo import Space


class WindowAnswer(NamedTuple):
    """Messages of the window by row, in rank order; `work` counts the messages and postings looked at."""

    row: NDArray[np.int64]
    score: NDArray[np.float64]
    time: NDArray[np.int64]
    work: int


#: Answers by the key of their question.
AnswersByQuestion = dict[bytes, WindowAnswer]


@dataclass(frozen=True)
class WindowQuestion:
    """A search over the window for one subscription: its `most` best live messages, or all that score at least `least`.

    `most` is -1 where `least` counts. Words are in the order of their strings.
    """

    words: tuple[str, ...]
    weight: bytes
    place: tuple[float, ...]
    alive: LiveRows
    most: int
    least: float

    @property
    def key(self) -> bytes:
        """Return a hash of all that the answer depends on."""
        digest = hashlib.blake2b(digest_size=16)
        for word in self.words:
            digest.update(struct.pack("<q", len(word.encode())) + word.encode())
        digest.update(struct.pack("<qqqqd", *self.alive, self.most, self.least))
        digest.update(self.weight + struct.pack(f"<{len(self.place)}d", *self.place))
        return digest.digest()


class SubscriptionWords(MessageWords):
    """The words of a window that is held elsewhere: those of the subscriptions, under the same numbers."""

    def __init__(self, known: WordTable):
        super().__init__(known)
        self.table = known

    def follow(self) -> None:
        """There is nothing to note."""

    def of_terms(self, terms: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the terms: they are the words."""
        return terms.astype(np.int32, copy=False)


class RemoteWindow(MessageIndex):
    """An index of the messages of the current batch that looks earlier ones up among answers, or notes a question."""

    def __init__(self, space: Space, by_time: bool, name: str, words: WordTable, next_row: int):
        super().__init__(space, by_time)
        self._name, self._table = name, words
        self._weight = np.empty(0)
        self._begin(next_row, {})

    def _begin(self, first_row: int, answers: AnswersByQuestion) -> None:
        self._first_row = first_row
        self._recent = message_index(self._name, self.space, self.by_time)
        self._recent.set_weights(self._weight)
        self._answers = answers
        self.used: AnswersByQuestion = {}
        self.questions: dict[bytes, WindowQuestion] = {}
        #: Subscriptions with a question of this run that has no answer, by words, weights and place.
        self._in_doubt: set[tuple[object, ...]] = set()

    def begin_batch(self, answers: AnswersByQuestion) -> None:
        """Let go of the messages of the last batch; `answers` are to questions of the one that begins."""
        self._begin(self.next_row, answers)

    @property
    def next_row(self) -> int:
        """The row that the next message gets."""
        return self._first_row + self._recent.next_row

    @property
    def first_held(self) -> int:
        """The first row that is held here."""
        return self._first_row

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return self._recent.nbytes

    def append(self, batch: WindowBatch) -> None:
        """Add messages; the weights of their words have been set."""
        self._recent.append(batch)

    def set_weights(self, weight: NDArray[np.float64]) -> None:
        """Say what all words weigh, by id."""
        self._weight = weight
        self._recent.set_weights(weight)

    def relength(self, first_row: int, length: NDArray[np.float64]) -> None:
        """Replace the squared lengths of the rows from `first_row` on; rows that are not held here are passed over."""
        gone = max(self._first_row - first_row, 0)
        self._recent.relength(first_row + gone - self._first_row, length[gone:])

    def drop_before(self, row: int) -> None:
        """Forget the rows below `row` for good."""
        if row > self._first_row:
            self._recent.drop_before(row - self._first_row)

    def time(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the times of rows that are held here."""
        return self._recent.time(rows - self._first_row)

    def messages(self, rows: NDArray[np.int64]) -> WindowBatch:
        """Return rows that are held here."""
        return self._recent.messages(rows - self._first_row)

    def used_words(self) -> NDArray[np.bool_]:
        """Tell that all words are used: those of subscriptions are never forgotten."""
        return np.ones(len(self._weight), np.bool_)

    def with_words(self, new_of_old: NDArray[np.int32], weight: NDArray[np.float64]) -> MessageIndex:
        """Words of subscriptions keep their numbers."""
        raise NotImplementedError("the words of subscriptions keep their numbers")

    def rolled_back(self, first_row: int, next_row: int, dropped: list[WindowBatch]) -> MessageIndex:
        """Return the same with the rows below `next_row`; those before the batch under way are not held here."""
        first = max(first_row - self._first_row, 0)
        twin = copy.copy(self)
        twin._recent = self._recent.rolled_back(first, next_row - self._first_row, dropped)
        return twin

    def save(self, folder: str | Path) -> None:
        """Write an index without messages into a new folder: the window is not held here."""
        message_index(self._name, self.space, self.by_time).save(folder)

    @classmethod
    def open(cls, folder: str | Path, space: Space) -> MessageIndex:
        """What is saved has no rows: `use_remote_window` gives a state one."""
        raise NotImplementedError("nothing of a window that is held elsewhere is saved")

    # --- searches -------------------------------------------------------------------------------------------------

    def best(self, asked: WindowQueries, n: NDArray[np.int32], alive: LiveRows, threads: int = 1) -> WindowAnswers:
        """Return the `n` best messages of each query, as far as they are known."""
        recent = self._recent.best(asked, n, self._of_recent(alive), threads)
        earlier = self._earlier(asked, n, np.zeros(len(n)), alive)
        return self._together(earlier, recent, n)

    def at_least(
        self, asked: WindowQueries, threshold: NDArray[np.float64], alive: LiveRows, threads: int = 1
    ) -> WindowAnswers:
        """Return all messages that score at least `threshold` for each query, as far as they are known."""
        recent = self._recent.at_least(asked, threshold, self._of_recent(alive), threads)
        earlier = self._earlier(asked, np.full(len(threshold), -1, np.int32), threshold, alive)
        return self._together(earlier, recent, None)

    def _of_recent(self, alive: LiveRows) -> LiveRows:
        return LiveRows(max(alive.first - self._first_row, 0), max(alive.last - self._first_row, 0), alive.after)

    def _earlier(
        self, asked: WindowQueries, most: NDArray[np.int32], least: NDArray[np.float64], alive: LiveRows
    ) -> list[WindowAnswer | None]:
        """Return the answers about messages before this batch; None where there is nothing or no answer yet."""
        alive = LiveRows(int(alive.first), min(int(alive.last), self._first_row), int(alive.after))
        if alive.first >= alive.last:
            return [None] * len(most)
        return [
            self._answer(_question(asked, row, self._table, alive, int(most[row]), float(least[row])))
            for row in range(len(most))
        ]

    def _answer(self, question: WindowQuestion) -> WindowAnswer | None:
        key = question.key
        if key in self._answers:
            self.used[key] = self._answers[key]
            return self._answers[key]
        who = (question.words, question.weight, question.place)
        # How far down to look follows from the best ones: before these are known it is not worth asking.
        if question.most >= 0 or who not in self._in_doubt:
            self.questions[key] = question
        self._in_doubt.add(who)
        return None

    def _together(
        self, earlier: list[WindowAnswer | None], recent: WindowAnswers, n: NDArray[np.int32] | None
    ) -> WindowAnswers:
        work = recent.work + np.array([0 if each is None else each.work for each in earlier], np.int64)
        known = [(owner, each) for owner, each in enumerate(earlier) if each is not None]
        if not known:
            return WindowAnswers(recent.start, recent.row + self._first_row, recent.score, work)
        owner = [np.repeat(np.arange(len(earlier)), np.diff(recent.start))]
        owner += [np.full(len(each.row), at, np.int64) for at, each in known]
        row = np.concatenate([recent.row + self._first_row, *(each.row for _, each in known)])
        score = np.concatenate([recent.score, *(each.score for _, each in known)])
        time = np.concatenate([self._recent.time(recent.row), *(each.time for _, each in known)])
        all_owners, n_owners = np.concatenate(owner), len(earlier)
        start, row, score, _ = ranked(all_owners, row, score, time, n, n_owners, by_time=self.by_time)
        return WindowAnswers(start, row, score, work)


def ranked(
    owner: NDArray[np.int64],
    row: NDArray[np.int64],
    score: NDArray[np.float64],
    time: NDArray[np.int64],
    n: NDArray[np.int32] | None,
    n_owners: int,
    *,
    by_time: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return (start, row, score, time) of each owner's messages in rank order, of the first `n` if that is given."""
    age = time if by_time else np.zeros(len(row), np.int64)
    order = np.lexsort((row, age, score, -owner))[::-1]
    length = np.bincount(owner, minlength=n_owners)
    start = np.append(0, np.cumsum(length))
    if n is not None:
        place = np.arange(len(order)) - np.repeat(start[:-1], length)
        order = order[place < np.repeat(n, length)]
        start = np.append(0, np.cumsum(np.minimum(length, n)))
    return start, row[order], score[order], time[order]


def _question(
    asked: WindowQueries, row: int, table: WordTable, alive: LiveRows, most: int, least: float
) -> WindowQuestion:
    first, last = int(asked.word_start[row]), int(asked.word_start[row + 1])
    words = tuple(table.word(int(term)) for term in asked.word[first:last])
    point = np.atleast_1d(asked.point[row]).tolist()
    place = (*point, float(asked.text_weight[row]), float(asked.max_distance[row]), float(asked.own[row]))
    return WindowQuestion(words, asked.weight[first:last].tobytes(), place, alive, most, least)


def asked_by(questions: list[WindowQuestion], table: WordTable) -> WindowQueries:
    """Return questions as the queries of a message index, encoded by a word table."""
    import pyarrow as pa

    words = [word for each in questions for word in each.words]
    place = np.array([each.place for each in questions], np.float64)
    return WindowQueries(
        np.append(0, np.cumsum([len(each.words) for each in questions])).astype(np.int64),
        table.ids_of_column(pa.array(words, pa.string()), add=False),
        np.frombuffer(b"".join(each.weight for each in questions), np.float64),
        np.ascontiguousarray(place[:, :-3]),
        *(np.ascontiguousarray(place[:, at]) for at in (-3, -2, -1)),
    )


def use_remote_window(state: State) -> None:
    """Replace the message index of a state's keeper by a `RemoteWindow`."""
    keeper = state.topk
    if keeper is None:
        return
    by_time = keeper.window.is_by_time
    messages = RemoteWindow(keeper.index.space, by_time, keeper.options.messages, state.words, keeper.next_row)
    keeper.search_in(messages, SubscriptionWords(state.words), state.weights)
