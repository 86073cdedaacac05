"""A model of a stream on a cluster: how long a batch takes, and which part of it saturates first.

The constants are fitted to reports of `nearcast bench spark` (kind `within`). Four parts follow one after the other:

- *fixed*: starting the jobs of a batch, a wave of tasks, and scheduling each task. From batches of ten messages.
- *driver*: putting messages in order. One process, so it is not divided.
- *every*: what each partition does with every message of a batch, wherever it is routed. Not divided either.
- *divided*: reading, matching and writing deliveries, over all cores; the busiest partition counts.

Matching grows with the subscriptions, writing with the deliveries. What the model leaves out: the broker, a store that
is slower than the disk of the reports, and hosts that fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

Report = dict[str, Any]
_US, _NS = 1e-6, 1e-9


@dataclass(frozen=True)
class ClusterConstants:
    """Seconds and bytes, each by what it grows with."""

    #: Of a batch: always, for each wave of tasks, for each task.
    start_s: float
    wave_s: float
    task_s: float
    #: Of a message: by the driver, in each partition, reading it, matching it with one subscription.
    driver_s: float
    every_s: float
    read_s: float
    match_s: float
    #: Of a delivery, and deliveries of a message for each subscription.
    delivery_s: float
    deliveries: float
    #: The busiest partition, divided by the mean.
    balance: float
    #: Bytes of a message in a segment, and of a delivery in Parquet.
    message_bytes: float
    delivery_bytes: float
    #: Bytes of a snapshot, which workers of a host map, and of a worker's own memory, for each subscription.
    mapped_bytes: float
    private_bytes: float
    #: Bytes of a worker's own memory without subscriptions.
    worker_bytes: float


class BatchTime(NamedTuple):
    """Seconds of a batch by part."""

    fixed: float
    driver: float
    every: float
    divided: float

    @property
    def total(self) -> float:
        """The seconds of the batch."""
        return sum(self)


class Cluster(NamedTuple):
    """Hosts with the same number of cores, each of which runs a Python worker; a partition for each core."""

    hosts: int
    cores: int

    @property
    def slots(self) -> int:
        """The tasks that run at once."""
        return self.hosts * self.cores


def constants_of(reports: Sequence[Report]) -> ClusterConstants:
    """Fit the constants; `InvalidInput` names what a report lacks. The more sizes and workers, the better."""
    for report in reports:
        _check(report)
    streams = [report["results"]["stream"] for report in reports]
    steps = [report["results"]["steps"] for report in reports]
    about = [report["workload"] for report in reports]
    sizes = np.array([each["subscriptions"] for each in about], float)
    partitions = np.array([each["partitions"] for each in about], float)
    rows = np.array([each["deliveries"] / each["messages"] for each in streams])
    waves = np.ceil(partitions / np.array([slots_of(report) for report in reports]))
    start, wave, task = _fitted(
        np.column_stack([np.ones_like(partitions), waves, partitions]), _of(streams, "tiny_batch_ms") / 1e3
    )
    private = np.array([max(each["worker_private_mb"]) * 1e6 for each in streams])
    worker, per_subscription = _fitted(np.column_stack([np.ones_like(sizes), sizes / partitions]), private)
    return ClusterConstants(
        start_s=start,
        wave_s=wave,
        task_s=task,
        driver_s=fmean(_of(steps, "driver_us")) * _US,
        every_s=_through_origin(partitions, _of(steps, "step_rest_us")) * _US,
        read_s=fmean(_of(steps, "read_us")) * _US,
        match_s=_through_origin(sizes, _of(steps, "kernel_us")) * _US,
        delivery_s=fmean(_of(steps, "deliveries_ns_per_row")) * _NS,
        deliveries=_through_origin(sizes, rows),
        balance=fmean(_of(streams, "balance_seconds")),
        message_bytes=fmean(_of(streams, "segment_bytes_per_message")),
        delivery_bytes=fmean(_of(streams, "delivery_bytes_per_row")),
        mapped_bytes=fmean(_of(streams, "snapshot_bytes_per_subscription")),
        private_bytes=per_subscription,
        worker_bytes=worker,
    )


def _check(report: Report) -> None:
    results, about = report.get("results", {}), report.get("workload", {})
    if about.get("kind") != "within":
        raise InvalidInput(f"a report is of kind {about.get('kind')!r}; expected reports of bench spark --kind within")
    if "steps" not in results or "snapshot_bytes_per_subscription" not in results.get("stream", {}):
        raise InvalidInput("a report lacks the steps of a batch, or is of an older version; run it again, with --steps")


def slots_of(report: Report) -> int:
    """Return how many tasks of a report's stream could run at once: its slots, as far as the machine had cores."""
    inside = str(report["workload"]["master"]).partition("[")[2].rstrip("]").split(",")[0]
    cores = int(report["machine"]["cores"])
    return cores if inside == "*" else min(int(inside), cores)


