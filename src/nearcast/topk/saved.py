"""A keeper's window, buffers and thresholds in files, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast._ids import id_of, key_of
from nearcast._jit import kernel
from nearcast._saved import mapped, replace_file, save_array
from nearcast.errors import IncompatibleStore
from nearcast.skyband.holders import NOBODY, Holders, relink
from nearcast.skyband.pool import array_of, class_for, grown, place_of, take_slab
from nearcast.text.words import WordTable
from nearcast.topk.events import entries_of
from nearcast.window import open_message_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.text.weights import TermWeights
    from nearcast.topk.keeper import Keeper

#: Columns that are made anew: where a buffer is and who it is linked with.
_MADE_ANEW = ("slab", "size_class", "oldest", "previous", "next", "step", "is_untold")


def save_keeper(keeper: Keeper, folder: Path) -> None:
    """Write everything into a new folder."""
    save_window(keeper, folder)
    held = np.flatnonzero(keeper.holders.slot != NOBODY).astype(np.int32)
    for name, column in _columns_of(keeper, held).items():
        save_array(folder / f"{name}.npy", column)


def _columns_of(keeper: Keeper, holders: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
    """Return what is known of these holders, with the entries of their buffers end to end."""
    columns = {
        f"holder_{name}": getattr(keeper.holders, name)[holders] for name in Holders._fields if name not in _MADE_ANEW
    }
    _, score, tag = entries_of(keeper.holders, keeper.slabs, holders, keeper.holders.size[holders])
    return columns | {"entry_score": score, "entry_tag": tag}


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
    save_array(folder / "time.npy", sliding.time[at])
    save_array(folder / "number.npy", sliding.number[at])
    save_array(folder / "heap.npy", sliding.rows_by_time())
    ids = pa.table({"id": pa.array([None if id_ is None else key_of(id_) for id_ in sliding.ids[at]], pa.string())})
    replace_file(folder / "ids.parquet", lambda path: pq.write_table(ids, path))
    about = {
        "first_row": sliding.first_row,
        "next_row": sliding.next_row,
        "now": sliding.now,
        "updates": sliding.updates,
        "searches": keeper.n_searches,
    }
    replace_file(folder / "window.json", lambda path: path.write_text(json.dumps(about)))


def open_keeper(keeper: Keeper, folder: Path, weights: TermWeights) -> None:
    """Fill a new keeper with what was saved."""
    open_window(keeper, folder, weights)
    names = [name for name in Holders._fields if name not in _MADE_ANEW]
    columns: dict[str, NDArray[Any]] = {name: mapped(folder / f"holder_{name}.npy") for name in names}
    keeper.holding.restore(columns)
    holders = np.arange(len(columns["size"]), dtype=np.int32)
    entries = {name: mapped(folder / f"{name}.npy") for name in ("entry_score", "entry_tag")}
    _give_buffers(keeper, holders, entries)


def _give_buffers(keeper: Keeper, holders: NDArray[np.int32], entries: dict[str, NDArray[Any]]) -> None:
    """Give holders buffers with these entries."""
    size = keeper.holders.size[holders]
    keeper.slabs = grown(keeper.slabs, 4 * (int(size.sum()) + 8 * len(size)) + 1024)
    _unpack(
        keeper.holders,
        keeper.slabs,
        keeper.sliding.rows,
        holders,
        size,
        entries["entry_score"],
        entries["entry_tag"],
    )


def open_window(keeper: Keeper, folder: Path, weights: TermWeights) -> None:
    """Fill the window of a new keeper with what was saved."""
    keeper.messages = open_message_index(keeper.options.messages, folder / "messages", keeper.index.space)
    keeper.words.table = WordTable.open(folder / "words")
    keeper.follow_words(weights)
    try:
        about = json.loads((folder / "window.json").read_text())
        keys = pq.read_table(folder / "ids.parquet").column("id").to_pylist()
    except (OSError, ValueError) as error:
        raise IncompatibleStore(f"{folder}: the saved window is damaged ({error}); save it again") from None
    ids = [None if key is None else id_of(key) for key in keys]
    keeper.n_searches = about.pop("searches")
    keeper.sliding.restore(
        ids, mapped(folder / "time.npy"), mapped(folder / "number.npy"), mapped(folder / "heap.npy"), about
    )


@kernel
def _unpack(holders, slabs, rows, which, size, score, tag):
    """Give each of these holders its entries back, and link it with its oldest message."""
    n = 0
    for i in range(which.size):
        holder = which[i]
        size_class = class_for(slabs, max(size[i] + 1, 4))
        slab = take_slab(slabs, size_class)
        holders.slab[holder], holders.size_class[holder] = slab, size_class
        to_score, to_tag, first = slabs.score[array_of(slab)], slabs.tag[array_of(slab)], place_of(slab)
        for j in range(size[i]):
            to_score[first + j], to_tag[first + j] = score[n + j], tag[n + j]
        n += size[i]
        relink(holders, holder, rows, slabs)
