"""The index `ap-tree`: words or space part subscriptions, whichever a cost model says is cheaper.

The AP-Tree of Wang, Zhang, Zhang, Lin and Wang (VLDB Journal 2015, section 3: stationary subscriptions). Words are
ordered, frequent ones first. A node is a leaf with a list of atoms; or a k-node, which parts atoms by their next word
into f ranges of words, *cuts*; or an s-node, which parts them by their rectangles into a grid of f *cells*. What has no
word left goes to the dummy cut, what covers a whole region to the dummy cell. A message follows the cuts that its words
hit, each once and with the words behind the smallest that hits it, the cells that it touches, and the dummies. An entry
of a leaf has 64 bits for the words and the rectangle of its atom; what these do not dismiss is verified in full.

| file | paper | |
|---|---|---|
| `layout` | 3.2.2 | nodes, cuts, cells, entries in flat arrays |
| `order` | 5.1.1 | the order of words |
| `model`, `sample` | 3.3.1 | the cost model (Eq. 1), and the messages it is fed with |
| `keywords`, `keyword_heuristic`, `keyword_dp` | 3.3.2 | cuts: Algorithm 3, and the optimum of Algorithm 2 |
| `space` | 3.3.3 | cells |
| `construction`, `node_kinds` | 3.3.4 | Algorithm 4 |
| `search` | 3.2.3 | Algorithm 1 |
| `maintenance`, `regrowth`, `divergence` | 3.3.5 | coming and going, parts built anew |
| `moving` | 4.3.1 | what subscriptions that move cost, for `ap_plus_tree` |

Options: `keyword_partition` is `heuristic` or `dp`; `priority` is `adaptive`, or `keyword` or `space` for the paper's
KPriority and SPriority, which ask the other only where the first is not cheaper than a leaf; `fan_out` is f, `leaf` is
θp, `divergence` is θKL, `share` the part of all subscriptions below which a node is not watched. `rebuild=never` is
AP-Tree-NR: full leaves are parted and small nodes become leaves, but nothing is built anew because something drifts.

What differs from the paper, and why:

- A node with more than θp atoms is a leaf if neither partition costs less than that; Algorithm 4 would never end for
  identical subscriptions. Such a leaf is tried again when it has twice as many.
- The dummies, which every message visits, are part of the cost.
- The optimal keyword partition takes O(f·|V|·log |V|), see `keyword_dp`. The heuristic improves cuts of even weight, so
  it is never worse than those.
- Grids that would make more than four entries of an atom are made coarser, see `space`.
- Messages may be rectangles; then an atom can be found in several cells, and is named once.
- A node is built anew when its atoms drift, as in the paper, and also when messages do; both only as far as chance does
  not explain it, see `divergence`. After `learn`, or a rebuild for messages that drifted, the cost model knows
  messages; before it assumes them to be like subscriptions.
- A word between cuts, new since they were made, widens one of them.
- Expressions are taken apart into atoms (section 3.4), which also brings in NOT, phrases and regions of any shape.

`learn(messages)` gives the cost model a sample of messages; it is not saved with the index.

Time: a message passes a k-node in O(|m|·log f) and an s-node in O(log f), and looks at the entries of the leaves that
it reaches; building takes O(n log n) for each level. Space: 36 bytes for an entry, of which an atom has four at most on
average, and 52 for a leaf.
"""

from nearcast.indexes.papers.ap_tree.index import APTreeIndex

__all__ = ["APTreeIndex"]
