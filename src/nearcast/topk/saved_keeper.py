"""A keeper's window, buffers and thresholds in files, and back."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast._ids import INTEGERS, TEXTS, id_of, ids_column, key_of, keys_of
from nearcast._jit import hot_kernel
from nearcast._saved import save_array, save_later, save_text
from nearcast.columns import MAX_K
from nearcast.errors import unreadable_store
from nearcast.saved_files.arrays import SavedArrays
from nearcast.saved_files.contents import damaged, is_signed, read_signed, signed
from nearcast.text.words import WordTable
from nearcast.topk.buffers.entries import write
from nearcast.topk.buffers.fill import AROUND
from nearcast.topk.buffers.holders import HOLDER_TYPES, NOBODY, Holders, relink
from nearcast.topk.buffers.pool import SLAB_SIZES, class_for, entries_at, grown, has_room, take_slab
from nearcast.topk.events import entries_of
from nearcast.topk.window.registry import open_message_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.text.weights import TermWeights
    from nearcast.topk.keeper import Keeper

#: Columns that are made anew: where a buffer is and who it is linked with.
_MADE_ANEW = ("slab", "size_class", "oldest", "previous", "next", "step", "nth", "is_untold", "record")
#: In a file an entry's tag is (row << DOMINATOR_BITS) | dominators.
DOMINATOR_BITS = 16
_DOMINATORS = (1 << DOMINATOR_BITS) - 1


def save_keeper(keeper: Keeper, folder: Path) -> None:
    """Write everything into a new folder."""
    save_window(keeper, folder)
    held = np.flatnonzero(keeper.holders.slot != NOBODY).astype(np.int32)
    for name, column in _columns_of(keeper, held).items():
        save_array(folder / f"{name}.npy", column, will_change=False)  # they were made just now


def _columns_of(keeper: Keeper, holders: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
    """Return what is known of these holders, with the entries of their buffers end to end."""
    columns = {
        f"holder_{name}": getattr(keeper.holders, name)[holders] for name in Holders._fields if name not in _MADE_ANEW
    }
    size = keeper.holders.size[holders]
    held = entries_of(keeper.holders, keeper.slabs, keeper.sliding.rows, holders, size)
    return columns | {"entry_score": held.score, "entry_tag": (held.row << DOMINATOR_BITS) | held.dominators}


def taken_out(keeper: Keeper, slots: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
    """Return what is kept for these subscriptions, for another keeper of the same window to `adopt`."""
    return _columns_of(keeper, keeper.holding.of_slots(slots))


def adopt(keeper: Keeper, slots: NDArray[np.int32], columns: dict[str, NDArray[Any]]) -> None:
    """Keep subscriptions that are new here as another keeper of the same window kept them."""
    if not len(slots):
        return
    keeper.holding.take(slots)
    holders = keeper.holding.of_slots(slots)
    for name in Holders._fields:
        if name not in _MADE_ANEW and name != "slot":
            getattr(keeper.holders, name)[holders] = columns[f"holder_{name}"]
    _give_buffers(keeper, holders, columns)
    keeper.tell_index(holders)


def save_window(keeper: Keeper, folder: Path) -> None:
    """Write the messages of the window into a new folder."""
    folder.mkdir(parents=True)
    keeper.messages.save(folder / "messages")
    keeper.words.table.save(folder / "words")
    sliding = keeper.sliding
    rows = np.arange(sliding.first_row, sliding.next_row)
    at = rows & (len(sliding.time) - 1)
    for name, column in (("time", sliding.time[at]), ("number", sliding.number[at])):
        save_array(folder / f"{name}.npy", column, will_change=False)  # they were made just now
    save_array(folder / "heap.npy", sliding.rows_by_time())
    save_later(partial(_save_ids, sliding.ids[at], folder / "ids.parquet"))
    about = {
        "first_row": sliding.first_row,
        "next_row": sliding.next_row,
        "now": sliding.now,
        "updates": sliding.updates,
        "searches": keeper.n_searches,
    }
    save_text(folder / "window.json", signed(about).decode())


def _save_ids(ids: NDArray[np.object_], path: Path) -> None:
    pq.write_table(pa.table({"id": _keys_of(ids)}), path)


def _keys_of(ids: NDArray[np.object_]) -> pa.Array:
    """Return the keys of ids, null for None; without Python for each where all are text, or all are integers."""
    for kinds in (TEXTS, INTEGERS):
        with suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return keys_of(ids_column(ids.tolist(), kinds))
    return pa.array([None if id_ is None else key_of(id_) for id_ in ids], pa.string())


def open_keeper(keeper: Keeper, folder: Path, weights: TermWeights) -> None:
    """Fill a new keeper with what was saved."""
    open_window(keeper, folder, weights)
    arrays = SavedArrays(folder)
    columns = {
        name: arrays.mapped(f"holder_{name}", HOLDER_TYPES[name]) for name in Holders._fields if name not in _MADE_ANEW
    }
    entries = {
        "entry_score": arrays.mapped("entry_score", np.float64),
        "entry_tag": arrays.mapped("entry_tag", np.int64),
    }
    _check_holders(arrays, columns, keeper)
    _check_entries(arrays, columns["size"], entries, keeper)
    keeper.holding.restore(columns)
    holders = np.arange(len(columns["size"]), dtype=np.int32)
    _give_buffers(keeper, holders, entries)


def _check_holders(arrays: SavedArrays, columns: dict[str, NDArray[Any]], keeper: Keeper) -> None:
    """Check the columns of holders: one for each top-k subscription, and lengths in the order that kernels rely on."""
    slot, k, limit, target = (columns[name] for name in ("slot", "k", "limit", "target"))
    for name, column in columns.items():
        arrays.length(f"holder_{name}", column, len(slot))
    arrays.numbers("holder_slot", slot, keeper.index.n_slots)
    arrays.check("holder_slot", len(np.unique(slot)) == len(slot), "two holders have the same slot")
    arrays.within("holder_k", k, 1, MAX_K)
    arrays.check("holder_target", (target >= k).all(), "a buffer is to be shorter than its k")
    arrays.check("holder_limit", (limit >= target).all(), "a buffer is cut before it is too long")
    arrays.within("holder_limit", limit, 1, SLAB_SIZES[-1] // 2)
    for name in ("theta", "told"):
        arrays.check(f"holder_{name}", not np.isnan(columns[name]).any(), "it holds values that are no numbers")
    arrays.within("holder_size", columns["size"], 0, SLAB_SIZES[-1] // 2)


def _check_entries(
    arrays: SavedArrays, size: NDArray[np.int32], entries: dict[str, NDArray[Any]], keeper: Keeper
) -> None:
    """Check the entries of buffers: as many as the holders say, of messages that are in the window."""
    n = int(size.sum(dtype=np.int64))
    arrays.length("entry_score", entries["entry_score"], n)
    arrays.length("entry_tag", entries["entry_tag"], n)
    arrays.check("entry_score", not np.isnan(entries["entry_score"]).any(), "it holds values that are no numbers")
    rows = entries["entry_tag"] >> DOMINATOR_BITS
    arrays.within("entry_tag", rows, keeper.sliding.first_row, keeper.sliding.next_row - 1)
    holder = np.repeat(np.arange(len(size)), size)
    order = np.lexsort((rows, holder))
    is_same = (rows[order][1:] == rows[order][:-1]) & (holder[order][1:] == holder[order][:-1])
    arrays.check("entry_tag", not is_same.any(), "a buffer has a message twice")


def _give_buffers(keeper: Keeper, holders: NDArray[np.int32], entries: dict[str, NDArray[Any]]) -> None:
    """Give holders buffers with these entries."""
    size = keeper.holders.size[holders]
    room = _room_for(keeper, holders)
    words = 4 * (int(room.sum(dtype=np.int64)) + 8 * len(size)) + 1024
    if not has_room(keeper.slabs, words):
        keeper.slabs = grown(keeper.slabs, words)
    _unpack(
        keeper.holders,
        keeper.slabs,
        keeper.sliding.rows,
        holders,
        size,
        room,
        entries["entry_score"],
        entries["entry_tag"],
    )


def _room_for(keeper: Keeper, holders: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return for how many entries buffers get room: as `fill` does, around the target where there is more to come."""
    size, target = keeper.holders.size[holders], keeper.holders.target[holders]
    is_whole = keeper.holders.is_whole[holders] != 0
    # A file may say anything of a target; that of a buffer that is not whole is not far from its size.
    around = np.minimum(target + AROUND, 2 * size + 64)
    return np.where(is_whole, size + 1, np.maximum(size + 1, around)).astype(np.int32)


