"""Batches of messages and changes through partitions of engines, on any runner and without pyspark.

Low to high: `runner` and `settings`; `store` (immutable files, manifests); `batch` (values that travel between driver
and workers); `sinks`; `copies` and `divided_window`, which a stream may do without; `worker` (tasks over one
partition); `driver` (one batch after the other); `preparation` and `file_match`, which begin and use all of it.
"""
