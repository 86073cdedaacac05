"""Arguments of the search kernels: the index as they read it, and scratch arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.papers.stamp.lists import LateEntries, TokenEntries, TokenLists
    from nearcast.indexes.papers.stamp.members import Members
    from nearcast.indexes.shared.packed_rtree import PackedRTree


class StampArrays(NamedTuple):
    """The index as kernels read it; `level_total` is how many entries a leaf has on each level, here and beyond."""

    tree: PackedRTree
    lists: TokenLists
    entries: TokenEntries
    late: LateEntries
    members: Members
    level_total: NDArray[np.int32]


class StampScratch(NamedTuple):
    """Scratch arrays of a search, used again for every message.

    `alive` and `cursor` go down the levels of regions. The columns of candidates are those of one leaf.
    """

    has: NDArray[np.uint8]
    token: NDArray[np.int32]
    alive: NDArray[np.int32]
    n_alive: NDArray[np.int64]
    cursor: NDArray[np.int64]
    end: NDArray[np.int64]
    found_list: NDArray[np.int32]
    level_list: NDArray[np.int32]
    resume: NDArray[np.int64]
    place: NDArray[np.float64]
    candidate: NDArray[np.int32]
    distance: NDArray[np.float64]
    amount: NDArray[np.float64]
    n_common: NDArray[np.int32]
    cost: NDArray[np.int32]
    tally: NDArray[np.int64]
    spare_slots: NDArray[np.int32]
    spare_scores: NDArray[np.float64]
    digits: NDArray[np.int64]


def new_scratch(n_terms: int, n_members: int, most_in_leaf: int, n_levels: int, n_tokens: int) -> StampScratch:
    """Return scratch arrays for so many terms, members in all and in a leaf, levels of regions, tokens of a message."""
    return StampScratch(
        has=np.zeros(n_terms, np.uint8),
        token=np.empty(n_tokens, np.int32),
        alive=np.empty((n_levels, n_tokens), np.int32),
        n_alive=np.empty(n_levels, np.int64),
        cursor=np.empty(n_levels, np.int64),
        end=np.empty(n_levels, np.int64),
        found_list=np.empty(n_tokens, np.int32),
        level_list=np.empty(n_tokens, np.int32),
        resume=np.empty(n_tokens, np.int64),
        place=np.empty((2, 4)),
        candidate=np.empty(most_in_leaf, np.int32),
        distance=np.empty(most_in_leaf),
        amount=np.empty(most_in_leaf),
        n_common=np.empty(most_in_leaf, np.int32),
        cost=np.empty(most_in_leaf, np.int32),
        tally=np.zeros(2, np.int64),
        spare_slots=np.empty(n_members, np.int32),
        spare_scores=np.empty(n_members),
        digits=np.empty(256, np.int64),
    )
