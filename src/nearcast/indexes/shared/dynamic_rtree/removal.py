"""Removes an entry from a dynamic R-tree."""

from __future__ import annotations

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.shared.dynamic_rtree.arrays import NOBODY, ROOT, fit, free_node, take_out


@hot_kernel
def remove_items(tree, items):
    """Take items out of their leaves; a leaf may be left with too few."""
    for item in items:
        leaf = tree.leaf_of[item]
        take_out(tree, leaf, item)
        tree.leaf_of[item] = NOBODY
        _fit_upwards(tree, leaf)


@hot_kernel
def detach(tree, node):
    """Take a node, whose entries are elsewhere by now, out of its parent; return the parent."""
    parent = tree.parent[node]
    take_out(tree, parent, node)
    free_node(tree, node)
    _fit_upwards(tree, parent)
    return parent


@hot_kernel
def shorten(tree):
    """Let the only child of a root be the root; a root without entries is a leaf."""
    root = tree.state[ROOT]
    while tree.level[root] > 0 and tree.n_entries[root] == 1:
        child = tree.entry[root, 0]
        free_node(tree, root)
        tree.parent[child] = NOBODY
        tree.state[ROOT], root = child, child
    if tree.n_entries[root] == 0:
        tree.level[root] = 0


@inlined
def _fit_upwards(tree, node):
    while node != tree.state[ROOT]:
        node = fit(tree, node)
