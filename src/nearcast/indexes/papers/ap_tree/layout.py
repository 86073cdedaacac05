"""How an AP-Tree lies in memory: nodes, what hangs under them, and the entries of leaves, in flat arrays.

A node is a row of eight numbers, so that looking at one touches one line of memory. A node is always numbered above its
parent. What a rebuilt node had before stays behind as waste until `regrowth` copies what lives and numbers it anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import inlined
from nearcast.indexes.shared.filters import term_bit
from nearcast.indexes.shared.predicates import NO_SHAPE

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Columns of `ApTreeArrays.node`; what COUNT, ROOM and AUX mean depends on the kind.
KIND, FIRST, COUNT, ROOM, AUX, SIZE, STATE, PLACE = range(8)
#: Values of KIND: a q-node, k-node or s-node of the paper, and one that is no longer part of the tree.
LEAF, KEYWORD, SPACE, DEAD = range(4)
#: Columns of `ApTreeArrays.used` and `ApTreeArrays.need`.
NODES, SLOTS, CUTS, LINES, ENTRIES, REGIONS = range(6)
#: Bits of STATE below the offset: may words, may space part what is here?
BY_SPACE, BY_WORDS, OFFSET_SHIFT = 1, 2, 2
NO_CHILD = -1
#: The columns of `ApTreeArrays.region` behind the four corners.
COPIES, GRIDS = 4, 5
ROOT = 0
#: Beyond this a number is infinite in an entry.
_LARGEST = 3e38
#: Where in the `source` of an entry the place of its first word begins.
SOURCE_SHIFT = 16
#: Atoms with so many words are not plain: 15 bits do not tell how many they are.
_MANY_WORDS = 32_767


class ApTreeArrays(NamedTuple):
    """The arrays of an AP-Tree, with spare room behind what is used.

    Every node has KIND, SIZE (how many atoms came here), STATE (the number of words already used on the way, and by
    what it may be parted) and the `region[PLACE]` of the cell it is in: x_min, y_min, x_max, y_max, borders included,
    how many entries the grids above have made of an atom on average, and how many grids these are.

    - A leaf owns the entries FIRST to FIRST + COUNT and has room for ROOM; above AUX of them it is to be parted.
    - A keyword node has COUNT cuts: cut i has the ranks `cut[AUX + i]`, first and last, and the child
      `child[FIRST + i]`; behind them is the dummy cut.
    - A space node has COUNT columns and ROOM rows between the lines `line[AUX:]`, first those along x. The cell in
      column i and row j has the child `child[FIRST + i * ROOM + j]`; behind them is the dummy cell.

    Slot s, a cut or cell, came to have `built[s]` atoms when its node was parted, and was expected to be met with the
    share `expected[s]` of what met its node. An entry is an atom, its words as 64 bits, its rectangle, and where its
    words are: `source` is their first place in the code, 15 bits for their number, and one that is set when the atom
    asks for nothing beyond words and rectangle.
    `used` and `need` count what is used of the arrays, and what more a kernel asked for before it gave up.
    """

    node: NDArray[np.int32]
    region: NDArray[np.float64]
    child: NDArray[np.int32]
    built: NDArray[np.int32]
    expected: NDArray[np.float32]
    cut: NDArray[np.int32]
    line: NDArray[np.float64]
    atom: NDArray[np.int32]
    signature: NDArray[np.uint64]
    rectangle: NDArray[np.float32]
    source: NDArray[np.int64]
    used: NDArray[np.int64]
    need: NDArray[np.int64]


#: Which arrays grow together.
_GROUPS = (
    (NODES, ("node",)),
    (SLOTS, ("child", "built", "expected")),
    (CUTS, ("cut",)),
    (LINES, ("line",)),
    (ENTRIES, ("atom", "signature", "rectangle", "source")),
    (REGIONS, ("region",)),
)


def empty_tree(region: NDArray[np.float64], n_entries: int, limit: int) -> ApTreeArrays:
    """Return a tree that is one empty leaf over this region, with room for so many entries."""
    tree = ApTreeArrays(
        node=np.zeros((64, 8), np.int32),
        region=np.zeros((64, 6)),
        child=np.zeros(64, np.int32),
        built=np.zeros(64, np.int32),
        expected=np.zeros(64, np.float32),
        cut=np.zeros((64, 2), np.int32),
        line=np.zeros(64),
        atom=np.zeros(n_entries, np.int32),
        signature=np.zeros(n_entries, np.uint64),
        rectangle=np.zeros((n_entries, 4), np.float32),
        source=np.zeros(n_entries, np.int64),
        used=np.zeros(6, np.int64),
        need=np.zeros(6, np.int64),
    )
    tree.node[ROOT] = (LEAF, 0, 0, 0, limit, 0, BY_SPACE | BY_WORDS, 0)
    tree.region[0, :4], tree.region[0, COPIES] = region, 1.0
    tree.used[NODES], tree.used[REGIONS] = 1, 1
    return tree


def with_room(tree: ApTreeArrays) -> ApTreeArrays:
    """Return the tree with the room that a kernel asked for, and as much again."""
    grown: dict[str, NDArray[Any]] = {}
    for group, names in _GROUPS:
        wanted = int(tree.used[group] + tree.need[group])
        for name in names:
            array = getattr(tree, name)
            if wanted > len(array):
                grown[name] = resized(array, max(wanted, len(array) + len(array) // 2), int(tree.used[group]))
    tree.need[:] = 0
    return tree._replace(**grown)


def without_room(tree: ApTreeArrays) -> ApTreeArrays:
    """Return the tree without most of its spare room."""
    fitted: dict[str, NDArray[Any]] = {}
    for group, names in _GROUPS:
        used = int(tree.used[group])
        fitted |= {name: resized(getattr(tree, name), used + used // 32 + 1, used) for name in names}
    return tree._replace(**fitted)


def resized(array: NDArray[Any], n: int, used: int) -> NDArray[Any]:
    """Return an array of n rows that begins with the first `used` of another."""
    room = np.zeros((n, *array.shape[1:]), array.dtype)
    room[:used] = array[:used]
    return room


# --- steps that all kernels share ---------------------------------------------------------------------------------


@inlined
def n_slots(tree, node):
    """Return how many children a node of words or space may have, the dummy included."""
    count = tree.node[node, COUNT]
    return count + 1 if tree.node[node, KIND] == KEYWORD else count * tree.node[node, ROOM] + 1


@inlined
def offset_of(tree, node):
    """Return how many words of an atom were used on the way to a node."""
    return tree.node[node, STATE] >> OFFSET_SHIFT


@inlined
def line_index(tree, first, n, value):
    """Return how many of n ascending lines from `first` on are not above a value: the number of its column or row."""
    low, high = first, first + n
    while low < high:
        middle = (low + high) // 2
        if tree.line[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low - first


@inlined
def cut_index(tree, first, n, rank):
    """Return the first of n cuts from `first` on that does not end below a rank, or n."""
    low, high = first, first + n
    while low < high:
        middle = (low + high) // 2
        if tree.cut[middle, 1] < rank:
            low = middle + 1
        else:
            high = middle
    return low - first


@inlined
def covers(atoms, atom, region, place):
    """Tell whether an atom's rectangle holds a whole region: then cells would not tell it apart."""
    box = atoms.box
    return (
        box[atom, 0] <= region[place, 0]
        and box[atom, 1] <= region[place, 1]
        and box[atom, 2] >= region[place, 2]
        and box[atom, 3] >= region[place, 3]
    )


