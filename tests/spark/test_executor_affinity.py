"""On a cluster a partition runs in the executor that ran it last; one that is killed costs time and nothing else."""

import json
import os
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from faults import cluster_driver
from nearcast.spark.claims import executor_claims, executor_folder
from nearcast.spark.runner import SparkRunner
from nearcast.spark.stream import _pipeline
from nearcast.spark.stream_options import StreamOptions
from nearcast.spark.task_places import ExecutorPlace, TaskPlaces, distributed, given_in
from support import waiting

pytest.importorskip("pyspark")


def test_partitions_stay_with_their_executor_and_survive_its_death(tmp_path):
    """What is preferred is what ran the partition last, Spark keeps to it, and deliveries are those of a clean run."""
    clean = cluster_driver.stream_in(tmp_path).clean()
    tests = str(Path(cluster_driver.__file__).parents[1])
    path = os.pathsep.join(filter(None, (tests, os.environ.get("PYTHONPATH"))))
    ended = waiting.run(
        [sys.executable, cluster_driver.__file__, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )
    assert 0 == ended.returncode, ended.stderr[-4000:]
    assert clean == cluster_driver.stream_in(tmp_path).delivered()
    seen = json.loads((tmp_path / "places.json").read_text())
    assert cluster_driver.BATCHES == len(seen)
    for before, batch in pairwise(seen):
        wanted = {number: place for number, place in batch["wanted"].items() if place is not None}
        assert wanted.items() <= before["ran"].items()
        if batch["killed"] == before["killed"]:
            assert wanted
            assert wanted.items() <= batch["ran"].items()
        assert not set(batch["killed"]) & set(batch["ran"].values())


class Ref(SimpleNamespace):
    def __hash__(self):
        return self.number


def payloads_of(n, store="a"):
    return [SimpleNamespace(ref=Ref(store=store, number=number)) for number in range(n)]


def executors(*ids):
    """Return a context whose executors these are."""
    found = SimpleNamespace(size=lambda: len(ids), apply=lambda at: ids[at])
    return SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(getExecutorIds=lambda: found)))


def test_an_executor_is_preferred_for_its_share_only():
    """What it has beyond that may go anywhere, as may what belonged to one that is gone."""
    places, payloads = TaskPlaces(), payloads_of(5)
    assert [None] * 5 == places.preferred(payloads, None)
    for payload, id_ in zip(payloads, ["1", "1", "1", "1", "2"], strict=True):
        places.note(payload, ExecutorPlace(id_, "host"), 1)
    assert [each and each.id for each in places.preferred(payloads, executors("1", "2"))] == ["1", "1", "1", None, "2"]
    assert [each and each.id for each in places.preferred(payloads, executors("2", "3"))] == [None] * 4 + ["2"]
    assert [each and each.id for each in places.preferred(payloads[:4], executors("1"))] == ["1"] * 4
    assert [None] * 5 == places.preferred(payloads_of(5, "b"), None)
    places.note(payloads[4], None, 1)
    assert "2" == places.preferred(payloads[4:], executors("2"))[0].id


def test_spark_is_told_the_places_of_tasks_that_have_one(spark):
    """Each payload is given once; those with a place come first."""
    given = [(at, b"\0" * at) for at in range(4)]
    places = [None, ExecutorPlace("7", "my_host"), None, ExecutorPlace("8", "b")]
    made = distributed(spark.sparkContext, given, places)
    rdd = made._jrdd.rdd()
    wished = [rdd.preferredLocations(partition).mkString("|") for partition in rdd.partitions()]
    assert ["executor_my-host_7", "executor_b_8", "", ""] == wished
    assert [given[at] for at in (1, 3, 0, 2)] == [given_in(row) for row in made.collect()]
    assert given == [given_in(row) for row in distributed(spark.sparkContext, given).collect()]


def test_where_the_driver_runs_tasks_itself_nothing_is_placed(spark):
    runner = SparkRunner(spark)
    assert [0, 1] == runner.map(number_of, payloads_of(2))
    assert {} == runner.places._last


def number_of(payload):
    from nearcast.spark.task_places import executor_here

    assert executor_here() is None
    return payload.ref.number


def test_workers_of_an_executor_claim_in_a_folder_of_its_own(tmp_path, monkeypatch):
    """A job has a folder that no other has, and takes away those of earlier jobs of its stream."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    names = [executor_claims(f"/{stream}/claims/e1/{job}") for stream in "ab" for job in (1, 1, 2)]
    folders = [executor_folder(name) for name in names]
    assert 6 == len(set(folders))
    assert [folders[2], folders[5]] == [folder for folder in folders if folder.exists()]
    assert all(folder.is_relative_to(tmp_path / "nearcast-claims") for folder in folders)
    assert folders[5] == executor_folder(names[5])


@pytest.mark.parametrize("is_remote", [True, False])
def test_workers_claim_on_this_host_wherever_the_checkpoint_is(spark, tmp_path, is_remote):
    """In the checkpoint if that is a folder, which all hosts see; else in a folder that goes with the driver."""
    checkpoint = f"memory://{tmp_path.name}" if is_remote else str(tmp_path)
    options = StreamOptions(
        str(tmp_path / "in"), pa.table({}), str(tmp_path / "out"), checkpoint, partitions=2, space="plane"
    )
    claims = Path(_pipeline(options, spark)._claims)
    assert is_remote is not claims.is_relative_to(tmp_path)
    assert claims.parent.is_dir() or not is_remote
