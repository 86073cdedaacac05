"""Subscription ids ↔ slots, in flat arrays: about 40 bytes an id where a dictionary takes 150.

An id is a string or an integer; 1 and "1" are two ids. Both are kept under keys, which are strings: an integer under
its digits behind a zero byte, a string under itself. A string that begins with a zero byte, which no subscription has
but anybody may ask for, gets two more, so that no two ids have the same key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from numbers import Integral
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast._jit import kernel
from nearcast._saved import save_array
from nearcast.errors import InvalidColumns
from nearcast.nesting import is_encodable
from nearcast.saved_files.arrays import SavedArrays
from nearcast.text.words import WordTable, copy_spans

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

Id = str | int

#: Begins the key of an integer id; string ids may not contain it.
INTEGER_MARK = "\x00"
_TEXT_MARK = 2 * INTEGER_MARK
_NO_SLOT = -1
#: Up to this many ids are decoded one by one.
_FEW = 16

#: Which kinds of ids there are: True stands for integers, False for text.
Kinds = frozenset[bool]
INTEGERS, TEXTS, BOTH = Kinds([True]), Kinds([False]), Kinds([True, False])
#: The type of a column with ids of both kinds.
MIXED_IDS = pa.dense_union([pa.field("integer", pa.int64()), pa.field("text", pa.string())])
#: Keys without a slot that may be kept beside as many as have one.
SPARE_KEYS = 100_000


def key_of(value: Id) -> str:
    """Return the key an id is stored under."""
    if not isinstance(value, str):
        return f"{INTEGER_MARK}{value}"
    return f"{_TEXT_MARK}{value}" if value.startswith(INTEGER_MARK) else value


def id_of(key: str) -> Id:
    """Return the id stored under a key."""
    if not key.startswith(INTEGER_MARK):
        return key
    return key[2:] if key.startswith(_TEXT_MARK) else int(key[1:])


def keys_of(ids: pa.Array) -> pa.Array:
    """Return the keys of a column of ids."""
    if len(ids) == 1 and ids[0].is_valid:
        return _arrow.strings([key_of(ids[0].as_py())])
    if pa.types.is_integer(ids.type):
        return pc.binary_join_element_wise(INTEGER_MARK, ids.cast(pa.string()), "")
    is_marked = pc.starts_with(ids, INTEGER_MARK)
    if not pc.any(is_marked).as_py():
        return ids
    return pc.if_else(is_marked, pc.binary_join_element_wise(_TEXT_MARK, ids.cast(pa.string()), ""), ids)


class StoredIds:
    """A column of ids of stored messages, which are decoded when somebody looks: most deliveries are only counted.

    A value is the number of a message among `known`, ascending numbers of stored messages; the k-th of these has the
    key `content[start[k]:start[k + 1]]`. The three are those of a store, and only grow behind their end.
    """

    __slots__ = ("_content", "_known", "_number", "_start")

    def __init__(
        self,
        number: NDArray[np.int64],
        known: NDArray[np.int64],
        start: NDArray[np.int64],
        content: NDArray[np.uint8],
    ):
        self._number, self._known, self._start, self._content = number, known, start, content

    def __len__(self) -> int:
        return len(self._number)

    def __getitem__(self, rows: slice | NDArray[Any]) -> StoredIds:
        return StoredIds(self._number[rows], self._known, self._start, self._content)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[np.object_]:
        ids = np.empty(len(self), object)
        ids[:] = self.tolist()
        return ids

    def tolist(self) -> list[Id]:
        """Return the ids as values; each message is decoded once."""
        rows, place = self._rows()
        data = [self._content[a:b].tobytes() for a, b in zip(self._start[rows], self._start[rows + 1], strict=True)]
        values = [id_of(key.decode()) for key in data]
        return [values[i] for i in place.tolist()]

    def kinds(self) -> Kinds:
        """Return the kinds of these ids."""
        rows, _ = self._rows()
        first, length = self._start[rows], self._start[rows + 1] - self._start[rows]
        is_marked = length > 0
        is_marked[is_marked] = self._content[first[is_marked]] == 0
        is_integer = is_marked.copy()
        is_integer[is_marked] = self._content[first[is_marked] + 1] != 0
        return Kinds(is_integer.tolist())

    def _rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the distinct rows of the store, and which of them each value is."""
        distinct, place = np.unique(self._number, return_inverse=True)
        return np.searchsorted(self._known, distinct), place


