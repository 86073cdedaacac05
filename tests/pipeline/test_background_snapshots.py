"""Snapshots in the background: each failure is told once, they are counted, and too many end the stream."""

import pytest

from faults.small_stream import SmallStream
from nearcast.errors import NearcastError
from nearcast.pipeline.driver.background_snapshots import MOST_FAILURES, BackgroundSnapshots
from nearcast.pipeline.worker.partition import Partition


def fail(monkeypatch, times):
    """Let so many snapshots of partitions fail."""
    save, left = Partition.save, [None] * times

    def failing(partition, folder):
        if left:
            left.pop()
            raise OSError(5, "Input/output error")
        save(partition, folder)

    monkeypatch.setattr(Partition, "save", failing)


class Run:
    """A stream that goes from batch to batch as the one on Spark does."""

    def __init__(self, stream, every=1):
        self.stream, self.driver = stream, stream.started()
        self.snapshots = BackgroundSnapshots(self.driver, every)
        self.said = []

    def batch(self):
        self.snapshots.join()
        self.said.append(self.snapshots.take())
        batch = self.driver.state.manifest.batch + 1
        self.snapshots.begin_if_due(self.driver.run(batch, self.stream.given[batch]))

    def batches(self, n):
        for _ in range(n):
            self.batch()


@pytest.fixture
def stream(tmp_path):
    return SmallStream(tmp_path, batches=40, messages=1, changes=0, partitions=1)


@pytest.fixture
def failing(monkeypatch, stream):
    """A stream that has begun, whose partitions then fail to write so many times."""

    def begun(times):
        run = Run(stream)
        fail(monkeypatch, times)
        return run

    return begun


def test_a_failure_is_told_once_and_the_next_attempt_succeeds(failing):
    """No batch fails with it: its delta is there."""
    run = failing(2)
    run.batches(6)
    why, root = "snapshots could not be written", f"{run.driver.store.root}/snapshots/"
    assert [line and line.replace(root, "").partition(" cannot")[2] for line in run.said] == [
        None,
        " be written: Input/output error (failure 1 of 6 in a row; tried again with the next batch)",
        " be written: Input/output error (failure 2 of 6 in a row; tried again after 2 batches)",
        None,
        None,
        None,
    ]
    assert run.said[1].startswith(f"{why}: {root}0000000")
    assert run.snapshots.failures == 0
    assert run.driver.state.manifest.partitions[0].snapshot_batch == 5
    run.snapshots.join()


def test_too_many_failures_in_a_row_end_the_stream(failing, stream):
    """It goes on exactly meanwhile; the error says what to mend, and a restart finds all that was committed."""
    run = failing(99)
    with pytest.raises(NearcastError, match=f"Input/output error; that was failure {MOST_FAILURES} in a row, and the"):
        run.batches(40)
    told = [line for line in run.said if line is not None]
    assert len(told) == len(set(told)) == MOST_FAILURES - 1
    assert len(run.said) == 32
    assert stream.started().state.manifest.batch == 31


def test_a_directory_that_cannot_be_saved_is_such_a_failure(stream, monkeypatch):
    """What is saved before the thread begins fails in the same way, and not the batch that was committed before."""
    run = Run(stream)
    monkeypatch.setattr(run.driver, "snapshots_to_write", broken)
    run.batch()
    monkeypatch.undo()
    run.batch()
    assert run.said[1].startswith("snapshots could not be written: no room (failure 1 of")
    run.snapshots.join()


def broken():
    raise NearcastError("no room")


def test_one_set_is_written_at_a_time(stream):
    run = Run(stream, every=2)
    for _ in range(3):
        run.batch()
    run.snapshots.join()
    run.snapshots.begin_if_due()
    assert run.snapshots.take() is None
    stream.run(run.driver, 3)
    assert run.driver.state.manifest.directory_batch == 1
