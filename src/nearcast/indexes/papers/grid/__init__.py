"""The grid indexes that the AP+-Tree is measured against: `ss-index`, space first, and `kk-index`, words first.

Both keep lists by cell of a grid and by word, on the side of the subscriptions and on that of the messages: `cells`
says which cells a rectangle touches, `lists` holds the lists, `index` are the two indexes. Their messages are in
`nearcast.live.papers.grid`.
"""

from nearcast.indexes.papers.grid.index import KkIndex, SsIndex

__all__ = ["KkIndex", "SsIndex"]
