"""The indexes `skype` and `ipt`: whom does a message concern, of top-k subscriptions with thresholds that move?

Wang, Zhang, Zhang, Lin, Huang: Skype: Top-k Spatial-Keyword Publish/Subscribe over Sliding Window (PVLDB 2016, and with
its distributed version in the VLDB Journal), Section 5. `skype` is the paper's IGPT, individual and group pruning;
`ipt` prunes individually alone. Part by part:

- `bounds` (5.1.1, 5.1.3): λT, and what words not yet seen can add.
- `cells` (5.1.2): the quadtree. Its leaf cells give the inner and outer spatial bounds, which are distances here.
- `segment` (5.3): lists by word and cell, cut into groups by α* (5.2.1), in flat arrays.
- `groups` (5.2.2, 5.5): groups in order of kScore*, and what becomes of them when thresholds move.
- `search` (Algorithm 1): word by word, with cell pruning (Lemma 6), group pruning (Theorem 3), early termination
  (Theorem 4), the refined location-aware prefix (Theorem 1) and the bound on unseen words (Theorem 2).
- `shared.segmented_index`: subscriptions that come and go while the stream runs.

Where this differs from the paper, and why:

- Bounds of groups and prefixes speak of members whose first word in common is the one at hand. Algorithm 1 also skips
  the entries of members that it holds already, and tests these later by a sum that lacks what was skipped: that loses
  answers. Here what was passed over is added when the member is met again.
- α = 1, space only: λT divides by zero. Subscriptions with a text weight of all but 0 are bounded by place alone and
  have a group of their own. α = 0, text only: Lemma 6 divides by zero; `similarity.near_needed` is defined there, and
  0 where any distance will do. A message without a common word is on no list, so it concerns nobody.
- Cauchy-Schwarz is a third bound beside the two of Equation 5. Groups and prefixes have it, too, with a length of 1 for
  what a subscription has left: then it costs nothing.
- `max_distance` is each subscription's own; for a cell the greatest of them counts. `near` is never below 0. On the
  earth distances to cells are bounded from below; rectangles are messages, too. Every bound has `similarity.MARGIN` to
  spare, and what is verified is scored in full by the one function that scores.
- Words stand in order of falling weight, which for idf is rising frequency. Quantiles of α* are those of each list, and
  a list has fewer groups where they would have fewer than eight entries.
- A word's lists are walked cell after cell, before those of the next word; cells have no say in the order. Words of a
  message that nobody has are left out of its bounds.
- The end of a group is found on the way there, not by binary search: that would fetch entries far off.
- A changed threshold stays where it is in its group and is made known to the entries before it; groups and cells are
  worked out anew when a quarter of them has changed and a message comes (`groups`).

Time: for each word of a message the groups in all cells that have it, and then the entries looked at. A threshold that
changes costs the words of its subscription, and for each of them the entries before it that must know. Space: 112 bytes
for each word of a subscription, 36 for itself, 36 for each group and 12 for each list.
"""

from nearcast.indexes.papers.skype.index import IptIndex, SkypeIndex

__all__ = ["IptIndex", "SkypeIndex"]
