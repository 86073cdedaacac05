"""The messages of a sliding window, and indexes over them that answer which are best for a subscription.

`sliding` says which messages count at each step. `contract` is what an index over them promises, `registry` knows the
indexes by name: `scan` is the definition, `blocks` ours, `ir_tree` that of the Skype paper.
"""
