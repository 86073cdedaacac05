"""Snapshots in the background: each failure is told once, they are counted, and too many end the stream."""

import pytest

from faults.small_stream import SmallStream
from nearcast.errors import NearcastError
from nearcast.pipeline.driver.background_snapshots import MOST_FAILURES, BackgroundSnapshots
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.worker.tasks import write_snapshot


class FailingRunner(LocalRunner):
    """Fails to write so many snapshots."""

    def __init__(self, failures):
        self.failures = failures

    def map(self, task, payloads, **more):
        if task is write_snapshot and self.failures:
            self.failures -= 1
            raise OSError(5, "Input/output error")
        return super().map(task, payloads, **more)


class Run:
    """A stream that goes from batch to batch as the one on Spark does."""

    def __init__(self, stream, runner):
        self.stream, self.driver = stream, stream.started(runner=runner)
        self.snapshots = BackgroundSnapshots(self.driver)
        self.said = []

    def batch(self, every=1):
        self.snapshots.join()
        self.said.append(self.snapshots.take())
        self.stream.run(self.driver, self.driver.state.manifest.batch + 1)
        self.snapshots.begin_if_due(every)

    def batches(self, n):
        for _ in range(n):
            self.batch()


@pytest.fixture
def stream(tmp_path):
    return SmallStream(tmp_path, batches=40, messages=1, changes=0, partitions=1)


def test_a_failure_is_told_once_and_the_next_attempt_succeeds(stream):
    run = Run(stream, FailingRunner(2))
    run.batches(6)
    assert run.said == [
        None,
        "snapshots could not be written: Input/output error (failure 1 of 6 in a row; tried again with the next batch)",
        "snapshots could not be written: Input/output error (failure 2 of 6 in a row; tried again after 2 batches)",
        None,
        None,
        None,
    ]
    assert run.snapshots.failures == 0
    assert run.driver.state.manifest.partitions[0].snapshot_batch == 4
    run.snapshots.join()


def test_too_many_failures_in_a_row_end_the_stream(stream):
    """It goes on exactly meanwhile; the error says what to mend, and a restart finds all that was committed."""
    run = Run(stream, FailingRunner(99))
    with pytest.raises(NearcastError, match=f"Input/output error; that was failure {MOST_FAILURES} in a row, and the"):
        run.batches(40)
    told = [line for line in run.said if line is not None]
    assert len(told) == len(set(told)) == MOST_FAILURES - 1
    assert len(run.said) == 32
    assert stream.started().state.manifest.batch == 31


def test_a_directory_that_cannot_be_saved_is_such_a_failure(stream, monkeypatch):
    """What is saved before the thread begins fails in the same way, and not the batch that was committed before."""
    run = Run(stream, LocalRunner())
    monkeypatch.setattr(run.driver, "snapshots_to_write", broken)
    run.batch()
    monkeypatch.undo()
    run.batch()
    assert run.said[1].startswith("snapshots could not be written: no room (failure 1 of")
    run.snapshots.join()


def broken():
    raise NearcastError("no room")


def test_one_set_is_written_at_a_time(stream):
    run = Run(stream, LocalRunner())
    for _ in range(3):
        run.batch(every=2)
    run.snapshots.join()
    run.snapshots.begin_if_due(1)
    assert run.snapshots.take() is None
    stream.run(run.driver, 3)
    assert run.driver.state.manifest.partitions[0].snapshot_batch == 1
