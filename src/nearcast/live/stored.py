"""A store that keeps live messages in the rows of one table; every store stands on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from nearcast._ids import StoredIds
from nearcast._saved import new_folder, save_array
from nearcast.columns import NO_TIME, Messages
from nearcast.errors import IncompatibleStore, InvalidColumns
from nearcast.indexes.shared.saved_checks import check_points
from nearcast.live.contract import LiveStore
from nearcast.live.expiry_queue import ExpiryQueue
from nearcast.live.table import LiveTable, table_of
from nearcast.saved_files.arrays import SavedArrays
from nearcast.text.message_words import MessageWords
from nearcast.text.weights import message_totals
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.text.weights import TermWeights

_FORMAT = 1
#: Dropped rows that may be kept beside as many as live, and words that none has beside as many as are in use.
_SPARE_ROWS = 1000
_SPARE_WORDS = 100_000
#: Up to so many ids are decoded at once.
_FEW_IDS = 64


class LiveState(NamedTuple):
    """All that a store holds: its first `n` rows, of which `n_dropped`, with `expires` <= `now`, are dropped."""

    table: LiveTable
    n: int
    n_dropped: int
    now: int
    queue: ExpiryQueue
    words: MessageWords


class StoredLife(LiveStore):
    """Keeps messages in the rows of a table; a store over it answers questions.

    A structure over the rows is derived from them when a question is asked: rows behind those it knows are new.
    `_rows_renumbered()` is called where rows, or the ids of words, are others than before. It only forgets, so that it
    may run at any time.
    """

    def __init__(self, space: Space, terms: WordTable):
        super().__init__(space, terms)
        #: Up to so many words there is no need to ask which are in use.
        self._word_limit = _SPARE_WORDS
        self._state = LiveState(
            table=LiveTable.empty(),
            n=0,
            n_dropped=0,
            now=NO_TIME,
            queue=ExpiryQueue.none(),
            words=MessageWords(terms),
        )

    # What a structure may override

    def _rows_renumbered(self) -> None:
        """Rows or words are others than before; build anew at the next question."""

    def _structure_bytes(self) -> int:
        """Return the size of what stands over the rows."""
        return 0

    # The contract

    def __len__(self) -> int:
        return self._state.n - self._state.n_dropped

    @property
    def word_table(self) -> WordTable:
        """The words of the messages, by whose ids they give their `live_terms`."""
        return self._state.words.table

    @property
    def next_expiry(self) -> int:
        """When the next message that is not dropped ends, or some time before."""
        return self._state.queue.next_expiry

    def append(self, messages: Messages, arrival: NDArray[np.int64], expires: NDArray[np.int64]) -> None:
        """Store messages, which arrived at these steps and end at these times."""
        if messages.live_terms is None or messages.totals is None:
            raise InvalidColumns("live messages need all their words; give them `live_terms` and `totals`")
        if not len(messages):
            return
        state = self._state
        last = int(state.table.arrival[state.n - 1]) if state.n else -1
        if arrival[0] <= last or (np.diff(arrival) <= 0).any():
            raise ValueError(f"arrivals must ascend, and go on behind {last}")
        table = state.table.extended(state.n, table_of(messages, arrival, expires))
        self._state = state._replace(
            table=table,
            n=state.n + len(messages),
            n_dropped=state.n_dropped + int((expires <= state.now).sum()),
            queue=state.queue.with_rows(state.n, expires, state.now),
        )

    def expired(self, now: int) -> NDArray[np.int64]:
        """Return the arrivals of the messages that are over and not dropped, by `expires`, then arrival."""
        return self._state.table.arrival[self._queue_beyond(now).until(now)]

    def drop(self, now: int) -> None:
        """Forget the messages that are over at this time."""
        state = self._state
        if now > state.now:
            queue = self._queue_beyond(now)
            n_dropped = state.n_dropped + len(queue.until(now))
            self._state = state._replace(n_dropped=n_dropped, now=now, queue=queue.without(now))

    def _queue_beyond(self, now: int) -> ExpiryQueue:
        """Return the queue once it knows all rows that end at this time or before."""
        state = self._state
        if now >= state.queue.bound:
            state = state._replace(queue=ExpiryQueue.filled(self._rows().expires, state.now, now))
            self._state = state
        return state.queue

    def messages(self, arrival: NDArray[np.int64]) -> Messages:
        """Return stored messages, their words as terms of subscriptions."""
        rows = self._rows().take(self._rows_of(arrival))
        totals = np.zeros((len(rows.box), 3))
        totals[:, :2] = rows.total
        found = Messages.of(rows.term_start, self._as_terms(rows.term), rows.box, expires=rows.expires, totals=totals)
        return Messages(**{**vars(found), "ids": rows.id_values(np.arange(len(rows.box))), "live_terms": rows.term})

    def _as_terms(self, words: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the terms of subscriptions that these words are, -1 for those that are none."""
        distinct, place = np.unique(words, return_inverse=True)
        first = int(np.searchsorted(distinct, 0))  # before it stands -1, if anything
        blob, start = self.word_table.arrays()
        lengths = (start[distinct[first:] + 1] - start[distinct[first:]]).astype(np.int32)
        terms = np.full(len(distinct), -1, np.int32)
        terms[first:] = self._state.words.known.ids(blob, start[distinct[first:]], lengths, add=False)
        return terms[place]

    def ids(self, arrival: NDArray[np.int64]) -> NDArray[np.object_]:
        """Return the ids of stored messages."""
        found = np.empty(len(arrival), object)
        found[:] = self._rows().id_values(self._rows_of(arrival))
        return found

    def id_column(self, arrival: NDArray[np.int64]) -> NDArray[np.object_] | StoredIds:
        """Return the ids of messages that this store has named, many of them as a column that is read later."""
        if len(arrival) <= _FEW_IDS:  # a column would keep the table alive
            return self.ids(arrival)
        table, n = self._state.table, self._state.n
        return StoredIds(arrival, table.arrival[:n], table.id_start[: n + 1], table.id_byte)

    def expires(self, arrival: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return when stored messages end."""
        return self._rows().expires[self._rows_of(arrival)]

    def reweigh(self, weights: TermWeights) -> None:
        """Work the totals of all messages out again."""
        state, rows = self._state, self._rows()
        total = message_totals(rows.term_start, rows.term, self.word_table, weights)[:, :2]
        table = state.table._replace(total=np.ascontiguousarray(total))
        self._state = state._replace(table=table)

    def use_terms(self, terms: WordTable) -> None:
        """Take the words of subscriptions from another table from now on."""
        self._state = self._state._replace(words=self._state.words.with_terms_of(terms))

    def tidy(self) -> None:
        """Free the memory of dropped messages and of words that no message has, when they are the majority."""
        if self._state.n_dropped > len(self) + _SPARE_ROWS:
            self._keep_live()
        if len(self.word_table) > self._word_limit:
            self._keep_words()
            self._word_limit = 2 * len(self.word_table) + _SPARE_WORDS

    def _keep_live(self) -> None:
        """Put the rows that are not dropped into a table of their own."""
        live = np.flatnonzero(self._rows().expires > self._state.now)
        table = self._rows().take(live)
        self._hold_others(self._state._replace(table=table, n=len(live), n_dropped=0, queue=ExpiryQueue.unknown()))

    def _keep_words(self) -> None:
        """Give the words of the rows other ids, unless most of the words that are known are in use."""
        rows = self._rows()
        is_used = np.zeros(len(self.word_table), np.bool_)
        is_used[rows.term[rows.term >= 0]] = True
        if 2 * int(is_used.sum()) + _SPARE_WORDS >= len(is_used):
            return
        words, new_of_old = self._state.words.kept(is_used)
        term = np.append(new_of_old, np.int32(-1))[rows.term]  # the last is that of -1
        table = self._state.table._replace(term=term)
        self._hold_others(self._state._replace(table=table, words=words))

    def _hold_others(self, state: LiveState) -> None:
        """Hold rows that are others than before; what is derived from them is forgotten first, and is never missed."""
        self._rows_renumbered()
        self._state = state

    def mark(self) -> LiveState:
        """Return what is held."""
        return self._state

    def rewind(self, mark: LiveState) -> None:
        """Hold again what was held when the mark was taken."""
        self._hold_others(mark)

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes."""
        size = self._state.table.nbytes + self._state.queue.nbytes + self.word_table.nbytes + self._structure_bytes()
        return {"store": self.name, "messages": len(self), "words": len(self.word_table), "bytes": size}

    def _rows(self) -> LiveTable:
        """Return the rows in use, those dropped included."""
        return self._state.table.first(self._state.n)

    def _rows_of(self, arrival: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of stored messages."""
        known = self._rows().arrival
        rows = np.searchsorted(known, arrival)
        if len(arrival) and not (len(known) and (known[np.minimum(rows, len(known) - 1)] == arrival).all()):
            raise IndexError("a message is asked for that is not stored, or no more")
        return rows

    # Files

    def save(self, folder: str | Path) -> None:
        """Write everything as plain arrays into a new folder."""
        folder = new_folder(folder)
        rows = self._rows()
        live = rows.take(np.flatnonzero(rows.expires > self._state.now))
        for name, column in zip(LiveTable._fields, live, strict=True):
            save_array(folder / f"{name}.npy", np.asarray(column))
        self.word_table.save(folder / "words")
        save_array(folder / "about.npy", np.array((_FORMAT, self._state.now), np.int64))

    @classmethod
    def open(cls, folder: str | Path, space: Space, terms: WordTable) -> Self:
        """Read what a store of any name saved."""
        arrays = SavedArrays(folder)
        about = arrays.mapped("about", np.int64)
        if about.shape != (2,) or about[0] != _FORMAT:
            raise IncompatibleStore(
                f"{folder}/about.npy was not saved with live messages in format {_FORMAT}; build it anew"
            )
        words = MessageWords(terms)
        words.table = WordTable.open(Path(folder) / "words")
        table = LiveTable(*(arrays.mapped(name, *kind) for name, kind in _TYPES.items()))
        _check(arrays, table, len(words.table), space)
        arrays.check("expires", (table.expires > about[1]).all(), "a message is over")
        store, n = cls(space, terms), len(table.box)
        queue = ExpiryQueue.unknown()
        store._state = LiveState(table=table, n=n, n_dropped=0, now=int(about[1]), queue=queue, words=words)
        return store


_TYPES: dict[str, tuple[Any, ...]] = {
    "term_start": (np.int64,),
    "term": (np.int32,),
    "box": (np.float64, 4),
    "total": (np.float64, 2),
    "arrival": (np.int64,),
    "expires": (np.int64,),
    "id_start": (np.int64,),
    "id_byte": (np.uint8,),
}


def _check(arrays: SavedArrays, table: LiveTable, n_words: int, space: Space) -> None:
    """Check saved messages: lists within bounds, words and ids that exist, places that are numbers."""
    n = len(table.box)
    arrays.starts("term_start", table.term_start, n, len(table.term))
    arrays.numbers("term", table.term, n_words, least=-1)
    check_points(arrays, "box", table.box, space)
    arrays.length("total", table.total, n)
    arrays.within("total", table.total, 0.0, np.inf)
    arrays.length("arrival", table.arrival, n)
    arrays.check("arrival", (np.diff(table.arrival) > 0).all(), "its numbers do not ascend")
    arrays.length("expires", table.expires, n)
    arrays.starts("id_start", table.id_start, n, len(table.id_byte))
    try:
        table.id_values(np.arange(n))
    except ValueError:
        raise arrays.damaged("id_byte", "it holds bytes that are no ids") from None
