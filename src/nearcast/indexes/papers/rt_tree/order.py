"""Token orders of the Rt-tree paper, section 4.2: which words of a subscription stand for it first.

Frequencies are those of the subscriptions there were when the index was built. Words that came later are the rarest.

- `random`: in no order; the same for the same atom.
- `df`: the token that most subscriptions have stands for all of them; of those left, again the token that most of them
  have, and so on. Tokens that were never chosen come last.
- `idf`: the rarest first.
- `locality`: the rarest first among the subscriptions of the same cell, of 10,000 in a grid over all of them; of equals
  the rarest everywhere. A subscription is in the cell of the middle of its rectangle.

Of equals the lowest term comes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.errors import UnknownIndex
from nearcast.indexes.papers.keyword_first import count_words
from nearcast.indexes.shared.node_tokens import NO_WORD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.shared.atoms import Atoms

ORDERS = ("random", "df", "idf", "locality")
_RANDOM, _RANKED, _LOCAL = 0, 1, 2
#: Cells of the grid along each side: 10,000 in all.
_SIDE = 100
#: Subscriptions this far out, on either side of an axis, do not widen the grid.
_OUTLIERS = 0.001
_FAR = 1e100


class OrderArrays(NamedTuple):
    """What the kernels know of words: `rank` by term, and how often each is in a cell, where more than once.

    Cell c has the terms `cell_term[cell_start[c]:cell_start[c + 1]]`, ascending. `grid` is x, y, and the length of a
    cell's sides.
    """

    mode: int
    unknown: int
    rank: NDArray[np.int32]
    grid: NDArray[np.float64]
    cell_start: NDArray[np.int64]
    cell_term: NDArray[np.int32]
    cell_count: NDArray[np.int32]


class AtomWords(NamedTuple):
    """The words of some atoms in order: atom i has `token[start[i]:start[i + 1]]`, or `NO_WORD` if it has none."""

    start: NDArray[np.int64]
    token: NDArray[np.int32]


def checked_order(name: str, order: str) -> dict[str, str]:
    """Return the option; raise `UnknownIndex` if there is no such order."""
    if order not in ORDERS:
        raise UnknownIndex(f"option order of the index {name!r} is one of {', '.join(ORDERS)}, not {order!r}")
    return {"order": order}


class TokenOrder:
    """An order of words, learnt from subscriptions."""

    def __init__(self, how: str) -> None:
        self._how = how
        nothing = np.empty(0, np.int32)
        mode = {"random": _RANDOM, "locality": _LOCAL}.get(how, _RANKED)
        grid, start = np.array([0.0, 0.0, 1.0, 1.0]), np.zeros(_SIDE * _SIDE + 1, np.int64)
        self._arrays = OrderArrays(mode, 0, nothing, grid, start, nothing, nothing)

    def learn(self, atoms: Atoms, live: NDArray[np.int32], n_terms: int) -> None:
        """Take the frequencies of words from these atoms."""
        if self._how == "random":
            return
        count = np.zeros(n_terms, np.int64)
        count_words(atoms, live, count)
        rank = np.empty(n_terms, np.int32)
        if self._how == "df":
            _rank_by_cover(atoms, live, count, rank)
        else:
            rank[np.argsort(count, kind="stable")] = np.arange(1, n_terms + 1)
        unknown = n_terms + 1 if self._how == "df" else 0
        self._arrays = self._arrays._replace(rank=rank, unknown=unknown)
        if self._how == "locality":
            self._learn_cells(atoms, live, n_terms)

    def _learn_cells(self, atoms: Atoms, live: NDArray[np.int32], n_terms: int) -> None:
        grid = _grid_over(atoms.box[live])
        self._arrays = self._arrays._replace(grid=grid)
        keys = np.empty(int(atoms.n_words[live].sum()), np.int64)
        _fill_keys(atoms, live, grid, n_terms, keys)
        keys.sort()
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.empty(0, np.int64)
        count = np.diff(np.append(starts, len(keys)))
        starts, count = starts[count > 1], count[count > 1]
        cell, term = np.divmod(keys[starts], max(n_terms, 1))
        start = np.searchsorted(cell, np.arange(_SIDE * _SIDE + 1))
        self._arrays = self._arrays._replace(
            cell_start=start, cell_term=term.astype(np.int32), cell_count=count.astype(np.int32)
        )

    def words_of(self, atoms: Atoms, chosen: NDArray[np.int32]) -> AtomWords:
        """Return the words of the chosen atoms in order."""
        start = np.zeros(len(chosen) + 1, np.int64)
        np.cumsum(np.maximum(atoms.n_words[chosen], 1), out=start[1:])
        token = np.empty(int(start[-1]), np.int32)
        _order_words(atoms, chosen, self._arrays, start, token, np.empty(int(np.diff(start).max(initial=0)), np.int64))
        return AtomWords(start, token)

    @property
    def nbytes(self) -> int:
        """Return the size of what was learnt."""
        return sum(array.nbytes for array in self._arrays if isinstance(array, np.ndarray))


def _grid_over(box: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a grid over almost all middles of rectangles."""
    if not len(box):
        return np.array([0.0, 0.0, 1.0, 1.0])
    middle = np.clip(box[:, :2], -_FAR, _FAR) / 2 + np.clip(box[:, 2:], -_FAR, _FAR) / 2
    low, high = np.quantile(middle, [_OUTLIERS, 1 - _OUTLIERS], axis=0, method="nearest")
    side = (high - low) / _SIDE
    return np.concatenate([low, np.where(side > 1 / _FAR, side, 1.0)])


