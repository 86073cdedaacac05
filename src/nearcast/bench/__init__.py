"""Benchmarks: seeded workloads, timed runs and their reports.

`workloads` makes or opens the data, from `places`, `word_lists` and `sources`; `distances` says how far near reaches;
`encoding` turns a workload into columns. `answers` checks what indexes say, `timing` takes the times, `run` puts both
together for one workload; `churn` times matching under change and `hubs` the hub around an index. Top-k subscriptions
are measured by `topk` on `streams`, with a `stopwatch` for the phases of an arrival and a hash of what was `told`.
`report` turns a run into tables and JSON, `figures` redoes the papers' experiments. `nearcast bench` is the way in.
"""
