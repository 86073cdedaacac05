"""An R-tree that is packed at once, and grows and shrinks entry by entry: the ground of the Rt-tree paper's indexes.

- `arrays`: the arrays, and the steps on single nodes.
- `packing`: many rectangles at once (sort-tile-recursive).
- `insertion`: one entry more: choose a way down, split what is too full.
- `removal`: one entry less; nodes that have too few entries are taken out, and theirs are put in again.
- `tree`: the class that owns the arrays.

All leaves are at the same depth; every node but the root has between b and B entries, the root at most B. Rectangles
are kept as they are, infinite ones too: only what weighs one node against another takes the plane to end far out.
"""

from nearcast.indexes.shared.dynamic_rtree.arrays import ENTRIES, ROOT, SPLIT, DynamicRTreeArrays, entry_touches
from nearcast.indexes.shared.dynamic_rtree.tree import DissolvedNode, DynamicRTree, checked_entries

__all__ = [
    "ENTRIES",
    "ROOT",
    "SPLIT",
    "DissolvedNode",
    "DynamicRTree",
    "DynamicRTreeArrays",
    "checked_entries",
    "entry_touches",
]
