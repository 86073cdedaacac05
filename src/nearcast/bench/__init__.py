"""Benchmarks: seeded workloads, timed runs and their reports.

`workloads` makes or opens the data, `run` checks the answers and takes the times, `churn` times matching under change
and `hubs` the hub around an index, `report` turns a run into tables and JSON. `nearcast bench` is the way in.
"""
