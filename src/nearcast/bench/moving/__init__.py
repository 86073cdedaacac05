"""Benchmarks of subscriptions that move among messages that live for a while: `nearcast bench moving`.

`settings` makes the workload of a point of Table 3 of the AP-Tree paper, `life` takes an engine through it and times
its parts, `life_answers` compares what engines deliver. `figures` has the paper's experiments, `measurement` measures
them. `aims` is the table of how fast a hub moves subscriptions, with `anchor` for the geometry of another system.
`protocols/` simulates clients that report only when they leave a safe region, `protocol_figures` measures them.
"""
