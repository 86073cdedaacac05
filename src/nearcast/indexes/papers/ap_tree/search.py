"""The search of the AP-Tree: the atoms that a message satisfies (paper, Algorithm 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.papers.ap_tree.layout import (
    AUX,
    COUNT,
    FIRST,
    KEYWORD,
    KIND,
    LEAF,
    NO_CHILD,
    ROOM,
    ROOT,
    SOURCE_SHIFT,
    cut_index,
    line_index,
    rounded_down,
)
from nearcast.indexes.papers.ap_tree.order import rank_message
from nearcast.indexes.shared.atoms import words_hold
from nearcast.indexes.shared.boolean_index import LOOKED_AT, VERIFIED, enter, finish_message, keep
from nearcast.indexes.shared.filters import term_bit
from nearcast.indexes.shared.kernel_message import begin_message
from nearcast.indexes.shared.predicates import boxes_overlap, message_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray


#: Entries that wait to be verified at most, and how many of a leaf are looked at in one go.
WAITING, BLOCK = 512, 64
#: Places beyond this are compared exactly.
_HUGE = 1e37


class ApTreeScratch(NamedTuple):
    """Scratch arrays for one message: the ranks of its words, and the stack of nodes with their first relevant word.

    `corner` is its rectangle as entries have theirs, `inner` one that is smaller by more than rounding could change it,
    `waiting` the entries that are to be verified.
    """

    rank: NDArray[np.int32]
    stack: NDArray[np.int32]
    corner: NDArray[np.float32]
    inner: NDArray[np.float32]
    waiting: NDArray[np.int32]


def scratch_for(longest: int, n_nodes: int, present: ApTreeScratch | None) -> ApTreeScratch:
    """Return room for messages of so many words in a tree of so many nodes: the present one if that suffices."""
    if present is not None and longest <= len(present.rank) and n_nodes < len(present.stack):
        return present
    rank, stack = np.empty(max(64, 2 * longest), np.int32), np.empty((n_nodes + n_nodes // 4 + 64, 2), np.int32)
    return ApTreeScratch(rank, stack, np.empty(4, np.float32), np.empty(4, np.float32), np.empty(WAITING, np.int32))


@hot_kernel
def search_tree(tree, rank, atoms, batch, first, found, scratch):
    """Search the messages from `first` on; return the first that is not done."""
    at = found.end[first - 1] if first > 0 else 0
    ranks, stack = scratch.rank, scratch.stack
    for message in range(first, found.end.size):
        looked_at, verified = found.tally[LOOKED_AT], found.tally[VERIFIED]
        n_words = begin_message(batch, message)
        rank_message(batch.word, n_words, rank, ranks)
        absent = ~message_bits(batch.word, n_words)
        n_places = message_parts(batch.box, message, batch.place)
        for part in range(n_places):
            set_corners(batch.place, part, scratch.corner, scratch.inner)
            depth, entry, last = _begin(stack), 0, 0
            while depth > 0 or entry < last:
                n = 0
                while n <= WAITING - BLOCK and (depth > 0 or entry < last):
                    if entry < last:
                        stop = min(last, entry + BLOCK)
                        n = sift(tree, entry, stop, absent, scratch, n)
                        entry = stop
                        continue
                    depth -= 1
                    node = stack[depth, 0]
                    if tree.node[node, KIND] == LEAF:
                        entry = tree.node[node, FIRST]
                        last = entry + tree.node[node, COUNT]
                        looked_at += tree.node[node, COUNT]
                    else:
                        depth = push_children(
                            tree, node, scratch.rank, n_words, batch.place, part, scratch.stack, depth
                        )
                verified += n
                for i in range(n):
                    at = verify_entry(
                        tree, scratch.waiting[i], atoms, batch, message, part, n_places, scratch, found, at
                    )
        if not finish_message(batch, message, n_words, found, at, looked_at, verified):
            return message
    return found.end.size


@inlined
def message_bits(word, n_words):
    """Return the signature of a message's words."""
    bits = np.uint64(0)
    for i in range(n_words):
        bits |= term_bit(word[i])
    return bits


@inlined
def _begin(stack):
    """Put the root on the stack, where all words count; return the depth."""
    stack[0, 0], stack[0, 1] = ROOT, 0
    return 1


@inlined
def set_corners(place, part, corner, inner):
    """Write a rectangle of a message as entries have theirs, and a smaller one."""
    for k in range(2):
        low, high = place[part, k], place[part, k + 2]
        corner[k], corner[k + 2] = rounded_down(low), -rounded_down(-high)
        inner[k], inner[k + 2] = -_well_below(-low), _well_below(high)


