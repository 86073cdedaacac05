"""`nearcast bench spark`: that the stream is compared with the local engine, plans with each other, and memory told."""

import csv

import pytest

from nearcast.bench.answers import AnswersDiffer
from nearcast.bench.data.distances import MaxDistance
from nearcast.bench.data.workloads import generated
from nearcast.bench.spark.batch_steps import TimedRunner, local_pipeline, sources, steps_of
from nearcast.bench.spark.comparison import _must_equal
from nearcast.bench.spark.data import TINY, stream_workload
from nearcast.bench.spark.figures import FIGURES
from nearcast.bench.spark.local_engine import local_hub, run_locally
from nearcast.bench.spark.plans import _must_deliver_the_same, measured
from nearcast.bench.spark.processes import cpu_seconds, private_bytes, processes, resident
from nearcast.bench.spark.soak import Soak, summary
from nearcast.window import Window

REACH = MaxDistance(usual_share=1.0)


@pytest.fixture(scope="module")
def within(tmp_path_factory):
    workload = generated(subscriptions=400, messages=60)
    return stream_workload(workload, tmp_path_factory.mktemp("w") / "m", kind="within", batch=30, files_per_batch=2)


@pytest.fixture(scope="module")
def topk(tmp_path_factory):
    workload = REACH.applied(generated(kind="topk", subscriptions=60, messages=100))
    return stream_workload(
        workload,
        tmp_path_factory.mktemp("k") / "m",
        kind="topk",
        batch=20,
        files_per_batch=1,
        window=Window.of(40),
        n_before=40,
        n_warm_up=20,
    )


def test_files_come_in_order_and_hold_every_measured_message(within, topk):
    assert (len(within.measured), len(within.measured[0]), within.n_before) == (2, 2, 2)
    assert (len(topk.filling), len(topk.warming), len(topk.measured), topk.n_before) == (2, 1, 2, 3)
    paths = sorted(within.folder.iterdir())
    stamps = [path.stat().st_mtime for path in paths]
    assert stamps == sorted(stamps)
    assert len(set(stamps)) == len(paths)
    assert (within.n_measured, topk.n_measured) == (60, 40)
    assert len(within.tiny[0]) == 2
    assert TINY == 10


@pytest.mark.parametrize("kind", ["within", "topk"])
def test_the_pipeline_delivers_what_the_local_engine_does(kind, request, tmp_path):
    given = request.getfixturevalue(kind)
    local = run_locally(local_hub(given), given.measured, tmp_path / "o.parquet", 1, is_topk=kind == "topk")
    pipeline = local_pipeline(given, tmp_path, TimedRunner(), "trigger", 2)
    found = []
    n = given.files_per_batch
    filling = [given.filling[at : at + n] for at in range(0, len(given.filling), n)]
    for number, batch in enumerate([*filling, *given.warming, *given.measured]):
        report = pipeline.run(number, sources(batch))
        found.append(report.deliveries)
    assert local.deliveries == found[given.n_before :]
    _must_equal(local.deliveries, found[given.n_before :])
    with pytest.raises(AnswersDiffer, match="measured batch 0"):
        _must_equal([1], [2])


def test_the_steps_of_a_batch_add_up(within, tmp_path):
    steps = steps_of(within, tmp_path, plan="trigger", partitions=2)
    parts = ("read_us", "kernel_us", "deliveries_us", "step_rest_us", "driver_us")
    assert sum(steps[part] for part in parts) == pytest.approx(steps["all_us"], abs=0.01)
    assert steps["messages"] == 30
    assert steps["changes"] == within.subscriptions.num_rows
    assert steps["changes_per_s"] > 0


def test_plans_are_compared(topk, tmp_path):
    rows = {plan: measured(topk, tmp_path / plan, plan, 4) for plan in ("hash", "keyword")}
    assert rows["hash"]["tuples_per_message"] == 4
    assert rows["hash"]["replication"] == 1
    assert rows["keyword"]["replication"] > 1
    assert rows["keyword"]["hops_per_message"] > 0
    assert len({row["deliveries_hash"] for row in rows.values()}) == 1
    known = {("data", plan, 4): row for plan, row in rows.items()}
    _must_deliver_the_same(known, "data")
    known["data", "prefix", 4] = {"deliveries_hash": "another"}
    with pytest.raises(AnswersDiffer, match="plan hash with 4 partitions and plan prefix"):
        _must_deliver_the_same(known, "data")


