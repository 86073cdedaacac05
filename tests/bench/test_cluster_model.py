"""The model of a cluster: it finds the constants that reports were made by, and says what saturates first."""

import json
from dataclasses import asdict, replace

import pytest

from nearcast.bench.spark.cluster_model import (
    Cluster,
    ClusterConstants,
    batch_time,
    check_rows,
    cluster_row,
    constants_of,
)
from nearcast.errors import InvalidInput

CONSTANTS = ClusterConstants(
    start_s=0.1,
    wave_s=0.02,
    task_s=0.005,
    driver_s=1e-7,
    every_s=5e-7,
    read_s=2e-6,
    match_s=4e-12,
    delivery_s=2e-7,
    deliveries=4.5e-5,
    balance=1.0,
    message_bytes=160.0,
    delivery_bytes=8.0,
    mapped_bytes=190.0,
    private_bytes=100.0,
    worker_bytes=8e7,
)


def report_of(workers, subscriptions=1_000_000, batch=50_000, cores=2):
    """Return the report of a stream on so many workers, as far as the model reads it."""
    c, slots, deliveries = CONSTANTS, min(workers, cores), CONSTANTS.deliveries * subscriptions
    time = batch_time(c, batch, subscriptions, workers, slots, deliveries)
    return {
        "workload": {
            "kind": "within",
            "subscriptions": subscriptions,
            "partitions": workers,
            "batch": batch,
            "master": f"local[{workers}]",
        },
        "machine": {"cores": cores},
        "results": {
            "stream": {
                "messages": batch,
                "deliveries": batch * deliveries,
                "batch_s_median": time.total,
                "tiny_batch_ms": 1e3 * time.fixed,
                "balance_seconds": c.balance,
                "segment_bytes_per_message": c.message_bytes,
                "delivery_bytes_per_row": c.delivery_bytes,
                "snapshot_bytes_per_subscription": c.mapped_bytes,
                "worker_private_mb": [(c.worker_bytes + c.private_bytes * subscriptions / workers) / 1e6, 20.0],
            },
            "steps": {
                "driver_us": c.driver_s * 1e6,
                "step_rest_us": c.every_s * 1e6 * workers,
                "read_us": c.read_s * 1e6,
                "kernel_us": c.match_s * 1e6 * subscriptions,
                "deliveries_ns_per_row": c.delivery_s * 1e9,
            },
        },
    }


def test_reports_with_1_2_and_4_workers_tell_all_constants():
    """Also where four workers share two cores: their tasks then come in two waves."""
    reports = [report_of(workers) for workers in (1, 2, 4)]
    found = constants_of(reports)
    assert asdict(CONSTANTS) == pytest.approx(asdict(found))
    assert [1.0] * 3 == pytest.approx([row["ratio"] for row in check_rows(found, reports)])


def test_one_report_is_enough_for_a_first_guess():
    """What it cannot tell apart is fixed: the batch it was made of is still the model's."""
    report = report_of(2)
    found = constants_of([report])
    assert (0.0, 0.0) == (found.wave_s, found.task_s)
    assert [1.0] == pytest.approx([row["ratio"] for row in check_rows(found, [report])])


def test_no_constant_is_negative_where_figures_are_noise():
    reports = [report_of(workers) for workers in (1, 2, 4)]
    reports[2]["results"]["stream"]["tiny_batch_ms"] = 1.0
    assert min(asdict(constants_of(reports)).values()) >= 0


@pytest.mark.parametrize(
    ("changed", "first"),
    [({}, "divided"), ({"driver_s": 1e-4}, "driver"), ({"every_s": 1e-4}, "every"), ({"task_s": 0.1}, "fixed")],
)
def test_the_part_that_takes_longest_saturates_first(changed, first):
    row = cluster_row(replace(CONSTANTS, **changed), Cluster(10, 8), 100_000_000, trigger_s=10.0)
    assert first == row["first"]
    shares = [row[f"{name}_share"] for name in ("fixed", "driver", "every", "divided")]
    assert 1.0 == pytest.approx(sum(shares))
    assert max(shares) == row[f"{first}_share"]


def test_a_cluster_does_its_batch_within_the_trigger():
    row = cluster_row(CONSTANTS, Cluster(10, 8), 100_000_000, trigger_s=10.0, answers=50.0)
    time = batch_time(CONSTANTS, 10.0 * row["messages_per_s"], 100_000_000, 80, 80, 50.0)
    assert 10.0 == pytest.approx(time.total)
    assert 50.0 == pytest.approx(row["deliveries_per_s"] / row["messages_per_s"])
    assert 190.0 * 1e8 / 10 / 1e9 == pytest.approx(row["mapped_gb"])
    assert 8 * (8e7 + 100.0 * 1e8 / 80) / 1e9 == pytest.approx(row["private_gb"])


def test_a_trigger_too_short_for_its_tasks_holds_nothing():
    row = cluster_row(CONSTANTS, Cluster(100, 8), 100_000_000, trigger_s=1.0)
    assert (0.0, "fixed", 1.0) == (row["messages_per_s"], row["first"], row["fixed_share"])


def test_the_command(nearcast, tmp_path):
    """It prints what was measured beside the model, then a line for each cluster; mistakes are told."""
    paths = []
    for workers in (1, 2, 4):
        paths.append(tmp_path / f"{workers}.json")
        paths[-1].write_text(json.dumps(report_of(workers)))
    out = tmp_path / "model.json"
    result = nearcast("bench", "cluster", *paths, "--cluster", "3x4", "--json", out)
    assert result.status == 0, result.err
    assert "3 x 4" in result.out
    (row,) = json.loads(out.read_text())["clusters"]
    assert row == pytest.approx(
        cluster_row(constants_of([report_of(n) for n in (1, 2, 4)]), Cluster(3, 4), 10**8, 10.0)
    )
    assert "expected hosts and cores of each" in nearcast("bench", "cluster", *paths, "--cluster", "3").err
    (tmp_path / "none.json").write_text("[]")
    assert "is no report of nearcast bench spark" in nearcast("bench", "cluster", tmp_path / "none.json").err


@pytest.mark.parametrize("fault", ["kind", "steps"])
def test_reports_that_tell_too_little_are_refused(fault):
    report = report_of(2)
    if fault == "kind":
        report["workload"]["kind"] = "topk"
    else:
        del report["results"]["steps"]
    with pytest.raises(InvalidInput, match="--kind within" if fault == "kind" else "lacks the steps"):
        constants_of([report])
