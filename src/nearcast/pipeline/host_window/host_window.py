"""A partition's view of a window that all workers of the host share, with a record of what its searches found.

A batch that is gone through again makes the same searches in the same order, and takes what they found from the record
in its delta. So a replay needs no window, and a partition holds no messages, whichever batch it comes from.
"""

from __future__ import annotations

import copy
import os
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.errors import IncompatibleStore, StoreUnavailable
from nearcast.pipeline.divided_window.remote_window import SubscriptionWords
from nearcast.pipeline.divided_window.window_part import PartSnapshotTask, WindowPartRef
from nearcast.pipeline.host_window.arena import Arena, ArenaView, HistoryGone
from nearcast.pipeline.host_window.arena_storage import FolderStorage, MemoryStorage
from nearcast.text.message_words import MessageWords
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
    from nearcast.pipeline.store.manifest_entries import BatchFiles
    from nearcast.text.words import WordTable

#: Raised with every change to what the files of an arena hold.
_FORMAT = 3
#: The index of messages that an arena is made of.
MESSAGES = "blocks"
#: Streams of one process whose windows stay mapped.
_MOST_ARENAS = 4


class SearchRecord(NamedTuple):
    """What a search found: the kind of search, and the fields of `WindowAnswers`."""

    kind: str
    start: NDArray[np.int64]
    row: NDArray[np.int64]
    score: NDArray[np.float64]
    work: NDArray[np.int64]


