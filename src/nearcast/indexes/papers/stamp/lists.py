"""Inverted lists in flat arrays: (region, level, token) → entries, through one hash table.

A list built in bulk is contiguous and holds the entries for messages inside its leaf first, those for both next, those
for messages beyond last: the two lists L(t, R) and L(t, R̃) of the paper overlap in memory. The second and third part
are in order of reach, so that a walk ends where nothing reaches any more. Entries that come later hang on chains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.indexes.papers.stamp.bounds import LEVELS
from nearcast.indexes.papers.stamp.prefixes import BEYOND, HERE, NOBODY, EntryDraft

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_LIST = -1
END = -1
#: Fields of `TokenLists.used`.
N_LISTS, N_LATE = 0, 1
#: Where an entry stands in its list, by its side: here only, both, beyond only.
_PART = np.array([0, 0, 2, 1], np.uint8)


_RECORD = np.dtype(
    [
        ("owner", np.int32),
        ("start", np.int32),
        ("both", np.int32, 2),
        ("reach", np.float32),
        ("head", np.int32),
    ]
)


class TokenLists(NamedTuple):
    """The lists of all regions, levels and tokens, and the hash table that finds them.

    `table` is an open-addressing hash table of (token, list), -1 where vacant. List i belongs to `owner[i]` (region ·
    LEVELS + level) and owns the entries `start[i]:start[i + 1]`; those for both sides are `both[i, 0]:both[i, 1]`.
    `reach[i]` is how far its entries for messages beyond the region reach at most: LSB(R | t) of the paper (Eq. 6). The
    lists of inner regions have a reach and no entries. `head[i]` begins the chain of late entries.
    """

    table: NDArray[np.int32]
    owner: NDArray[np.int32]
    start: NDArray[np.int32]
    both: NDArray[np.int32]
    reach: NDArray[np.float32]
    head: NDArray[np.int32]
    used: NDArray[np.int64]


class TokenEntries(NamedTuple):
    """Entries of lists: the paper's triples <s, LSB(s | t), Idx(s, t)>, as member, reach and words behind the token."""

    member: NDArray[np.int32]
    reach: NDArray[np.float32]
    rest: NDArray[np.uint8]


class LateEntries(NamedTuple):
    """Entries that came after the lists were built; `next` is the one after in the same chain."""

    member: NDArray[np.int32]
    reach: NDArray[np.float32]
    rest: NDArray[np.uint8]
    side: NDArray[np.uint8]
    next: NDArray[np.int32]


class ListSignature(NamedTuple):
    """Lists without their entries: owner, token, and the reach beyond the region."""

    owner: NDArray[np.int32]
    token: NDArray[np.int32]
    reach: NDArray[np.float32]


# --- building in bulk -------------------------------------------------------------------------------------------


def sorted_draft(draft: EntryDraft) -> EntryDraft:
    """Return the entries list by list, each list in its order."""
    return draft.take(np.lexsort((-draft.reach, _PART[draft.side], draft.token, draft.owner)))


def signature_of(draft: EntryDraft) -> tuple[ListSignature, NDArray[np.int64]]:
    """Return the lists of a sorted draft, and where each begins."""
    is_new = np.ones(len(draft.owner), bool)
    is_new[1:] = (draft.owner[1:] != draft.owner[:-1]) | (draft.token[1:] != draft.token[:-1])
    first = np.flatnonzero(is_new)
    reach = np.where(draft.side & BEYOND, draft.reach, np.float32(-1.0))
    most = np.maximum.reduceat(reach, first) if len(first) else reach
    return ListSignature(draft.owner[first], draft.token[first], most), first


def merged_signature(pieces: list[ListSignature]) -> ListSignature:
    """Return the signatures of inner regions drafted piece by piece as one."""
    owner, token, reach = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
    order = np.lexsort((token, owner))
    nothing = np.zeros(len(owner), np.uint8)
    return signature_of(EntryDraft(owner[order], token[order], owner, reach[order], nothing, nothing + BEYOND))[0]


def lists_of(draft: EntryDraft, inner: ListSignature) -> tuple[TokenLists, TokenEntries]:
    """Lay out the sorted entries of leaves, and the signatures of inner regions behind them."""
    leaves, first = signature_of(draft)
    n_leaf_lists, n = len(first), len(first) + len(inner.owner)
    start = np.full(n + 1, len(draft.owner), np.int32)
    start[:n_leaf_lists] = first
    both = np.zeros((n, 2), np.int32)
    both[:n_leaf_lists] = start[:n_leaf_lists, None]
    if n_leaf_lists:
        both[:n_leaf_lists, 0] += np.add.reduceat(draft.side == HERE, first, dtype=np.int32)
        both[:n_leaf_lists, 1] += np.add.reduceat(draft.side != BEYOND, first, dtype=np.int32)
    both[n_leaf_lists:] = len(draft.owner)
    lists = _room_for_lists(n, len(draft.owner))
    lists.owner[:n] = np.append(leaves.owner, inner.owner)
    lists.start[: n + 1], lists.both[:n], lists.reach[:n] = start, both, np.append(leaves.reach, inner.reach)
    lists.used[N_LISTS] = n
    _fill_table(lists.table, lists.owner, np.append(leaves.token, inner.token))
    return lists, TokenEntries(*map(np.ascontiguousarray, (draft.member, draft.reach, draft.rest)))


