"""A partition waits for the worker that has its state, if that is busy for a moment; else another one takes it."""

import importlib
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from nearcast.spark.claims import Claims
from nearcast.spark.runner import SparkRunner
from nearcast.spark.task_places import TaskPlaces
from support.waiting import join, wait_until

pytest.importorskip("pyspark")
runner_module = importlib.import_module("nearcast.spark.runner")

#: How long the worker of one partition is busy with something else after the other one was run.
BUSY_S = 0.5


class Ref(NamedTuple):
    """Names a state, as that of a partition does."""

    store: str
    number: int


class Payload(NamedTuple):
    """What a task needs: a state, and the folder where it notes its worker."""

    ref: Ref
    folder: str


def run(payload):
    """Return the worker, and note that it ran."""
    (Path(payload.folder) / f"ran-{payload.ref.number}").write_text(str(os.getpid()))
    return os.getpid()


def run_beside(payload):
    """Run while another task runs: two by two, so that each of two workers has half of them."""
    begun = Path(payload.folder) / "begun"
    begun.mkdir(exist_ok=True)
    (begun / str(payload.ref.number)).touch()
    wait_until(lambda: 2 * (payload.ref.number // 2 + 1) <= len(list(begun.iterdir())))
    return os.getpid()


def keep_busy(folder):
    """Take a slot and a worker until a file is there."""
    (Path(folder) / "busy").write_text(str(os.getpid()))
    wait_until((Path(folder) / "enough").exists)


class TwoSlots:
    """Four states in a session of two slots, one of which can be kept busy."""

    def __init__(self, spark, folder):
        self.runner, self.folder = SparkRunner(spark), folder
        self.payloads = [Payload(Ref(str(folder), number), str(folder)) for number in range(4)]
        self.n_jobs = 0

    def map(self, task):
        self.n_jobs += 1
        return self.runner.map(task, self.payloads, claims=str(self.folder / f"claims-{self.n_jobs}"))

    def first(self):
        """Return the workers, two, that have the states."""
        found = self.map(run_beside)
        assert [2, 2] == [found.count(worker) for worker in {*found}]
        return found

    def busy(self):
        """Begin a task that keeps a slot until `enough`."""
        thread = threading.Thread(target=self.runner.map, args=(keep_busy, [str(self.folder)]))
        thread.start()
        wait_until((self.folder / "busy").exists)
        return thread

    def enough(self):
        (self.folder / "enough").touch()


@pytest.fixture
def two_slots(spark, tmp_path):
    if 2 != spark.sparkContext.defaultParallelism:
        pytest.skip("a session with two slots")
    return TwoSlots(spark, tmp_path)


def test_a_partition_waits_for_the_worker_that_has_it(two_slots):
    """One slot is busy, so all tasks come to the other worker, which takes none but its own."""
    first = two_slots.first()
    thread = two_slots.busy()
    seen = []

    def release():
        wait_until(lambda: list(two_slots.folder.glob("ran-*")))
        time.sleep(BUSY_S)
        seen.extend(path.name for path in two_slots.folder.glob("ran-*"))
        two_slots.enough()

    releasing = threading.Thread(target=release)
    releasing.start()
    assert first == two_slots.map(run)
    join(thread)
    join(releasing)
    busy = int((two_slots.folder / "busy").read_text())
    assert [f"ran-{number}" for number, worker in enumerate(first) if worker != busy] == sorted(seen)


def test_it_does_not_wait_for_ever(two_slots, monkeypatch):
    """A worker that stays busy loses its partition, and the next run goes to the one that has it now."""
    monkeypatch.setattr(runner_module, "_WAIT_S", 0.1)
    first = two_slots.first()
    thread = two_slots.busy()
    busy = int((two_slots.folder / "busy").read_text())
    assert {*first} - {busy} == {*two_slots.map(run)}
    two_slots.enough()
    join(thread)


def test_it_waits_for_nobody_who_is_dead(two_slots):
    """Whoever is there takes it at once."""
    first = two_slots.first()
    for payload in two_slots.payloads:
        two_slots.runner.places.note(payload, None, 2**22 + 1)  # beyond the highest number a process can have
    assert set(two_slots.map(run)) <= set(first)


def test_a_worker_is_waited_for_with_its_share_only():
    """Who was first and has everything gives the rest to others."""
    places = TaskPlaces()
    payloads = [SimpleNamespace(ref=Ref("a", number)) for number in range(5)]
    assert [None] * 5 == places.workers(payloads, 2)
    for payload in payloads:
        places.note(payload, None, 7)
    assert [7, 7, 7, None, None] == places.workers(payloads, 2)
    assert [7] * 5 == places.workers(payloads, 1)
    assert [None] == places.workers([1], 1)


def test_what_is_barred_is_left_over(tmp_path):
    """Also by whom has an older copy of it, and by a task beyond those that have a payload of their own."""
    claims = Claims(tmp_path, 3)
    assert claims.take(0, False, [1], barred=[0, 1, 2]) is None
    assert 2 == claims.take(1, False, [0], barred=[0, 1])
    assert 1 == claims.take(5, False, [1], barred=[0])
    assert claims.take(2, False, [], barred=[0]) is None
    assert 0 == claims.take(2, True, [])
