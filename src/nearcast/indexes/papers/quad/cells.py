"""Chooses the cells of a quadtree that cover an atom at the least cost.

An atom may be kept in any set of cells that covers its rectangle: in one high cell, where many messages look at it, or
in several low ones. What that costs for each message is, summed over the cells,

    chance · share(cell) + update · (1 + level)

where `chance` is the probability that a message has the words it takes to look at the atom, `share` the probability
that it touches the cell, and the rest what it takes to walk down to the cell, put an entry there and take it out again,
in units of a look at an entry and spread over the messages that come meanwhile. The best set is found from the bottom
up: each cell is compared with the best of its four quarters; of equals the higher is taken.
"""

from __future__ import annotations

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.papers.quad.traffic import DEEPEST, share_of

#: Columns of a node: the first of four children or -1, and its list.
CHILD, FIRST, LENGTH, ROOM = 0, 1, 2, 3
#: Columns of what is seldom read of a node.
PARENT, LIMIT = 0, 1
#: Cells that an atom is kept in at most.
MOST_CELLS = 256


@inlined
def touches(steps, i, level, x, y):
    """Tell whether rectangle i touches a cell."""
    shift = DEEPEST - level
    return (
        steps[i, 0] >> shift <= x
        and steps[i, 2] >> shift >= x
        and steps[i, 1] >> shift <= y
        and steps[i, 3] >> shift >= y
    )


@inlined
def covers(steps, i, level, x, y):
    """Tell whether rectangle i covers a cell: it cannot be kept better below."""
    size = 1 << (DEEPEST - level)
    return (
        steps[i, 0] <= x * size
        and steps[i, 2] >= (x + 1) * size - 1
        and steps[i, 1] <= y * size
        and steps[i, 3] >= (y + 1) * size - 1
    )


@inlined
def best_cells(nodes, node, cell, steps, i, chance, traffic, update, room):
    """Write the cheapest cells for rectangle i from a node, whose `cell` is (level, x, y), down; return how many.

    `room` is three arrays: `path[d]` is a cell at depth d, as node, x, y, quarters seen, cells before it; `total[d]` is
    the cost of those quarters; `out` takes the cells.
    """
    path, total, out = room
    level = cell[0]
    path[0, 0], path[0, 1], path[0, 2], path[0, 3], path[0, 4] = node, cell[1], cell[2], 0, 0
    total[0] = 0.0
    depth, n = 0, 0
    while True:
        node, x, y, quarter = path[depth, 0], path[depth, 1], path[depth, 2], path[depth, 3]
        below = level + depth
        looks = chance * share_of(traffic, below, x, y)
        here = looks + update * (1 + below)
        child = nodes[node, CHILD]
        is_last = child < 0 or looks <= update or covers(steps, i, below, x, y)
        if is_last or quarter == 4 or total[depth] >= here or n == out.size:
            if is_last or quarter < 4 or total[depth] >= here:
                n = path[depth, 4]
                out[n] = node
                n += 1
                total[depth] = here
            if depth == 0:
                return n
            depth -= 1
            total[depth] += total[depth + 1]
            continue
        path[depth, 3] = quarter + 1
        x, y = 2 * x + quarter % 2, 2 * y + quarter // 2
        if touches(steps, i, below + 1, x, y):
            depth += 1
            path[depth, 0], path[depth, 1], path[depth, 2], path[depth, 3], path[depth, 4] = child + quarter, x, y, 0, n
            total[depth] = 0.0


@hot_kernel
def assign(nodes, start, cell, steps, chance, traffic, update, done, room, pair_node, pair_item):
    """Write a pair for every cell an item goes to; return the first item that is not done, and the number of pairs.

    Item i goes into the tree from the node `start[i]` on, the same `cell` (level, x, y) in every tree. `room` is what
    `best_cells` writes to.
    """
    out = room[2]
    n = 0
    for i in range(done, start.size):
        k = best_cells(nodes, start[i], cell, steps, i, chance[i], traffic, update, room)
        if n + k > pair_node.size:
            return i, n
        for j in range(k):
            pair_node[n + j], pair_item[n + j] = out[j], i
        n += k
    return start.size, n
