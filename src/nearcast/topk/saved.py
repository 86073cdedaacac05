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
    folder.mkdir(parents=True)
    keeper.messages.save(folder / "messages")
    keeper.words.table.save(folder / "words")
    _save_window(keeper, folder)
    held = np.flatnonzero(keeper.holders.slot != NOBODY).astype(np.int32)
    for name in Holders._fields:
        if name not in _MADE_ANEW:
            save_array(folder / f"holder_{name}.npy", getattr(keeper.holders, name)[held])
    _, score, tag = entries_of(keeper.holders, keeper.slabs, held, keeper.holders.size[held])
    save_array(folder / "entry_score.npy", score)
    save_array(folder / "entry_tag.npy", tag)


def _save_window(keeper: Keeper, folder: Path) -> None:
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
    keeper.messages = open_message_index(keeper.options.messages, folder / "messages", keeper.index.space)
    keeper.words.table = WordTable.open(folder / "words")
    keeper.follow_words(weights)
    _open_window(keeper, folder)
    columns: dict[str, NDArray[Any]] = {
        name: mapped(folder / f"holder_{name}.npy") for name in Holders._fields if name not in _MADE_ANEW
    }
    keeper.holding.restore(columns)
    size = keeper.holders.size[: len(columns["size"])].copy()
    entries = int(size.sum())
    keeper.slabs = grown(keeper.slabs, 4 * (entries + 8 * len(size)) + 1024)
    _unpack(
        keeper.holders,
        keeper.slabs,
        keeper.sliding.rows,
        size,
        mapped(folder / "entry_score.npy"),
        mapped(folder / "entry_tag.npy"),
    )


def _open_window(keeper: Keeper, folder: Path) -> None:
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
def _unpack(holders, slabs, rows, size, score, tag):
    """Give every holder its entries back, and link it with its oldest message."""
    n = 0
    for holder in range(size.size):
        size_class = class_for(slabs, max(size[holder] + 1, 4))
        slab = take_slab(slabs, size_class)
        holders.slab[holder], holders.size_class[holder] = slab, size_class
        to_score, to_tag, first = slabs.score[array_of(slab)], slabs.tag[array_of(slab)], place_of(slab)
        for j in range(size[holder]):
            to_score[first + j], to_tag[first + j] = score[n + j], tag[n + j]
        n += size[holder]
        relink(holders, holder, rows, slabs)
