"""An index that keeps its subscriptions as one table of columns, and some structure over the rows of that table."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast._saved import new_folder, save_array
from nearcast.columns import Subscriptions
from nearcast.geo import Regions
from nearcast.indexes import Index, write_manifest
from nearcast.indexes.shared.growable_columns import GrowableColumn
from nearcast.indexes.shared.saved_checks import check_weights
from nearcast.indexes.shared.scores import ScoredColumns, needs_totals, scored_of
from nearcast.indexes.shared.slot_checks import checked_slots, only_kinds, only_topk, same_length
from nearcast.indexes.shared.stored_index_files import (
    REGION_COLUMNS,
    SCORING_COLUMNS,
    check_slots,
    open_table,
    save_table,
)
from nearcast.saved_files.arrays import SavedArrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space

_NO_ROW = -1
#: Attributes of an index that a change of rows replaces.
_TABLE = ("_pieces", "_rows_by_slot", "_slots_by_row", "_n_live", "_needs_totals", "_weights", "_n_weights")
#: Rows of earlier versions that are kept beside as many as count, before the table is packed.
_SPARE_ROWS = 1000


class StoredIndex(Index):
    """Keeps subscriptions in the rows of a growing table; `scan` and the papers' indexes stand on it.

    A changed subscription is a new row; rows that no longer count go when they are the majority. A structure over the
    rows overrides the hooks, which run under the lock, within a change and after the table has changed:

    - `_rows_added(first, last)`: rows first to last are new.
    - `_rows_dropped(rows)`: these rows count no longer; `self._slot_of[row]` is -1 from now on.
    - `_thresholds_set(rows)`: `threshold` of these rows is another; no row is named twice.
    - `_rows_renumbered()`: everything is different, rows or weights; build anew at the next search. It only forgets, so
      that it may run at any time: a change that is cut short ends with it, and whatever the other hooks did is dropped.

    `self._table()` is the table, `self._scored()` its scored rows for kernels, `self._slot_of` the slot of every row,
    `self._row_of` the row of every slot. What is saved is the table; a structure is built again after opening.
    """

    def __init__(self, space: Space, **options: Any):
        super().__init__(space)
        self._options = options
        self._rows_by_slot = GrowableColumn(np.empty(0, np.int64))
        self._slots_by_row = GrowableColumn(np.empty(0, np.int32))
        self._n_live = 0
        self._pieces: list[Subscriptions] = []
        self._scored_rows: ScoredColumns | None = None
        self._needs_totals = False

    # What a structure may override

    def _rows_added(self, first: int, last: int) -> None:
        """Rows first to last are new."""

    def _rows_dropped(self, rows: NDArray[np.int64]) -> None:
        """These rows count no longer."""

    def _thresholds_set(self, rows: NDArray[np.int64]) -> None:
        """These rows have other thresholds."""

    def _rows_renumbered(self) -> None:
        """Rows or weights are others than before."""

    def _structure_bytes(self) -> int:
        """Return the size of what stands over the rows."""
        return 0

    # The contract

    def __len__(self) -> int:
        self._roll_back_if_torn()
        return self._n_live

    @property
    def n_slots(self) -> int:
        """Return one more than the highest slot ever used."""
        self._roll_back_if_torn()
        return len(self._rows_by_slot)

    @property
    def _row_of(self) -> NDArray[np.int64]:
        return self._rows_by_slot.values

    @property
    def _slot_of(self) -> NDArray[np.int32]:
        return self._slots_by_row.values

    def insert(self, subscriptions: Subscriptions) -> NDArray[np.int32]:
        """Store subscriptions in new slots."""
        only_kinds(subscriptions, self.info)
        with self._lock:
            self._undo.roll_back()
            first = len(self._rows_by_slot)
            slots = np.arange(first, first + len(subscriptions), dtype=np.int32)
            with self._undo:
                self._note_table()
                self._rows_by_slot.extend(np.full(len(slots), _NO_ROW))
                self._append(slots, subscriptions)
                self._n_live += len(slots)
            return slots

    def remove(self, slots: NDArray[np.int32]) -> None:
        """Forget these slots."""
        with self._lock:
            self._undo.roll_back()
            slots = self._alive(slots)
            with self._undo:
                self._note_table()
                self._drop(slots)
                self._row_of[slots] = _NO_ROW
                self._n_live -= len(slots)
                self._pack()

    def replace(self, slots: NDArray[np.int32], subscriptions: Subscriptions) -> None:
        """Store other subscriptions under these slots."""
        only_kinds(subscriptions, self.info)
        with self._lock:
            self._undo.roll_back()
            slots = self._alive(slots)
            same_length(slots, subscriptions, "subscriptions")
            with self._undo:
                self._note_table()
                self._drop(slots)
                self._append(slots, subscriptions)
                self._pack()

    def set_thresholds(self, slots: NDArray[np.int32], values: NDArray[np.float64]) -> None:
        """Set the scores from which messages concern these slots, all of them of kind `topk`."""
        with self._lock:
            self._undo.roll_back()
            slots = self._alive(slots)
            same_length(slots, values, "thresholds")
            rows = self._row_of[slots]
            only_topk(self._table(), rows)
            scoring = self._table().scoring
            if scoring is not None and len(rows):
                with self._undo:
                    self._undo.items(scoring.threshold, rows)
                    self._undo.call(self._rows_renumbered)
                    scoring.threshold[rows] = values
                    self._thresholds_set(rows)

    def subscriptions(self, slots: NDArray[np.int32]) -> Subscriptions:
        """Return what these slots hold."""
        with self._lock:
            self._undo.roll_back()
            slots = self._alive(slots)
            return dataclasses.replace(self._taken(self._row_of[slots]), ids=_arrow.numbers(slots))

    def renumber(self) -> NDArray[np.int32]:
        """Number the live slots anew and return the old ones."""
        with self._lock:
            self._undo.roll_back()
            old = np.flatnonzero(self._row_of >= 0).astype(np.int32)
            rows, slot_of = self._row_of[old], np.full(len(self._slots_by_row), _NO_ROW, np.int32)
            slot_of[rows] = np.arange(len(old), dtype=np.int32)
            with self._undo:
                self._undo.attributes(self, "_rows_by_slot", "_slots_by_row")
                self._rows_by_slot, self._slots_by_row = GrowableColumn(rows), GrowableColumn(slot_of)
            return old

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes."""
        with self._lock:
            self._undo.roll_back()
            size = sum(array.nbytes for array in table_arrays(self._table()).values())
            return {
                "index": self.info.name,
                "subscriptions": len(self),
                "slots": self.n_slots,
                "bytes": size + self._row_of.nbytes + self._slot_of.nbytes + self._structure_bytes(),
            }

    # The table

    def _note_table(self) -> None:
        """Note the table for a change of rows; what stands over them is built anew if the change is undone."""
        undo = self._undo
        undo.call(self._rows_renumbered)
        undo.call(setattr, self, "_scored_rows", None)
        for column in (self._rows_by_slot, self._slots_by_row):
            undo.attributes(column, "array", "_n")
        undo.attributes(self, *_TABLE)

    def _alive(self, slots: NDArray[np.int32]) -> NDArray[np.int32]:
        return checked_slots(slots, len(self._rows_by_slot), lambda known: self._row_of[known] >= 0)

    def _append(self, slots: NDArray[np.int32], subscriptions: Subscriptions) -> None:
        first = len(self._slots_by_row)
        # Ids play no part here, and pieces may disagree on their type. Thresholds will be written to.
        scoring = subscriptions.scoring
        own = None if scoring is None else dataclasses.replace(scoring, threshold=scoring.threshold.copy())
        new = dataclasses.replace(subscriptions, ids=pa.nulls(len(subscriptions)), scoring=own)
        self._pieces = [*self._pieces, new]
        self._row_of[slots] = np.arange(first, first + len(slots))
        self._slots_by_row.extend(slots.copy())  # the first ones are kept as they are, and the caller has these
        self._scored_rows = None
        self._needs_totals |= needs_totals(subscriptions)
        self._weights_up_to(int(subscriptions.code.max(initial=-1)) + 1)
        if len(slots):
            self._rows_added(first, first + len(slots))
        self._join_small_pieces()

    def _drop(self, slots: NDArray[np.int32]) -> None:
        rows = self._row_of[slots]
        self._undo.items(self._row_of, slots)
        self._undo.items(self._slot_of, rows)
        self._slot_of[rows] = _NO_ROW
        if len(rows):
            self._rows_dropped(rows)

    def _table(self) -> Subscriptions:
        """Return all rows as one piece."""
        if not self._pieces:
            self._pieces = [_nothing(self.space)]
        if len(self._pieces) > 1:
            self._pieces = [Subscriptions.concat(self._pieces)]
        return self._pieces[0]

    def _join_small_pieces(self) -> None:
        """Keep every piece larger than all that came after it, so that there are few and joining them costs little."""
        pieces, last = self._pieces, len(self._pieces) - 1
        n = len(pieces[last])
        while last > 0 and len(pieces[last - 1]) <= 2 * n:
            last -= 1
            n += len(pieces[last])
        if last < len(pieces) - 1:
            self._pieces = [*pieces[:last], Subscriptions.concat(pieces[last:])]

    def _taken(self, rows: NDArray[np.int64]) -> Subscriptions:
        """Return these rows, in this order, without making one piece of all."""
        if len(self._pieces) < 2:
            return self._table().take(rows)
        start = np.cumsum([0, *map(len, self._pieces)])
        piece_of = np.searchsorted(start, rows, side="right") - 1
        by_piece = np.argsort(piece_of, kind="stable")
        parts = [self._pieces[k].take(rows[piece_of == k] - start[k]) for k in range(len(self._pieces))]
        back = np.empty(len(rows), np.int64)
        back[by_piece] = np.arange(len(rows))
        return Subscriptions.concat(parts).take(back)

    def _scored(self) -> ScoredColumns:
        """Return the scored rows, as kernels read them."""
        if self._scored_rows is None:
            self._scored_rows = scored_of(self._table(), self._weights)
        return self._scored_rows

    @property
    def _is_sparse(self) -> bool:
        """Tell whether most rows no longer count."""
        return len(self._slots_by_row) > 2 * self._n_live + _SPARE_ROWS

    def _pack(self) -> None:
        """Drop the rows that no longer count, when they are the majority."""
        if not self._is_sparse:
            return
        held, row_of, slot_of = self._packed()
        self._pieces = [held]
        self._rows_by_slot, self._slots_by_row = GrowableColumn(row_of), GrowableColumn(slot_of)
        self._scored_rows = None
        self._rows_renumbered()

    def _packed(self) -> tuple[Subscriptions, NDArray[np.int64], NDArray[np.int32]]:
        """Return the rows that count, the row of each slot and the slot of each row; a copy only if some do not."""
        live = np.flatnonzero(self._row_of >= 0)
        if len(live) == len(self._slots_by_row):
            return self._table(), self._row_of, self._slot_of
        row_of = np.full(len(self._rows_by_slot), _NO_ROW)
        row_of[live] = np.arange(len(live))
        return self._table().take(self._row_of[live]), row_of, live.astype(np.int32)

    def _reweigh(self) -> None:
        self._undo.call(self._forget_weighed)
        self._forget_weighed()

    def _forget_weighed(self) -> None:
        self._scored_rows = None
        self._rows_renumbered()

    # Files

    def save(self, folder: str | Path) -> None:
        """Write the columns of the rows that count: what a subscription was before it moved is nobody's business."""
        folder = new_folder(folder)
        with self._lock:
            self._undo.roll_back()
            held, row_of, slot_of = self._packed()
            save_array(folder / "row_of.npy", row_of)
            save_array(folder / "slot_of.npy", slot_of)
            save_array(folder / "weights.npy", self._weights[: self._n_weights])
            save_table(held, table_arrays(held), folder)
            write_manifest(folder, self, self._options, scored=held.scoring is not None)

    @classmethod
    def _open(cls, folder: Path, space: Space, options: dict[str, Any]) -> StoredIndex:
        from nearcast.indexes import read_manifest

        index, arrays = cls(space, **options), SavedArrays(folder)
        weights = arrays.mapped("weights", np.float64)
        check_weights(arrays, weights)
        held = open_table(arrays, space, cls.info.kinds, len(weights), is_scored=bool(read_manifest(folder)["scored"]))
        row_of, slot_of = arrays.mapped("row_of", np.int64), arrays.mapped("slot_of", np.int32)
        check_slots(arrays, row_of, slot_of, len(held))
        index.set_weights(weights)
        index._pieces = [held]
        index._rows_by_slot, index._slots_by_row = GrowableColumn(row_of), GrowableColumn(slot_of)
        index._n_live = int((index._row_of >= 0).sum())
        index._needs_totals = needs_totals(held)
        index._rows_renumbered()
        return index


def table_arrays(held: Subscriptions) -> dict[str, NDArray[Any]]:
    """Return the columns of subscriptions by name; polygons apart."""
    found: dict[str, NDArray[Any]] = {
        "clause_start": held.clause_start,
        "code_start": held.code_start,
        "code": held.code,
        "subscription_kind": held.kind,
    }
    found |= {name: getattr(held.regions, name) for name in REGION_COLUMNS}
    if held.scoring is not None:
        found |= {name: getattr(held.scoring, name) for name in SCORING_COLUMNS}
    return found


def _nothing(space: Space) -> Subscriptions:
    zero = np.zeros(1, np.int64)
    return Subscriptions.of(zero, zero, np.empty(0, np.int32), Regions.from_shapes([], space), ids=pa.nulls(0))
