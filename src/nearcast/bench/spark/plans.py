"""What a plan does to top-k subscriptions in a full window: the work of each partition, and what is sent around.

Partitions are logical: they run one after the other in this process, and the CPU time of each is taken. Throughput is
messages by the seconds of the busiest partition, which says what a core for each partition could do; reading messages,
the driver and the network are not in it.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from nearcast.bench.answers import AnswersDiffer
from nearcast.bench.spark.batch_steps import TimedRunner, local_pipeline, sources
from nearcast.bench.spark.data import StreamWorkload, stream_workload
from nearcast.bench.spark.stream import replication
from nearcast.pipeline.batch.inputs import read_inputs
from nearcast.pipeline.store import pickles
from nearcast.pipeline.worker.tasks import forget_all
from nearcast.plans.measure import balance
from nearcast.window import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.data.workloads import Recipe
    from nearcast.bench.figures.figure import Figure, Point, Row, Series
    from nearcast.bench.figures.measurement import FigureData
    from nearcast.bench.timing import Say

#: Partitions where a point says nothing, as in the paper.
PARTITIONS = 32
#: Messages that fill the window go in batches of so many, the measured ones in so many batches.
_FILLING, _MEASURED = 5_000, 2


class CountingRunner(TimedRunner):
    """Also counts the candidates that copies send to homes; files that all partitions read are read untimed."""

    hops = 0

    def map(self, task: Callable[[Any], Any], payloads: list[Any], **more: Any) -> list[Any]:
        """Return what `task` returns for each payload."""
        if task.__name__ in ("step_batch", "detect_batch"):
            len(read_inputs(payloads[0].ref.store, payloads[0].files).segment)
        results = super().map(task, payloads, **more)
        if task.__name__ == "detect_batch":
            store = payloads[0].ref.store
            for name in results:
                found = pickles.loads(store.read_bytes(name), name)
                self.hops += sum(len(each.row) for each in found.values())
        return results


class _DataRequest(NamedTuple):
    """The data that a point of a figure needs: a recipe and a number of subscriptions."""

    recipe: Recipe
    subscriptions: int


def over_plans(figure: Figure, data: FigureData, say: Say) -> Iterator[Row]:
    """Measure every series at every point; points with the same data share its files, and a plan is measured once."""
    with tempfile.TemporaryDirectory(prefix="nearcast-plans-") as folder:
        place, last = Path(folder), None
        known: dict[tuple[Any, ...], dict[str, Any]] = {}
        for at, point in enumerate(figure.points):
            where = f"point {at + 1} of {len(figure.points)}"
            request = _DataRequest(point.recipe, max(1, round(figure.subscriptions * point.share)))
            if last is None or last[0] != request:
                say(f"{where}: preparing the data")
                last = request, _drawn(figure, data, request, place / f"messages-{at}")
            partitions = int(point.options.get("partitions", PARTITIONS))
            for number, series in enumerate(figure.series):
                plan = _plan(series, point)
                key = (request, plan, partitions)
                if key not in known:
                    say(f"{where}: {plan}")
                    known[key] = measured(last[1], place / f"run-{at}-{number}", plan, partitions)
                    _must_deliver_the_same(known, request)
                x = request.subscriptions if point.x is None else point.x
                row = {"x": x, "series": series.label, "plan": plan, "partitions": partitions}
                yield {**row, "subscriptions": request.subscriptions, "window": figure.window, **known[key]}


def _plan(series: Series, point: Point) -> str:
    levels = point.options.get("levels")
    is_hybrid = series.spec in ("space-first", "keyword-first")
    return f"{series.spec}({levels})" if is_hybrid and levels else series.spec


def _drawn(figure: Figure, data: FigureData, request: _DataRequest, folder: Path) -> StreamWorkload:
    assert figure.window is not None
    warm_up = figure.warm_up or 0
    workload = data.draw(request.recipe, request.subscriptions, figure.window + warm_up + figure.messages)
    data.about = workload.about | {"space": "plane"}
    given = stream_workload(
        workload,
        folder,
        kind="topk",
        batch=max(1, figure.messages // _MEASURED),
        files_per_batch=1,
        window=Window.of(figure.window),
        n_before=figure.window,
        n_warm_up=warm_up,
        space=data.space,
    )
    data.about["space"] = given.space.kind
    return given


def measured(given: StreamWorkload, folder: Path, plan: str, partitions: int) -> dict[str, Any]:
    """Return what a plan does with the measured messages, after the window was filled and others warmed up."""
    runner = CountingRunner()
    forget_all()
    pipeline = local_pipeline(given, folder, runner, plan, partitions)
    number = 0
    together = max(1, _FILLING * len(given.filling) // max(given.window.count or 1, 1)) if given.window else 1
    filling = [given.filling[at : at + together] for at in range(0, len(given.filling), together)]
    for batch in [*filling, *given.warming]:
        pipeline.run(number, sources(batch))
        number += 1
    runner.of_payload.clear()
    runner.hops = 0
    first, reports = number, []
    for batch in given.measured:
        report = pipeline.run(number, sources(batch))
        assert report is not None
        reports.append(report)
        number += 1
    delivered = _deliveries_hash(folder / "out", first)
    told = _deliveries_by_partition(folder / "out", first, partitions)
    copies, homes = replication(pipeline), np.bincount(pipeline.state.directory.home, minlength=partitions)
    forget_all()
    n = sum(report.messages for report in reports)
    busy = np.zeros(partitions)
    for (task, at), seconds in runner.of_payload.items():
        if task != "read_source":
            busy[at] += seconds
    tuples = sum(report.tuples for report in reports) / n
    routed = np.sum([[each["messages"] for each in report.load] for report in reports], axis=0)
    return {
        "messages": n,
        "messages_per_s": round(n / float(busy.max()), 1),
        "busiest_s": round(float(busy.max()), 4),
        "all_partitions_s": round(float(busy.sum()), 4),
        "balance": round(balance(busy), 3),
        "balance_subscriptions": round(balance(homes), 3),
        "balance_messages": round(balance(routed), 3),
        "balance_deliveries": round(balance(told), 3),
        "tuples_per_message": round(tuples, 3),
        "hops_per_message": round(runner.hops / n, 3),
        "tuples_with_hops": round(tuples + runner.hops / n, 3),
        "replication": round(copies, 3),
        "deliveries": sum(report.deliveries for report in reports),
        "deliveries_hash": delivered,
    }


def _deliveries_hash(out: Path, first: int) -> str:
    """Return a hash of what was delivered from a batch on, whichever partition delivered it."""
    rows: list[str] = []
    for path in sorted(out.glob("part-*.parquet")):
        batch = path.name.split("-")[1]
        if batch.isdigit() and int(batch) >= first:
            table = pq.read_table(path, columns=["subscription_id", "message_id", "change"])
            columns = [table.column(name).to_pylist() for name in table.column_names]
            rows += [f"{batch} {one} {two} {three}" for one, two, three in zip(*columns, strict=True)]
    return hashlib.blake2b("\n".join(sorted(rows)).encode(), digest_size=8).hexdigest()


def _deliveries_by_partition(out: Path, first: int, partitions: int) -> NDArray[np.int64]:
    """Return how many rows each partition delivered from a batch on."""
    told = np.zeros(partitions, np.int64)
    for path in out.glob("part-*.parquet"):
        _, batch, partition, *_ = path.stem.split("-")
        if batch.isdigit() and partition.isdigit() and int(batch) >= first:
            told[int(partition)] += pq.read_metadata(path).num_rows
    return told


def _must_deliver_the_same(known: dict[tuple[Any, ...], dict[str, Any]], request: _DataRequest) -> None:
    hashes = {key[1:]: row["deliveries_hash"] for key, row in known.items() if key[0] == request}
    if len(set(hashes.values())) > 1:
        one, other = next(iter(hashes)), list(hashes)[-1]
        raise AnswersDiffer(
            f"plan {one[0]} with {one[1]} partitions and plan {other[0]} with {other[1]} deliver different changes:"
            " figures are withheld; report this with the command and its seed"
        )