@inlined
def _well_below(value):
    """Return a number so far below another that what is not above it here is not above the other before rounding."""
    if abs(value) > _HUGE:
        return np.float32(np.nan)
    return np.float32(value - abs(value) * 2e-6 - 1e-35)


@inlined
def sift(tree, first, stop, absent, scratch, n):
    """Let entries wait for verification whose signature and rectangle do not forbid it; return how many wait.

    Each is written, and the cursor moves on a hit only: no branch to mispredict.
    """
    waiting, corner, rectangle = scratch.waiting, scratch.corner, tree.rectangle
    for e in range(first, stop):
        waiting[n] = e
        fits = (tree.signature[e] & absent) == np.uint64(0)
        fits &= (rectangle[e, 0] <= corner[2]) & (rectangle[e, 2] >= corner[0])
        n += fits & (rectangle[e, 1] <= corner[3]) & (rectangle[e, 3] >= corner[1])
    return n


@inlined
def verify_entry(tree, entry, atoms, batch, message, part, n_places, scratch, found, at):
    """Enter the atom of an entry if all of it holds; return the next number. Most are decided without the atom."""
    atom, source = tree.atom[entry], tree.source[entry]
    if not _surely_overlaps(tree.rectangle, entry, scratch.inner) and not _overlaps(atoms.box, atom, batch.place, part):
        return at
    first = source >> SOURCE_SHIFT
    for i in range(first, first + ((source >> 1) & 32767)):
        if batch.has[atoms.code[i]] == 0:
            return at
    if (source & 1) == 0:
        if words_hold(atoms, atom, batch.has):
            at = keep(atoms, atom, batch, message, n_places, found, at)
        return at
    return enter(atom, found, at)


@inlined
def _surely_overlaps(rectangle, entry, inner):
    """Tell whether a rectangle and a message overlap so far that rounding does not matter."""
    return (
        rectangle[entry, 0] <= inner[2]
        and rectangle[entry, 2] >= inner[0]
        and rectangle[entry, 1] <= inner[3]
        and rectangle[entry, 3] >= inner[1]
    )


@inlined
def _overlaps(box, atom, place, part):
    return boxes_overlap(box, atom, place[part, 0], place[part, 1], place[part, 2], place[part, 3])


@inlined
def push_children(tree, node, ranks, n_ranks, place, part, stack, depth):
    """Put the children on the stack that a message meets, in place of their node at `depth`; return the new depth."""
    row, first_word = tree.node[node], stack[depth, 1]
    if row[KIND] == KEYWORD:
        depth = _push_cuts(tree, row, ranks, n_ranks, first_word, stack, depth)
        dummy = row[FIRST] + row[COUNT]
    else:
        depth = _push_cells(tree, row, place, part, first_word, stack, depth)
        dummy = row[FIRST] + row[COUNT] * row[ROOM]
    return _push(tree, dummy, first_word, stack, depth)


@inlined
def _push(tree, slot, first_word, stack, depth):
    child = tree.child[slot]
    if child != NO_CHILD:
        stack[depth, 0], stack[depth, 1] = child, first_word
        depth += 1
    return depth


@inlined
def _push_cuts(tree, row, ranks, n_ranks, first_word, stack, depth):
    """Push every cut once that a word of the message hits, with the words behind the first of those that count."""
    at, i = 0, first_word
    while i < n_ranks and at < row[COUNT]:
        at += cut_index(tree, row[AUX] + at, row[COUNT] - at, ranks[i])
        if at == row[COUNT]:
            break
        if ranks[i] >= tree.cut[row[AUX] + at, 0]:
            depth = _push(tree, row[FIRST] + at, i + 1, stack, depth)
            last = tree.cut[row[AUX] + at, 1]
            while i < n_ranks and ranks[i] <= last:
                i += 1
            at += 1
        else:
            i += 1
    return depth


@inlined
def _push_cells(tree, row, place, part, first_word, stack, depth):
    """Push every cell that a rectangle of the message touches."""
    columns, rows, line = row[COUNT], row[ROOM], row[AUX]
    y_line = line + columns - 1
    left = line_index(tree, line, columns - 1, place[part, 0])
    top = line_index(tree, y_line, rows - 1, place[part, 1])
    right, bottom = left, top
    if place[part, 0] != place[part, 2] or place[part, 1] != place[part, 3]:
        right = line_index(tree, line, columns - 1, place[part, 2])
        bottom = line_index(tree, y_line, rows - 1, place[part, 3])
    for i in range(left, right + 1):
        for j in range(top, bottom + 1):
            depth = _push(tree, row[FIRST] + i * rows + j, first_word, stack, depth)
    return depth
