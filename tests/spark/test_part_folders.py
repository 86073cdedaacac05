"""Parts by hour, of a stream on Spark: Spark reads them with their hour, before and after a compaction."""

import json
import os

import pyarrow as pa

from nearcast.pipeline.sinks.compaction import compact
from nearcast.spark import stream
from support.waiting import PATIENCE_S


def rows_of(spark, out):
    frame = spark.read.parquet(str(out)).select("message_id", "subscription_id", "hour")
    return sorted((row.message_id, row.subscription_id, str(row.hour)[:10]) for row in frame.collect())


def test_spark_reads_hours_before_and_after_a_compaction(spark, tmp_path):
    (tmp_path / "in").mkdir()
    for number, time in enumerate(("08:00", "08:30", "09:00")):
        path = tmp_path / "in" / f"{number}.jsonl"
        path.write_text(json.dumps({"id": number, "text": "tea", "x": 0, "y": 0, "time": f"2026-05-01T{time}:00Z"}))
        os.utime(path, (1e9 + number, 1e9 + number))
    running = stream(
        tmp_path / "in",
        pa.table({"id": [1, 2], "query": ["tea", "tea"]}),
        out=tmp_path / "out",
        checkpoint=tmp_path / "K",
        space="plane",
        partitions=2,
        plan="hash",
        part_folders="hour",
        at_once=1,
        once=True,
        spark=spark,
    )
    assert running.wait(PATIENCE_S)
    before = rows_of(spark, tmp_path / "out")
    assert [(number, id_, "2026-05-01") for number in (0, 1, 2) for id_ in (1, 2)] == before
    (hour,) = compact(tmp_path / "out", now=0.0, keep_s=600.0).compacted
    assert ("hour=2026-05-01T08", 4, 1) == (hour.folder, hour.parts, hour.files)
    assert before == rows_of(spark, tmp_path / "out")
