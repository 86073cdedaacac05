"""A driver of a small stream on `local-cluster[2,1,1024]`: a program, one of whose executors is killed on the way.

It writes what it saw to places.json: for each batch the executors that partitions were to run in, where they did run,
and those that had been killed by then.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from faults.processes import command_of, pids
from faults.small_stream import SmallStream
from support.spark_session import FOR_SHORT_LIVES
from support.waiting import wait_until

MASTER = "local-cluster[2,1,1024]"
PARTITIONS, BATCHES, KILLED_AFTER = 4, 4, 1


def stream_in(folder):
    """Return the stream that the program drives; workers would load the kernels of top-k for seconds."""
    kinds = ("within", "similar")
    return SmallStream(folder, partitions=PARTITIONS, batches=BATCHES, messages=5, changes=2, kinds=kinds)


class WatchedPlaces:
    """Notes what the places of a runner prefer, and where tasks ran."""

    def __init__(self, places):
        self._places, self.wanted, self.ran = places, {}, {}

    def preferred(self, payloads, context):
        found = self._places.preferred(payloads, context)
        for payload, place in zip(payloads, found, strict=True):
            if hasattr(payload, "ref"):
                self.wanted[payload.ref.number] = place and place.id
        return found

    def workers(self, payloads, slots):
        return self._places.workers(payloads, slots)

    def note(self, payload, place, worker):
        self._places.note(payload, place, worker)
        if hasattr(payload, "ref"):
            self.ran[payload.ref.number] = place.id


def executors_of(application):
    """Return the processes of the executors of an application, by their ids."""
    words = {pid: command_of(pid).split() for pid in pids()}
    return {
        each[each.index("--executor-id") + 1]: pid
        for pid, each in words.items()
        if "--executor-id" in each and application in each
    }


def drive(folder):
    from nearcast.spark.runner import SparkRunner
    from nearcast.spark.session import session
    from nearcast.spark.task_places import alive_executors

    # No task of a loaded machine waits so long that Spark sends it elsewhere; executors live for seconds.
    settings = {"spark.locality.wait": "60s", "spark.executor.extraJavaOptions": FOR_SHORT_LIVES}
    spark = session(MASTER, app="nearcast affinity", settings=settings)
    application = spark.sparkContext.applicationId
    try:
        wait_until(lambda: 2 == len(executors_of(application)))
        stream, runner = stream_in(folder), SparkRunner(spark)
        runner.places = WatchedPlaces(runner.places)
        driver = stream.started(runner=runner, claims=str(folder / "claims"))
        seen, killed = [], []
        for batch in range(BATCHES):
            runner.places.wanted.clear()
            stream.run(driver, batch)
            seen.append({"wanted": dict(runner.places.wanted), "ran": dict(runner.places.ran), "killed": [*killed]})
            if batch == KILLED_AFTER:
                killed.append(runner.places.ran[0])
                os.kill(executors_of(application)[killed[0]], signal.SIGKILL)
                # Until then Spark gives it tasks, and lets them wait as above before they go elsewhere.
                wait_until(lambda: killed[0] not in alive_executors(spark.sparkContext))
        (folder / "places.json").write_text(json.dumps(seen))
    finally:
        spark.stop()
        remove_work(application)


def remove_work(application):
    """Remove what executors of local-cluster leave in the folder of Spark."""
    import pyspark

    work = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "work"
    shutil.rmtree(work / application, ignore_errors=True)
    if work.is_dir() and not any(work.iterdir()):
        work.rmdir()


if __name__ == "__main__":
    drive(Path(sys.argv[1]))