def kinds_of(ids: Iterable[Any] | StoredIds) -> Kinds:
    """Return the kinds of ids among these values; None is none."""
    if isinstance(ids, StoredIds):
        return ids.kinds()
    return Kinds(not issubclass(kind, str) for kind in set(map(type, ids)) if kind is not NoneType)


def id_type(kinds: Kinds) -> pa.DataType:
    """Return the type of a column of ids: int64 or string, and a union where there are both; string for none."""
    return MIXED_IDS if kinds == BOTH else pa.int64() if kinds == INTEGERS else pa.string()


def ids_column(ids: Sequence[Any], kinds: Kinds) -> pa.Array:
    """Return ids as a column of the type of these kinds, null where None is given."""
    if kinds != BOTH:
        return pa.array(ids, id_type(kinds))
    is_integer = np.array([isinstance(id_, int) for id_ in ids], np.bool_)
    integers = pa.array([id_ for id_ in ids if isinstance(id_, int)], pa.int64())
    return _mixed(is_integer, integers, pa.array([id_ for id_ in ids if not isinstance(id_, int)], pa.string()))


def as_kinds(ids: pa.Array, kinds: Kinds) -> pa.Array:
    """Return a column of integers or of strings as one of the type of these kinds, which has both or its own."""
    if kinds != BOTH:
        return ids
    is_integer = bool(pa.types.is_integer(ids.type))
    integers, texts = (ids, pa.nulls(0, pa.string())) if is_integer else (pa.nulls(0, pa.int64()), ids)
    return _mixed(np.full(len(ids), is_integer), integers, texts)


def _mixed(is_integer: NDArray[np.bool_], integers: pa.Array, texts: pa.Array) -> pa.Array:
    """Return a column of both kinds: where `is_integer` the next of `integers`, else the next of `texts`."""
    place = np.where(is_integer, np.cumsum(is_integer), np.cumsum(~is_integer)) - 1
    kinds, places = _arrow.numbers((~is_integer).astype(np.int8)), _arrow.numbers(place.astype(np.int32))
    return pa.UnionArray.from_dense(kinds, places, [integers, texts], [field.name for field in MIXED_IDS])


class ListedIds(NamedTuple):
    """A list of ids as columns of one type, each with the places in the list, and the values that can be no id."""

    good: list[tuple[pa.Array, list[int]]]
    bad: list[tuple[int, Any]]


def listed_ids(given: Any) -> ListedIds:
    """Return the ids of a list of values, of an Arrow array, or of the column `id` of a table."""
    if isinstance(given, pa.Table | pa.RecordBatch):
        if "id" not in given.schema.names:
            raise InvalidColumns(f"there is no column id; there are: {', '.join(given.schema.names)}", field="id")
        given = given.column("id")
    values = given.to_pylist() if isinstance(given, pa.Array | pa.ChunkedArray) else given
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidColumns(f"{type(values).__name__} was given; expected a list of ids", field="id")
    found = ListedIds([], [])
    integers: dict[int, int] = {}
    texts: dict[int, str] = {}
    for place, value in enumerate(values):
        if isinstance(value, str) and is_encodable(value):
            texts[place] = value
        elif isinstance(value, Integral) and not isinstance(value, bool) and -(2**63) <= int(value) < 2**63:
            integers[place] = int(value)
        else:
            found.bad.append((place, value))
    for column, kind in ((integers, pa.int64()), (texts, pa.string())):
        if column:
            found.good.append((pa.array(column.values(), kind), list(column)))
    return found


