"""Snapshots of large partitions: begun at the end of a step, written beside the next ones, named by one of these."""

import threading

import pytest

from faults.small_stream import SmallStream
from nearcast.pipeline.driver import pipeline, snapshot_costs
from nearcast.pipeline.driver.snapshot_costs import MOST_TIMES, SnapshotCosts
from nearcast.pipeline.store.local_place import StoreError
from nearcast.pipeline.store.manifest import Manifests
from nearcast.pipeline.store.store import Store
from nearcast.pipeline.worker import late_snapshot, tasks
from nearcast.pipeline.worker.late_snapshot import LateSnapshot, WrittenSnapshot
from nearcast.pipeline.worker.partition import Partition
from nearcast.pipeline.worker.tasks import SnapshotNews, StepResult, forget_all
from support.waiting import join, wait_until

BATCHES = 7


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch):
    """Every snapshot may be late, from the first step of a start on."""
    monkeypatch.setattr(tasks, "LARGE", -1)
    monkeypatch.setattr(snapshot_costs, "YOUNG_STEPS", 0)


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """What a stream on one partition delivers that nobody disturbs."""
    return stream_in(tmp_path_factory.mktemp("clean")).clean()


def stream_in(folder):
    return SmallStream(folder, partitions=1, batches=BATCHES, messages=5)


def started(stream, every=2):
    forget_all()
    driver = stream.started()
    driver.snapshot_every = every
    return driver


def late_threads():
    return [thread for thread in threading.enumerate() if thread.name == "nearcast snapshot"]


def settled():
    for thread in late_threads():
        join(thread)


def run(stream, driver, batch):
    driver.run(batch, stream.given[batch])
    settled()


def entries(driver):
    return driver.state.manifest.partitions


@pytest.mark.parametrize(
    ("plan", "options"),
    [("prefix", {}), ("trigger", {"window": None}), ("trigger", {"lifetime": "20s"})],
    ids=["window and copies", "boolean", "lifetime"],
)
def test_a_stream_goes_on_from_snapshots_of_earlier_batches(tmp_path, plan, options):
    """The next batch names what the last one began, with the deltas since; a start from there delivers the same."""
    stream = SmallStream(tmp_path, plan=plan, partitions=2, batches=BATCHES, messages=5, **options)
    clean = stream.clean()
    driver = started(stream)
    named = set()
    for batch in range(BATCHES):
        run(stream, driver, batch)
        named |= {(entry.snapshot_batch, len(entry.deltas)) for entry in entries(driver)}
        if batch % 3 == 2:
            driver = started(stream)
    assert any(snapshot >= 0 and n_deltas for snapshot, n_deltas in named)
    assert stream.delivered() == clean


def test_no_step_waits_for_a_snapshot_that_is_being_written(tmp_path, clean, monkeypatch):
    """Batches go on, nobody begins another one or sweeps it, and it is as the state was when it was begun."""
    stream = stream_in(tmp_path)
    may_write = threading.Event()
    write_all = late_snapshot.write_all

    def waiting(writes):
        assert may_write.wait(1200.0)
        write_all(writes)

    monkeypatch.setattr(late_snapshot, "write_all", waiting)
    driver = started(stream, every=1)
    reports = [driver.run(batch, stream.given[batch]) for batch in range(5)]
    assert [0] * 5 == [report.snapshots for report in reports]
    assert [-1] == [entry.snapshot_batch for entry in entries(driver)]
    assert 1 == len(late_threads())
    may_write.set()
    settled()
    assert 1 == driver.run(5, stream.given[5]).snapshots
    assert [(0, 5)] == [(entry.snapshot_batch, len(entry.deltas)) for entry in entries(driver)]
    driver = started(stream)
    for batch in range(6, BATCHES):
        driver.run(batch, stream.given[batch])
    settled()
    assert stream.delivered() == clean


def test_runs_of_one_batch_each_do_not_wait_for_a_later_one(tmp_path, clean, monkeypatch):
    """A job that is started every hour for what is there writes its snapshots before it ends."""
    monkeypatch.undo()
    monkeypatch.setattr(tasks, "LARGE", -1)
    stream = stream_in(tmp_path)
    named = []
    for batch in range(BATCHES):
        driver = started(stream)
        driver.run(batch, stream.given[batch])
        assert [] == late_threads()
        named.append(max(entry.snapshot_batch for entry in entries(driver)))
        assert all(len(entry.deltas) <= 2 for entry in entries(driver))
    assert BATCHES - 2 <= named[-1]
    assert stream.delivered() == clean


def test_one_that_was_never_named_when_it_had_to_be_is_written_at_once():
    """Workers that always end before they are done would else never leave any."""
    costs = SnapshotCosts()
    for _ in range(snapshot_costs.YOUNG_STEPS):
        costs.note(0, result(1.0))
    assert costs.may_be_late(0, MOST_TIMES * 20, 20)
    assert not costs.may_be_late(0, MOST_TIMES * 20 + 1, 20)


def test_with_a_divided_window_none_is_late(tmp_path):
    """A step that asks other parts forgets its state, and would forget what it began."""
    stream = SmallStream(tmp_path, partitions=2, batches=4, messages=5, window_parts=2)
    clean = stream.clean()
    driver = started(stream)
    for batch in range(4):
        driver.run(batch, stream.given[batch])
        assert [] == late_threads()
    assert all(entry.snapshot_batch >= 1 for entry in entries(driver))
    assert stream.delivered() == clean


