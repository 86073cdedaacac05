"""Where the CPU time of a batch goes: the stream's pipeline in this process, without Spark, its parts timed."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast import _arrow
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks.base import Stager
from nearcast.pipeline.sinks.files import FileSink
from nearcast.pipeline.store.store import Store

if TYPE_CHECKING:
    from nearcast.bench.spark.data import StreamWorkload
    from nearcast.pipeline.worker.source_reader import Kind

#: So many bytes are too many for the driver to read a file by itself.
_LARGE = 1 << 40
#: Rows of a batch whose changes are timed; each of kind `topk` searches the window.
CHANGES, TOPK_CHANGES = 50_000, 1_000


class TimedRunner(LocalRunner):
    """Runs tasks one after the other and notes the CPU seconds of each: by task, and by task and payload."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.of_payload: defaultdict[tuple[str, int], float] = defaultdict(float)

    def map(self, task: Callable[[Any], Any], payloads: list[Any], **_: Any) -> list[Any]:
        """Return what `task` returns for each payload."""
        results = []
        for at, payload in enumerate(payloads):
            began = time.process_time()
            results.append(task(payload))
            spent = time.process_time() - began
            self.seconds[task.__name__] += spent
            self.of_payload[task.__name__, at] += spent
        return results


def local_pipeline(given: StreamWorkload, folder: Path, runner: LocalRunner, plan: str, partitions: int) -> Pipeline:
    """Return a pipeline in this process that has begun with the subscriptions."""
    settings = PipelineSettings(given.space, window=given.window, plan=plan, partitions=partitions)
    pipeline = Pipeline(Store(str(folder / "K")), settings, runner, FileSink(str(folder / "out")))
    pipeline.begin(given.first, given.vocabulary, sample=given.sample)
    return pipeline


def sources(batch: list[Path], kind: Kind = "messages") -> list[BatchSource]:
    """Return the files of a batch as the pipeline is given them."""
    return [BatchSource(kind, path.name, str(path), n_bytes=_LARGE) for path in batch]


def steps_of(given: StreamWorkload, folder: Path, *, plan: str, partitions: int) -> dict[str, Any]:
    """Return CPU microseconds per message, in this process: reading, matching, writing deliveries, and the rest.

    `kernel_us` is the index alone; `beyond_kernel_us_per_tuple` is all but the kernel and the writing of deliveries,
    by routed message. `change_*_us` are CPU microseconds per row that subscribes.
    """
    runner = TimedRunner()
    pipeline = local_pipeline(given, folder, runner, plan, partitions)
    before = [
        *(sources(batch) for batch in given.filling_batches),
        *(sources(batch, "changes") for batch in given.joining),
        *(sources(batch) for batch in given.warming),
    ]
    for number, batch in enumerate(before):
        pipeline.run(number, batch)
    number = len(before)
    runner.seconds.clear()
    inside: defaultdict[str, float] = defaultdict(float)
    with _timed(_index_class(pipeline), "match", inside), _timed(Stager, "stage", inside):
        began = time.process_time()
        report = pipeline.run(number, sources(given.measured[0]))
        total = time.process_time() - began
    assert report is not None
    n, tuples = report.messages, max(report.tuples, 1)
    tasks = sum(runner.seconds.values())
    step = runner.seconds["step_batch"] + runner.seconds["detect_batch"]
    spent = {
        "read": runner.seconds["read_source"],
        "kernel": inside["match"],
        "deliveries": inside["stage"],
        "step_rest": step - inside["match"] - inside["stage"],
        "driver": total - tasks,
    }
    beyond = total - inside["match"]
    subscribed = given.subscriptions.slice(0, CHANGES if given.window is None else TOPK_CHANGES)
    changes = _registered(pipeline, runner, subscribed, folder, number + 1)
    return {
        "messages": n,
        **{f"{name}_us": round(seconds * 1e6 / n, 3) for name, seconds in spent.items()},
        "all_us": round(total * 1e6 / n, 3),
        "deliveries_ns_per_row": round(inside["stage"] * 1e9 / max(report.deliveries, 1), 1),
        "beyond_kernel_us_per_tuple": round((beyond - inside["stage"]) * 1e6 / tuples, 3),
        "beyond_kernel_with_deliveries_us_per_tuple": round(beyond * 1e6 / tuples, 3),
        **changes,
    }


def _registered(pipeline: Pipeline, runner: TimedRunner, rows: pa.Table, folder: Path, number: int) -> dict[str, Any]:
    """Subscribe to rows under new ids in two batches; return CPU microseconds per change of the second, and its rate.

    `change_driver_us` is what no cluster makes less.
    """
    n, total = rows.num_rows, 0.0
    for batch in range(2):
        path = folder / f"changes-{batch}.parquet"
        pq.write_table(as_changes(rows, batch), path)
        runner.seconds.clear()
        began = time.process_time()
        pipeline.run(number + batch, [BatchSource("changes", path.name, str(path), n_bytes=_LARGE)])
        total = time.process_time() - began
    spent = {
        "change_read_us": runner.seconds["read_source"],
        "change_step_us": runner.seconds["step_batch"] + runner.seconds["detect_batch"],
        "change_driver_us": total - sum(runner.seconds.values()),
    }
    figures = {name: round(seconds * 1e6 / n, 3) for name, seconds in spent.items()}
    return {"changes": n, **figures, "changes_per_s": round(n / total, 1)}


def as_changes(rows: pa.Table, batch: int) -> pa.Table:
    """Return subscriptions as rows that subscribe to them, under ids of their own."""
    first = batch * rows.num_rows
    if pa.types.is_integer(rows.schema.field("id").type):
        ids: pa.Array = _arrow.numbers(np.arange(first, first + rows.num_rows) - (1 << 62))
    else:
        ids = _arrow.strings([f"change {first + row}" for row in range(rows.num_rows)])
    rows = rows.set_column(rows.column_names.index("id"), "id", ids)
    return rows.append_column("op", _arrow.strings(["subscribe"] * rows.num_rows))


def _index_class(pipeline: Pipeline) -> type:
    from nearcast.indexes import create

    return type(create(pipeline.settings.index, pipeline.settings.space))


@contextmanager
def _timed(owner: type, method: str, seconds: defaultdict[str, float]) -> Iterator[None]:
    """Note the CPU seconds of a method for the time of a block."""
    original = getattr(owner, method)

    @wraps(original)
    def timed(*arguments: Any, **options: Any) -> Any:
        began = time.process_time()
        try:
            return original(*arguments, **options)
        finally:
            seconds[method] += time.process_time() - began

    setattr(owner, method, timed)
    try:
        yield
    finally:
        setattr(owner, method, original)