def first_times(slots: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Tell which places of a column are the first with their slot."""
    is_first = np.zeros(len(slots), np.bool_)
    is_first[np.unique(slots, return_index=True)[1]] = True
    return is_first


class IdSnapshot(NamedTuple):
    """The ids of slots as they were when it was taken: ids bound later are not in it, and none goes missing."""

    blob: NDArray[np.uint8]
    start: NDArray[np.int64]
    key_of_slot: NDArray[np.int32]
    #: Of all ids that are bound, and of those released since keys were last dropped.
    kinds: Kinds

    @property
    def identity(self) -> tuple[int, ...]:
        """Return what two snapshots that are held have in common only if they have the same arrays."""
        return id(self.blob), id(self.start), id(self.key_of_slot)

    def value(self, slot: int) -> Id:
        """Return the id of one slot."""
        key = self.key_of_slot[slot]
        return id_of(self.blob[self.start[key] : self.start[key + 1]].tobytes().decode())

    def values(self, slots: NDArray[np.int32]) -> list[Id]:
        """Return the ids of slots."""
        if len(slots) <= _FEW:
            return [self.value(slot) for slot in slots.tolist()]
        keys = _decoded(*self._gathered(self.key_of_slot[slots]))
        return list(keys) if self.kinds == TEXTS else [id_of(key) for key in keys]

    def kinds_of(self, slots: NDArray[np.int32]) -> Kinds:
        """Return the kinds of the ids of these slots; of no slots the one that all ids have, if it is one."""
        if self.kinds != BOTH:
            return self.kinds
        return Kinds(np.unique(self._is_integer(slots)).tolist())

    def column(self, slots: NDArray[np.int32], kinds: Kinds, *, dictionaries: bool = False) -> pa.Array:
        """Return the ids of slots as a column of the type of these kinds.

        With `dictionaries` texts that repeat are a dictionary, made from the bytes of the keys that occur.
        """
        if kinds == BOTH:
            is_integer = self._is_integer(slots)
            return _mixed(is_integer, self._integers(slots[is_integer]), self.keys(slots[~is_integer]))
        if kinds == INTEGERS:
            return self._integers(slots)
        keys = self.key_of_slot[slots]
        if not dictionaries or not _arrow.repeats(_arrow.numbers(keys)):
            return self._texts(keys)
        coded = _arrow.numbers(keys).dictionary_encode()
        return pa.DictionaryArray.from_arrays(coded.indices, self._texts(_arrow.array_of(coded.dictionary)), safe=False)

    def keys(self, slots: NDArray[np.int32]) -> pa.Array:
        """Return the keys of many slots: ids as text, integers behind their mark."""
        return self._texts(self.key_of_slot[slots])

    def key_spans(self, slots: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return the keys of many slots end to end: where each begins, with the end of the last, and the bytes."""
        return self._gathered(self.key_of_slot[slots])

    def _texts(self, keys: NDArray[np.int32]) -> pa.Array:
        offsets, content = self._gathered(keys)
        large = pa.LargeStringArray.from_buffers(len(keys), pa.py_buffer(offsets), pa.py_buffer(content))
        return large.cast(pa.string())

    def _gathered(self, keys: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return keys by number, end to end: where each begins, and the bytes."""
        offsets = np.zeros(len(keys) + 1, np.int64)
        first = np.empty(len(keys), np.int64)
        _measure_keys(self.start, keys, first, offsets)
        content = np.empty(int(offsets[-1]), np.uint8)
        copy_spans(self.blob, first, offsets, content)
        return offsets, content

    def _integers(self, slots: NDArray[np.int32]) -> pa.Array:
        """Return the ids of slots that all have integers."""
        values = np.empty(len(slots), np.int64)
        _read_integers(self.blob, self.start, self.key_of_slot[slots], values)
        return _arrow.numbers(values)

    def _is_integer(self, slots: NDArray[np.int32]) -> NDArray[np.bool_]:
        keys = self.key_of_slot[slots]
        first = self.start[keys]
        is_given = self.start[keys + 1] > first
        is_integer: NDArray[np.bool_] = is_given & (self.blob[np.where(is_given, first, 0)] == 0)
        return is_integer


def _decoded(offsets: NDArray[np.int64], content: NDArray[np.uint8]) -> Iterator[str]:
    """Yield the texts that lie end to end in `content`."""
    data, places = content.tobytes(), offsets.tolist()
    if data.isascii():
        text = data.decode()
        return (text[first:last] for first, last in pairwise(places))
    return (data[first:last].decode() for first, last in pairwise(places))


class IdTable:
    """A bijection of ids and slots: a hash table of keys, and the key of each slot."""

    def __init__(self) -> None:
        self._keys = WordTable()
        self._slot_of_key = np.empty(0, np.int32)
        self._key_of_slot = np.empty(0, np.int32)
        self._n_bound = 0
        self._kinds = Kinds()  # those of all keys, in use or not

    def __len__(self) -> int:
        return self._n_bound

    @property
    def nbytes(self) -> int:
        """Return the memory taken by the arrays."""
        return self._keys.nbytes + self._slot_of_key.nbytes + self._key_of_slot.nbytes

    def slot(self, value: Id) -> int:
        """Return the slot of an id, -1 if it has none."""
        if isinstance(value, str) and not is_encodable(value):
            return _NO_SLOT  # the table of words would take half a character for another one
        key = self._keys.id_of(key_of(value))
        return int(self._slot_of_key[key]) if 0 <= key < len(self._slot_of_key) else _NO_SLOT

    def slots(self, ids: pa.Array) -> NDArray[np.int32]:
        """Return the slots of a column of ids, -1 where there is none."""
        if len(ids) == 1:
            value = ids[0].as_py()
            return np.array([_NO_SLOT if value is None else self.slot(value)], np.int32)
        return self.slots_of_keys(keys_of(ids))

    def slots_of_keys(self, names: pa.Array) -> NDArray[np.int32]:
        """Return the slots of a column of keys, as a snapshot gives them, -1 where there is none."""
        keys = self._keys.ids_of_column(names, add=False)
        known = (keys >= 0) & (keys < len(self._slot_of_key))
        found = np.full(len(names), _NO_SLOT, np.int32)
        found[known] = self._slot_of_key[keys[known]]
        return found

    def in_use(self) -> NDArray[np.int32]:
        """Return the slots that have an id, ascending."""
        slots = np.sort(self._slot_of_key[: len(self._keys)])
        used: NDArray[np.int32] = slots[slots != _NO_SLOT]
        return used

    def are_in_use(self, slots: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Tell which of some slots have an id; all of them had one at some time."""
        keys = self._key_of_slot[slots]
        found: NDArray[np.bool_] = (keys != _NO_SLOT) & (self._slot_of_key[keys] == slots)
        return found

    def bind(self, ids: pa.Array, slots: NDArray[np.int32]) -> None:
        """Give ids that have no slot these slots."""
        if not len(ids):
            return
        self._kinds |= {bool(pa.types.is_integer(ids.type))}
        if len(ids) == 1:
            keys = np.array([self._keys.id_of(key_of(ids[0].as_py()), add=True)], np.int32)
        else:
            keys = self._keys.ids_of_column(keys_of(ids), add=True)
        self._bind(keys, slots)

    def _bind(self, keys: NDArray[np.int32], slots: NDArray[np.int32]) -> None:
        self._slot_of_key = _with_room(self._slot_of_key, len(self._keys))
        self._key_of_slot = _with_room(self._key_of_slot, int(slots.max(initial=-1)) + 1)
        self._slot_of_key[keys] = slots
        self._key_of_slot[slots] = keys
        self._n_bound += len(slots)

    @property
    def kinds(self) -> Kinds:
        """Return the kinds of all ids that are bound, and of those released since keys were last dropped."""
        return self._kinds

    def unbind(self, ids: pa.Array, kinds: Kinds) -> None:
        """Undo `bind` of ids that had no slot before, also where it was interrupted; may be called again.

        `kinds` are those of before.
        """
        keys = self._keys.ids_of_column(keys_of(ids), add=False)
        self._slot_of_key[keys[(keys >= 0) & (keys < len(self._slot_of_key))]] = _NO_SLOT
        self.recount()
        if self._kinds != kinds:
            self.drop_released()
            self._kinds = kinds

    def release(self, slots: NDArray[np.int32]) -> None:
        """Remove the ids of these slots."""
        self._slot_of_key[self._key_of_slot[slots]] = _NO_SLOT
        self._n_bound -= len(slots)
        if len(self._keys) > 2 * self._n_bound + SPARE_KEYS:
            self.drop_released()

    def release_again(self, slots: NDArray[np.int32]) -> None:
        """Complete a `release` that was interrupted; may be called again."""
        keys = self._key_of_slot[slots]
        self._slot_of_key[keys[keys != _NO_SLOT]] = _NO_SLOT
        self.recount()

    def recount(self) -> None:
        """Count the ids that have a slot."""
        self._n_bound = int(np.count_nonzero(self._slot_of_key != _NO_SLOT))

    def drop_released(self) -> None:
        """Drop the keys that have no slot any more, so that ids that come and go do not fill memory.

        All arrays are new ones, put in place in one step: snapshots keep the old ones.
        """
        kept = np.flatnonzero(self._slot_of_key[: len(self._keys)] != _NO_SLOT)
        fresh = IdTable()
        fresh._key_of_slot = np.full(len(self._key_of_slot), _NO_SLOT, np.int32)
        words = self._keys.words().take(_arrow.numbers(kept))
        fresh._bind(fresh._keys.ids_of_column(words, add=True), self._slot_of_key[kept])
        fresh._kinds = self.snapshot().kinds_of(self._slot_of_key[kept])
        self.__dict__.update(fresh.__dict__)

    def renumbered(self, old: NDArray[np.int32]) -> IdTable:
        """Return the table for an index that gave slot `old[i]` the number i; it shares the keys with this one."""
        fresh = IdTable()
        fresh.__dict__.update(self.__dict__)
        fresh._key_of_slot = self._key_of_slot[old]
        fresh._slot_of_key = self._slot_of_key.copy()
        fresh._slot_of_key[fresh._key_of_slot] = np.arange(len(old))
        return fresh

    def save(self, folder: Path) -> None:
        """Write all ids and their slots into a new folder."""
        self._keys.save(folder)
        save_array(folder / "slot_of_key.npy", self._slot_of_key)
        save_array(folder / "key_of_slot.npy", self._key_of_slot)
        save_array(folder / "kinds.npy", np.array(sorted(self._kinds), np.uint8))

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
        table._kinds = Kinds(map(bool, kinds))
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
def _measure_keys(start, keys, first, offsets):
    """Write where each key begins, and where it ends when all lie end to end; `start` is read once a key."""
    for i in range(keys.size):
        at = start[keys[i]]
        first[i] = at
        offsets[i + 1] = offsets[i] + start[keys[i] + 1] - at


@kernel
def _read_integers(blob, start, keys, values):
    """Read the digits behind the mark of each key; no step leaves the range of int64."""
    for i in range(keys.size):
        at, last = start[keys[i]] + 1, start[keys[i] + 1]
        is_negative = blob[at] == 45  # a minus
        value = np.int64(0)
        for k in range(at + is_negative, last):
            digit = np.int64(blob[k]) - 48
            value = 10 * value - digit if is_negative else 10 * value + digit
        values[i] = value
