"""The numbers of a batch as Spark's observed metrics: `query.lastProgress` and every listener see them.

Spark computes observed metrics from the rows of a DataFrame, and those of a batch are in the driver, where no row
passes. So the aggregates read one row that no source has: `tell` adds it to the accumulator of the plan under way.
Imports pyspark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nearcast.errors import NotSupported

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from nearcast.spark.batch_progress import BatchProgress

#: The name of the metrics in `observedMetrics`, and the kind of the row that has them.
NAME = "nearcast"
#: Of `BatchProgress.numbers`, by type.
_COUNTS = (
    *("batch", "messages", "changes", "deliveries", "rejected", "late", "tuples"),
    *("snapshot_age_batches", "snapshot_failures", "hook_failures"),
)
_SECONDS = (
    *("lag_s", "event_lag_s", "busiest_s", "mean_load_s", "snapshot_age_s"),
    *("arrive_s", "ready_s", "read_s", "order_s", "match_s", "commit_s", "publish_s"),
)
#: Arrays, an element for each partition.
_BY_PARTITION = {"load_s": "array<double>", "load_messages": "array<bigint>"}


def observed(frame: DataFrame) -> DataFrame:
    """Return the input of a stream, with the metrics of its batches still to be told."""
    from pyspark.sql import functions as F  # noqa: N812

    told = F.max(F.when(F.col("kind") == NAME, F.col("path")))

    def number(name: str) -> Any:
        return F.get_json_object(told, f"$.{name}")

    counts = [number(name).cast("bigint").alias(name) for name in _COUNTS]
    seconds = [number(name).cast("double").alias(name) for name in _SECONDS]
    loads = [F.from_json(number(name), form).alias(name) for name, form in _BY_PARTITION.items()]
    return frame.observe(NAME, *counts, *seconds, *loads)


def tell(query: StreamingQuery, frame: DataFrame, progress: BatchProgress) -> None:
    """Give the numbers of the batch under way to the metrics of its plan; `NotSupported` where it has none."""
    load = progress.report.load
    figures = {
        **progress.numbers(),
        "load_s": [each["seconds"] for each in load],
        "load_messages": [each["messages"] for each in load],
    }
    _add(query, frame.columns, {"kind": NAME, "path": json.dumps(figures)})


def _add(query: StreamingQuery, columns: list[str], values: Mapping[str, str]) -> None:
    """Add one row of these values, null elsewhere, to the accumulator of the observed metrics."""
    from pyspark import SparkContext

    plan = query._jsq.streamingQuery().lastExecution().executedPlan()
    if plan.getClass().getSimpleName() != "CollectMetricsExec":
        raise NotSupported(f"this version of Spark plans observed metrics as {plan.getClass().getSimpleName()}")
    context = SparkContext._active_spark_context
    assert context is not None
    jvm, gateway = context._jvm, context._gateway
    assert jvm is not None
    assert gateway is not None
    row = gateway.new_array(getattr(jvm, "java.lang.Object"), len(columns))
    for name, value in values.items():
        row[columns.index(name)] = getattr(jvm, "org.apache.spark.unsafe.types.UTF8String").fromString(value)
    plan.accumulator().add(getattr(jvm, "org.apache.spark.sql.catalyst.expressions.GenericInternalRow")(row))
