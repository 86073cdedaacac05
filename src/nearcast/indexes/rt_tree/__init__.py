"""The indexes of the Rt-tree paper (Li, Wang, Wang, Feng: KDD 2013): `rt-tree`, `rt+-tree` and `rt++-tree`.

- `filtering`: `rt-tree` and `rt+-tree`, sections 3 and 4: token sets, filter and verification.
- `counting`: `rt++-tree`, section 5: a token a level, inverted lists, no verification.
- `token_tree`: what the three share: an R-tree, the tokens of its nodes, and changes to both.
- `order`: which word of a subscription comes first, section 4.2.

The tree itself is in `indexes._dynamic_rtree`, the tokens of nodes in `indexes._node_tokens`.
"""

from nearcast.indexes.rt_tree.counting import RtPlusPlusTreeIndex
from nearcast.indexes.rt_tree.filtering import RtPlusTreeIndex, RtTreeIndex

__all__ = ["RtPlusPlusTreeIndex", "RtPlusTreeIndex", "RtTreeIndex"]
