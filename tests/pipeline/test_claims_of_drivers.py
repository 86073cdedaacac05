"""Claims of tasks on payloads: a task of a dead driver takes none of the driver that came after it."""

import shutil
from pathlib import Path

import pytest

from faults.small_stream import SmallStream
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.worker.tasks import step_batch
from nearcast.spark.claims import Claims


class ClaimingRunner(LocalRunner):
    """Lets tasks claim their payloads as those of Spark do."""

    def __init__(self, before_tasks=lambda _: None):
        self.before_tasks, self.folders = before_tasks, []

    def map(self, task, payloads, *, claims=None, prefer=None):
        if claims is None:
            return super().map(task, payloads)
        self.folders.append(claims)
        shutil.rmtree(claims, ignore_errors=True)
        Path(claims).mkdir(parents=True)
        if task is step_batch:
            self.before_tasks(len(payloads))
        taken = [Claims(claims, len(payloads)).take(at, False, []) for at in range(len(payloads))]
        results = dict(zip(taken, [task(payloads[at]) for at in taken], strict=True))
        shutil.rmtree(claims)
        return [results[at] for at in range(len(payloads))]


class DriverKilled(Exception):
    """What stands for the end of a driver while its tasks run."""


def test_a_task_of_a_dead_driver_takes_no_payload_of_the_next_one(tmp_path):
    stream = SmallStream(tmp_path, batches=2)
    clean = stream.clean()

    def killed(_):
        raise DriverKilled

    dead = ClaimingRunner(killed)
    driver = stream.started(runner=dead, claims=str(tmp_path / "claims"))
    with pytest.raises(DriverKilled):
        stream.run(driver, 0)

    def late_task(n):
        with pytest.raises(FileNotFoundError):
            Claims(dead.folders[-1], n).take(1, False, [0])

    second = stream.started(runner=ClaimingRunner(late_task), claims=str(tmp_path / "claims"))
    stream.run(second)
    assert stream.delivered() == clean
    assert not [path for path in (tmp_path / "claims").rglob("*") if path.is_file()]
