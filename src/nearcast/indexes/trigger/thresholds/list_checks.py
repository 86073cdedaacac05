"""Maps the arrays of saved top-k rows with their lists of triggers, and checks all that the kernels follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.columns import MAX_K
from nearcast.indexes.shared.saved_checks import check_points
from nearcast.indexes.trigger.thresholds.bounds import (
    BLOCK,
    CORNERS,
    ThresholdBlocks,
    ThresholdEntries,
    new_blocks,
    new_entries,
)
from nearcast.indexes.trigger.thresholds.frame import FIELDS, SCALE, UNIT
from nearcast.indexes.trigger.thresholds.layout import VACANT, ThresholdLists
from nearcast.indexes.trigger.thresholds.rows import (
    FIRST,
    LAST,
    MAX_DISTANCE,
    TEXT_WEIGHT,
    THRESHOLD,
    ThresholdRows,
    X,
    Y,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.saved_files.arrays import SavedArrays

_ROWS: tuple[tuple[Any, ...], ...] = ((np.int32,), (np.float64, 8), (np.int32,), (np.int32,))
_FLAT: dict[str, Any] = {
    "key": np.int32,
    "number": np.int32,
    "start": np.int64,
    "first_block": np.int64,
    "trigger": np.int32,
    "frame": np.float64,
}


def map_lists(arrays: SavedArrays) -> tuple[ThresholdRows, ThresholdLists]:
    """Map the rows and the lists of a component, each array of its type; bundles are not saved, and there are none."""

    def alike(prefix: str, model: Any) -> list[NDArray[Any]]:
        named = arrays.named(prefix)
        return [named.mapped(name, array.dtype) for name, array in zip(model._fields, model, strict=True)]

    named = arrays.named("rows.")
    pairs = zip(ThresholdRows._fields, _ROWS, strict=True)
    rows = ThresholdRows(*(named.mapped(name, *kind) for name, kind in pairs))
    lists = ThresholdLists(
        entries=ThresholdEntries(*alike("lists.entries.", new_entries(0))),
        blocks=ThresholdBlocks(*alike("lists.blocks.", new_blocks(0))),
        bundles=new_blocks(0),
        first_bundle=np.zeros(1, np.int64),
        **{name: arrays.named("lists.").mapped(name, kind) for name, kind in _FLAT.items()},
    )
    return rows, lists


def check_lists(
    arrays: SavedArrays, rows: ThresholdRows, lists: ThresholdLists, n_slots: int, n_terms: int, space: Space
) -> None:
    """Raise `IncompatibleStore` if anything in a component leads to where nothing is."""
    _check_rows(arrays.named("rows."), rows, n_slots, n_terms, space)
    arrays = arrays.named("lists.")
    n_words, n_lists = len(rows.term), len(lists.start) - 1
    arrays.starts("start", lists.start, max(n_lists, 0), n_words)
    count = np.diff(lists.start)
    arrays.check("first_block", len(lists.first_block) == n_lists + 1 and lists.first_block[0] == 0, "it is cut off")
    blocks = np.where(count > BLOCK, -(-count // BLOCK), 0)
    arrays.check("first_block", np.array_equal(np.diff(lists.first_block), blocks), "blocks do not fit the lists")
    _check_keys(arrays, lists, n_lists)
    _check_triggers(arrays, rows, lists, n_terms)
    for name, column in lists.entries._asdict().items():
        arrays.named("entries.").length(name, column, n_words)
    arrays.named("entries.").numbers("row", lists.entries.row, len(rows.slot))
    n_blocks = int(lists.first_block[-1])
    sizes = {"table": CORNERS * n_blocks, "box": 6 * n_blocks, "steep": n_blocks, "stale": n_blocks}
    for name, size in sizes.items():
        arrays.named("blocks.").length(name, getattr(lists.blocks, name), size)
    arrays.length("frame", lists.frame, FIELDS)
    arrays.check("frame", np.isfinite(lists.frame).all(), "it holds values that are no numbers")
    arrays.check("frame", (lists.frame[[SCALE, UNIT]] > 0.0).all(), "it has no size")


def _check_rows(arrays: SavedArrays, rows: ThresholdRows, n_slots: int, n_terms: int, space: Space) -> None:
    n, record = len(rows.slot), rows.record
    arrays.numbers("slot", rows.slot, n_slots, least=-1)
    arrays.length("record", record, n)
    arrays.length("k", rows.k, n)
    arrays.within("k", rows.k, 1, MAX_K)
    arrays.numbers("term", rows.term, n_terms)
    first, last = record[:, FIRST], record[:, LAST]
    ends = np.append(0.0, last)
    is_whole = (last == np.floor(last)).all() and np.array_equal(first, ends[:-1])
    fits = is_whole and (first <= last).all() and ends[-1] == len(rows.term)
    arrays.check("record", fits, "the words of its rows do not fit term.npy")
    check_points(arrays, "record", record[:, [X, Y]], space)
    arrays.check("record", not np.isnan(record).any(), "it holds values that are no numbers")
    arrays.within("record", record[:, TEXT_WEIGHT], 0.0, 1.0)
    arrays.within("record", record[:, MAX_DISTANCE], np.nextafter(0.0, 1.0), float(np.finfo(np.float64).max))
    is_dead = rows.slot < 0
    arrays.check("record", np.isposinf(record[is_dead, THRESHOLD]).all(), "a dead row can be reached")


def _check_keys(arrays: SavedArrays, lists: ThresholdLists, n_lists: int) -> None:
    """Check the hash table from words to lists: a vacant place ends every search, and each word is found by one."""
    key, size = lists.key, len(lists.key)
    arrays.check("key", size >= 1 and size & (size - 1) == 0, "its size is not a power of two")
    arrays.length("number", lists.number, size)
    place = np.flatnonzero(key != VACANT)
    arrays.check("key", len(place) < size, "it has no vacant place")
    arrays.check("key", len(np.unique(key[place])) == len(place) == n_lists, "its words are not those of the lists")
    arrays.numbers("number", lists.number[place], n_lists)
    home = (key[place].astype(np.int64) * 2654435769) & (size - 1)
    vacant = np.append(0, np.cumsum(key == VACANT))
    between = np.where(place >= home, vacant[place] - vacant[home], vacant[-1] - vacant[home] + vacant[place])
    arrays.check("key", (between == 0).all(), "a word is not where a search finds it")


def _check_triggers(arrays: SavedArrays, rows: ThresholdRows, lists: ThresholdLists, n_terms: int) -> None:
    """Check that the trigger of every word lies in the list of that word."""
    arrays.length("trigger", lists.trigger, len(rows.term))
    arrays.within("key", lists.key, VACANT, n_terms - 1)
    place = np.flatnonzero(lists.key != VACANT)
    list_of = np.full(n_terms, -1, np.int64)
    list_of[lists.key[place]] = lists.number[place]
    number = list_of[rows.term]
    arrays.check("key", (number >= 0).all(), "it lacks words")
    fits = (lists.start[number] <= lists.trigger) & (lists.trigger < lists.start[number + 1])
    arrays.check("trigger", fits.all(), "a trigger does not lie in the list of its word")