@inlined
def _cell_of(atoms, atom, grid):
    """Return the cell of the middle of an atom's rectangle; beyond the grid, the nearest."""
    cell = 0
    for axis in range(1, -1, -1):
        low, high = atoms.box[atom, axis], atoms.box[atom, axis + 2]
        middle = min(max(low, -_FAR), _FAR) / 2.0 + min(max(high, -_FAR), _FAR) / 2.0
        along = min(max((middle / 2.0 - grid[axis] / 2.0) / grid[axis + 2] * 2.0, 0.0), _SIDE - 1.0)
        cell = cell * _SIDE + int(along)
    return cell


@kernel
def _fill_keys(atoms, live, grid, n_terms, keys):
    """Write cell and term of every word as one number."""
    at = 0
    for atom in live:
        cell, first = _cell_of(atoms, atom, grid), atoms.code_start[atom]
        for i in range(first, first + atoms.n_words[atom]):
            keys[at] = cell * n_terms + atoms.code[i]
            at += 1


@kernel
def _order_words(atoms, chosen, how, start, token, key):
    """Write the words of each chosen atom by ascending key."""
    for c in range(chosen.size):
        atom, to = chosen[c], start[c]
        if atoms.n_words[atom] == 0:
            token[to] = NO_WORD
            continue
        first = atoms.code_start[atom]
        cell = _cell_of(atoms, atom, how.grid) if how.mode == _LOCAL else 0
        for i in range(atoms.n_words[atom]):
            term = atoms.code[first + i]
            own = _key_of(how, atom, term, cell)
            at = i
            while at > 0 and key[at - 1] > own:
                key[at], token[to + at] = key[at - 1], token[to + at - 1]
                at -= 1
            key[at], token[to + at] = own, term


@inlined
def _key_of(how, atom, term, cell):
    """Return a number that is smaller the earlier a word comes."""
    if how.mode == _RANDOM:
        mixed = (np.int64(atom) * 40503 + np.int64(term) * 30011) % 65521
        return mixed * mixed * (mixed + 7) % 65521
    rank = np.int64(how.rank[term]) if term < how.rank.size else np.int64(how.unknown)
    if how.mode == _RANKED:
        return rank
    low, last = how.cell_start[cell], how.cell_start[cell + 1]
    high = last
    while low < high:
        middle = (low + high) // 2
        if how.cell_term[middle] < term:
            low = middle + 1
        else:
            high = middle
    count = np.int64(0)
    if low < last and how.cell_term[low] == term:
        count = np.int64(how.cell_count[low])
    return count * 4294967296 + rank


@kernel
def _rank_by_cover(atoms, live, count, rank):
    """Rank terms as they are chosen one after the other, each for all atoms that have it and none chosen before.

    `count` goes down to the number of atoms left. Terms wait in one stack for each count, the highest first.
    """
    n_terms = count.size
    most, n_all = 0, 0
    for term in range(n_terms):
        most = max(most, count[term])
        n_all += count[term]
    first, owner = np.zeros(n_terms + 1, np.int64), np.empty(n_all, np.int32)
    for term in range(n_terms):
        first[term + 1] = first[term] + count[term]
    at = first[:n_terms].copy()
    for k in range(live.size):
        begin = atoms.code_start[live[k]]
        for i in range(begin, begin + atoms.n_words[live[k]]):
            owner[at[atoms.code[i]]] = k
            at[atoms.code[i]] += 1
    top, below = np.full(most + 1, -1, np.int64), np.full(n_terms, -1, np.int64)
    for term in range(n_terms - 1, -1, -1):
        below[term], top[count[term]] = top[count[term]], term
    is_covered = np.zeros(live.size, np.uint8)
    n_ranked = 0
    for level in range(most, -1, -1):
        while top[level] >= 0:
            term = top[level]
            top[level] = below[term]
            if count[term] < level:
                below[term], top[count[term]] = top[count[term]], term
                continue
            n_ranked += 1
            rank[term] = n_ranked
            for j in range(first[term], first[term + 1]):
                if is_covered[owner[j]] == 0:
                    is_covered[owner[j]] = 1
                    atom = live[owner[j]]
                    begin = atoms.code_start[atom]
                    for i in range(begin, begin + atoms.n_words[atom]):
                        count[atoms.code[i]] -= 1
