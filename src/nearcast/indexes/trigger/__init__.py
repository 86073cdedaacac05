"""Our own index: rarest-term triggers over cells of space.

`rows` turns subscriptions into rows, `places` cuts space into cells, `segment` lays rows out by (cell, term),
`search` looks messages up in a segment, `delta` does so for the newest rows, `batch_match` runs a batch,
`components` saves and opens, `background_merge` merges them, `index` keeps it all together under the contract. Top-k
subscriptions, whose thresholds move, are a part of their own: `thresholds`.
"""

from nearcast.indexes.trigger.index import TriggerIndex

__all__ = ["TriggerIndex"]
