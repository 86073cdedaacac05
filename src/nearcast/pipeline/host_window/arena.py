"""The messages of a window, once for all processes of a host: whoever needs a batch that is not there yet appends it.

A state is known by a digest of the history it stands for (`digests_of`): two attempts at a batch give two states, and
both may be read. The messages of a batch are in the state of that batch from its beginning: whoever searches says up to
which row they have come.
"""

from __future__ import annotations

import copy
import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nearcast.columns import NO_TIME, joined
from nearcast.errors import NearcastError
from nearcast.pipeline.batch.inputs import BatchInputs, read_inputs
from nearcast.pipeline.batch.segments import taken
from nearcast.pipeline.divided_window.window_part import (
    SPARE_WORDS,
    WindowPartRef,
    first_since,
    now_after,
    window_batch,
)
from nearcast.pipeline.host_window.arena_storage import ALL_GROUPS, ROW_BYTES, ArenaStorage, ColumnFiles
from nearcast.pipeline.store.manifest_entries import BatchFiles
from nearcast.saved_files.contents import read_signed, signed
from nearcast.text import Vocabulary
from nearcast.text.message_words import MessageWords
from nearcast.text.weights import TermWeights, squared_lengths
from nearcast.text.words import WordTable
from nearcast.topk.window.blocks.mapped import GROUPS, Columns, MappedBlocks, SegmentPlace, placed, segment_columns
from nearcast.topk.window.registry import WindowBatch, open_message_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Bytes that may be unused beside as many as a state needs.
_SPARE_BYTES = 1 << 26
_NAMES = tuple(ALL_GROUPS)
_SEGMENT_GROUPS = len(GROUPS)
_BYTES, _WORD_ENDS = _NAMES.index("bytes"), _NAMES.index("word_ends")


class HistoryGone(NearcastError):
    """The arena has gone on to later batches, and is not to be made anew for an earlier one."""


@dataclass(frozen=True)
class ArenaState:
    """The messages of a window at a batch: where they are in the columns of a generation.

    Rows from `floor` on count at the beginning of the batch. `ends` are those of all columns, whoever wrote there: what
    is written next goes behind them. `epoch` is that of the driver whose task wrote it.
    """

    batch: int
    epoch: int
    floor: int
    next_row: int
    now: int
    places: tuple[SegmentPlace, ...]
    ends: tuple[int, ...]
    word_limit: int

    def to_bytes(self) -> bytes:
        """Return the state as a signed JSON object."""
        return signed({**self.__dict__, "places": [list(place) for place in self.places]})

    @classmethod
    def of(cls, data: bytes) -> ArenaState:
        """Return what `to_bytes` gave."""
        given = read_signed(data, "the state of a host's window")
        places = tuple(SegmentPlace(at[0], at[1], tuple(at[2]), tuple(at[3])) for at in given.pop("places"))
        return cls(**given | {"places": places, "ends": tuple(given["ends"])})

    @property
    def is_wasteful(self) -> bool:
        """Tell whether most of the columns is in no place of this state."""
        live = sum(_n_bytes(place.sizes) for place in self.places)
        return _n_bytes(self.ends[:_SEGMENT_GROUPS]) > 2 * live + _SPARE_BYTES


def _n_bytes(sizes: Sequence[int]) -> int:
    return sum(n * ROW_BYTES[group] for n, group in zip(sizes, _NAMES, strict=False))


@dataclass(frozen=True)
class ArenaView:
    """An index of the window as it is at a batch, and the words it knows messages by."""

    state: ArenaState
    index: MappedBlocks
    table: WordTable