def _of(rows: Sequence[dict[str, Any]], name: str) -> NDArray[np.float64]:
    return np.array([each[name] for each in rows], float)


def _through_origin(by: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    return float(by @ values / (by @ by))


def _fitted(columns: NDArray[np.float64], values: NDArray[np.float64]) -> list[float]:
    """Return the factors of least squares, none of them negative; a column that tells nothing more gets 0."""
    kept: list[int] = []
    for at in range(columns.shape[1]):
        if np.linalg.matrix_rank(columns[:, [*kept, at]]) == len(kept) + 1:
            kept.append(at)
    while True:
        found = np.linalg.lstsq(columns[:, kept], values, rcond=None)[0]
        if (found >= 0).all():
            break
        kept.pop(int(found.argmin()))
    result = np.zeros(columns.shape[1])
    result[kept] = found
    return [float(each) for each in result]


def batch_time(
    constants: ClusterConstants, messages: float, subscriptions: float, partitions: int, slots: int, deliveries: float
) -> BatchTime:
    """Return the seconds of a batch of so many messages, each with so many deliveries."""
    waves = -(-partitions // slots)
    of_message = constants.read_s + constants.match_s * subscriptions + constants.delivery_s * deliveries
    return BatchTime(
        fixed=constants.start_s + constants.wave_s * waves + constants.task_s * partitions,
        driver=messages * constants.driver_s,
        every=messages * constants.every_s * waves,
        divided=messages * of_message * constants.balance / min(slots, partitions),
    )


def check_rows(constants: ClusterConstants, reports: Sequence[Report]) -> list[dict[str, Any]]:
    """Return for each report what was measured beside what the model says."""
    rows = []
    for report in reports:
        about, stream = report["workload"], report["results"]["stream"]
        size, partitions = about["subscriptions"], about["partitions"]
        deliveries = stream["deliveries"] / stream["messages"]
        found = batch_time(constants, about["batch"], size, partitions, slots_of(report), deliveries).total
        measured = stream["batch_s_median"]
        rows.append(
            {
                "workers": partitions,
                "cores": report["machine"]["cores"],
                "subscriptions": size,
                "batch": about["batch"],
                "measured_s": measured,
                "model_s": found,
                "ratio": found / measured,
            }
        )
    return rows


def cluster_row(
    constants: ClusterConstants, cluster: Cluster, subscriptions: int, trigger_s: float, answers: float | None = None
) -> dict[str, Any]:
    """Return what a cluster holds with a batch every so many seconds, and the share of each part of that time.

    `answers` are the deliveries of a message; unless given they grow with the subscriptions.
    """
    slots = cluster.slots
    deliveries = constants.deliveries * subscriptions if answers is None else answers
    one = batch_time(constants, 1.0, subscriptions, slots, slots, deliveries)
    per_message = one.total - one.fixed
    rate = max(0.0, trigger_s - one.fixed) / per_message / trigger_s
    parts = batch_time(constants, rate * trigger_s, subscriptions, slots, slots, deliveries)
    first = max(parts._fields, key=lambda name: getattr(parts, name))
    read, written = constants.message_bytes * rate, constants.delivery_bytes * deliveries * rate / cluster.hosts
    own = constants.worker_bytes + constants.private_bytes * subscriptions / slots
    return {
        "cluster": f"{cluster.hosts} x {cluster.cores}",
        "subscriptions": subscriptions,
        "messages_per_s": rate,
        "deliveries_per_s": rate * deliveries,
        **{f"{name}_share": getattr(parts, name) / parts.total for name in parts._fields},
        "first": first if rate else "fixed",
        "most_messages_per_s": 1 / per_message,
        "network_mb_per_s": (read + written) / 1e6,
        "mapped_gb": constants.mapped_bytes * subscriptions / cluster.hosts / 1e9,
        "private_gb": own * cluster.cores / 1e9,
    }