def test_a_figure_is_drawn(nearcast, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setitem(FIGURES[0].points[0].options, "partitions", 2)  # for 32
    sizes = ("--scale", 0.002, "--messages", 20, "--source", "synthetic")
    result = nearcast("bench", "spark", "--figure", "plans", *sizes, "--out", tmp_path)
    assert result.status == 0, result.err
    assert (tmp_path / "spark-plans.png").stat().st_size > 10_000
    with (tmp_path / "spark-plans.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["series"] for row in rows] == ["hash", "location", "keyword", "prefix", "trigger"]
    assert {row["partitions"] for row in rows} == {"2"}
    assert "all plans deliver the same changes" in result.out


def test_figures_are_listed(nearcast):
    lines = nearcast("bench", "spark", "--figure", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == [figure.name for figure in FIGURES]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--figure", "none"), "there is no such figure; choose one of plans"),
        (("--figure", "plans", "--scale", "0"), "--scale 0.0: give a number above 0"),
        (("--scale", "2"), "--scale is for a --figure"),
        (("--out", "."), "--out is for a --figure or a --soak"),
        (("--out", "nowhere"), "there is no such folder"),
        (("--master", "yarn"), "expected local[N]"),
        (("--plan", "best"), "plan is 'best'; expected one of hash"),
        (("--plan", "space-first(2x2)", "--partitions", "3"), "whose product is 3"),
        (("--window", "5"), "--window, --warm-up and --window-mode are for --kind topk"),
        (("--kind", "topk", "--window", "1h"), "give a number of messages"),
        (("--soak", "0"), "--soak 0: give seconds"),
        (("--soak", "often"), "--soak often: give seconds, 1 or more, or such as 1h"),
        (("--json", "nowhere/r.json"), "there is no folder nowhere"),
    ],
)
def test_a_mistake_is_told_in_one_line(nearcast, arguments, complaint):
    result = nearcast("bench", "spark", "--subscriptions", 10, "--messages", 10, *arguments)
    assert result.status != 0
    assert complaint in result.complaint


def test_processes_are_measured():
    (me, *_) = processes()
    assert me.role == "driver"
    assert me.cpu_s > 0
    assert resident()["driver"] >= me.rss / 2
    assert 0 < private_bytes(me.pid) <= 1 << 40
    assert set(cpu_seconds()) == {"driver", "jvm", "workers", "all"}


def test_growth_is_told_from_noise():
    def samples(growth):
        rows = []
        for at in range(60):
            sizes = {"driver_mb": 100 + growth * at, "jvm_mb": 500 + at % 3, "workers_mb": 200}
            sizes |= {"state_mb": 10, "state_files": 30 + at % 5}
            rows.append({"seconds": at, **sizes})
        return rows

    assert summary(samples(0))["is_flat"] is True
    grown = summary(samples(1))
    assert grown["is_flat"] is False
    assert "driver grew (" in grown["verdict"]
    assert grown["driver_mb_per_hour"] == pytest.approx(3600)
    assert summary(samples(0)[:2])["is_flat"] is None


def test_a_soak_removes_nobody_twice(tmp_path):
    """However often it goes round: who is removed was stored, and half of each file's subscriptions are removed."""
    soak = Soak(generated(subscriptions=200, messages=10), tmp_path, None, None)
    stored = {f"s{i}" for i in range(200)}
    for _ in range(13):
        table = soak._changes()
        for id_, op in zip(table["id"].to_pylist(), table["op"].to_pylist(), strict=True):
            assert op == "subscribe" or id_ in stored
            (stored.add if op == "subscribe" else stored.remove)(id_)
    assert 75 <= len(stored) <= 125
