"""The workload of all peers: subscriptions for all of some words inside a box, and messages at points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.errors import InvalidColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.data.workloads import Workload

_SIDES = {"plane": ("x_min", "y_min", "x_max", "y_max"), "earth": ("west", "south", "east", "north")}
_PLACE = {"plane": ("x", "y"), "earth": ("lon", "lat")}
_AND = " AND "
#: So many words are looked up at once by Arrow, which first hashes all that there are; fewer one by one.
_FEW_WORDS = 10_000


@dataclass(frozen=True)
class BoxSubscriptions:
    """Subscriptions by row: `words` are lists of strings, `box` is x_min, y_min, x_max, y_max, borders included.

    `table` has the same as a hub takes them, with the row as id. On the earth x is the longitude, and no box crosses
    the dateline.
    """

    words: pa.ListArray
    box: NDArray[np.float64]
    table: pa.Table

    def __len__(self) -> int:
        return len(self.box)

    @property
    def is_on_earth(self) -> bool:
        """Tell whether x and y are longitude and latitude."""
        return "west" in self.table.column_names

    def first(self, n: int) -> BoxSubscriptions:
        """Return the first `n` rows."""
        return BoxSubscriptions(self.words.slice(0, n), self.box[:n], self.table.slice(0, n))


@dataclass(frozen=True)
class PointMessages:
    """Messages by row: `words` are lists of distinct strings, `place` is x and y, `table` as a hub takes them."""

    words: pa.ListArray
    place: NDArray[np.float64]
    table: pa.Table

    def __len__(self) -> int:
        return len(self.place)

    def take(self, rows: NDArray[np.int64]) -> PointMessages:
        """Return these rows, in this order, numbered anew."""
        table = self.table.take(pa.array(rows))
        return PointMessages(self.words.take(pa.array(rows)), self.place[rows], _numbered(table))


class PeerWorkload(NamedTuple):
    """What all peers are loaded with and asked, in one space, `plane` or `earth`."""

    space: str
    subscriptions: BoxSubscriptions
    messages: PointMessages


def peer_workload(workload: Workload) -> PeerWorkload:
    """Return a workload of conjunctions in boxes as all peers take it; raise `InvalidColumns` for any other."""
    subscriptions, messages = (_whole(table) for table in (workload.subscriptions, workload.messages))
    space = "earth" if "west" in subscriptions.column_names else "plane"
    for name in ("query", *_SIDES[space]):
        if name not in subscriptions.column_names:
            raise InvalidColumns(f"the workload cannot be used: peers need the column {name!r} of subscriptions")
    asked = pc.split_pattern(subscriptions["query"].combine_chunks(), _AND)
    said = messages["terms"].combine_chunks()
    return PeerWorkload(
        space,
        BoxSubscriptions(asked, _columns(subscriptions, _SIDES[space]), _numbered(subscriptions)),
        PointMessages(said, _columns(messages, _PLACE[space]), _numbered(messages)),
    )


def _whole(table: pa.Table) -> pa.Table:
    return table.combine_chunks()


def _columns(table: pa.Table, names: tuple[str, ...]) -> NDArray[np.float64]:
    return np.column_stack([table[name].to_numpy() for name in names])


def _numbered(table: pa.Table) -> pa.Table:
    """Return the table with the row as id: peers answer with rows."""
    return table.set_column(table.column_names.index("id"), "id", pa.array(np.arange(table.num_rows)))


class WordNumberLists(NamedTuple):
    """Lists of words as numbers: row i has numbers[start[i]:start[i + 1]]."""

    start: NDArray[np.int64]
    numbers: NDArray[np.int32]

    def lists(self) -> list[list[int]]:
        """Return a Python list for each row."""
        numbers, start = self.numbers.tolist(), self.start.tolist()
        return [numbers[start[row] : start[row + 1]] for row in range(len(start) - 1)]

    def to_arrow(self) -> pa.ListArray:
        """Return the rows as lists of int32."""
        return pa.ListArray.from_arrays(pa.array(self.start, pa.int32()), pa.array(self.numbers))


class WordNumbers:
    """A number for each word of the subscriptions, for peers that compare numbers faster than strings.

    `of_subscriptions` are their words in this form; how many of them have a word is `counts[number]`.
    """

    def __init__(self, subscriptions: BoxSubscriptions) -> None:
        coded = subscriptions.words.flatten().dictionary_encode()
        self._words = coded.dictionary
        self.of_subscriptions = WordNumberLists(_starts(subscriptions.words), coded.indices.to_numpy().astype(np.int32))
        self._number = {word: number for number, word in enumerate(self._words.to_pylist())}
        self.counts = np.bincount(self.of_subscriptions.numbers, minlength=len(self._words))

    def words_of(self, numbers: NDArray[np.int32]) -> list[str]:
        """Return the words of some numbers."""
        found: list[str] = self._words.take(pa.array(numbers)).to_pylist()
        return found

    def of_messages(self, words: pa.ListArray) -> WordNumberLists:
        """Return the words of messages that any subscription has; others cannot matter."""
        said = words.flatten()
        if len(said) < _FEW_WORDS:
            found = np.array([self._number.get(word, -1) for word in said.to_pylist()], np.int32)
        else:
            found = pc.fill_null(pc.index_in(said, value_set=self._words), -1).to_numpy()
        known_before = np.concatenate([[0], np.cumsum(found >= 0)])
        return WordNumberLists(known_before[_starts(words)], found[found >= 0])

    def rarest(self) -> NDArray[np.int32]:
        """Return for each subscription the word of its own that the fewest subscriptions have."""
        start, numbers = self.of_subscriptions
        counts = self.counts[numbers]
        least = np.repeat(np.minimum.reduceat(counts, start[:-1]), np.diff(start))
        row = np.repeat(np.arange(len(start) - 1), np.diff(start))
        is_rarest = np.flatnonzero(counts == least)
        _, first = np.unique(row[is_rarest], return_index=True)
        return numbers[is_rarest[first]]


def _starts(lists: pa.ListArray) -> NDArray[np.int64]:
    """Return where the values of each list begin in its flattened values."""
    lengths = lists.value_lengths().to_numpy()
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
