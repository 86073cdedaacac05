"""A part of a divided window: it holds every n-th message, follows the batches and answers searches.

Row r of the window lies in part r % parts. As with homes, what a worker holds is a cache and never the truth: a part is
made of its snapshot and of the segments of the batches since, which the manifest names. It answers questions of a batch
as it is before the messages of that batch, which homes have themselves, and by the vocabulary of that batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast import _arrow
from nearcast.columns import NO_TIME
from nearcast.indexes.topk_options import TopKOptions
from nearcast.pipeline.batch.inputs import BatchInputs, read_inputs
from nearcast.pipeline.batch.segments import MessageSegment, taken
from nearcast.pipeline.divided_window.remote_window import (
    AnswersByQuestion,
    WindowAnswer,
    WindowQuestion,
    asked_by,
    ranked,
)
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.store import pickles
from nearcast.pipeline.store.manifest_entries import BatchFiles
from nearcast.pipeline.store.state_cache import StateCache
from nearcast.pipeline.store.store import Store
from nearcast.text import Vocabulary
from nearcast.text.message_words import MessageWords, distinct_words
from nearcast.text.weights import TermWeights, squared_lengths
from nearcast.text.words import UNKNOWN, WordTable
from nearcast.topk.window.registry import LiveRows, WindowBatch, message_index, open_message_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.topk.window.registry import WindowAnswers

#: Words that may be unused beside as many as are in use.
SPARE_WORDS = 100_000
#: Rows whose times are looked at together.
_LOOKED_AT = 4096


def now_after(now: int, inputs: BatchInputs, files: BatchFiles) -> int:
    """Return event time after a batch."""
    if len(inputs):
        clock = inputs.segment.messages.clock
        assert clock is not None
        now = max(now, int(clock[-1]))
    return now if files.beat is None else max(now, files.beat)


def first_since(after: int, rows: range, time_of: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> int:
    """Return the first of the rows with a time beyond `after`, or where they end."""
    for first in range(rows.start, rows.stop, _LOOKED_AT):  # it is likely to be near
        looked_at = np.arange(first, min(first + _LOOKED_AT, rows.stop))
        alive = np.flatnonzero(time_of(looked_at) > after)
        if len(alive):
            return int(looked_at[alive[0]])
    return rows.stop


def window_batch(segment: MessageSegment, table: WordTable, weights: TermWeights) -> WindowBatch:
    """Return messages as a window takes them in; words that are new are added to its table."""
    messages = segment.messages
    used = np.unique(messages.terms[messages.terms >= 0])
    word_of = np.full(len(segment.words) + 1, UNKNOWN, np.int32)  # the last is that of -1
    word_of[used] = table.ids_of_column(segment.words.take(_arrow.numbers(used)), add=True)
    totals = segment.totals(weights) if messages.totals is None else messages.totals
    start, word, count = distinct_words(messages.term_start, word_of[messages.terms])
    return WindowBatch(start, word, count, messages.box, np.ascontiguousarray(totals[:, 2]), messages.time)


class WindowPart:
    """The rows of a window that leave `number` when divided by `parts`, under numbers of their own from 0 on."""

    def __init__(self, settings: PipelineSettings, number: int, vocabulary: Vocabulary):
        assert settings.window is not None
        self.settings, self.number, self.parts, self.window = settings, number, settings.window_parts, settings.window
        self.words = MessageWords(WordTable())
        self.weights = TermWeights(self.words.table, vocabulary)
        self._weight = np.empty(0)
        self.messages = message_index(self._index_name, settings.space, self.window.is_by_time)
        #: The row that the next message of the stream gets, whichever part that lies in.
        self.next_row = 0
        self.now = NO_TIME
        #: The first own row that is held.
        self._first = 0
        self._word_limit = SPARE_WORDS

    @property
    def _index_name(self) -> str:
        from nearcast.indexes import create

        return TopKOptions.of(create(self.settings.index, self.settings.space).topk_options).messages

    def own_from(self, row: int) -> int:
        """Return the number here of the first row from `row` on that lies here."""
        return max(-((self.number - row) // self.parts), 0)

    # --- a batch --------------------------------------------------------------------------------------------------

    def append(self, store: Store, files: BatchFiles) -> None:
        """Take in the messages of a batch, and forget what no longer counts when it has ended."""
        inputs = read_inputs(store, files)
        if len(inputs):
            messages = inputs.segment.messages
            assert messages.clock is not None
            on_time = np.flatnonzero(~self.window.is_late(messages.time, messages.clock))
            mine = on_time[(self.next_row + np.arange(len(on_time))) % self.parts == self.number]
            self.next_row += len(on_time)
            if len(mine):
                self._append(taken(inputs.segment, mine))
        self.now = now_after(self.now, inputs, files)
        self._forget()

    def _append(self, segment: MessageSegment) -> None:
        batch = window_batch(segment, self.words.table, self.weights)
        self._weigh_new()
        self.messages.append(batch)

    def _weigh_new(self) -> None:
        known, table = len(self._weight), self.words.table
        if len(table) > known:
            weight = np.concatenate([self._weight, self.weights.of_table(table, known)])
            self.messages.set_weights(weight)
            self._weight = weight

    def _forget(self) -> None:
        """Drop messages that have left the window, and words that no message has."""
        if self.window.count is not None:
            first = self.own_from(self.next_row - self.window.count)
        elif self.now == NO_TIME:
            return
        else:
            assert self.window.length is not None
            held = range(self._first, self.messages.next_row)
            first = first_since(self.now - self.window.length, held, self.messages.time)
        self._first = min(max(self._first, first), self.messages.next_row)
        self.messages.drop_before(self._first)
        self._forget_words()

    def _forget_words(self) -> None:
        if len(self.words.table) <= self._word_limit:
            return
        is_used = np.zeros(len(self.words.table), np.bool_)
        used = self.messages.used_words()
        is_used[: len(used)] = used[: len(is_used)]
        if 2 * int(is_used.sum()) + SPARE_WORDS < len(is_used):
            words, new_of_old = self.words.kept(is_used)
            weight = self._weight[is_used]
            messages = self.messages.with_words(new_of_old, weight)
            self.__dict__.update(words=words, messages=messages, _weight=weight)  # in one step: all or none
        self._word_limit = 2 * len(self.words.table) + SPARE_WORDS

    def weigh_by(self, vocabulary: Vocabulary) -> None:
        """Set the weights of all words by this vocabulary, also for the messages that are held."""
        table = self.words.table
        self.weights = TermWeights(table, vocabulary)
        self._weight = self.weights.of_table(table, 0)
        self.messages.set_weights(self._weight)
        rows = np.arange(self._first, self.messages.next_row)
        if len(rows):
            held = self.messages.messages(rows)
            lengths = squared_lengths(held.word_start, held.word, held.count, table, self._weight)
            self.messages.relength(self._first, lengths)

    # --- questions ------------------------------------------------------------------------------------------------

    def answers(self, questions: dict[bytes, WindowQuestion]) -> AnswersByQuestion:
        """Return the answer of this part to each question."""
        alike: dict[tuple[LiveRows, bool], list[bytes]] = {}
        for key, question in questions.items():
            alike.setdefault((question.alive, question.most >= 0), []).append(key)
        result: AnswersByQuestion = {}
        for (alive, is_best), keys in alike.items():
            found = self._found([questions[key] for key in keys], alive, is_best=is_best)
            time = self.messages.time(found.row)
            row = found.row * self.parts + self.number
            for at, key in enumerate(keys):
                part = slice(int(found.start[at]), int(found.start[at + 1]))
                result[key] = WindowAnswer(row[part], found.score[part], time[part], int(found.work[at]))
        return result

    def _found(self, questions: list[WindowQuestion], alive: LiveRows, *, is_best: bool) -> WindowAnswers:
        asked = asked_by(questions, self.words.table)
        own = LiveRows(self.own_from(alive.first), self.own_from(alive.last), alive.after)
        if is_best:
            return self.messages.best(asked, np.array([each.most for each in questions], np.int32), own)
        return self.messages.at_least(asked, np.array([each.least for each in questions]), own)

    # --- files ----------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write everything into a new folder, the vocabulary apart."""
        self.messages.save(folder / "messages")
        self.words.table.save(folder / "words")
        about = {"next_row": self.next_row, "now": self.now, "first": self._first}
        (folder / "part.json").write_text(json.dumps(about))

    @classmethod
    def open(cls, settings: PipelineSettings, number: int, vocabulary: Vocabulary, folder: Path) -> WindowPart:
        """Return what was saved; whoever opens it says by `weigh_by` what words weigh now, if that has changed."""
        part = cls(settings, number, vocabulary)
        part.messages = open_message_index(part._index_name, folder / "messages", settings.space)
        part.words.table = WordTable.open(folder / "words")
        part.weights = TermWeights(part.words.table, vocabulary)
        about = json.loads((folder / "part.json").read_text())
        part.next_row, part.now, part._first = about["next_row"], about["now"], about["first"]
        return part


