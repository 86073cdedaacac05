"""The index `scan`: ask every subscription. Slow, obvious, and the definition of every other index."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast import _arrow
from nearcast._jit import hot_kernel
from nearcast._saved import mapped, new_folder
from nearcast.columns import Subscriptions
from nearcast.geo import ANYWHERE, CIRCLE, POLYGON, Regions, circle_holds, polygons_touch
from nearcast.indexes import Index, Matches, register, write_manifest
from nearcast.indexes._slots import checked_slots, only_within, same_length
from nearcast.indexes._verify import boxes_overlap, clause_holds, mark_terms, message_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.geo import Space


@register("scan", kinds=("within",), paper="none: brute force, the definition", options={})
class ScanIndex(Index):
    """Tries every live subscription on every message.

    >>> from nearcast.geo import Space
    >>> len(ScanIndex(Space.plane()))
    0
    """

    def __init__(self, space: Space):
        super().__init__(space)
        self._row_of = np.empty(0, np.int64)  # slot -> row of its present version, -1: none
        self._pieces: list[Subscriptions] = []
        self._n_rows = 0

    def __len__(self) -> int:
        return int((self._row_of >= 0).sum())

    def insert(self, subscriptions: Subscriptions) -> NDArray[np.int32]:
        """Store subscriptions in new slots."""
        only_within(subscriptions, self.info.name)
        with self._lock:
            first = len(self._row_of)
            self._row_of = np.append(self._row_of, self._append(subscriptions))
            return np.arange(first, len(self._row_of), dtype=np.int32)

    def remove(self, slots: NDArray[np.int32]) -> None:
        """Forget these slots."""
        with self._lock:
            self._row_of[self._alive(slots)] = -1

    def replace(self, slots: NDArray[np.int32], subscriptions: Subscriptions) -> None:
        """Store other subscriptions under these slots."""
        only_within(subscriptions, self.info.name)
        with self._lock:
            slots = self._alive(slots)
            same_length(slots, subscriptions, "subscriptions")
            self._row_of[slots] = self._append(subscriptions)

    def _alive(self, slots: NDArray[np.int32]) -> NDArray[np.int32]:
        return checked_slots(slots, len(self._row_of), lambda known: self._row_of[known] >= 0)

    def _append(self, subscriptions: Subscriptions) -> NDArray[np.int64]:
        self._pieces.append(subscriptions)
        self._n_rows += len(subscriptions)
        return np.arange(self._n_rows - len(subscriptions), self._n_rows)

    def _all(self) -> Subscriptions:
        """Return all rows as one piece; rows of earlier versions go when they are the majority."""
        import pyarrow as pa

        if len(self._pieces) > 1:
            # Ids play no part here, and pieces may disagree on their type.
            plain = [
                Subscriptions.of(p.clause_start, p.code_start, p.code, p.regions, ids=pa.nulls(len(p)))
                for p in self._pieces
            ]
            self._pieces = [Subscriptions.concat(plain)]
        live = np.flatnonzero(self._row_of >= 0)
        if self._n_rows > 2 * len(live) + 1000:
            self._pieces = [self._pieces[0].take(self._row_of[live])]
            self._row_of[live] = np.arange(len(live))
            self._n_rows = len(live)
        return self._pieces[0]

    def subscriptions(self, slots: NDArray[np.int32]) -> Subscriptions:
        """Return what these slots hold."""
        import dataclasses

        with self._lock:
            slots = self._alive(slots)
            return dataclasses.replace(self._all().take(self._row_of[slots]), ids=_arrow.numbers(slots))

    @property
    def n_slots(self) -> int:
        """Return one more than the highest slot ever used."""
        return len(self._row_of)

    def renumber(self) -> NDArray[np.int32]:
        """Number the live slots anew and return the old ones."""
        with self._lock:
            old = np.flatnonzero(self._row_of >= 0).astype(np.int32)
            self._row_of = self._row_of[old]
            return old

    def match(self, messages: Messages, *, threads: int = 1) -> Matches:
        """Try every live subscription on every message; one core whatever `threads` says."""
        messages = messages.for_kernels()
        with self._lock:
            slots = np.flatnonzero(self._row_of >= 0).astype(np.int32)
            held = self._all() if len(slots) else None
            rows = self._row_of[slots]
        pieces, counts = [], np.zeros(len(messages), np.int64)
        if held is not None:
            for message in range(len(messages)):
                pieces.append(slots[self._satisfied(held, rows, messages, message)])
                counts[message] = len(pieces[-1])
        start = np.zeros(len(messages) + 1, np.int64)
        np.cumsum(counts, out=start[1:])
        found = np.concatenate(pieces) if pieces else np.empty(0, np.int32)
        tried = len(slots) * len(messages)
        return Matches(start, found, np.ones(len(found)), candidates=tried, verified=tried)

    def _satisfied(
        self, held: Subscriptions, rows: NDArray[np.int64], messages: Messages, message: int
    ) -> NDArray[np.bool_]:
        """Return for each of `rows` whether it wants this message."""
        regions = held.regions
        wanted = np.zeros(len(rows), np.uint8)
        has = np.zeros(max(int(held.code.max(initial=0)), 0) + 1, np.uint8)
        _try_all(
            held.clause_start,
            held.code_start,
            held.code,
            regions.kind,
            regions.part_start,
            regions.part,
            regions.shape,
            regions.circle,
            rows,
            messages.term_start,
            messages.terms,
            messages.box,
            message,
            self.space.is_earth,
            has,
            np.empty((2, 4)),
            wanted,
        )
        many_sided = np.flatnonzero(wanted & (regions.kind[rows] == POLYGON))
        if len(many_sided):
            geometry = regions.geometry[regions.shape[rows[many_sided]]]
            box = np.repeat(messages.box[message : message + 1], len(many_sided), axis=0)
            wanted[many_sided] = polygons_touch(geometry, box, self.space)
        return wanted.astype(bool)

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes."""
        with self._lock:
            held = [self._all()] if self._pieces else []
            size = sum(array.nbytes for each in held for array in _arrays(each).values()) + self._row_of.nbytes
            return {
                "index": self.info.name,
                "subscriptions": len(self),
                "slots": len(self._row_of),
                "bytes": size,
            }

    def save(self, folder: str | Path) -> None:
        """Write the columns."""
        import shapely

        folder = new_folder(folder)
        with self._lock:
            held = self._all() if self._pieces else _nothing(self.space)
            for name, column in {**_arrays(held), "row_of": self._row_of}.items():
                np.save(folder / f"{name}.npy", column)
            wkb = np.array([shapely.to_wkb(shape, hex=True) for shape in held.regions.geometry], dtype=np.str_)
            np.save(folder / "geometry.npy", wkb)
            write_manifest(folder, self, {})

    @classmethod
    def _open(cls, folder: Path, space: Space, options: dict[str, Any]) -> ScanIndex:  # noqa: ARG003 - has none
        import shapely

        def column(name: str) -> Any:
            return mapped(folder / f"{name}.npy")

        index = cls(space)
        geometry = np.empty(len(column("geometry")), object)
        geometry[:] = [shapely.from_wkb(text) for text in column("geometry")]
        regions = Regions(**{name: column(name) for name in _REGION_COLUMNS}, geometry=geometry)
        index._append(Subscriptions.of(column("clause_start"), column("code_start"), column("code"), regions))
        index._row_of = column("row_of")
        return index


