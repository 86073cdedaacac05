"""The index `ciq`: top-k subscriptions by cells that cover the space for each of them, a baseline of the Skype paper.

CIQ is of Chen, Cong, Cao, Tan: Temporal Spatial-Keyword Top-k Publish/Subscribe, ICDE 2015; the Skype paper sketches it
in Section 2.2 and measures itself against it without its time decay. A quadtree cuts the space. Each subscription is
assigned to covering cells, a disjoint partition of the entire space, with a textual bound MinT in each: what a message
in that cell must have in text to reach θ, be it as near as the cell allows. Every cell has an inverted file in order of
subscriptions. A message goes through the files of all cells that hold its place, document at a time, and verifies those
whose text reaches their MinT.

What the sketch leaves open was decided so:

- The quadtree is that over the places of the subscriptions, with at most `leaf` of them in a leaf.
- The covering cells of a subscription are those that the way from the root down to its place leaves aside, and the cell
  where it stops: fine where it is, coarse far away. It stops at a leaf, or when another cut would make more than
  `cells` of them (each adds three). Its own cell allows any nearness.
- MinT is one number for each subscription and cell, which its words' entries share: an entry is four bytes.
- A message that touches several cells (a rectangle, a point on a border) goes through all of them, and verifies a
  subscription once.
- On a plane the outermost cells go on for ever, so that every message is in a cell.
- `max_distance` is each subscription's own, and `near` never below 0. Every bound has `similarity.MARGIN` to spare.
- A threshold that changes rewrites the bounds of its subscription in place, one for each covering cell. New
  subscriptions become segments of their own, merged by size (`shared.segmented_index`).

Time: the entries of the message's words in the cells on its way down, times the words, since the least of the cursors
is looked for one by one. Space: four bytes for each word of a subscription in each of its cells, 20 for each cell.
"""

from nearcast.indexes.papers.ciq.index import CiqIndex

__all__ = ["CiqIndex"]
