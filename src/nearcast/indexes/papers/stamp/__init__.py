"""The index of the STAMP paper: scored subscriptions by prefixes of words, in the regions of an R-tree.

Hu, Liu, Li, Feng, Tan: A Location-Aware Publish/Subscribe Framework for Parameterized Spatio-Textual Subscriptions,
ICDE 2015. Part by part:

- `bounds` (III-A, III-B, IV-B, V-A): the order of words, UTB, LSB, and which prefix a word is in. Bounds for the five
  text functions come from `nearcast.similarity` (VI-A, corrected there).
- `prefixes`, `lists` (III-C, IV-C, V-B): entries of SIG, region-aware marks, SIG+k; inverted lists and signatures.
- `members`: what a search reads of a subscription.
- `construction` (IV-C, VI-B): everything at once, or a few subscriptions into the lists that there are.
- `search` (Algorithm 2): down the regions. `leaves`, `candidates` (Algorithm 3, UPDATE, VERIFY+): the lists of a leaf.
- `explain`: which bound dropped a subscription.

Filters, as in the paper's ablation: `sp` is one region that is everywhere; `hi` the R-tree; `rp` lists for messages
outside a leaf of their own; `st` the spatio-textual prefixes, used as the cost model says (`cost` overrules it).

Where this differs from the paper, and why:

- `max_distance` is each subscription's own, so lists hold reaches, (1 - LSB) · max_distance, in place of LSB.
- Lists are in order of reach. A message outside a leaf stops where nothing reaches it; the paper walks the whole list.
- LSB is defined at text_weight 0 and 1, and 0 where any distance will do. Every bound has `similarity.MARGIN` to spare.
- A second word of SIG counts for a candidate whatever its own LSB; Algorithm 3, line 8, would lose answers.
- From beyond a leaf, what was skipped of the prefix lists is walked before SIG+1, and is part of its cost: the paper
  leaves open how the two filters meet.
- "Is an answer" is never concluded: who has enough words is scored in full, as everybody who is delivered must be.
- A candidate is closed as soon as all its words are known, which `depth` tells for each subscription. COST_V loses what
  a candidate had added to it. Words beyond the sixteenth prefix are not listed; such candidates are verified.

A message costs, for each region it enters, one look into the hash table for each of its words, and then the entries it
looks at. Building sorts all entries; memory is one entry for each word (two where its level differs for messages from
outside), one list for each word of a region, and one signature for each word of an inner region. Removed subscriptions
stay on the lists, and bounds are not tightened, until about a quarter has changed; then everything is built anew.
"""

from nearcast.indexes.papers.stamp.index import StampIndex

__all__ = ["StampIndex"]
