"""Runs a hub on the files that a stream reads: what the stream is compared with."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.deliveries import MessagePortions
from nearcast.files import DeliveryWriter, read_table

if TYPE_CHECKING:
    from nearcast.bench.spark.data import StreamWorkload
    from nearcast.bench.timing import Say
    from nearcast.hub import Hub


@dataclass(frozen=True)
class LocalResult:
    """Seconds to read, match and write, and deliveries by batch; those of top-k subscriptions are net changes."""

    seconds: float
    cpu_s: float
    deliveries: list[int]


def local_hub(given: StreamWorkload, say: Say = lambda _: None) -> Hub:
    """Return a hub with the subscriptions that has seen all messages before the measured ones, in a stream's order."""
    from nearcast.hub import Hub

    hub = Hub(given.space, vocabulary=given.vocabulary, window=given.window)
    hub.subscribe_many(given.first)
    for path in given.filling:
        hub.publish_many(read_table(path))
    for at, batch in enumerate(given.joining):
        say(f"local engine: searching the window, {at + 1} of {len(given.joining)}")
        for path in batch:
            hub.subscribe_many(read_table(path).drop_columns("op"))
            hub.poll()
    for path in (path for batch in given.warming for path in batch):
        hub.publish_many(read_table(path))
    return hub


def run_locally(
    hub: Hub, batches: Sequence[Sequence[Path]], out: Path, threads: int, *, is_topk: bool = False
) -> LocalResult:
    """Read files, publish their messages and write what they deliver into one file."""
    cpu, began = time.process_time(), time.perf_counter()
    counted: list[list[pa.Table]] = []
    deliveries = []
    portions = MessagePortions()
    with DeliveryWriter(out) as writer:
        for batch in batches:
            before = portions.deliveries
            kept: list[pa.Table] = []
            for path in batch:
                table = read_table(path)
                for first, last in portions.of(table.num_rows):
                    found = hub.publish_many(table.slice(first, last - first), threads=threads)
                    for rows in found.tables(dictionaries=True):
                        writer.write(rows)
                        if is_topk:
                            kept.append(_arrow.plain(rows.select(["subscription_id", "message_id", "change"])))
                    portions.deliveries += len(found)
            deliveries.append(portions.deliveries - before)
            counted.append(kept)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    if is_topk:
        deliveries = [_net(kept) for kept in counted]
    return LocalResult(seconds, cpu, deliveries)


def _net(tables: Sequence[pa.Table]) -> int:
    """Return how many pairs of subscription and message changed an odd number of times."""
    if not tables:
        return 0
    rows = pa.concat_tables(tables).group_by(["subscription_id", "message_id"]).aggregate([("change", "count")])
    return int(np.count_nonzero(_arrow.array_of(rows.column("change_count").combine_chunks()) % 2))