def aggregated(
    parts: Sequence[AnswersByQuestion], questions: dict[bytes, WindowQuestion], *, by_time: bool
) -> AnswersByQuestion:
    """Merge the answers of all parts of the window: the best of each question."""
    result: AnswersByQuestion = {}
    for key, question in questions.items():
        found = [part[key] for part in parts]
        n = None if question.most < 0 else np.array([question.most], np.int32)
        row, score, time = (np.concatenate(column) for column in list(zip(*found, strict=True))[:3])
        owner = np.zeros(len(row), np.int64)
        _, row, score, time = ranked(owner, row, score, time, n, 1, by_time=by_time)
        result[key] = WindowAnswer(row, score, time, sum(each.work for each in found))
    return result


# --- what runs in workers ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WindowPartRef:
    """Names the files of a part of the window: its snapshot, the batches since, and the vocabulary in use."""

    store: Store
    #: That of the manifest: what is made of this stream is of no use to another one at the same place.
    stream_id: str
    settings: PipelineSettings
    number: int
    snapshot: str | None
    history: tuple[BatchFiles, ...]
    vocabulary: str


@dataclass
class _CachedPart:
    #: The files of the last batch taken in, or the snapshot: names that no other attempt at a batch has.
    last: BatchFiles | str | None
    vocabulary: str
    part: WindowPart


