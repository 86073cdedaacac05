"""The components of a trigger index, segments and deltas: searching them, and saving them."""

from __future__ import annotations

import itertools
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast._saved import save_array
from nearcast.indexes.trigger.delta import TriggerDelta, search_delta, search_scored_delta
from nearcast.indexes.trigger.disc_search import search_discs
from nearcast.indexes.trigger.discs import DiscNotes, note_discs
from nearcast.indexes.trigger.mobile.component import MobileComponent
from nearcast.indexes.trigger.rows import TriggerRows, take_rows
from nearcast.indexes.trigger.scratch import TriggerBatch, TriggerScratch
from nearcast.indexes.trigger.search import search_segment
from nearcast.indexes.trigger.segment import TriggerSegment
from nearcast.indexes.trigger.segment_checks import check_segment, map_segment
from nearcast.indexes.trigger.sieve import sieve_of
from nearcast.indexes.trigger.slot_order import rows_of_slots
from nearcast.saved_files.arrays import SavedArrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.indexes.shared.undo import UndoLog
    from nearcast.indexes.trigger.places import Places


@dataclass(eq=False)
class SegmentComponent:
    """An immutable segment with its polygons, under a number that marks the slots it owns.

    It is made with the weights of terms that it was laid out by.
    """

    number: int
    segment: TriggerSegment
    geometry: NDArray[np.object_]
    weight: InitVar[NDArray[np.float64]]
    notes: DiscNotes = field(init=False)
    sieve: NDArray[np.uint64] = field(init=False)

    def __post_init__(self, weight: NDArray[np.float64]) -> None:
        segment = self.segment
        self.sieve = sieve_of(segment)
        self.notes = note_discs(segment.rows, segment.discs, weight, is_earth=segment.earth[0] == 1)

    @property
    def n_rows(self) -> int:
        """Return the number of rows, dead ones included."""
        return len(self.segment.rows.slot)

    @property
    def rows(self) -> TriggerRows:
        """Return the rows, dead ones included."""
        return self.segment.rows

    @property
    def has_scored(self) -> bool:
        """Tell whether there are scored rows."""
        return len(self.rows.score) > 0

    @property
    def places(self) -> Places:
        """Return the cells."""
        return self.segment.places

    @property
    def n_cells(self) -> int:
        """Return the number of cells, the one that is everywhere included."""
        return len(self.places.origin)

    def search(
        self,
        batch: TriggerBatch,
        first: int,
        last: int,
        owner: NDArray[np.uint8],
        scratch: TriggerScratch,
        start: NDArray[np.int64],
    ) -> int:
        """Run `search_segment`."""
        return int(search_segment(self.segment, self.sieve, batch, first, last, owner, self.number, scratch, start))

    def search_scored(self, batch: TriggerBatch, owner: NDArray[np.uint8], scratch: TriggerScratch) -> bool:
        """Run `search_discs`, where there are any."""
        return not self.has_scored or bool(search_discs(self.segment, self.notes, batch, owner, self.number, scratch))

    def rows_of_slots(self, slots: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the rows of these slots, slot by slot."""
        return rows_of_slots(self.rows.slot, self.segment.by_slot, slots)

    def renumber(self, owner: NDArray[np.uint8], number_of: NDArray[np.int32], undo: UndoLog) -> None:
        """Give every row the new number of its slot; dead rows leave `by_slot`, where they would be out of order."""
        segment = self.segment
        alive = owner[segment.rows.slot] == self.number
        by_slot = segment.by_slot[alive[segment.by_slot]]
        undo.attributes(self, "segment")
        self.segment = segment._replace(by_slot=by_slot, rows=segment.rows._replace(slot=number_of[segment.rows.slot]))

    def live_rows(self, owner: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the rows whose slot this component still owns."""
        return np.flatnonzero(owner[self.segment.rows.slot] == self.number)

    def taken(self, keep: NDArray[np.int64]) -> TriggerRows:
        """Return these rows, packed."""
        return take_rows(self.segment.rows, keep)


@dataclass(eq=False)
class DeltaComponent:
    """A delta, growing or full, under a number that marks the slots it owns."""

    number: int
    delta: TriggerDelta
    n_cells: int = 1

    @property
    def n_rows(self) -> int:
        """Return the number of rows, dead ones included."""
        return self.delta.n_rows

    @property
    def rows(self) -> TriggerRows:
        """Return the rows; there is room for more behind the filled ones."""
        return self.delta.rows

    @property
    def has_scored(self) -> bool:
        """Tell whether there are scored rows."""
        return len(self.rows.score) > 0

    @property
    def geometry(self) -> NDArray[np.object_]:
        """Return the polygons."""
        return self.delta.geometry

    def search(
        self,
        batch: TriggerBatch,
        first: int,
        last: int,
        owner: NDArray[np.uint8],
        scratch: TriggerScratch,
        start: NDArray[np.int64],
    ) -> int:
        """Run `search_delta`."""
        delta = self.delta
        rows, chains, sieve = delta.rows, delta.chains, delta.sieve
        return int(search_delta(rows, chains, sieve, batch, first, last, owner, self.number, scratch, start))

    def search_scored(self, batch: TriggerBatch, owner: NDArray[np.uint8], scratch: TriggerScratch) -> bool:
        """Run `search_scored_delta`, where there are scored rows."""
        delta = self.delta
        return not self.has_scored or bool(
            search_scored_delta(delta.rows, delta.chains, batch, owner, self.number, scratch)
        )

    def rows_of_slots(self, slots: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the rows of these slots that were not killed."""
        held, is_alive = self.delta.rows.slot[: self.delta.n_rows], self.delta.chains.is_alive[: self.delta.n_rows] == 1
        return np.flatnonzero((held == slots[0] if len(slots) == 1 else np.isin(held, slots)) & is_alive)

    def renumber(self, owner: NDArray[np.uint8], number_of: NDArray[np.int32], undo: UndoLog) -> None:
        """Give every row the new number of its slot."""
        self.delta.renumber(number_of, undo)

    def live_rows(self, owner: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the rows that count."""
        live: NDArray[np.int64] = self.delta.live_rows()
        return np.asarray(live[owner[self.delta.rows.slot[live]] == self.number], np.int64)

    def taken(self, keep: NDArray[np.int64]) -> TriggerRows:
        """Return these rows, packed."""
        return self.delta.taken(keep)


Component = SegmentComponent | DeltaComponent | MobileComponent


def arrays_of(value: Any, prefix: str = "") -> dict[str, NDArray[Any]]:
    """Return the arrays of nested NamedTuples by dotted name."""
    found: dict[str, NDArray[Any]] = {}
    for name, item in zip(value._fields, value, strict=True):
        if isinstance(item, tuple):
            found |= arrays_of(item, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = item
    return found


def save_segment(segment: TriggerSegment, geometry: NDArray[np.object_], folder: Path) -> None:
    """Write every array of a segment as a file of its own, polygons as WKB."""
    folder.mkdir(parents=True)
    for name, array in arrays_of(segment).items():
        save_array(folder / f"{name}.npy", array)
    import shapely

    wkb = [shapely.to_wkb(shape) for shape in geometry]
    save_array(folder / "polygons.npy", np.frombuffer(b"".join(wkb), np.uint8))
    save_array(folder / "polygons_start.npy", np.cumsum([0, *map(len, wkb)], dtype=np.int64))


def open_segment(
    number: int, folder: Path, *, n_slots: int, n_terms: int, weight: NDArray[np.float64], space: Space
) -> SegmentComponent:
    """Map a segment that `save_segment` wrote; its slots and terms must be below these numbers, all terms weighed."""
    arrays = SavedArrays(folder)
    segment, polygons = map_segment(arrays), _opened_polygons(arrays)
    check_segment(arrays, segment, len(polygons), n_slots, n_terms, space)
    return SegmentComponent(number, segment, polygons, weight)


def _opened_polygons(arrays: SavedArrays) -> NDArray[np.object_]:
    start, wkb = arrays.mapped("polygons_start", np.int64), arrays.mapped("polygons", np.uint8)
    arrays.starts("polygons_start", start, max(0, len(start) - 1), len(wkb))
    polygons = np.empty(len(start) - 1, object)
    if len(polygons):
        import shapely

        try:
            polygons[:] = [shapely.from_wkb(wkb[a:b].tobytes()) for a, b in itertools.pairwise(start)]
            shapely.prepare(polygons)
        except (shapely.errors.ShapelyError, ValueError, TypeError) as error:
            raise arrays.damaged("polygons", f"a polygon cannot be read ({error})") from None
        arrays.check("polygons", not shapely.is_missing(polygons).any(), "a polygon is missing")
    return polygons
