"""Benchmarks: seeded workloads, timed runs and their reports.

`data` makes or opens workloads, `encoding` turns one into columns, a `request` says what to measure on it. `answers`
checks what indexes say, `timing` takes times, `run` puts both together for one workload; `churn` times matching under
change and `hubs` the hub around an index. Top-k subscriptions are measured by `topk` on `streams`, with a `stopwatch`
for the phases of an arrival and a hash of the changes, `topk_digest`. `report` turns a run into tables and JSON,
`figures` redoes the papers' experiments, `moving` those with subscriptions that move, `spark` measures streams,
`server` a server under load, `peers` races what a user would take instead.
`nearcast bench` is the way in.
"""