_cache: StateCache[_CachedPart] = StateCache()


def forget_parts() -> None:
    """Forget all parts this process holds, as a new process would not have them."""
    _cache.clear()


def holding(payloads: list[Any]) -> list[int]:
    """Return the payloads whose part of the window this worker has in memory."""
    return [at for at, each in enumerate(payloads) if _cache.look(each.ref.store, each.ref.number)]


def _part_of(ref: WindowPartRef) -> _CachedPart:
    """Return a part as it is after the last batch of `ref`, taken out of the cache."""
    known = _cache.take(ref.store, ref.number)
    line: list[BatchFiles | str | None] = [ref.snapshot, *ref.history]
    vocabulary = Vocabulary.open(ref.store.local(ref.vocabulary))
    if known is None or known.last not in line:
        known = _CachedPart(ref.snapshot, "", _opened(ref, vocabulary))
    since = line[line.index(known.last) + 1 :]
    # Messages came weighed by the vocabulary of their batch.
    is_stale = known.vocabulary != ref.vocabulary
    for files in since:
        assert isinstance(files, BatchFiles)
        known.part.append(ref.store, files)
        is_stale |= files.vocabulary is not None
    if is_stale:
        known.part.weigh_by(vocabulary)
    return _CachedPart(line[-1], ref.vocabulary, known.part)


def _opened(ref: WindowPartRef, vocabulary: Vocabulary) -> WindowPart:
    if ref.snapshot is None:
        return WindowPart(ref.settings, ref.number, vocabulary)
    return WindowPart.open(ref.settings, ref.number, vocabulary, ref.store.local(ref.snapshot))


@dataclass(frozen=True)
class AnswerTask:
    """Task: answer the questions of a batch from one part of the window; `questions` are files by home."""

    ref: WindowPartRef
    batch: int
    questions: tuple[tuple[int, str], ...]


def answer_questions(task: AnswerTask) -> str:
    """Return the name of the file with the answers of one part, by home."""
    store = task.ref.store
    known = _part_of(task.ref)
    found = {home: known.part.answers(questions_in(store, name)) for home, name in task.questions}
    _cache.put(store, task.ref.number, known)
    return pickles.put(store, "answers", task.batch, task.ref.number, found)


def questions_in(store: Store, name: str) -> dict[bytes, WindowQuestion]:
    """Return the questions of a file by key."""
    found = pickles.read(store.local(name))
    assert isinstance(found, dict)
    return found


@dataclass(frozen=True)
class QuestionRound:
    """A file of questions of one home, and the files with the answers of all parts of the window."""

    questions: str
    answers: tuple[str, ...]


def answers_of(store: Store, home: int, rounds: Sequence[QuestionRound], *, by_time: bool) -> AnswersByQuestion:
    """Return the merged answers to all questions that a home asked in a batch so far."""
    result: AnswersByQuestion = {}
    for each in rounds:
        parts = [pickles.read(store.local(name))[home] for name in each.answers]  # type: ignore[index]
        result |= aggregated(parts, questions_in(store, each.questions), by_time=by_time)
    return result


@dataclass(frozen=True)
class PartSnapshotTask:
    """Task: write a part of the window, as it is after the last batch of `ref`, into a folder of this name."""

    ref: WindowPartRef
    name: str


def write_part(task: PartSnapshotTask) -> str:
    """Return the name of the folder with a part of the window."""
    ref = task.ref
    known = _part_of(ref)
    ref.store.put_folder(task.name, known.part.save)
    _cache.put(ref.store, ref.number, known)
    return task.name