@inlined
def describe_child(tree, parent, k, child, copies):
    """Write what child number k of a node is before it holds anything: a leaf without room, in its cell.

    A cell takes up a region; there is room for it. `copies` are the entries that this grid makes of an atom.
    """
    row, new = tree.node[parent], tree.node[child]
    new[KIND], new[FIRST], new[COUNT], new[ROOM], new[AUX], new[SIZE] = LEAF, 0, 0, 0, 0, 0
    new[STATE], new[PLACE] = row[STATE], row[PLACE]
    if row[KIND] == KEYWORD:
        new[STATE] += 1 << OFFSET_SHIFT
        if k == row[COUNT]:
            new[STATE] -= BY_WORDS
    elif k == row[COUNT] * row[ROOM]:
        new[STATE] -= BY_SPACE
    else:
        place = tree.used[REGIONS]
        tree.used[REGIONS], new[PLACE] = place + 1, place
        for c in range(6):
            tree.region[place, c] = tree.region[row[PLACE], c]
        tree.region[place, COPIES] *= copies
        tree.region[place, GRIDS] += 1.0
        _narrow(tree, place, 0, row[AUX], row[COUNT] - 1, k // row[ROOM])
        _narrow(tree, place, 1, row[AUX] + row[COUNT] - 1, row[ROOM] - 1, k % row[ROOM])


@inlined
def _narrow(tree, place, axis, first, n_lines, strip):
    """Let a region end at the lines beside its strip."""
    if strip > 0:
        tree.region[place, axis] = tree.line[first + strip - 1]
    if strip < n_lines:
        tree.region[place, axis + 2] = np.nextafter(tree.line[first + strip], -np.inf)


@inlined
def write_entry(tree, entry, atoms, atom):
    """Write an atom as an entry of a leaf."""
    tree.atom[entry] = atom
    bits, first = np.uint64(0), atoms.code_start[atom]
    for i in range(first, first + atoms.n_words[atom]):
        bits |= term_bit(atoms.code[i])
    tree.signature[entry] = bits
    n, end = atoms.n_words[atom], atoms.code_start[atom + 1]
    is_plain = atoms.shape[atom] == NO_SHAPE and n == end - first and n < _MANY_WORDS
    tree.source[entry] = (first << SOURCE_SHIFT) | (min(n, _MANY_WORDS) << 1) | (1 if is_plain else 0)
    for k in range(2):
        tree.rectangle[entry, k] = rounded_down(atoms.box[atom, k])
        tree.rectangle[entry, k + 2] = -rounded_down(-atoms.box[atom, k + 2])


@inlined
def copy_entry(tree, source, target):
    """Copy an entry to another place."""
    tree.atom[target], tree.signature[target] = tree.atom[source], tree.signature[source]
    tree.source[target] = tree.source[source]
    for k in range(4):
        tree.rectangle[target, k] = tree.rectangle[source, k]


@inlined
def rounded_down(value):
    """Return a number that is not above another, and less than a millionth of it away, as a float32 holds it."""
    below = value - abs(value) * 2.5e-7 - 1e-37
    if below < -_LARGEST:
        return np.float32(-np.inf)
    return np.float32(min(below, _LARGEST))
