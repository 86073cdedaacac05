"""Errors that may pass are tried again by Spark; files that are gone stop a stream, or are rejected when asked for."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast.errors import FileMissing, IncompatibleStore, StoreUnavailable
from nearcast.pipeline.store.store import StoreConflict, StoreError
from nearcast.spark.runner import SparkRunner
from nearcast.spark.stream import stream


def fail_until(payload):
    """Raise the error of a payload until it was tried so often; each attempt leaves a file."""
    folder, error, times = payload
    attempts = len(list(Path(folder).iterdir()))
    (Path(folder) / str(attempts)).touch()
    if attempts < times:
        raise error
    return attempts


@pytest.mark.parametrize("error", [StoreError("no connection"), StoreUnavailable("not visible")])
def test_a_store_that_fails_for_a_moment(spark, tmp_path, error):
    """The task is tried again, and its result counts."""
    assert [2] == SparkRunner(spark).map(fail_until, [(str(tmp_path), error, 2)])


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (StoreError("no connection"), 4),
        (FileMissing("a: gone"), 4),
        (StoreConflict("two"), 1),
        (IncompatibleStore("x"), 1),
    ],
)
def test_a_store_that_fails_for_good(spark, tmp_path, error, attempts):
    """After the last attempt the error is raised as what it was; one that cannot pass is raised at once."""
    with pytest.raises(type(error)) as raised:
        SparkRunner(spark).map(fail_until, [(str(tmp_path), error, 99)])
    assert (type(error), str(error)) == (type(raised.value), str(raised.value))
    assert attempts == len(list(tmp_path.iterdir()))


def begun(spark, tmp_path, **options):
    """Run a stream over two files, a batch each, the second of which is deleted after Spark has listed both."""
    folder = tmp_path / "messages"
    folder.mkdir(exist_ok=True)
    for id_, name in enumerate(["a b.jsonl", "c d.jsonl"]):
        row = {"id": id_, "text": "coffee", "x": 1.0, "y": 1.0}
        (folder / name).write_text(json.dumps(row) + "\n")
    running = stream(
        str(folder),
        pa.table({"id": [1], "kind": ["within"], "query": ["coffee"]}),
        out=str(tmp_path / "out"),
        checkpoint=str(tmp_path / "K"),
        space="plane",
        partitions=1,
        once=True,
        at_once=1,
        spark=spark,
        on_batch=lambda _: _delete_the_other(folder, tmp_path / "out"),
        **options,
    )
    running.wait()
    return running


def _delete_the_other(folder, out):
    """Delete the file whose message was not delivered yet."""
    for id_, name in enumerate(["a b.jsonl", "c d.jsonl"]):
        if id_ not in _delivered(out):
            (folder / name).unlink(missing_ok=True)


def _delivered(out):
    return sorted(id_ for path in out.glob("part-*.parquet") for id_ in pq.read_table(path)["message_id"].to_pylist())


def test_a_file_deleted_after_spark_listed_it(spark, tmp_path):
    """The stream ends, names the file and the option, and has committed nothing of that batch."""
    with pytest.raises(FileMissing, match=r"messages/(a b|c d)\.jsonl: there is no such file; .*skip_missing_files"):
        begun(spark, tmp_path)
    assert 1 == len(_delivered(tmp_path / "out"))
    assert not list((tmp_path / "out").glob("_rejected/part-*"))
    assert not (tmp_path / "K" / "nearcast" / "manifests" / "00000001.json").exists()


def test_going_on_without_a_file_deleted_after_spark_listed_it(spark, tmp_path):
    """It is a rejected row that names it, in the batch it was listed for; so it is where the folder is a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "messages").symlink_to(tmp_path / "real")
    begun(spark, tmp_path, skip_missing_files=True)
    assert 1 == len(_delivered(tmp_path / "out"))
    (part,) = (tmp_path / "out" / "_rejected").glob("part-*.jsonl")
    (row,) = map(json.loads, part.read_text().splitlines())
    assert "part-00000001.jsonl" == part.name
    assert row["source"] in ("a b.jsonl", "c d.jsonl")
    assert row["reason"].endswith("there is no such file")
