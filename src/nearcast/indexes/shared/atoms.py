"""Atoms: a clause of a subscription in a rectangle of its region, the unit that the papers' boolean indexes store.

The papers know subscriptions that need all of their words and one rectangle. An expression is a choice of such clauses
(its disjunctive normal form) and a region a choice of rectangles, so a subscription is one atom for each pair, and an
answer when one of its atoms is found. What the words and the rectangle do not say, a NOT, a phrase, a circle or a
polygon, is tested for the atoms whose words and rectangle hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.geo import circle_holds
from nearcast.indexes.shared.clause_rows import expanded, shape_codes
from nearcast.indexes.shared.growable_columns import GrowableColumn
from nearcast.indexes.shared.predicates import NO_SHAPE, boxes_overlap, clause_holds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions


class Atoms(NamedTuple):
    """Atoms as kernels read them; the arrays have spare room behind the atoms there are.

    Atom a belongs to `row[a]` of the table. It needs the words `code[code_start[a]:code_start[a] + n_words[a]]`, each
    once and ascending, the rest of its code up to `code_start[a + 1]` (see `nearcast.query`), and its rectangle
    `box[a]`, infinite where any place will do. `shape[a]` is -1 where the rectangle is all, 2·c for row c of `circle`,
    odd for a polygon.
    """

    row: NDArray[np.int32]
    code_start: NDArray[np.int64]
    n_words: NDArray[np.int32]
    code: NDArray[np.int32]
    box: NDArray[np.float64]
    shape: NDArray[np.int32]
    circle: NDArray[np.float64]


class AtomStore:
    """All atoms of a table of subscriptions, numbered in the order of its rows; those of a row are neighbours."""

    def __init__(self) -> None:
        self._columns = {
            "row": GrowableColumn(np.empty(0, np.int32)),
            "code_start": GrowableColumn(np.zeros(1, np.int64)),
            "n_words": GrowableColumn(np.empty(0, np.int32)),
            "code": GrowableColumn(np.empty(0, np.int32)),
            "box": GrowableColumn(np.empty((0, 4))),
            "shape": GrowableColumn(np.empty(0, np.int32)),
            "circle": GrowableColumn(np.empty((0, 3))),
        }
        self._first_of_row = GrowableColumn(np.zeros(1, np.int64))
        self.geometry: NDArray[np.object_] = np.empty(0, object)

    def __len__(self) -> int:
        return len(self._columns["row"])

    @property
    def arrays(self) -> Atoms:
        """Return the atoms as kernels read them."""
        return Atoms(**{name: column.array for name, column in self._columns.items()})

    def add(self, subscriptions: Subscriptions) -> None:
        """Add the atoms of the next rows."""
        parts, regions, columns = expanded(subscriptions), subscriptions.regions, self._columns
        shape = shape_codes(regions)
        is_circle, is_polygon = (shape >= 0) & (shape % 2 == 0), shape % 2 == 1
        shape[is_circle] += 2 * len(columns["circle"])
        shape[(shape >= 0) & is_polygon] += 2 * len(self.geometry)
        n_before, n_rows = len(self), len(self._first_of_row) - 1
        owner = np.arange(len(subscriptions)) if parts.owner is None else parts.owner
        n_words = np.empty(len(owner), np.int32)
        _count_words(parts.code_start, parts.code, n_words)
        columns["row"].extend((owner + n_rows).astype(np.int32))
        columns["code_start"].extend_starts(parts.code_start, len(columns["code"]))
        columns["n_words"].extend(n_words)
        columns["code"].extend(parts.code)
        columns["box"].extend(parts.box)
        columns["shape"].extend(shape if parts.owner is None else shape[owner])
        columns["circle"].extend(regions.circle.reshape(-1, 3))
        self.geometry = np.concatenate([self.geometry, regions.geometry])
        counts = np.bincount(owner, minlength=len(subscriptions))
        self._first_of_row.extend(n_before + np.cumsum(counts))

    def of_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the atoms of these rows."""
        first, last = self._first_of_row.array[rows], self._first_of_row.array[rows + 1]
        length = last - first
        found: NDArray[np.int64] = np.arange(length.sum()) + np.repeat(first - (np.cumsum(length) - length), length)
        return found.astype(np.int32)

    def bytes_beside(self, others: list[NDArray[Any]]) -> int:
        """Return the size of the arrays that are not among the others."""
        known = {array.__array_interface__["data"][0] for array in others}
        columns = [*self._columns.values(), self._first_of_row]
        return sum(each.array.nbytes for each in columns if each.array.__array_interface__["data"][0] not in known)


@kernel
def _count_words(code_start, code, n_words):
    for atom in range(n_words.size):
        n = 0
        while code_start[atom] + n < code_start[atom + 1] and code[code_start[atom] + n] >= 0:
            n += 1
        n_words[atom] = n


# --- does an atom hold? -------------------------------------------------------------------------------------------


@inlined
def words_hold(atoms, atom, has):
    """Tell whether a message, its words marked in `has`, has all words of an atom."""
    first = atoms.code_start[atom]
    for i in range(first, first + atoms.n_words[atom]):
        if has[atoms.code[i]] == 0:
            return False
    return True


@inlined
def box_holds(atoms, atom, place, n_places):
    """Tell whether a part of a message's place, as `message_parts` cut it, shares a point with an atom's rectangle."""
    for p in range(n_places):
        if boxes_overlap(atoms.box, atom, place[p, 0], place[p, 1], place[p, 2], place[p, 3]):
            return True
    return False


@inlined
def rest_holds(atoms, atom, batch, message, n_places):
    """Tell whether the rest of an atom holds: NOT, phrases and circles. Polygons are not tested here."""
    first, last = atoms.code_start[atom] + atoms.n_words[atom], atoms.code_start[atom + 1]
    shape = atoms.shape[atom]
    if shape == NO_SHAPE and first == last:
        return True
    if shape >= 0 and shape % 2 == 0:
        is_near, c, place = False, shape // 2, batch.place
        for p in range(n_places):
            is_near = is_near or circle_holds(
                batch.is_earth,
                atoms.circle[c, 0],
                atoms.circle[c, 1],
                atoms.circle[c, 2],
                place[p, 0],
                place[p, 1],
                place[p, 2],
                place[p, 3],
            )
        if not is_near:
            return False
    m_first, m_last = batch.term_start[message], batch.term_start[message + 1]
    return clause_holds(atoms.code, first, last, batch.terms, m_first, m_last, batch.has)
