"""The arrays of a dynamic R-tree, and the steps that read and write single nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOBODY = -1
#: Fields of `DynamicRTreeArrays.state`: the root, the first free node, how many are free, and the least number of
#: entries of a node.
ROOT, FREE, N_FREE, LEAST = 0, 1, 2, 3
#: Bits of `DynamicRTreeArrays.is_changed`: the node was split or came of a split; it has other entries than before.
SPLIT, ENTRIES = 1, 2
#: Where the plane ends for whoever compares areas: far enough out, and near enough that no area is infinite.
FAR = 1e150


class DynamicRTreeArrays(NamedTuple):
    """The tree as kernels read it: nodes in no order, the free ones chained by `parent`.

    Node n is on level `level[n]`, leaves on 0, and has the entries `entry[n, :n_entries[n]]` with the rectangles
    `box[n, :n_entries[n]]`: items in a leaf, else nodes, whose rectangle is just around what they have. There is room
    for one entry more than a node may keep. `leaf_of` is by item, -1 for what is not in the tree. The rest is room for
    a split.
    """

    n_entries: NDArray[np.int32]
    level: NDArray[np.int32]
    parent: NDArray[np.int32]
    entry: NDArray[np.int32]
    box: NDArray[np.float64]
    is_changed: NDArray[np.uint8]
    leaf_of: NDArray[np.int32]
    state: NDArray[np.int64]
    order: NDArray[np.int32]
    middle: NDArray[np.float64]
    around: NDArray[np.float64]
    spare_entry: NDArray[np.int32]
    spare_box: NDArray[np.float64]


def new_tree(n_nodes: int, n_items: int, least: int, most: int) -> DynamicRTreeArrays:
    """Return a tree of so many nodes, none of them in use and none of them free."""
    room = most + 1
    return DynamicRTreeArrays(
        n_entries=np.zeros(n_nodes, np.int32),
        level=np.zeros(n_nodes, np.int32),
        parent=np.full(n_nodes, NOBODY, np.int32),
        entry=np.zeros((n_nodes, room), np.int32),
        box=np.zeros((n_nodes, room, 4)),
        is_changed=np.zeros(n_nodes, np.uint8),
        leaf_of=np.full(n_items, NOBODY, np.int32),
        state=np.array([NOBODY, NOBODY, 0, least], np.int64),
        order=np.zeros(room, np.int32),
        middle=np.zeros(room),
        around=np.zeros((2, room, 4)),
        spare_entry=np.zeros(room, np.int32),
        spare_box=np.zeros((room, 4)),
    )


@inlined
def entry_touches(box, node, slot, place, n_places):
    """Tell whether an entry of a node shares a point with a part of a message's place, borders included."""
    for p in range(n_places):
        # Not `and`: most entries are elsewhere, and which side fails is anybody's guess.
        if (
            (box[node, slot, 0] <= place[p, 2])
            & (box[node, slot, 2] >= place[p, 0])
            & (box[node, slot, 1] <= place[p, 3])
            & (box[node, slot, 3] >= place[p, 1])
        ):
            return True
    return False


@inlined
def nearer(value):
    """Return a coordinate, or the end of the plane where it lies beyond."""
    return min(max(value, -FAR), FAR)


@inlined
def area(x_min, y_min, x_max, y_max):
    """Return the area of a rectangle as far as the plane goes."""
    return (nearer(x_max) - nearer(x_min)) * (nearer(y_max) - nearer(y_min))


@inlined
def new_node(tree, level):
    """Take a free node, of which there must be one."""
    node = tree.state[FREE]
    tree.state[FREE] = tree.parent[node]
    tree.state[N_FREE] -= 1
    tree.n_entries[node], tree.level[node], tree.parent[node] = 0, level, NOBODY
    tree.is_changed[node] = ENTRIES
    return node


@inlined
def free_node(tree, node):
    """Give a node back."""
    tree.parent[node] = tree.state[FREE]
    tree.n_entries[node], tree.is_changed[node] = 0, 0
    tree.state[FREE] = node
    tree.state[N_FREE] += 1


@inlined
def put(tree, node, entry, x_min, y_min, x_max, y_max):
    """Append an entry to a node, and note the node as its leaf or parent."""
    slot = tree.n_entries[node]
    tree.entry[node, slot] = entry
    tree.box[node, slot, 0], tree.box[node, slot, 1] = x_min, y_min
    tree.box[node, slot, 2], tree.box[node, slot, 3] = x_max, y_max
    tree.n_entries[node] = slot + 1
    tree.is_changed[node] |= ENTRIES
    if tree.level[node] == 0:
        tree.leaf_of[entry] = node
    else:
        tree.parent[entry] = node


@inlined
def take_out(tree, node, entry):
    """Take an entry out of a node, where the last one takes its place."""
    slot, last = slot_of(tree, node, entry), tree.n_entries[node] - 1
    tree.entry[node, slot] = tree.entry[node, last]
    for k in range(4):
        tree.box[node, slot, k] = tree.box[node, last, k]
    tree.n_entries[node] = last
    tree.is_changed[node] |= ENTRIES


@inlined
def slot_of(tree, node, entry):
    """Return where in a node an entry stands."""
    slot = 0
    while tree.entry[node, slot] != entry:
        slot += 1
    return slot


@inlined
def bounds(tree, node):
    """Return the rectangle around the entries of a node; without entries it holds nothing."""
    x_min, y_min, x_max, y_max = np.inf, np.inf, -np.inf, -np.inf
    for slot in range(tree.n_entries[node]):
        x_min, y_min = min(x_min, tree.box[node, slot, 0]), min(y_min, tree.box[node, slot, 1])
        x_max, y_max = max(x_max, tree.box[node, slot, 2]), max(y_max, tree.box[node, slot, 3])
    return x_min, y_min, x_max, y_max


@inlined
def fit(tree, node):
    """Draw the rectangle of a node that is not the root just around its entries; return its parent."""
    parent = tree.parent[node]
    slot = slot_of(tree, parent, node)
    x_min, y_min, x_max, y_max = bounds(tree, node)
    tree.box[parent, slot, 0], tree.box[parent, slot, 1] = x_min, y_min
    tree.box[parent, slot, 2], tree.box[parent, slot, 3] = x_max, y_max
    return parent
