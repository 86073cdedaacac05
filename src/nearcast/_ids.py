"""Subscription ids ↔ slots, in flat arrays: about 40 bytes an id where a dictionary takes 150.

An id is a string or an integer; 1 and "1" are two ids. Integers are kept under a key that no string id can have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast._jit import kernel
from nearcast._saved import save_array
from nearcast._saved_arrays import SavedArrays
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

Id = str | int

#: Begins the key of an integer id; string ids may not contain it.
INTEGER_MARK = "\x00"
_NO_SLOT = -1


def key_of(value: Id) -> str:
    """Return the key an id is stored under."""
    return value if isinstance(value, str) else f"{INTEGER_MARK}{value}"


def id_of(key: str) -> Id:
    """Return the id stored under a key."""
    return int(key[1:]) if key.startswith(INTEGER_MARK) else key


def keys_of(ids: pa.Array) -> pa.Array:
    """Return the keys of a column of ids."""
    if pa.types.is_integer(ids.type):
        return pc.binary_join_element_wise(INTEGER_MARK, ids.cast(pa.string()), "")
    return ids


class IdSnapshot(NamedTuple):
    """The ids of slots as they were when it was taken: ids bound later are not in it, and none goes missing."""

    blob: NDArray[np.uint8]
    start: NDArray[np.int64]
    key_of_slot: NDArray[np.int32]
    kinds: frozenset[bool]

    def value(self, slot: int) -> Id:
        """Return the id of one slot."""
        key = self.key_of_slot[slot]
        return id_of(self.blob[self.start[key] : self.start[key + 1]].tobytes().decode())

    def ids_of(self, keys: pa.Array) -> pa.Array:
        """Return keys as ids: int64 if all ids there are are integers, else strings."""
        if True not in self.kinds:
            return keys
        return pc.replace_substring(keys, INTEGER_MARK, "").cast(pa.string() if False in self.kinds else pa.int64())

    def keys(self, slots: NDArray[np.int32]) -> pa.Array:
        """Return the keys of many slots: ids as text, integers behind their mark."""
        keys = self.key_of_slot[slots]
        offsets = np.zeros(len(keys) + 1, np.int64)
        np.cumsum(self.start[keys + 1] - self.start[keys], out=offsets[1:])
        content = np.empty(int(offsets[-1]), np.uint8)
        _gather(self.blob, self.start, keys, offsets, content)
        large = pa.LargeStringArray.from_buffers(len(keys), pa.py_buffer(offsets), pa.py_buffer(content))
        return large.cast(pa.string())


class IdTable:
    """Which slot an id has, and which id a slot."""

    def __init__(self) -> None:
        self._keys = WordTable()
        self._slot_of_key = np.empty(0, np.int32)
        self._key_of_slot = np.empty(0, np.int32)
        self._n_bound = 0
        self._kinds: frozenset[bool] = frozenset()  # True: there have been integers; False: strings

    def __len__(self) -> int:
        return self._n_bound

    @property
    def nbytes(self) -> int:
        """Return the memory taken by the arrays."""
        return self._keys.nbytes + self._slot_of_key.nbytes + self._key_of_slot.nbytes

    def slot(self, value: Id) -> int:
        """Return the slot of an id, -1 if it has none."""
        key = self._keys.id_of(key_of(value))
        return int(self._slot_of_key[key]) if 0 <= key < len(self._slot_of_key) else _NO_SLOT

    def slots(self, ids: pa.Array) -> NDArray[np.int32]:
        """Return the slots of a column of ids, -1 where there is none."""
        keys = self._keys.ids_of_column(keys_of(ids), add=False)
        known = (keys >= 0) & (keys < len(self._slot_of_key))
        found = np.full(len(ids), _NO_SLOT, np.int32)
        found[known] = self._slot_of_key[keys[known]]
        return found

    def in_use(self) -> NDArray[np.int32]:
        """Return the slots that have an id, ascending."""
        slots = np.sort(self._slot_of_key[: len(self._keys)])
        used: NDArray[np.int32] = slots[slots != _NO_SLOT]
        return used

    def bind(self, ids: pa.Array, slots: NDArray[np.int32]) -> None:
        """Give ids that have no slot these slots."""
        if len(ids):
            self._kinds |= {pa.types.is_integer(ids.type)}
        self._bind(keys_of(ids), slots)

    def _bind(self, names: pa.Array, slots: NDArray[np.int32]) -> None:
        keys = self._keys.ids_of_column(names, add=True)
        self._slot_of_key = _with_room(self._slot_of_key, len(self._keys))
        self._key_of_slot = _with_room(self._key_of_slot, int(slots.max(initial=-1)) + 1)
        self._slot_of_key[keys] = slots
        self._key_of_slot[slots] = keys
        self._n_bound += len(slots)

    def release(self, slots: NDArray[np.int32]) -> None:
        """Let the ids of these slots have none."""
        self._slot_of_key[self._key_of_slot[slots]] = _NO_SLOT
        self._n_bound -= len(slots)
        if len(self._keys) > 2 * self._n_bound + 100_000:
            self._drop_released()

    def _drop_released(self) -> None:
        """Forget the keys without a slot, so that ids that come and go do not fill memory."""
        kept = np.flatnonzero(self._slot_of_key[: len(self._keys)] != _NO_SLOT)
        slots = self._slot_of_key[kept]
        words = self._keys.words().take(_arrow.numbers(kept))
        self._keys, self._n_bound = WordTable(), 0
        self._slot_of_key = np.empty(0, np.int32)
        self._key_of_slot = np.full(len(self._key_of_slot), _NO_SLOT, np.int32)
        self._bind(words, slots)

    def renumber(self, old: NDArray[np.int32]) -> None:
        """Follow an index that gave slot `old[i]` the number i."""
        key_of_slot = self._key_of_slot[old]
        self._slot_of_key[key_of_slot] = np.arange(len(old))
        self._key_of_slot = key_of_slot

    def save(self, folder: Path) -> None:
        """Write all ids and their slots into a new folder."""
        self._keys.save(folder)
        save_array(folder / "slot_of_key.npy", self._slot_of_key)
        save_array(folder / "key_of_slot.npy", self._key_of_slot)
        kinds = np.array(sorted(self._kinds), np.uint8)
        save_array(folder / "kinds.npy", kinds)

    @classmethod
    def open(cls, folder: Path) -> IdTable:
        """Return the table that was saved in a folder; ids and slots must name each other."""
        arrays, table = SavedArrays(folder), cls()
        table._keys = WordTable.open(folder)
        slot_of_key, key_of_slot = arrays.loaded("slot_of_key", np.int32), arrays.loaded("key_of_slot", np.int32)
        kinds = arrays.loaded("kinds", np.uint8)
        arrays.numbers("slot_of_key", slot_of_key, len(key_of_slot), least=_NO_SLOT)
        arrays.numbers("key_of_slot", key_of_slot, len(table._keys), least=_NO_SLOT)
        bound = np.flatnonzero(slot_of_key != _NO_SLOT)
        arrays.check("slot_of_key", (key_of_slot[slot_of_key[bound]] == bound).all(), "it disagrees with key_of_slot")
        arrays.numbers("kinds", kinds, 2)
        _check_kinds(arrays, table._keys, kinds)
        table._slot_of_key, table._key_of_slot, table._n_bound = slot_of_key, key_of_slot, len(bound)
        table._kinds = frozenset(map(bool, kinds))
        return table

    def snapshot(self) -> IdSnapshot:
        """Return the ids as they are now; costs nothing, for the arrays are only ever added to."""
        return IdSnapshot(*self._keys.arrays(), self._key_of_slot, self._kinds)


def _check_kinds(arrays: SavedArrays, keys: WordTable, kinds: NDArray[np.uint8]) -> None:
    """Check that ids are of the kinds that were noted, and what stands behind the mark of integers is one."""
    words = keys.words()
    is_marked = pc.starts_with(words, INTEGER_MARK)
    found = {bool(each) for each in pc.unique(is_marked).to_pylist()}
    arrays.check("kinds", found <= set(map(bool, kinds)), "ids are of other kinds")
    is_integer = pc.match_substring_regex(words.filter(is_marked), f"^{INTEGER_MARK}-?[0-9]+$")
    arrays.check("words_blob", pc.all(is_integer, min_count=0).as_py(), "an id is no integer")


def _with_room(column: NDArray[np.int32], n: int) -> NDArray[np.int32]:
    """Return the column with room for n, grown by a half at least and never in place: snapshots keep the old one."""
    if n <= len(column):
        return column
    grown = np.full(n if not len(column) else max(n, len(column) * 3 // 2), _NO_SLOT, np.int32)
    grown[: len(column)] = column
    return grown


@kernel
def _gather(blob, start, keys, offsets, content):
    """Copy the bytes of each key to `content`."""
    for i in range(keys.size):
        first = start[keys[i]]
        for k in range(start[keys[i] + 1] - first):
            content[offsets[i] + k] = blob[first + k]
