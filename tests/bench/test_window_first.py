"""`nearcast bench spark --kind topk`: a window is filled before most subscriptions come, in stream and hub alike."""

import pytest

from nearcast.bench.data.distances import MaxDistance
from nearcast.bench.data.workloads import generated
from nearcast.bench.spark import data
from nearcast.bench.spark.batch_steps import TimedRunner, local_pipeline, sources
from nearcast.bench.spark.local_engine import local_hub, run_locally
from nearcast.window import Window


@pytest.fixture
def given(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "FIRST", 10)
    monkeypatch.setattr(data, "JOINED", 20)
    workload = MaxDistance(usual_share=1.0).applied(generated(kind="topk", subscriptions=60, messages=110))
    return data.stream_workload(
        workload,
        tmp_path / "m",
        kind="topk",
        batch=10,
        files_per_batch=2,
        window=Window.of(40),
        n_before=40,
        n_warm_up=data.window_warm_up(10),
        window_first=True,
    )


def test_most_subscriptions_come_when_the_window_is_full(given):
    """The first batch behind them is one in which a stream counts what thresholds need."""
    assert (given.first.num_rows, [len(batch) for batch in given.joining]) == (10, [2, 2, 2])
    assert len(given.filling_batches) + len(given.joining) == 8
    assert given.n_before == 8 + 4
    ids = {*given.first.column("id").to_pylist()}
    for batch in given.joining:
        for path in batch:
            table = data.pq.read_table(path)
            assert table.column("op").to_pylist() == ["subscribe"] * table.num_rows
            ids |= {*table.column("id").to_pylist()}
    assert ids == {*given.subscriptions.column("id").to_pylist()}


def test_hub_and_pipeline_agree_on_what_follows(given, tmp_path):
    said = []
    local = run_locally(local_hub(given, said.append), given.measured, tmp_path / "o.parquet", 2, is_topk=True)
    assert said == [f"local engine: searching the window, {at} of 3" for at in (1, 2, 3)]
    pipeline = local_pipeline(given, tmp_path, TimedRunner(), "trigger", 2)
    before = [
        *(sources(batch) for batch in given.filling_batches),
        *(sources(batch, "changes") for batch in given.joining),
        *(sources(batch) for batch in given.warming),
    ]
    measured = [sources(batch) for batch in given.measured]
    found = [pipeline.run(number, batch).deliveries for number, batch in enumerate([*before, *measured])]
    assert sum(local.deliveries) > 0
    assert local.deliveries == found[given.n_before :]