def _room_for_lists(n: int, n_entries: int) -> TokenLists:
    """Return room for n lists, the fields of one side by side in memory, as yet without entries.

    A list without entries begins and ends behind all of them. Two spare ones keep views from becoming contiguous, which
    would be another type to every kernel.
    """
    record = np.zeros(n + 2, _RECORD)
    record["start"], record["both"], record["reach"], record["head"] = n_entries, n_entries, -1.0, END
    # A third of the table stays vacant, one place at least: that is what ends a search for an absent list.
    table = np.full((n + n // 2 + 1, 2), NO_LIST, np.int32)
    columns = (record[name] for name in ("owner", "start", "both", "reach", "head"))
    return TokenLists(*[table, *columns, np.zeros(2, np.int64)])


def size_of(lists: TokenLists) -> int:
    """Return the bytes of lists, their entries apart."""
    return lists.table.nbytes + len(lists.start) * _RECORD.itemsize


def no_late_entries() -> LateEntries:
    """Return no chains at all."""
    kinds = (np.int32, np.float32, np.uint8, np.uint8, np.int32)
    columns: list[Any] = [np.empty(0, kind) for kind in kinds]
    return LateEntries(*columns)


# --- finding ----------------------------------------------------------------------------------------------------


@inlined
def _place(size, owner, token):
    """Return where in a table to begin looking; no product leaves 63 bits."""
    mixed = np.int64(token) ^ ((np.int64(owner) * 0x9E3779) & 0x7FFFFFFF)
    return (((mixed * 2654435769) & 0xFFFFFFFF) * size) >> 32


@inlined
def find_list(lists, region, level, token):
    """Return the list of a token at a level of a region, or NO_LIST."""
    owner = region * LEVELS + level
    size = lists.table.shape[0]
    at = _place(size, owner, token)
    while True:
        found = lists.table[at, 1]
        if found == NO_LIST or (lists.table[at, 0] == token and lists.owner[found] == owner):
            return found
        at += 1
        if at == size:
            at = 0


@inlined
def _enter(table, owner, token, number):
    """Put a list into a table that does not have it and has room."""
    size = table.shape[0]
    at = _place(size, owner, token)
    while table[at, 1] != NO_LIST:
        at += 1
        if at == size:
            at = 0
    table[at, 0], table[at, 1] = token, number


@kernel
def _fill_table(table, owner, token):
    for i in range(token.size):
        _enter(table, owner[i], token[i], i)


@kernel
def _move_table(table, owner, larger):
    for at in range(table.shape[0]):
        if table[at, 1] != NO_LIST:
            _enter(larger, owner[table[at, 1]], table[at, 0], table[at, 1])


# --- adding later -----------------------------------------------------------------------------------------------


def with_room(lists: TokenLists, late: LateEntries, n_more: int) -> tuple[TokenLists, LateEntries]:
    """Return the same lists and chains with room for so many more of either."""
    n_lists, n_late = int(lists.used[N_LISTS]), int(lists.used[N_LATE])
    if len(lists.owner) < n_lists + n_more + 2:
        more = _room_for_lists(n_lists + n_lists // 8 + n_more, int(lists.start[-1]))
        for wide, narrow in zip(_columns(more), _columns(lists), strict=True):
            wide[: len(narrow)] = narrow
        _move_table(lists.table, lists.owner, more.table)
        lists = more
    if len(late.member) < n_late + n_more:
        late = LateEntries(*(_longer(column, n_late + n_late // 2 + n_more, 0) for column in late))
    return lists, late


def _columns(lists: TokenLists) -> list[NDArray[Any]]:
    """Return all that grows with the lists but their table, and how many are used."""
    return [lists.owner, lists.start, lists.both, lists.reach, lists.head, lists.used]


def _longer(column: NDArray, n: int, value: float) -> NDArray:
    longer = np.full((n, *column.shape[1:]), value, column.dtype)
    longer[: len(column)] = column
    return longer


@kernel
def chain_entries(lists, late, level_total, draft):
    """Hang drafted entries on the chains of their lists, which may be new, and widen what the lists reach."""
    for i in range(draft.owner.size):
        region, level = draft.owner[i] // LEVELS, draft.owner[i] % LEVELS
        found = find_list(lists, region, level, draft.token[i])
        if found == NO_LIST:
            found = lists.used[N_LISTS]
            lists.used[N_LISTS] += 1
            lists.owner[found] = draft.owner[i]
            _enter(lists.table, draft.owner[i], draft.token[i], found)
        if draft.side[i] & BEYOND:
            lists.reach[found] = max(lists.reach[found], draft.reach[i])
        if draft.member[i] == NOBODY:
            continue
        at = lists.used[N_LATE]
        lists.used[N_LATE] += 1
        late.member[at], late.reach[at], late.rest[at] = draft.member[i], draft.reach[i], draft.rest[i]
        late.side[at], late.next[at] = draft.side[i], lists.head[found]
        lists.head[found] = at
        count_level(level_total, region, level, draft.side[i])


@inlined
def count_level(level_total, leaf, level, side):
    """Add one entry to what a leaf has on a level."""
    if side & HERE:
        level_total[leaf, 0, level] += 1
    if side & BEYOND:
        level_total[leaf, 1, level] += 1


@kernel
def count_levels(draft, level_total):
    """Add up how many entries each leaf has on each level, for messages here and beyond."""
    for i in range(draft.owner.size):
        count_level(level_total, draft.owner[i] // LEVELS, draft.owner[i] % LEVELS, draft.side[i])
