"""Token sets of tree nodes: a sorted array of tokens by node, and for each token a count or a list of items.

A node's tokens lie in order beside each other, so that a message that has few words looks each of them up, and a node
that has few tokens is gone through: the cost of intersecting both is that of the smaller one. Sets and lists that
grow move to the end of their arrays, with twice the room; `NodeTokens.is_wasteful` tells when it is time to fill them
anew.

- `arrays`: what kernels read, and what a node and a message share.
- `changes`: triples of a node, a token and an item that come and go one by one.
- `triples`: many triples in order.
- `tokens`: the class that owns the arrays.
"""

from nearcast.indexes.shared.filters import inwards, outwards
from nearcast.indexes.shared.node_tokens.arrays import (
    COUNT,
    FIRST,
    NO_RECTS,
    NO_WORD,
    TokenArrays,
    Triples,
    shared_pairs,
)
from nearcast.indexes.shared.node_tokens.tokens import NodeTokens
from nearcast.indexes.shared.node_tokens.triples import summed

__all__ = [
    "COUNT",
    "FIRST",
    "NO_RECTS",
    "NO_WORD",
    "NodeTokens",
    "TokenArrays",
    "Triples",
    "inwards",
    "outwards",
    "shared_pairs",
    "summed",
]
