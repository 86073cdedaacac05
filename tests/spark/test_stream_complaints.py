"""What a stream complains of beside its batches, without Spark."""

import importlib
import warnings

import pytest

from nearcast.errors import NearcastError
from nearcast.spark.arrivals import BatchArrivals
from nearcast.spark.sources import InputFolders
from support.file_stream import FileStream

#: `nearcast.spark.stream` is the function of that name.
stream_module = importlib.import_module("nearcast.spark.stream")


def broken():
    raise NearcastError("no room")


def test_a_warning_of_snapshots_ends_no_stream_where_warnings_are_errors(tmp_path, monkeypatch):
    """It is told again with the next failure, and the batch that it came with is committed."""
    monkeypatch.setattr(stream_module, "SNAPSHOT_EVERY", 1)
    pipeline = FileStream(tmp_path, [{"id": 1, "query": "tea"}]).pipeline
    running = stream_module.Stream(pipeline, InputFolders({}), None)
    monkeypatch.setattr(running, "_arrivals", lambda *_: BatchArrivals([], None, None))
    monkeypatch.setattr(pipeline, "snapshots_to_write", broken)
    running._run(None, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        running._run(None, 1)
    assert 1 == pipeline.state.manifest.batch
    with pytest.warns(RuntimeWarning, match=r"no room \(failure 2 of"):
        running._run(None, 2)