_REGION_COLUMNS = ("kind", "part_start", "part", "shape", "circle")


def _arrays(held: Subscriptions) -> dict[str, NDArray[Any]]:
    """Return the columns that say what is asked, by name; polygons apart."""
    words: dict[str, NDArray[Any]] = {
        "clause_start": held.clause_start,
        "code_start": held.code_start,
        "code": held.code,
    }
    return words | {name: getattr(held.regions, name) for name in _REGION_COLUMNS}


def _nothing(space: Space) -> Subscriptions:
    zero = np.zeros(1, np.int64)
    return Subscriptions.of(zero, zero, np.empty(0, np.int32), Regions.from_shapes([], space))


@hot_kernel
def _try_all(
    clause_start,
    code_start,
    code,
    kind,
    part_start,
    part,
    shape,
    circle,
    rows,
    term_start,
    terms,
    box,
    message,
    is_earth,
    has,
    place,
    wanted,
):
    """Set `wanted` for the rows that want a message; of polygons only the rectangle around them is asked here."""
    first, last = term_start[message], term_start[message + 1]
    n_places = message_parts(box, message, place)
    mark_terms(terms, first, last, has, 1)
    for i in range(rows.size):
        row = rows[i]
        near = kind[row] == ANYWHERE
        for p in range(n_places):
            x_min, y_min, x_max, y_max = place[p, 0], place[p, 1], place[p, 2], place[p, 3]
            if kind[row] == CIRCLE:
                c = shape[row]
                near = near or circle_holds(
                    is_earth, circle[c, 0], circle[c, 1], circle[c, 2], x_min, y_min, x_max, y_max
                )
            else:
                for k in range(part_start[row], part_start[row + 1]):
                    near = near or boxes_overlap(part, k, x_min, y_min, x_max, y_max)
        if near:
            for c in range(clause_start[row], clause_start[row + 1]):
                if clause_holds(code, code_start[c], code_start[c + 1], terms, first, last, has):
                    wanted[i] = 1
                    break
    mark_terms(terms, first, last, has, 0)
