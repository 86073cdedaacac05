"""Top-k subscriptions in the trigger index: triggers with thresholds that move.

`rows` turns subscriptions into rows, `frame` gives their places small numbers, `bounds` says what a trigger and a
block of triggers can reach, `layout` puts triggers into lists by word, `search` looks messages up, `components` are
lists and deltas, `batch_match` runs a batch, `part` keeps it together for the index.
"""

from nearcast.indexes.trigger.thresholds.batch_match import merged
from nearcast.indexes.trigger.thresholds.components import ThresholdSegment
from nearcast.indexes.trigger.thresholds.part import ThresholdPart
from nearcast.indexes.trigger.thresholds.rows import ThresholdRows

__all__ = ["ThresholdPart", "ThresholdRows", "ThresholdSegment", "merged"]