class HostWindow(MessageIndex):
    """An index of the messages of a window that only counts them: searches go to the arena of the host."""

    def __init__(self, space: Space, by_time: bool, words: WordTable, next_row: int):
        super().__init__(space, by_time)
        self._next_row = next_row
        self._words = MessageWords(words)
        self._window: Callable[[], tuple[Arena, ArenaView]] | None = None
        self._mapped: tuple[Arena, ArenaView] | None = None
        self._replayed: list[SearchRecord] | None = None
        self.records: list[SearchRecord] = []

    def begin_batch(self, ref: WindowPartRef, files: BatchFiles) -> None:
        """Search the window of this batch from now on; it is mapped when it is first searched."""
        self._window, self._mapped = lambda: view_of(ref, files), None
        self._replayed, self.records = None, []

    def begin_replay(self, records: list[SearchRecord]) -> None:
        """Find what the searches of a batch found that is gone through again."""
        self._window = self._mapped = None
        self._replayed, self.records = list(records), []

    def end_replay(self) -> None:
        """Refuse a record that holds more than was asked for."""
        if self._replayed:
            raise _mismatch(f"{len(self._replayed)} searches of the window more are noted than were made")

    # --- rows -----------------------------------------------------------------------------------------------------

    @property
    def next_row(self) -> int:
        """The row that the next message gets."""
        return self._next_row

    @property
    def first_held(self) -> int:
        """No row is held here."""
        return self._next_row

    @property
    def nbytes(self) -> int:
        """The bytes that are held here, and not for all workers of the host."""
        return int(self._words.by_term.nbytes)

    def append(self, batch: WindowBatch) -> None:
        """Count messages: the arena has those of the batch from its beginning."""
        self._next_row += len(batch.box)

    def set_weights(self, weight: NDArray[np.float64]) -> None:
        """Nothing is weighed here."""

    def relength(self, first_row: int, length: NDArray[np.float64]) -> None:
        """No length is held here."""

    def drop_before(self, row: int) -> None:
        """Nothing is held here."""

    def time(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """No time is held here."""
        raise NotImplementedError("the messages of the window are held for the host")

    def messages(self, rows: NDArray[np.int64]) -> WindowBatch:
        """Return no messages: none are held here."""
        assert not len(rows)
        return message_index(MESSAGES, self.space, self.by_time).messages(rows)

    def used_words(self) -> NDArray[np.bool_]:
        """Tell that all words are used: those of subscriptions are never forgotten."""
        return np.ones(len(self._words.known), np.bool_)

    def with_words(self, new_of_old: NDArray[np.int32], weight: NDArray[np.float64]) -> MessageIndex:
        """Words of subscriptions keep their numbers."""
        raise NotImplementedError("the words of subscriptions keep their numbers")

    def rolled_back(self, first_row: int, next_row: int, dropped: list[WindowBatch]) -> MessageIndex:
        """Return the same with the rows below `next_row`."""
        twin = copy.copy(self)
        twin._next_row = next_row
        return twin

    def save(self, folder: str | Path) -> None:
        """Write an index without messages into a new folder: the window is saved by itself."""
        message_index(MESSAGES, self.space, self.by_time).save(folder)

    @classmethod
    def open(cls, folder: str | Path, space: Space) -> MessageIndex:
        """What is saved has no rows: `use_host_window` gives a state one."""
        raise NotImplementedError("nothing of a window that is held for the host is saved here")

    # --- searches -------------------------------------------------------------------------------------------------

    def best(self, queries: WindowQueries, n: NDArray[np.int32], alive: LiveRows, threads: int = 1) -> WindowAnswers:
        """Return the `n` best messages for each query, fewer where there are not so many."""
        return self.best_above(queries, n, np.full(len(n), -1.0), alive, threads)

    def best_above(
        self,
        queries: WindowQueries,
        n: NDArray[np.int32],
        floor: NDArray[np.float64],
        alive: LiveRows,
        threads: int = 1,
    ) -> WindowAnswers:
        """Return the `n` best of all messages with a score of `floor` or more, for each query."""

        def search(index: MessageIndex, asked: WindowQueries) -> WindowAnswers:
            return index.best_above(asked, n, floor, self._until_now(alive), threads)

        return self._found("best", queries, search)

    def at_least(
        self, queries: WindowQueries, threshold: NDArray[np.float64], alive: LiveRows, threads: int = 1
    ) -> WindowAnswers:
        """Return for each query all messages with a score of `threshold` or more."""

        def search(index: MessageIndex, asked: WindowQueries) -> WindowAnswers:
            return index.at_least(asked, threshold, self._until_now(alive), threads)

        return self._found("at least", queries, search)

    def scores(
        self, queries: WindowQueries, start: NDArray[np.int64], rows: NDArray[np.int64], alive: LiveRows
    ) -> NDArray[np.float64]:
        """Return the score for query i of each of the rows from `start[i]` on, -1 where it does not count."""

        def search(index: MessageIndex, asked: WindowQueries) -> WindowAnswers:
            score = index.scores(asked, start, rows, self._until_now(alive))
            return WindowAnswers(start, rows, score, np.zeros(len(start) - 1, np.int64))

        return self._found("scores", queries, search).score

    def _until_now(self, alive: LiveRows) -> LiveRows:
        return LiveRows(int(alive.first), min(int(alive.last), self._next_row), int(alive.after))

    def _found(
        self, kind: str, queries: WindowQueries, search: Callable[[MessageIndex, WindowQueries], WindowAnswers]
    ) -> WindowAnswers:
        """Search, and note what was found; or return what was noted."""
        n = len(queries.own)
        if self._replayed is not None:
            return self._noted(kind, n)
        if self._window is None:  # before the first batch
            assert self._next_row == 0
            return WindowAnswers(np.zeros(n + 1, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(n, np.int64))
        if self._mapped is None:
            self._mapped = self._window()
        arena, view = self._mapped
        if self._words.table is not view.table:
            self._words = MessageWords(self._words.known)
            self._words.table = view.table
        with arena.lock:
            self._words.follow()
        answers = search(view.index, queries._replace(word=self._words.of_terms(queries.word)))
        self.records.append(SearchRecord(kind, *answers))
        return answers

    def _noted(self, kind: str, n: int) -> WindowAnswers:
        if not self._replayed:
            raise _mismatch("a search of the window is not noted")
        found = self._replayed.pop(0)
        if found.kind != kind or len(found.start) != n + 1:
            raise _mismatch(f"a search ({kind}, {n}) is noted as another ({found.kind}, {len(found.start) - 1})")
        return WindowAnswers(*found[1:])


def _mismatch(what: str) -> IncompatibleStore:
    return IncompatibleStore(
        f"a batch cannot be gone through again: {what}; bring the checkpoint back, or begin anew with another one"
    )


def use_host_window(state: State) -> None:
    """Replace the message index of a state's keeper by a `HostWindow`."""
    keeper = state.topk
    if keeper is not None:
        messages = HostWindow(keeper.index.space, keeper.window.is_by_time, state.words, keeper.next_row)
        keeper.search_in(messages, SubscriptionWords(state.words), state.weights)


# --- the arenas of this process ---------------------------------------------------------------------------------

_arenas: dict[tuple[object, ...], Arena] = {}
_arenas_lock = threading.Lock()


def forget_arenas() -> None:
    """Forget all windows that this process has mapped, as a new process would not have them."""
    with _arenas_lock:
        _arenas.clear()


def view_of(ref: WindowPartRef, files: BatchFiles | None = None) -> tuple[Arena, ArenaView]:
    """Return the window of the host in a batch, or after the last one of `ref`; in memory where it cannot be shared."""
    error: Exception | None = None
    try:
        arena = _arena_of(ref)
        return arena, arena.view(ref, files)
    except StoreUnavailable:  # a file of the checkpoint, which the next attempt may find
        raise
    except HistoryGone:  # for one task: others are ahead, and what they share is not to be torn down
        pass
    except (OSError, IncompatibleStore) as caught:
        error = caught
    arena = Arena(MemoryStorage(), ref)
    view = arena.view(ref, files)  # if it is the store that is damaged, it is so again
    if error is not None:
        with _arenas_lock:
            _keep(ref, arena)
        warnings.warn(
            f"the window cannot be shared by the workers of this host ({error}); this process holds its own: give"
            " TMPDIR a folder with room",
            RuntimeWarning,
            stacklevel=2,
        )
    return arena, view


def _arena_of(ref: WindowPartRef) -> Arena:
    with _arenas_lock:  # to the end, lest two threads of a process map a window each
        arena = _arenas.get(_key_of(ref)) or _opened(ref)
        _keep(ref, arena)
    return arena


def _opened(ref: WindowPartRef) -> Arena:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    about = (_FORMAT, *_key_of(ref)[1:], os.getuid(), boot)
    return Arena(FolderStorage(ref.store.host_folder(f"window {about}")), ref)


def _key_of(ref: WindowPartRef) -> tuple[object, ...]:
    """Return what windows that are one have in common; the id of a stream tells it from one begun anew there."""
    return ref.store.root, ref.stream_id, str(ref.settings.space), str(ref.settings.window)


def _keep(ref: WindowPartRef, arena: Arena) -> None:
    """Let this be the arena of a stream, and the last to be forgotten."""
    _arenas.pop(_key_of(ref), None)
    _arenas[_key_of(ref)] = arena
    while len(_arenas) > _MOST_ARENAS:
        del _arenas[next(iter(_arenas))]


def write_window(task: PartSnapshotTask) -> str:
    """Return the name of the folder with the window, as it is after the last batch of a task's history."""
    arena, view = view_of(task.ref)
    task.ref.store.put_folder(task.name, lambda folder: arena.save(view, task.ref, folder))
    with suppress(OSError):
        arena.name(task.ref, task.name)
    return task.name
