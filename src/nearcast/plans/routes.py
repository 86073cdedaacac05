"""The routing table: a hash table from (word, cell) to the partitions that need such messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast._saved import replace_file
from nearcast.errors import unreadable_store
from nearcast.plans.base import Keys
from nearcast.plans.grid import Grid, leaf_at, push_touched

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages

_FILE = "routes.npz"
_NO_KEY = -1
#: The part of a table's places that keys may take.
_FULL = 0.7
_STACK = 128
#: Flags of a word: it has a key of any cell, and keys of certain cells.
_EVERYWHERE, _SOMEWHERE = 1, 2
_NO_GRID = Grid(np.zeros(1, np.int32), np.zeros(1), np.full(1, -1, np.int32), np.zeros(1, np.int32))


class Routes:
    """(word, cell) → partitions, for the keys added so far.

    A table of open addresses: place i holds `(word + 1) << 32 | cell + 1` and the partitions as bits of some bytes.
    Adding keys puts them in their places, doubling the table where it would be fuller than `_FULL`, so that adding a
    few costs little. Every worker has all of it: nine bytes a place with up to eight partitions.
    """

    def __init__(self, partitions: int, grid: Grid | None = None):
        self.partitions, self.grid = partitions, grid
        self._key = np.full(16, _NO_KEY, np.int64)
        self._bits = np.zeros((16, -(-partitions // 8)), np.uint8)
        self._flags = np.zeros(1, np.uint8)
        self._n = 0
        self._counts: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        """Memory taken by the arrays, in bytes."""
        return self._key.nbytes + self._bits.nbytes + self._flags.nbytes

    @property
    def is_everywhere(self) -> bool:
        """Tell whether every message goes to every partition."""
        found = np.flatnonzero(self._key == 0)
        return bool(len(found)) and int(np.bitwise_count(self._bits[found[0]]).sum()) == self.partitions

    def add(self, keys: Keys) -> None:
        """Let the partitions of these keys have the messages of these keys."""
        if not len(keys.word):
            return
        self._flag_words(int(keys.word.max()) + 2)
        packed, partition = _packed(keys), np.ascontiguousarray(keys.partition)
        done = 0
        while done < len(packed):
            room = self._room(len(packed) - done)
            part = slice(done, done + room)
            self._n += _enter(self._key, self._bits, self._flags, packed[part], partition[part])
            done += room
        self._counts = None

    def replace(self, partitions: Sequence[int], keys: Keys) -> None:
        """Let these partitions have the messages of these keys and no others; keys of other partitions are added."""
        held = self.keys()
        kept = np.flatnonzero(~np.isin(held.partition, list(partitions)))
        fresh = Routes(self.partitions, self.grid)
        fresh.add(Keys.concat([Keys(*(column[kept] for column in held)), keys]))
        self._key, self._bits, self._flags, self._n = fresh._key, fresh._bits, fresh._flags, fresh._n
        self._counts = None

    def without_known(self, keys: Keys) -> Keys:
        """Return the keys that are not among those added so far."""
        if not len(keys.word):
            return keys
        is_known = np.zeros(len(keys.word), np.bool_)
        _look_up(self._key, self._bits, _packed(keys), np.ascontiguousarray(keys.partition), is_known)
        return keys if not is_known.any() else Keys(*(column[~is_known] for column in keys))

    def counts(self) -> tuple[int, ...]:
        """Return how many keys each partition has."""
        if self._counts is None:
            self._counts = tuple(np.bincount(self.keys().partition, minlength=self.partitions).tolist())
        return self._counts

    @property
    def spread(self) -> float:
        """How many partitions a pair of word and cell leads to, on average."""
        return sum(self.counts()) / max(1, self._n)

    def _flag_words(self, words: int) -> None:
        if words > len(self._flags):
            self._flags = np.concatenate([self._flags, np.zeros(max(words, len(self._flags)), np.uint8)])

    def _room(self, wanted: int) -> int:
        """Return how many keys may be entered next, after making a table larger that is nearly full.

        How many of them are new is not known before: a key comes once for each partition.
        """
        size = len(self._key)
        room = int(_FULL * size) - self._n
        if room < min(wanted, size // 16):
            key, bits = np.full(2 * size, _NO_KEY, np.int64), np.zeros((2 * size, self._bits.shape[1]), np.uint8)
            _spread(self._key, self._bits, key, bits)
            self._key, self._bits = key, bits
            room = int(_FULL * 2 * size) - self._n
        return min(room, wanted)

    def route(self, messages: Messages) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return list starts and the partitions of each message, ascending."""
        messages = messages.for_kernels()
        bits = np.zeros((len(messages), self._bits.shape[1]), np.uint8)
        grid = _NO_GRID if self.grid is None else self.grid
        stack = np.empty(_STACK, np.int32)
        _find(
            self._key,
            self._bits,
            self._flags,
            grid,
            self.grid is not None,
            messages.term_start,
            messages.terms,
            messages.box,
            stack,
            bits,
        )
        start = np.zeros(len(messages) + 1, np.int64)
        _count(bits, start)
        partition = np.empty(int(start[-1]), np.int32)
        _write(bits, start, partition)
        return start, partition

    def keys(self) -> Keys:
        """Return all keys, each once, in no particular order."""
        place = np.flatnonzero(self._key != _NO_KEY)
        start = np.zeros(len(place) + 1, np.int64)
        bits = np.ascontiguousarray(self._bits[place])
        _count(bits, start)
        partition = np.empty(int(start[-1]), np.int32)
        _write(bits, start, partition)
        packed = np.repeat(self._key[place], np.diff(start))
        word, cell = (packed >> 32) - 1, (packed & 0xFFFFFFFF) - 1
        return Keys(word.astype(np.int32), cell.astype(np.int32), partition)

    def save(self, folder: Path) -> None:
        """Write the keys and the grid into a folder, in one step."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        columns = self.keys()._asdict()
        if self.grid is not None:
            columns |= {f"grid_{name}": column for name, column in self.grid._asdict().items()}

        def write(path: Path) -> None:
            with path.open("wb") as file:
                np.savez(file, partitions=np.array(self.partitions), **columns)

        replace_file(folder / _FILE, write)

    @classmethod
    def open(cls, folder: Path) -> Routes:
        """Return the routes saved in a folder; IncompatibleStore if the file is missing or damaged."""
        path = Path(folder) / _FILE
        try:
            with np.load(path, allow_pickle=False) as saved:
                grid = Grid(*(saved[f"grid_{name}"] for name in Grid._fields)) if "grid_axis" in saved else None
                routes = cls(int(saved["partitions"]), grid)
                routes.add(Keys(*(saved[name] for name in Keys._fields)))
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise unreadable_store(f"{path} is missing or damaged ({error}); save the routes again", error) from None
        return routes


def _packed(keys: Keys) -> NDArray[np.int64]:
    """Return word and cell of each key as one number."""
    packed: NDArray[np.int64] = ((keys.word.astype(np.int64) + 1) << 32) | (keys.cell.astype(np.int64) + 1)
    return packed


@inlined
def _place_of(key, packed):
    """Return the place of a key, or of the empty place where it belongs."""
    mask = key.size - 1
    mixed = (packed >> 32) * 2654435769 + (packed & 0xFFFFFFFF) * 40503
    place = (mixed ^ (mixed >> 27)) & mask
    while key[place] != packed and key[place] != _NO_KEY:
        place = (place + 1) & mask
    return place


@kernel
def _enter(key, bits, flags, packed, partition):
    """Enter keys, for which there is room; return how many were new."""
    new = 0
    for i in range(packed.size):
        place = _place_of(key, packed[i])
        if key[place] == _NO_KEY:
            key[place] = packed[i]
            new += 1
        bits[place, partition[i] >> 3] |= np.uint8(1 << (partition[i] & 7))
        flags[packed[i] >> 32] |= _EVERYWHERE if packed[i] & 0xFFFFFFFF == 0 else _SOMEWHERE
    return new


@kernel
def _look_up(key, bits, packed, partition, is_known):
    """Tell which keys were entered for their partition."""
    for i in range(packed.size):
        place = _place_of(key, packed[i])
        is_known[i] = key[place] == packed[i] and bits[place, partition[i] >> 3] >> (partition[i] & 7) & 1 != 0


@kernel
def _spread(old_key, old_bits, key, bits):
    for i in range(old_key.size):
        if old_key[i] != _NO_KEY:
            place = _place_of(key, old_key[i])
            key[place] = old_key[i]
            bits[place] = old_bits[i]


@inlined
def _collect(key, bits, packed, out, message):
    place = _place_of(key, packed)
    if key[place] == packed:
        for b in range(out.shape[1]):
            out[message, b] |= bits[place, b]


@inlined
def _collect_cell(key, bits, flags, cell, term_start, terms, out, message):
    """Collect the keys of one cell."""
    if flags[0] & _SOMEWHERE:
        _collect(key, bits, np.int64(cell) + 1, out, message)
    for i in range(term_start[message], term_start[message + 1]):
        word = np.int64(terms[i]) + 1
        if 0 < word < flags.size and flags[word] & _SOMEWHERE:
            _collect(key, bits, (word << 32) | (np.int64(cell) + 1), out, message)


@kernel
def _find(key, bits, flags, grid, has_grid, term_start, terms, box, stack, out):
    """Write the partitions of each message as bits."""
    for message in range(out.shape[0]):
        if flags[0] & _EVERYWHERE:
            _collect(key, bits, np.int64(0), out, message)
        for i in range(term_start[message], term_start[message + 1]):
            word = np.int64(terms[i]) + 1
            if 0 < word < flags.size and flags[word] & _EVERYWHERE:
                _collect(key, bits, word << 32, out, message)
        if not has_grid:
            continue
        x_min, y_min, x_max, y_max = box[message, 0], box[message, 1], box[message, 2], box[message, 3]
        if x_min == x_max and y_min == y_max:
            cell = leaf_at(grid, x_min, y_min)
            _collect_cell(key, bits, flags, cell, term_start, terms, out, message)
            continue
        # Across the dateline a place is two rectangles.
        for side in range(1 if x_min <= x_max else 2):
            low = x_min if side == 0 else -180.0
            high = x_max if x_min <= x_max or side == 1 else 180.0
            depth, stack[0] = 1, 0
            while depth > 0:
                depth -= 1
                node = stack[depth]
                if grid.child[node] < 0:
                    _collect_cell(key, bits, flags, grid.cell[node], term_start, terms, out, message)
                else:
                    depth = push_touched(grid, node, low, y_min, high, y_max, stack, depth)


@kernel
def _count(bits, start):
    for row in range(bits.shape[0]):
        n = 0
        for b in range(bits.shape[1]):
            rest = np.int64(bits[row, b])
            while rest != 0:
                rest &= rest - 1
                n += 1
        start[row + 1] = start[row] + n


@kernel
def _write(bits, start, partition):
    for row in range(bits.shape[0]):
        n = start[row]
        for b in range(bits.shape[1]):
            rest = np.int64(bits[row, b])
            at = 8 * b
            while rest != 0:
                if rest & 1:
                    partition[n] = at
                    n += 1
                rest >>= 1
                at += 1
