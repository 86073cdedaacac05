"""Top-k subscriptions over a sliding window: the best messages of the moment for each, kept as messages come and go.

Three parts work together for every message: an index of subscriptions says whom it concerns (`indexes`, by thresholds),
a buffer for each of these takes it in or passes it over (`buffers`), and a subscription whose buffer has run dry asks
an index of messages for more (`window`). `Keeper` holds them together. The definition of every answer is simple: score
all messages of the window that share a word with the subscription, and take the first k by score, then by age, the
newer first.
"""