class Arena:
    """The window of one stream in some storage, as this process sees it.

    Its words are held in memory, as many as were ever looked at; they grow under `lock`.
    """

    def __init__(self, storage: ArenaStorage, ref: WindowPartRef):
        assert ref.settings.window is not None
        self._storage = storage
        self._space, self._window = ref.settings.space, ref.settings.window
        self.lock = threading.RLock()
        self._columns: ColumnFiles | None = None
        self._view: tuple[str, ArenaView] | None = None
        self._begin_words(WordTable())

    def _begin_words(self, table: WordTable) -> None:
        self._table = table
        self._weights: tuple[str, TermWeights] | None = None
        self._weight = np.empty(0)

    # --- reading --------------------------------------------------------------------------------------------------

    def view(self, ref: WindowPartRef, files: BatchFiles | None = None) -> ArenaView:
        """Return the window after the last batch of `ref`, or in the batch `files`; append what is missing."""
        batches = ref.history if files is None else (*ref.history, files)
        digests = digests_of(ref.snapshot, batches)
        with self.lock:
            if self._view is not None and self._view[0] == digests[-1]:
                return self._view[1]
            found = self._found(digests[-1])
            if found is None:
                with self._storage.locked():
                    found = self._found(digests[-1]) or self._caught_up(ref, batches, digests)
            view = self._view_of(found)
            self._view = (digests[-1], view)
            return view

    def _found(self, digest: str) -> ArenaState | None:
        """Return a state of the current generation, which is mapped then."""
        name = self._storage.current()
        if name is None:
            return None
        try:
            if self._columns is None or self._columns.name != name:
                self._open(self._storage.opened(name), WordTable())
            data = self._storage.state(name, digest)
        except FileNotFoundError:  # another generation has taken its place just now
            return None
        return None if data is None else ArenaState.of(data)

    def _open(self, columns: ColumnFiles, table: WordTable) -> None:
        self._columns, self._view = columns, None
        self._begin_words(table)

    def _view_of(self, state: ArenaState) -> ArenaView:
        self._learn_words(state.ends)
        assert self._columns is not None
        columns = {
            name: self._columns.read(name, state.ends[at]) for at, group in enumerate(GROUPS.values()) for name in group
        }
        by_time, n_words = self._window.is_by_time, len(self._table)
        index = MappedBlocks(self._space, by_time, columns, state.places, state.floor, state.next_row, n_words)
        return ArenaView(state, index, self._table)

    def _learn_words(self, ends: Sequence[int]) -> None:
        """Add the words that others have written."""
        known, n = len(self._table), ends[_WORD_ENDS]
        if n <= known:
            return
        assert self._columns is not None
        end = self._columns.read("word_end", n)[:n]
        start = np.append(0 if known == 0 else end[known - 1], end[known : n - 1])
        length = (end[known:n] - start).astype(np.int32)
        blob = self._columns.read("blob", ends[_BYTES])
        self._table.ids(blob, start, length, add=True)
        if len(self._table) != n:
            raise OSError("a word stands twice in the window of this host: its files are damaged")

    # --- writing: whoever has the lock of the storage -------------------------------------------------------------

    def _caught_up(self, ref: WindowPartRef, batches: Sequence[BatchFiles], digests: Sequence[str]) -> ArenaState:
        """Append the batches that no state has yet; return the last state."""
        known = None
        at = len(digests) - 1
        while at > 0 and known is None:
            at -= 1
            known = self._found(digests[at])
        missing = batches[at:]
        batch = batches[-1].batch if batches else -1
        is_ahead = self._is_ahead(ref, batch)
        is_other = known is None or any(files.vocabulary is not None for files in missing)
        if is_other and is_ahead:
            raise HistoryGone(f"the window of this host is beyond batch {batch}")
        try:
            if known is None or is_other or (self._has_old_words(known) and not is_ahead):
                return self._rebuilt(ref, known, missing, digests[-1], batch)
            if known.is_wasteful and not is_ahead:
                known = self._compacted(known, digests[at])
            for files, digest in zip(missing, digests[at + 1 :], strict=True):
                known = self._appended(ref, known, files)
                self._put(digest, known)
            return known
        except BaseException:
            self._columns = None  # words may have got numbers here that no file has
            raise

    def _is_ahead(self, ref: WindowPartRef, batch: int) -> bool:
        """Tell whether others need this generation for later batches.

        What an older epoch left is not needed: a stream that goes on from a copy of its checkpoint never gets there.
        """
        return any(state.batch > batch and state.epoch >= ref.store.epoch for state in self._states())

    def _states(self) -> list[ArenaState]:
        name = self._storage.current()
        return [] if name is None else [ArenaState.of(data) for data in self._storage.states(name)]

    def _high_water(self) -> tuple[int, ...]:
        """Return the ends of all columns, whichever state names what is before them."""
        return tuple(max(column) for column in zip(*(each.ends for each in self._states()), strict=True))

    def _has_old_words(self, state: ArenaState) -> bool:
        return state.ends[_WORD_ENDS] > state.word_limit

    def _put(self, digest: str, state: ArenaState) -> None:
        assert self._columns is not None
        self._storage.put_state(self._columns.name, digest, state.to_bytes())

    def _appended(self, ref: WindowPartRef, state: ArenaState, files: BatchFiles) -> ArenaState:
        """Write the messages of a batch behind everything that is there; return the state of the batch."""
        ends = self._high_water()
        self._learn_words(ends)
        index = self._view_of(state).index
        floor = self._floor(state, index.time)
        inputs = read_inputs(ref.store, files)
        now = now_after(state.now, inputs, files)
        state = replace(state, batch=files.batch, epoch=ref.store.epoch, floor=floor, now=now, ends=ends)
        arrivals = self._arrivals(ref, inputs)
        if not len(arrivals.box):
            return replace(state, places=tuple(place for place in state.places if place.end > floor))
        places = [place for place in state.places if place.end > floor]
        first, pending = state.next_row, arrivals
        if places and places[-1].is_tail:
            first = max(places[-1].first, floor)
            pending = _joined([index.messages(np.arange(first, places.pop().end)), arrivals])
        writer = _SegmentWriter(self, ends, self._weighed(ref))
        while len(pending.box) >= index.TAIL:
            part, pending = _cut(pending, index.MOST)
            end = first + len(part.box)
            while places and index._is_merged((places[-1].first, places[-1].end), first, end):
                place = places.pop()
                part = _joined([index.messages(np.arange(place.first, place.end)), part])
                first = place.first
            places.append(writer.write(first, part))
            first = end
        if len(pending.box):
            places.append(writer.write(first, pending))
        next_row = state.next_row + len(arrivals.box)
        return replace(state, next_row=next_row, places=tuple(places), ends=writer.finished())

    def _floor(self, state: ArenaState, time_of: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> int:
        """Return the first row that counts after a batch, and so at the beginning of the next."""
        if self._window.count is not None:
            return max(state.floor, state.next_row - self._window.count)
        if state.now == NO_TIME:
            return state.floor
        assert self._window.length is not None
        return first_since(state.now - self._window.length, range(state.floor, state.next_row), time_of)

    def _arrivals(self, ref: WindowPartRef, inputs: BatchInputs) -> WindowBatch:
        """Return the messages of a batch that are not late, with words of the table."""
        if not len(inputs):
            return _no_messages()
        messages = inputs.segment.messages
        assert messages.clock is not None
        on_time = np.flatnonzero(~self._window.is_late(messages.time, messages.clock))
        return window_batch(taken(inputs.segment, on_time), self._table, self._weights_of(ref))

    def _weights_of(self, ref: WindowPartRef) -> TermWeights:
        if self._weights is None or self._weights[0] != ref.vocabulary:
            vocabulary = Vocabulary.open(ref.store.local(ref.vocabulary))
            self._weights, self._weight = (ref.vocabulary, TermWeights(self._table, vocabulary)), np.empty(0)
        return self._weights[1]

    def _weighed(self, ref: WindowPartRef) -> NDArray[np.float64]:
        """Return what all words weigh."""
        weights, known = self._weights_of(ref), len(self._weight)
        if len(self._table) > known:
            self._weight = np.concatenate([self._weight, weights.of_table(self._table, known)])
        return self._weight

    # --- generations ----------------------------------------------------------------------------------------------

    def _compacted(self, state: ArenaState, digest: str) -> ArenaState:
        """Copy what a state needs into a new generation, under the same words."""
        index = self._view_of(state).index
        columns, table = self._storage.created(), self._table
        writer = _SegmentWriter(self, (0,) * len(_NAMES), np.empty(0), columns)
        places = tuple(writer.copy(place, index.columns_at(place)) for place in state.places)
        state = replace(state, places=places, ends=writer.finished())
        self._storage.put_state(columns.name, digest, state.to_bytes())
        self._storage.use(columns.name)
        self._columns, self._view, self._table = columns, None, table
        return state

    def _rebuilt(
        self, ref: WindowPartRef, known: ArenaState | None, missing: Sequence[BatchFiles], digest: str, batch: int
    ) -> ArenaState:
        """Make a new generation of all messages, with the words they have, as these weigh now."""
        state, held, table = self._all_of(ref, known)
        words = MessageWords(WordTable())
        words.table = table
        is_used = np.zeros(len(table), np.bool_)
        is_used[held.word] = True
        kept, new_of_old = words.kept(is_used)
        held = held._replace(word=new_of_old[held.word])
        self._open(self._storage.created(), kept.table)
        for files in missing:
            first, time = state.next_row - len(held.box), held.time
            floor = self._floor(state, lambda rows, first=first, time=time: time[rows - first])  # type: ignore[misc]
            held = _cut(held, floor - first)[1]
            inputs = read_inputs(ref.store, files)
            arrivals = self._arrivals(ref, inputs)
            held = _joined([held, arrivals])
            next_row, now = state.next_row + len(arrivals.box), now_after(state.now, inputs, files)
            state = replace(state, floor=floor, next_row=next_row, now=now)
        weight = self._weighed(ref)
        held = held._replace(length=squared_lengths(held.word_start, held.word, held.count, self._table, weight))
        writer = _SegmentWriter(self, (0,) * len(_NAMES), weight)
        places, first = [], state.next_row - len(held.box)
        while len(held.box):
            part, held = _cut(held, MappedBlocks.MOST)
            places.append(writer.write(first, part))
            first += len(part.box)
        limit = 2 * len(self._table) + SPARE_WORDS
        state = replace(state, batch=batch, epoch=ref.store.epoch, word_limit=limit)
        state = replace(state, places=tuple(places), ends=writer.finished())
        assert self._columns is not None
        self._put(digest, state)
        self._storage.use(self._columns.name)
        return state

    def _all_of(self, ref: WindowPartRef, known: ArenaState | None) -> tuple[ArenaState, WindowBatch, WordTable]:
        """Return the messages of a state, or of the snapshot of the window, and the table of their words."""
        if known is not None:
            view = self._view_of(known)
            return known, view.index.messages(np.arange(known.floor, known.next_row)), view.table
        nothing = ArenaState(
            batch=-1, epoch=0, floor=0, next_row=0, now=NO_TIME, places=(), ends=(0,) * len(_NAMES), word_limit=0
        )
        if ref.snapshot is None:
            return nothing, _no_messages(), WordTable()
        folder = ref.store.local(ref.snapshot)
        about = json.loads((folder / "part.json").read_text())
        held = open_message_index("scan", folder / "messages", self._space)
        state = replace(nothing, floor=about["first"], next_row=about["next_row"], now=about["now"])
        return state, held.messages(np.arange(state.floor, state.next_row)), WordTable.open(folder / "words")

    def save(self, view: ArenaView, ref: WindowPartRef, folder: Path) -> None:
        """Write the messages of a view into a new folder, as `WindowPart.save` does."""
        state, index = view.state, copy.copy(view.index)
        with self.lock:
            table = copy.copy(view.table)  # nothing is looked up in it, and adding words leaves what is there alone
        vocabulary = Vocabulary.open(ref.store.local(ref.vocabulary))
        index.set_weights(TermWeights(table, vocabulary).of_table(table, 0))
        index.save(folder / "messages")
        table.save(folder / "words")
        about = {"next_row": state.next_row, "now": state.now, "first": state.floor}
        (folder / "part.json").write_text(json.dumps(about))

    def name(self, ref: WindowPartRef, snapshot: str) -> None:
        """Let the state after the last batch of `ref` be known by its snapshot, too, if it is still there."""
        with self.lock, self._storage.locked():
            state = self._found(digests_of(ref.snapshot, ref.history)[-1])
            if state is not None:
                ends = self._high_water()
                self._put(_digest(snapshot), replace(state, ends=ends))


class _SegmentWriter:
    """Writes segments behind the ends of all columns, and at last the words that are new."""

    def __init__(
        self, arena: Arena, ends: Sequence[int], weight: NDArray[np.float64], columns: ColumnFiles | None = None
    ):
        self._arena, self._weight, self._ends = arena, weight, list(ends)
        found = columns or arena._columns
        assert found is not None
        self._columns = found

    def write(self, first: int, batch: WindowBatch) -> SegmentPlace:
        """Build a segment of these messages, with rows from `first` on, and write it."""
        arena = self._arena
        weight = self._weight if len(batch.box) >= MappedBlocks.TAIL else np.empty(0)  # a tail needs none
        columns = segment_columns(arena._space, arena._window.is_by_time, first, batch, weight)
        nowhere = SegmentPlace(first, first + len(batch.box), (), ())
        return self.copy(nowhere, columns)

    def copy(self, place: SegmentPlace, columns: Columns) -> SegmentPlace:
        """Write the columns of a segment."""
        begins = tuple(self._ends[:_SEGMENT_GROUPS])
        columns = placed(columns, begins[1])
        sizes = []
        for at, group in enumerate(GROUPS.values()):
            for name in group:
                self._columns.write(name, begins[at], columns[name])
            sizes.append(len(columns[next(iter(group))]))
            self._ends[at] += sizes[-1]
        return SegmentPlace(place.first, place.end, begins, tuple(sizes))

    def finished(self) -> tuple[int, ...]:
        """Write the words that no file has yet; return the ends of all columns."""
        table, known = self._arena._table, self._ends[_WORD_ENDS]
        blob, start = table.arrays()
        n = len(table)
        self._columns.write("blob", self._ends[_BYTES], blob[start[known] : start[n]])
        self._columns.write("word_end", known, start[known + 1 : n + 1])
        self._ends[_BYTES], self._ends[_WORD_ENDS] = int(start[n]), n
        return tuple(self._ends)


def digests_of(snapshot: str | None, batches: Sequence[BatchFiles]) -> list[str]:
    """Return a digest of the history up to a snapshot, and up to the end of each of the batches since.

    The sequence of a batch has a name that no other attempt has, and an attempt has one history: so a state is known by
    it whichever snapshot one begins with. A batch without messages is known by the one before.
    """

    def after(before: str, files: BatchFiles) -> str:
        return _digest(files.sequence or before, files.beat, files.vocabulary)

    return list(accumulate(batches, after, initial=_digest(snapshot)))


def _digest(*content: object) -> str:
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


def _no_messages() -> WindowBatch:
    long, whole = np.zeros(0, np.int64), np.zeros(0, np.int32)
    return WindowBatch(np.zeros(1, np.int64), whole, whole, np.zeros((0, 4)), np.zeros(0), long)


def _joined(batches: Sequence[WindowBatch]) -> WindowBatch:
    columns = zip(*batches, strict=True)
    starts = next(columns)
    return WindowBatch(joined(list(starts)), *(np.concatenate(column) for column in columns))


def _cut(batch: WindowBatch, n: int) -> tuple[WindowBatch, WindowBatch]:
    """Return the first n messages, and the others."""
    at = int(batch.word_start[min(n, len(batch.box))])
    first = WindowBatch(
        batch.word_start[: n + 1], batch.word[:at], batch.count[:at], batch.box[:n], batch.length[:n], batch.time[:n]
    )
    others = WindowBatch(
        batch.word_start[n:] - at if n <= len(batch.box) else np.zeros(1, np.int64),
        batch.word[at:],
        batch.count[at:],
        batch.box[n:],
        batch.length[n:],
        batch.time[n:],
    )
    return first, others
