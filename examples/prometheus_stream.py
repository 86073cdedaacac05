"""A stream that Prometheus watches: counters and gauges of every batch, which a small web server shows.

Run it: python examples/prometheus_stream.py (needs: pip install 'nearcast[spark]' prometheus-client)
"""

import json
import tempfile
import urllib.request
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
from prometheus_client import CollectorRegistry, Counter, Gauge, Summary, start_http_server

import nearcast.spark as ns

WISHES = pa.table({"id": ["anna", "bert"], "query": ["ramen", "coffee OR ramen"]})
POSTS = [
    {"id": "m1", "text": "Ramen for breakfast", "lon": 13.40, "lat": 52.50, "time": "2026-05-01T08:00:00Z"},
    {"id": "m2", "text": "Coffee!", "lon": 13.45, "lat": 52.50, "time": "2026-05-01T08:05:00Z"},
    {"id": "m3", "text": "On the moon", "lon": 1000, "lat": 52.50, "time": "2026-05-01T08:05:00Z"},
]


class StreamMetrics:
    """What `on_batch` is told, as metrics of Prometheus; one for each stream, with a registry of its own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"nearcast_{name}", text, labels, registry=registry)

        self.rows = Counter("nearcast_rows", "Rows in and out", ["kind"], registry=registry)
        self.batches = Counter("nearcast_batches", "Batches committed", registry=registry)
        self.phases = Summary("nearcast_phase_seconds", "Seconds of a batch", ["phase"], registry=registry)
        self.lag = gauge("lag_seconds", "Since the newest input arrived", "clock")
        self.load = gauge("partition_seconds", "Of the last batch", "partition")
        self.routed = gauge("partition_messages", "Routed in the last batch", "partition")
        self.age = gauge("snapshot_age_seconds", "Of the oldest snapshot")
        self.failures = gauge("failures", "Snapshots not written, in a row; calls of the hook that raised", "of")

    def __call__(self, progress: ns.BatchProgress) -> None:
        """Take in a batch."""
        report = progress.report
        for kind in ("messages", "changes", "deliveries", "rejected", "late"):
            self.rows.labels(kind).inc(getattr(report, kind))
        self.batches.inc()
        for phase, seconds in asdict(report.phases).items():
            self.phases.labels(phase).observe(seconds)
        for clock, lag in (("wall", progress.lag), ("event", progress.event_lag)):
            if lag is not None:
                self.lag.labels(clock).set(lag)
        for partition, load in enumerate(report.load):
            self.load.labels(partition).set(load["seconds"])
            self.routed.labels(partition).set(load["messages"])
        self.age.set(progress.snapshot_age.seconds)
        self.failures.labels("snapshots").set(progress.snapshot_failures)
        self.failures.labels("hook").set(progress.hook_failures)


def main() -> None:
    """Stream three posts, one of which has no place on earth, and look at the page that Prometheus would read."""
    registry = CollectorRegistry()
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry)  # 0: any port that is free
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "posts").mkdir()
        (folder / "posts" / "morning.jsonl").write_text("".join(json.dumps(post) + "\n" for post in POSTS))
        running = ns.stream(
            folder / "posts",
            WISHES,
            out=folder / "deliveries",
            checkpoint=folder / "state",
            space="earth",
            partitions=1,
            once=True,
            on_batch=StreamMetrics(registry),
        )
        running.wait()
    page = urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics").read().decode()
    for line in sorted(page.splitlines()):
        if line.startswith(("nearcast_rows_total", "nearcast_batches_total", "nearcast_failures")):
            print(line)
    server.shutdown()
    server.server_close()
    thread.join()


if __name__ == "__main__":
    main()
