"""The class that owns the tokens of nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.indexes.shared.node_tokens.arrays import (
    COUNT,
    FIRST,
    ITEMS,
    LIVE,
    NO_RECTS,
    PAIRS,
    ROOM,
    TokenArrays,
    Triples,
)
from nearcast.indexes.shared.node_tokens.changes import add, holds, remove
from nearcast.indexes.shared.node_tokens.triples import grouped

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Pairs and items that may be wasted in any case.
_SPARE = 1 << 16


class NodeTokens:
    """Tokens by node; with `keeps_items` false only how often each was added."""

    def __init__(self, *, keeps_items: bool) -> None:
        self._width = 3 if keeps_items else 1
        self.fill([], 0)

    def fill(self, parts: Iterable[Triples], n_nodes: int) -> None:
        """Hold these triples and no others; no node is in two parts."""
        nothing = np.zeros(n_nodes, np.int32)
        first, length, room = np.zeros(n_nodes, np.int64), nothing.copy(), nothing.copy()
        lists = np.empty((0, self._width), np.int32)
        columns: tuple[list[NDArray[Any]], ...] = ([nothing[:0]], [lists], [nothing[:0]], [NO_RECTS])
        used = np.zeros(3, np.int64)
        for part in parts:
            if len(part.node):
                order, starts = grouped(part)
                self._begin(part.node[order[starts]], first, length, room, int(used[PAIRS]))
                for column, more in zip(columns, self._laid_out(part, order, starts, int(used[ITEMS])), strict=True):
                    column.append(more)
                used += (len(starts), len(columns[2][-1]), len(columns[2][-1]))
        token, lists, item, rect = map(np.concatenate, columns)
        self.arrays = TokenArrays(
            first=first, length=length, room=room, token=token, list=lists, item=item, rect=rect, used=used
        )

    def refill(self, part: Triples) -> None:
        """Add triples of nodes that have no tokens."""
        if not len(part.node):
            return
        order, starts = grouped(part)
        n_pairs, n_items = int(self.arrays.used[PAIRS]), int(self.arrays.used[ITEMS])
        token, lists, item, rect = self._laid_out(part, order, starts, n_items)
        self._make_room(n_pairs + len(token), n_items + len(item))
        arrays = self.arrays
        self._begin(part.node[order[starts]], arrays.first, arrays.length, arrays.room, n_pairs)
        arrays.token[n_pairs : n_pairs + len(token)], arrays.list[n_pairs : n_pairs + len(token)] = token, lists
        arrays.item[n_items : n_items + len(item)] = item
        if len(rect):
            arrays.rect[n_items : n_items + len(item)] = rect
        arrays.used[:] += (len(token), len(item), len(item))

    def _begin(
        self,
        owner: NDArray[np.int32],
        first: NDArray[np.int64],
        length: NDArray[np.int32],
        room: NDArray[np.int32],
        n_before: int,
    ) -> None:
        """Say where the tokens of each owner begin and how many there are, behind so many others."""
        begins = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
        nodes = owner[begins]
        first[nodes] = begins + n_before
        length[nodes] = room[nodes] = np.diff(np.append(begins, len(owner)))

    def _laid_out(
        self, part: Triples, order: NDArray[np.int32], starts: NDArray[np.int64], n_items: int
    ) -> tuple[NDArray[Any], ...]:
        """Return tokens, lists, items and rectangles of a part, behind so many other items."""
        token, lists = part.token[order[starts]], np.empty((len(starts), self._width), np.int32)
        if self._width == 1:
            lists[:, COUNT] = np.add.reduceat(part.item[order], starts)
            return token, lists, part.item[:0], NO_RECTS
        lists[:, COUNT] = lists[:, ROOM] = np.diff(np.append(starts, len(order)))
        lists[:, FIRST] = starts + n_items
        return token, lists, part.item[order], part.rect[order] if len(part.rect) else NO_RECTS

    def at_least(self, n_nodes: int) -> None:
        """Make sure that there are so many nodes; new ones have no tokens."""
        missing = n_nodes - len(self.arrays.first)
        if missing > 0:
            first, length, room = self.arrays[:3]
            nothing = np.zeros(missing, np.int32)
            first, length = np.append(first, nothing.astype(np.int64)), np.append(length, nothing)
            self.arrays = self.arrays._replace(first=first, length=length, room=np.append(room, nothing))

    def add(self, triples: Triples) -> None:
        """Add triples, whose items, where they are kept, are not there yet."""
        done, pairs, items = add(self.arrays, triples, 0)
        while done < len(triples.node):
            self._make_room(int(pairs), int(items))
            done, pairs, items = add(self.arrays, triples, done)

    def remove(self, triples: Triples) -> None:
        """Take out triples that are there."""
        remove(self.arrays, triples)

    def clear(self, nodes: NDArray[np.int32]) -> None:
        """Take all tokens from these nodes."""
        if self._width > 1:
            self.arrays.used[LIVE] -= int(self.arrays.list[self._rows_of(nodes)[0], COUNT].sum())
        self.arrays.length[nodes] = 0

    def tokens_of(self, nodes: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the tokens of nodes end to end, and for each which of the nodes has it."""
        row, at = self._rows_of(nodes)
        return self.arrays.token[row], at

    def _rows_of(self, nodes: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        n = self.arrays.length[nodes]
        at = np.repeat(np.arange(len(nodes)), n)
        return np.arange(len(at)) - np.repeat(np.cumsum(n) - n, n) + self.arrays.first[nodes][at], at

    def holds(self, triples: Triples) -> NDArray[np.bool_]:
        """Tell of triples whether their node has their token at all."""
        found = np.zeros(len(triples.node), np.bool_)
        holds(self.arrays, triples, found)
        return found

    @property
    def is_wasteful(self) -> bool:
        """Tell whether most of the arrays has been left behind."""
        pairs, items, live = self.arrays.used.tolist()
        return bool(pairs > 2 * int(self.arrays.length.sum()) + _SPARE or items > 2 * live + _SPARE)

    @property
    def nbytes(self) -> int:
        """Return the size of all arrays, room included."""
        return sum(array.nbytes for array in self.arrays)

    def _make_room(self, pairs: int, items: int) -> None:
        """Let the arrays have room for so many pairs and items."""
        wanted = {"token": pairs, "list": pairs, "item": items}
        if len(self.arrays.rect) == len(self.arrays.item):
            wanted["rect"] = items
        for name, n in wanted.items():
            old = getattr(self.arrays, name)
            if n > len(old):
                if n > np.iinfo(np.int32).max:
                    raise MemoryError(f"an index of {n:,} list entries is more than this one can number")
                grown = np.empty((n + n // 4, *old.shape[1:]), old.dtype)
                grown[: len(old)] = old
                self.arrays = self.arrays._replace(**{name: grown})
