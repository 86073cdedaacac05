"""Buffers of top-k subscriptions: the best messages of the window and more, so that searches are rare.

A subscription's *buffer* holds messages of the window in rank order: higher score first, then newer first. Three
policies say which:

- `kmax` (Yi et al., ICDE 2003): the best `kmax` there are, fewer as they expire.
- `skyband` (Mouratidis et al., SIGMOD 2006): of the messages that score at least θ those that fewer than k others
  dominate, where one dominates another if it ranks before it and is newer, and so outlives it. θ is a share of the
  k-th score at the last search.
- `cskyband` (Skype, VLDB Journal 2016): the same, with the θ that costs least in all, by the model in `cost`.

All hold the same promise: every message of the window that ranks before the *bound* is in the buffer, or is dominated
by k that are. So the first k of a buffer of at least k are the top-k (the paper's Theorem 5). When fewer are left, and
something lies beyond the bound, the window is searched again. A buffer with nothing beyond its bound is *whole* and
needs no search however short it gets.

`pool` keeps the entries of all buffers, `holders` a record of numbers for each subscription, `entries` changes one
buffer. `walk` takes all buffers through the steps of a batch of messages (`walk_state`): `touch` collects who changes
in a step and fetches their memory ahead, `tell` writes the events. `fill` makes a buffer from what a search found.
"""