def test_one_that_was_finished_before_a_sweep_is_spared(tmp_path, clean, monkeypatch):
    """No manifest names it yet: the next step does."""
    sweep_every = BATCHES - 2
    monkeypatch.setattr(pipeline, "SWEEP_EVERY", sweep_every)
    stream = stream_in(tmp_path)
    driver = started(stream, every=None)
    for batch in range(sweep_every):
        driver.run(batch, stream.given[batch])
    sweep, swept = Manifests.sweep, []

    def after_it_was_finished(*arguments, **options):
        settled()
        swept.append(options["spare"])
        sweep(*arguments, **options)

    monkeypatch.setattr(Manifests, "sweep", after_it_was_finished)
    driver.snapshot_every = 1
    for batch in (sweep_every, sweep_every + 1):
        driver.run(batch, stream.given[batch])
    assert [1] == [len(spare) for spare in swept]
    assert [sweep_every] == [entry.snapshot_batch for entry in entries(driver)]
    settled()
    assert stream.delivered() == clean


def test_a_store_that_cannot_tell_fails_no_step(tmp_path, clean, monkeypatch):
    """Whether a snapshot is there: it is told as a problem, and another one is written."""
    stream = stream_in(tmp_path)
    driver = started(stream, every=1)
    run(stream, driver, 0)

    def timing_out(_):
        raise StoreError("timed out")

    with monkeypatch.context() as patch:
        patch.setattr(LateSnapshot, "written", property(timing_out))
        told = driver.run(1, stream.given[1]).snapshot_problem
    assert "timed out" in told
    settled()
    for batch in range(2, BATCHES):
        run(stream, driver, batch)
    assert entries(driver)[0].snapshot_batch >= 1
    assert stream.delivered() == clean


def test_a_snapshot_that_fails_is_told_by_a_later_step(tmp_path, clean, monkeypatch):
    """Whether taking it or writing it failed: batches are committed, and the next attempt succeeds."""
    stream = stream_in(tmp_path)
    driver = started(stream, every=1)

    def broken(*_):
        raise OSError(5, "Input/output error")

    for owner, name, told in ((late_snapshot, "write_all", [False, True]), (Partition, "save", [True, True])):
        first = driver.state.manifest.batch + 1
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            reports = []
            for batch in (first, first + 1):
                reports.append(driver.run(batch, stream.given[batch]))
                settled()
        assert told == [report.snapshot_problem is not None for report in reports], name
    for batch in range(4, BATCHES):
        run(stream, driver, batch)
    assert entries(driver)[0].snapshot_batch >= 4
    driver = started(stream)
    assert stream.delivered() == clean


def test_one_that_was_swept_meanwhile_is_not_named(tmp_path):
    """A partition went to another worker and back: its first snapshot is none any more."""
    store = Store(str(tmp_path))
    name = store.unique("snapshots", 3, 0)
    late = LateSnapshot(store, name, 3, lambda folder: (folder / "x").write_bytes(b"1"), "gone")
    late.join()
    wait_until(lambda: late.is_done)
    assert (name, 3, None) == (late.written.name, late.written.batch, late.problem)
    store.delete([name])
    assert late.written is None


def test_a_store_that_takes_no_folder_raises_before_anything_is_taken(tmp_path):
    (tmp_path / "snapshots").write_text("no folder")
    store = Store(str(tmp_path))
    with pytest.raises(Exception, match="snapshots"):
        LateSnapshot(store, store.unique("snapshots", 3, 0), 3, lambda _: pytest.fail("taken"), "gone")


def test_a_draft_that_a_stopped_worker_left_is_swept_by_the_next_driver(tmp_path, clean, monkeypatch):
    stream = stream_in(tmp_path)
    stop = threading.Event()

    def stopped(_):
        assert stop.wait(1200.0)
        raise OSError("the worker is gone")

    monkeypatch.setattr(late_snapshot, "write_all", stopped)
    driver = started(stream, every=1)
    driver.run(0, stream.given[0])
    assert len(driver.store.sizes(with_hidden=True)) > len(driver.store.sizes())
    monkeypatch.undo()
    driver = started(stream)
    assert len(driver.store.sizes(with_hidden=True)) == len(driver.store.sizes())
    stop.set()
    settled()
    stream.run(driver)
    assert stream.delivered() == clean
    named = {entry.snapshot for entry in Manifests(driver.store).last().partitions}
    assert named <= set(driver.store.list("snapshots/"))


def result(seconds, news=SnapshotNews()):  # noqa: B008 - a value that does not change
    return StepResult("delta", None, None, 0, 0, seconds, snapshots=news)


def test_a_snapshot_that_takes_long_waits_until_it_has_paid():
    """It is due when steps have taken ten times its seconds, or after ten times as many batches as others."""
    costs = SnapshotCosts()
    assert costs.is_worth_it(0, 20, 20)
    costs.note(0, result(100.0, SnapshotNews(in_the_making="a")))
    assert ["a"] == costs.in_the_making
    costs.note(0, result(1.0, SnapshotNews(in_the_making="a")))
    costs.note(0, result(1.0, SnapshotNews(WrittenSnapshot("a", 3, 2.0))))
    assert [] == costs.in_the_making
    assert not costs.is_worth_it(0, 20, 20)
    assert costs.is_worth_it(1, 20, 20)
    assert costs.is_worth_it(0, MOST_TIMES * 20, 20)
    for _ in range(18):
        assert not costs.is_worth_it(0, 20, 20)
        costs.note(0, result(1.0))
    assert costs.is_worth_it(0, 20, 20)


def test_a_small_snapshot_costs_nothing():
    costs = SnapshotCosts()
    costs.note(0, result(0.0, SnapshotNews(WrittenSnapshot("a", 3))))
    assert costs.is_worth_it(0, 1, 1)
