"""The index `ap+-tree`: an AP-Tree for subscriptions that move, with live messages in its leaves.

The AP+-Tree of Wang, Zhang, Zhang, Lin and Wang (VLDB Journal 2015, section 4). Subscriptions are parted as in
`ap_tree`, with penalties for grids whose subscriptions move. A live message is filed, as it is matched, in the lists of
all leaves that it reaches (*m-lists*). A subscription that moves follows its words and its two rectangles down the
tree and reads the lists of those cells alone that the two cut otherwise. The store of live messages of the same name
(`live/papers/ap_plus_tree`) verifies what is found.

| file | paper | |
|---|---|---|
| `layout` | 4.2.2 | m-lists in flat arrays |
| `filing` | 4.2.4 | a message into its lists, the limit of duplicates |
| `walk` | 4.2.5 | Algorithms 6 and 7, lazy deletion |
| `message_lists` | 4.2.3 | both, and how lists follow a tree that changes |
| `moving_tree`, `observed_moves` | 4.3.1 | a tree that knows velocities and update intervals |
| `ap_tree/moving` | 4.3.1 | the cost of moves (Eq. 7 to 15), Algorithm 8 |

`ap+k-tree` and `ap+s-tree` (section 5.2.2) are the same tree with messages apart, in `live/papers/ap_plus_variants`.

Options: those of `ap-tree`, and `duplicates`: how many lists may hold a message. What counts are entries in lists, of
all levels together, and of both rectangles of a message over the dateline; the second of these has one list at least,
so that such a message may be in one more. Where another level would exceed the limit, the message stays in the list of
the node above.

What differs from the paper, and why:

- Messages are filed along the whole path, also in cuts and cells that hold nothing: a message that is filed only where
  subscriptions are now is lost to a leaf, cut or cell made later. When a leaf is parted or a node built anew, its
  messages are handed on to what takes its place.
- A word that falls between two cuts widens none of them, as messages were filed by the cuts there were. Its
  subscriptions go to the dummy cut, which has every message that came to the node, until the node is built anew.
- The cells of a grid have all its messages, so the dummy cell has none: a mover that comes to cover a region, or stops,
  goes between cells and dummy cell as a subscription, and finds messages in the cells that it cuts otherwise.
- A subscription has no list of its leaves. One descent with the old and the new rectangle meets the same cells, tells
  the four cases apart, and reads lists of inner nodes once. Lists of leaves would be rewritten with every split.
- Members of m-lists carry their points, so that a list is read in one go; most of a leaf is neither in the old nor in
  the new rectangle. What may change is verified after that, and messages that are over leave a list when it is full.
- A batch of moves is taken out and put in as a whole before nodes that are too small or too large, or that diverge, are
  built anew: in between every node looks deserted.
- Old region less new region is no rectangle: candidates are verified with whole regions, borders inside.
- Reports have no times here. A timestamp ends when a subscription reports for the second time in it.
- T' in the cost of location updates is left out, see `ap_tree/moving`; Eq. 11 is 0 below θp.
- The arrival rate of a node is the share of all messages that comes to its region, whatever their words.
"""

from nearcast.indexes.papers.ap_plus_tree.index import APPlusKTreeIndex, APPlusSTreeIndex, APPlusTreeIndex
from nearcast.indexes.papers.ap_plus_tree.message_lists import LiveMessageRows

__all__ = ["APPlusKTreeIndex", "APPlusSTreeIndex", "APPlusTreeIndex", "LiveMessageRows"]
