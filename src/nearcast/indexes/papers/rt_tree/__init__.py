"""The indexes of the Rt-tree paper (Li, Wang, Wang, Feng: KDD 2013): `rt-tree`, `rt+-tree` and `rt++-tree`.

- `filter_tree`: `rt-tree` and `rt+-tree`, sections 3 and 4: token sets, filter and verification.
- `counting_tree`: `rt++-tree`, section 5: a token a level, inverted lists, no verification.
- `token_tree`: what the three share: an R-tree, the tokens of its nodes, and changes to both.
- `order`: which word of a subscription comes first, section 4.2.

The tree itself is in `shared.dynamic_rtree`, the tokens of nodes in `shared.node_tokens`.
"""

from nearcast.indexes.papers.rt_tree.counting_tree import RtPlusPlusTreeIndex
from nearcast.indexes.papers.rt_tree.filter_tree import RtPlusTreeIndex, RtTreeIndex

__all__ = ["RtPlusPlusTreeIndex", "RtPlusTreeIndex", "RtTreeIndex"]
