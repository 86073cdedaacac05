"""The index `rt++-tree`: one word of a subscription on each level of an R-tree, and answers without verification.

Section 5 of the Rt-tree paper (Li, Wang, Wang, Feng: KDD 2013). The words of a subscription are put in an order (see
`order`) and spread over the nodes above its leaf: the first belongs to the node on level 1, the second to that on level
2, and so on; its leaf takes all that are left. Every node has an inverted list for each of its tokens. A message reads
the lists of its words in the nodes it touches and counts how often it meets each subscription: one that it has met as
often as it has words is an answer. It goes below a node on level i only if it has met a subscription i times there that
needs more.

What differs from the paper, and what it leaves open:

- Level 1 are the entries of the root, as in the paper's examples and pseudo-code; its text once counts the root. If
  the root is a leaf, that is level 1.
- An entry of a list has the rectangle of its subscription beside it, in single precision, rounded outwards. It is
  tested before counting and not, as in the pseudo-code, when the count is full: who does not touch the message is no
  reason to go down. Only where rounding leaves a doubt, on a border, the rectangle itself is tested.
- Below a node the message goes to those children only that are above such a subscription, where the paper goes to all
  that it touches: the leaf of a subscription is known.
- Tokens of a node are sorted: see `rt-tree` on what they and a message share.
- A subscription without a word that must be there, such as NOT spam, is on level 1 under a token that every message
  has. What words and rectangle do not say, NOT, phrases, circles and polygons, is tested for those counted full.
- The tree is packed with alike many entries on all levels above the leaves (see `shared.dynamic_rtree.packing`), so
  that level 1 has more than a few nodes.
- When a node is split, its tokens are made anew. When the tree grows or loses a level, words belong to other levels:
  all lists are made anew. Frequencies are counted when the index is built; it is built again when as many have come as
  there were.

Time: the lists of the message's words in the nodes it goes to. A subscription is in as many lists as it has words, and
is met in those of nodes on its way only. Space: 40 bytes for each atom in the tree, 20 for each of its words, 16 for
each token of a node, 8 for counting, and what the order has learnt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.errors import NotSupported
from nearcast.indexes import register
from nearcast.indexes.papers.rt_tree.order import checked_order
from nearcast.indexes.papers.rt_tree.token_tree import ALL, TokenTreeIndex
from nearcast.indexes.shared.atoms import box_holds
from nearcast.indexes.shared.boolean_index import (
    LOOKED_AT,
    VERIFIED,
    BooleanBatch,
    FoundAtoms,
    enter,
    finish_message,
    keep,
)
from nearcast.indexes.shared.dynamic_rtree import ROOT, entry_touches
from nearcast.indexes.shared.kernel_message import begin_message
from nearcast.indexes.shared.node_tokens import COUNT, FIRST, inwards, shared_pairs
from nearcast.indexes.shared.predicates import NO_SHAPE, message_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space


#: The item of a list is an atom times `_FLAGS` and these: it has no words further below, and nothing but words and a
#: rectangle to ask.
_FLAGS, _LAST, _PLAIN = 4, 1, 2
_APART, _PERHAPS, _SURELY = 0, 1, 2


class CountingScratch(NamedTuple):
    """Scratch arrays for one message: the stack of nodes, the words shared with a node, and counts by atom.

    `waits` is by node and `times` by atom, both 0 between messages. `box` are the places of all messages, rounded
    inwards, and `place` the parts of this one.
    """

    stack: NDArray[np.int32]
    waits: NDArray[np.uint8]
    shared: NDArray[np.int64]
    times: NDArray[np.int32]
    met: NDArray[np.int32]
    box: NDArray[np.float32]
    place: NDArray[np.float32]


@register(
    "rt++-tree",
    kinds=("within",),
    paper="Rt-tree (KDD 2013), section 5",
    options={"min_entries": 25, "max_entries": 50, "order": "locality"},
)
class RtPlusPlusTreeIndex(TokenTreeIndex):
    """An R-tree with one word of a subscription on each level, by `order`, and lists of who has it.

    >>> from nearcast.geo import Space
    >>> len(RtPlusPlusTreeIndex(Space.plane(), order="idf"))
    0
    """

    _keeps_lists: ClassVar[bool] = True
    _goes_by_level: ClassVar[bool] = True

    def __init__(self, space: Space, *, min_entries: int = 25, max_entries: int = 50, order: str = "locality"):
        options = checked_order(self.info.name, order)
        super().__init__(space, min_entries=min_entries, max_entries=max_entries, **options)
        self._options |= options
        self._times, self._met = np.zeros(0, np.int32), np.empty(0, np.int32)

    def _span(self, level: int) -> tuple[int, int]:
        return max(self._tree.n_levels, 1) - 1 - level, 1 if level else ALL

    def _items(self, level: int, atoms: NDArray[np.int32]) -> NDArray[np.int32]:
        columns = self._atoms
        if len(self._store) > np.iinfo(np.int32).max // _FLAGS:
            raise NotSupported(
                f"the index {self.info.name!r} cannot number {len(self._store):,} clauses and rectangles"
            )
        last_word = columns.code_start[atoms] + columns.n_words[atoms]
        is_plain = (columns.shape[atoms] == NO_SHAPE) & (last_word == columns.code_start[atoms + 1])
        is_last = columns.n_words[atoms] <= max(self._tree.n_levels, 1) - level
        flagged: NDArray[np.int32] = atoms * np.int32(_FLAGS) + is_last * np.int32(_LAST) + is_plain * np.int32(_PLAIN)
        return flagged

    def _search(self, batch: BooleanBatch, first: int, found: FoundAtoms) -> int:
        tree, n_atoms = self._tree.arrays, len(self._tree.arrays.leaf_of)
        if len(self._times) < n_atoms:
            self._met = np.empty(n_atoms, np.int32)
            self._times = np.zeros(n_atoms, np.int32)  # the last: its length says that both are long enough
        stack = np.empty(self._tree.n_levels * tree.entry.shape[1] + 1, np.int32)
        shared, waits = np.empty(len(batch.word) + 1, np.int64), np.zeros(len(tree.level), np.uint8)
        scratch = CountingScratch(
            stack, waits, shared, self._times, self._met, inwards(batch.box), np.empty((2, 4), np.float32)
        )
        return int(_search_lists(tree, self._tokens.arrays, self._atoms, batch, first, found, scratch))

    def _bytes(self) -> int:
        return super()._bytes() + self._times.nbytes + self._met.nbytes


@hot_kernel
def _search_lists(tree, tokens, atoms, batch, first, found, scratch):
    """Search the messages from `first` on; return the first that is not done."""
    at = found.end[first - 1] if first > 0 else 0
    for message in range(first, found.end.size):
        looked_at, first_atom = found.tally[LOOKED_AT] + tree.n_entries[tree.state[ROOT]], at
        n_words = begin_message(batch, message)
        n_places = message_parts(batch.box, message, batch.place)
        _round_parts(batch.place, n_places, scratch.box, message, scratch.place)
        n_levels = max(tree.level[tree.state[ROOT]], 1)
        n_met, n_waiting = 0, _begin_at_root(tree, batch.place, n_places, scratch.stack)
        while n_waiting > 0:
            n_waiting -= 1
            node = scratch.stack[n_waiting]
            scratch.waits[node] = 0
            level = n_levels - tree.level[node]
            for s in range(shared_pairs(tokens, node, batch, n_words, scratch.shared.size, scratch.shared)):
                pair = scratch.shared[s]
                looked_at += tokens.list[pair, COUNT]
                counts = n_waiting, n_met, at
                n_waiting, n_met, at = _read_list(
                    tree, tokens, node, pair, level, atoms, batch, message, n_places, scratch, found, counts
                )
        for i in range(n_met):
            scratch.times[scratch.met[i]] = 0
        verified = found.tally[VERIFIED] + at - first_atom
        if not finish_message(batch, message, n_words, found, at, looked_at, verified):
            return message
    return found.end.size


@inlined
def _begin_at_root(tree, place, n_places, stack):
    """Put the nodes of level 1 that a message touches on the stack; return how many wait there."""
    root = tree.state[ROOT]
    if tree.level[root] == 0:
        stack[0] = root
        return 1
    n_waiting = 0
    for slot in range(tree.n_entries[root]):
        if entry_touches(tree.box, root, slot, place, n_places):
            stack[n_waiting] = tree.entry[root, slot]
            n_waiting += 1
    return n_waiting


@inlined
def _read_list(tree, tokens, node, pair, level, atoms, batch, message, n_places, scratch, found, counts):
    """Count the atoms of a list that touch a message, enter those that are full, and go down to those that are not.

    `counts` are how many nodes wait, how many atoms were met, and how many entered so far; they are returned anew.
    """
    n_waiting, n_met, at = counts
    begin = tokens.list[pair, FIRST]
    for i in range(begin, begin + tokens.list[pair, COUNT]):
        touch = _touch(tokens.rect, i, scratch.place, n_places)
        if touch == _APART:
            continue
        item = tokens.item[i]
        atom, is_full = item // _FLAGS, (item & _LAST) != 0
        if level > 1 or not is_full:
            times = scratch.times[atom] + 1
            if times < level:
                continue
            if times == 1:
                scratch.met[n_met] = atom
                n_met += 1
            scratch.times[atom] = times
            if not is_full and tree.level[node] > 0:
                n_waiting = _go_down(tree, node, atom, scratch, n_waiting)
            elif not is_full:
                is_full = times == atoms.n_words[atom]
        if is_full and (touch == _SURELY or box_holds(atoms, atom, batch.place, n_places)):
            if (item & _PLAIN) == 0:
                at = keep(atoms, atom, batch, message, n_places, found, at)
            else:
                at = enter(atom, found, at)
    return n_waiting, n_met, at


@inlined
def _go_down(tree, node, atom, scratch, n_waiting):
    """Let the child of a node that is above an atom wait, unless it does; return how many wait."""
    child = tree.leaf_of[atom]
    while tree.parent[child] != node:
        child = tree.parent[child]
    if scratch.waits[child] == 0:
        scratch.waits[child], scratch.stack[n_waiting] = 1, child
        n_waiting += 1
    return n_waiting


@inlined
def _round_parts(place, n_places, box, message, rounded):
    """Write the parts of a message's place as `inwards` rounded its corners; the dateline needs no rounding."""
    for p in range(n_places):
        for k in range(4):
            rounded[p, k] = box[message, k]
    if n_places == 2:
        rounded[0, 2], rounded[1, 0] = place[0, 2], place[1, 0]


@inlined
def _touch(rect, i, place, n_places):
    """Tell whether a rectangle that was rounded outwards touches a place that was rounded inwards, before rounding.

    On borders that fall together it cannot be told.
    """
    touch = _APART
    for p in range(n_places):
        # Not `and`: most rectangles are elsewhere, and which side fails is anybody's guess.
        if (
            (rect[i, 0] <= place[p, 2])
            & (rect[i, 2] >= place[p, 0])
            & (rect[i, 1] <= place[p, 3])
            & (rect[i, 3] >= place[p, 1])
        ):
            if (
                rect[i, 0] < place[p, 2]
                and rect[i, 2] > place[p, 0]
                and rect[i, 1] < place[p, 3]
                and rect[i, 3] > place[p, 1]
            ):
                return _SURELY
            touch = _PERHAPS
    return touch
