"""`nearcast bench spark` on Spark itself: a stream beside the local engine and one job."""

import json


def test_a_stream_is_timed_beside_the_local_engine(spark, nearcast, tmp_path, monkeypatch):
    monkeypatch.setattr("nearcast.bench.spark.data.TINY_MEASURED", 2)
    for module in ("data", "stream"):
        monkeypatch.setattr(f"nearcast.bench.spark.{module}.TINY_WARM", 1)
    monkeypatch.setattr("nearcast.cli.bench_spark.bench_session", lambda *_: spark)
    report = tmp_path / "report.json"
    sizes = ("--subscriptions", 500, "--messages", 200, "--batch", 100)
    result = nearcast("bench", "spark", *sizes, "--json", report)
    assert result.status == 0, result.err
    results = json.loads(report.read_text())["results"]
    assert set(results) == {"local", "stream", "match", "steps"}
    assert len({results[way]["deliveries"] for way in ("local", "stream", "match")}) == 1
    stream = results["stream"]
    assert (stream["batches"], stream["messages"], stream["replication"]) == (2, 200, 1)
    assert stream["cpu_all_s"] >= stream["cpu_workers_s"] > 0
    assert stream["tiny_batch_ms"] > 0
    assert all(size > 1 for size in stream["worker_private_mb"])
