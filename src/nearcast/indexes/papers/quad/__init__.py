"""The quadtree indexes that the AP-Tree paper measures itself against: `iq-tree`, `rq-tree` and `trie-quad`.

They differ in what comes first, words or space. What they share is here: where messages are expected (`traffic`), in
which cells an atom costs least (`cells`), when cells are divided (`growth`), the nodes of quadtrees (`tree`), lists of
entries (`entries`), the way of a message (`walk`), and an index that builds, grows and shrinks with them (`index`).
`moving` has `iq+-tree` and `rq+-tree`, the same for subscriptions that move.
"""

from nearcast.indexes.papers.quad.iq import IqTreeIndex
from nearcast.indexes.papers.quad.moving import IqPlusTreeIndex, RqPlusTreeIndex
from nearcast.indexes.papers.quad.rq import RqTreeIndex
from nearcast.indexes.papers.quad.trie_quad import TrieQuadIndex

__all__ = ["IqPlusTreeIndex", "IqTreeIndex", "RqPlusTreeIndex", "RqTreeIndex", "TrieQuadIndex"]