def open_window(keeper: Keeper, folder: Path, weights: TermWeights) -> None:
    """Fill the window of a new keeper with what was saved."""
    keeper.messages = open_message_index(keeper.options.messages, folder / "messages", keeper.index.space)
    keeper.words.table = WordTable.open(folder / "words")
    keeper.follow_words(weights)
    arrays = SavedArrays(folder)
    try:
        data = (folder / "window.json").read_bytes()
        about = read_signed(data, f"{folder}/window.json") if is_signed(data) else json.loads(data)
        keys = pq.read_table(folder / "ids.parquet").column("id").to_pylist()
        ids = [None if key is None else id_of(key) for key in keys]
    except (OSError, ValueError) as error:
        raise unreadable_store(f"{folder}: the saved window is damaged ({error}); save it again", error) from None
    keeper.n_searches = about.pop("searches")
    time, number, heap = (arrays.mapped(name, np.int64) for name in ("time", "number", "heap"))
    _check_window(arrays, about, len(ids), time, number, heap)
    keeper.sliding.restore(ids, time, number, heap, about)


def _check_window(
    arrays: SavedArrays,
    about: dict[str, Any],
    n_ids: int,
    time: NDArray[np.int64],
    number: NDArray[np.int64],
    heap: NDArray[np.int64],
) -> None:
    """Check the rows of a window: as many as were noted, and on the heap none that is not there, or twice."""
    first, last = about["first_row"], about["next_row"]
    if n_ids != last - first:
        raise damaged(f"{arrays.folder}/ids.parquet", f"it has {n_ids} ids of {last - first} messages")
    arrays.length("time", time, last - first)
    arrays.length("number", number, last - first)
    arrays.within("heap", heap, first, last - 1)
    arrays.check("heap", len(np.unique(heap)) == len(heap), "a message stands on it twice")


@hot_kernel
def _unpack(holders, slabs, rows, which, size, room, score, tag):
    """Give each of these holders its entries back, and link it with its oldest message."""
    n = 0
    for i in range(which.size):
        holder = which[i]
        size_class = class_for(slabs, room[i])
        slab = take_slab(slabs, size_class)
        holders.slab[holder], holders.size_class[holder] = slab, size_class
        entries = entries_at(slabs, slab, size_class)
        for j in range(size[i]):
            write(entries, j, score[n + j], tag[n + j] >> DOMINATOR_BITS, tag[n + j] & _DOMINATORS)
        n += size[i]
        relink(holders, holder, rows, slabs)
