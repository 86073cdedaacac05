"""A source that cannot be read for now is tried again and stops its batch at last; nothing of it is committed."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast import Vocabulary
from nearcast.errors import FileMissing, FileUnavailable, NearcastError, StoreUnavailable
from nearcast.geo import Space
from nearcast.pipeline.batch.order import MessageSequence
from nearcast.pipeline.batch.segments import MessageSegment
from nearcast.pipeline.driver import batch_reading
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import RejectedSink, sink_of
from nearcast.pipeline.store import pickles
from nearcast.pipeline.store.store import Store, StoreError
from nearcast.pipeline.worker.source_reader import ReadTask
from nearcast.tables import Rejected, subscriptions_table

FAILS_WHEN_READ = "/proc/self/mem"  # EIO, see tests/files/test_file_failures.py
SUBSCRIPTIONS = [{"id": 1, "kind": "within", "query": "coffee"}]


class RetryingRunner:
    """Runs tasks here and each again after an error that may pass, as Spark does; `between` happens before that."""

    def __init__(self, attempts=4, between=lambda: None):
        self._attempts, self._between, self.failed = attempts, between, 0

    def map(self, task, payloads, *, claims=None, prefer=None):
        return [self._run(task, payload) for payload in payloads]

    def _run(self, task, payload):
        for attempt in range(self._attempts):
            try:
                return task(payload)
            except NearcastError as error:
                self.failed += 1
                if not error.may_pass or attempt == self._attempts - 1:
                    raise
                self._between()
        raise AssertionError


class LookingRunner(LocalRunner):
    """Runs tasks here; notes the sources that they read, and calls `before` with these notes before each."""

    def __init__(self, before=lambda _: None):
        self._before, self.looks = before, []

    def map(self, task, payloads, *, claims=None, prefer=None):
        return [self._run(task, payload) for payload in payloads]

    def _run(self, task, payload):
        if isinstance(payload, ReadTask):
            self.looks.append(payload.source)
            self._before(self.looks)
        return task(payload)


def opened(tmp_path, runner=None):
    store = Store(tmp_path / "K")
    sink = sink_of(str(tmp_path / "out"), store)
    settings = PipelineSettings(Space.plane(), plan="hash", partitions=2)
    return Pipeline(store, settings, runner or LocalRunner(), sink, RejectedSink(str(tmp_path / "out")))


def begun(tmp_path, runner=None):
    pipeline = opened(tmp_path, runner)
    pipeline.begin(subscriptions_table(SUBSCRIPTIONS, Space.plane(), rejected=Rejected()), Vocabulary().snapshot())
    return pipeline


def message_file(path, id_=1):
    path.write_text(json.dumps({"id": id_, "text": "coffee", "x": 1.0, "y": 1.0}) + "\n")
    return BatchSource("messages", path.name, str(path))


def delivered(tmp_path):
    parts = sorted((tmp_path / "out").glob("part-*.parquet"))
    return sorted(id_ for path in parts for id_ in pq.read_table(path)["message_id"].to_pylist())


def rejected(tmp_path):
    parts = sorted((tmp_path / "out" / "_rejected").glob("part-*.jsonl"))
    return [json.loads(line) for path in parts for line in path.read_text().splitlines()]


def check_nothing_committed(tmp_path, pipeline):
    assert [-1] == pipeline.manifests.batches()
    assert [] == delivered(tmp_path)
    assert [] == rejected(tmp_path)


@pytest.mark.parametrize("kind", ["EIO", "not there", "no folder"])
def test_a_source_that_fails_for_good_stops_the_batch(tmp_path, kind):
    """Nothing is rejected or committed; once it can be read the same batch delivers everything."""
    good, bad = message_file(tmp_path / "a.jsonl"), tmp_path / "deep" / "b.jsonl"
    if kind == "no folder":
        bad.parent.touch()
    else:
        bad.parent.mkdir()
    if kind == "EIO":
        bad.symlink_to(FAILS_WHEN_READ)
    given = [good, BatchSource("messages", "b.jsonl", str(bad))]
    pipeline = begun(tmp_path)
    with pytest.raises(FileUnavailable, match=r"b\.jsonl"):
        pipeline.run(0, given)
    check_nothing_committed(tmp_path, pipeline)
    if kind == "EIO":
        bad.unlink()
    if kind == "no folder":
        bad.parent.unlink()
        bad.parent.mkdir()
    message_file(bad, 2)
    again = opened(tmp_path)
    assert again.resume()
    again.run(0, given)
    assert [1, 2] == delivered(tmp_path)
    assert [] == rejected(tmp_path)


@pytest.mark.parametrize("small_bytes", [0, 1 << 18])
def test_a_source_that_can_be_read_at_the_second_attempt(tmp_path, monkeypatch, small_bytes):
    """Whether the driver or a worker read it first, it is tried again, and delivered."""
    monkeypatch.setattr(batch_reading, "SMALL_BYTES", small_bytes)
    bad = tmp_path / "b.jsonl"
    bad.symlink_to(FAILS_WHEN_READ)

    def mend():
        bad.unlink()
        message_file(bad, 2)

    runner = RetryingRunner(between=mend)
    begun(tmp_path, runner).run(0, [message_file(tmp_path / "a.jsonl"), BatchSource("messages", "b.jsonl", str(bad))])
    assert 1 == runner.failed
    assert [1, 2] == delivered(tmp_path)
    assert [] == rejected(tmp_path)


def test_a_file_deleted_between_listing_and_reading(tmp_path):
    """It stops the batch and names the option that goes on without it."""
    given = [message_file(tmp_path / "a.jsonl"), message_file(tmp_path / "b.jsonl", 2)]
    (tmp_path / "b.jsonl").unlink()
    pipeline = begun(tmp_path)
    with pytest.raises(FileMissing, match=r"b\.jsonl: there is no such file; .* \(skip_missing_files\)"):
        pipeline.run(0, given)
    check_nothing_committed(tmp_path, pipeline)


def test_going_on_without_a_file_that_is_gone(tmp_path):
    """It is one rejected row, after four looks for it; the other files are delivered, and read once."""
    given = [message_file(tmp_path / "a.jsonl"), message_file(tmp_path / "b.jsonl", 2)]
    (tmp_path / "b.jsonl").unlink()
    runner = LookingRunner()
    pipeline = begun(tmp_path, runner)
    pipeline.skip_missing_files = True
    assert 1 == pipeline.run(0, given).rejected
    assert ["a.jsonl", *4 * ["b.jsonl"]] == runner.looks
    assert [1] == delivered(tmp_path)
    (row,) = rejected(tmp_path)
    assert ("b.jsonl", 0) == (row["source"], row["row"])
    assert row["reason"].startswith("nothing of this source was used: ")
    assert row["reason"].endswith("b.jsonl: there is no such file")


def test_a_file_that_is_gone_takes_no_look_from_another(tmp_path):
    """One file is gone for good, another cannot be seen at the first looks: it is delivered."""
    given = [message_file(tmp_path / "a.jsonl"), message_file(tmp_path / "b.jsonl", 2)]
    (tmp_path / "a.jsonl").unlink()
    (tmp_path / "b.jsonl").rename(tmp_path / "hidden")

    def show(looks):
        if looks.count("b.jsonl") == 3 and not (tmp_path / "b.jsonl").exists():
            (tmp_path / "hidden").rename(tmp_path / "b.jsonl")

    pipeline = begun(tmp_path, LookingRunner(show))
    pipeline.skip_missing_files = True
    pipeline.run(0, given)
    assert [2] == delivered(tmp_path)
    assert ["a.jsonl"] == [row["source"] for row in rejected(tmp_path)]


def test_a_file_of_the_state_that_the_driver_cannot_see(tmp_path):
    """Reading a small source itself, it finds the plan of routes missing: workers try, and may see it again."""
    runner = RetryingRunner(between=lambda: hidden.rename(plan))
    pipeline = begun(tmp_path, runner)
    (plan,) = (tmp_path / "K").glob("plans/*")
    hidden = plan.rename(tmp_path / "hidden")
    pipeline.run(0, [message_file(tmp_path / "a.jsonl")])
    assert 1 == runner.failed
    assert [1] == delivered(tmp_path)


def test_going_on_without_missing_files_skips_no_other_failure(tmp_path):
    """A disk that fails is no file that is gone."""
    bad = tmp_path / "b.jsonl"
    bad.symlink_to(FAILS_WHEN_READ)
    pipeline = begun(tmp_path)
    pipeline.skip_missing_files = True
    with pytest.raises(FileUnavailable, match="Input/output error"):
        pipeline.run(0, [BatchSource("messages", "b.jsonl", str(bad))])
    check_nothing_committed(tmp_path, pipeline)


def test_malformed_content_is_rejected_as_ever(tmp_path):
    """One rejected row for a file that is no Parquet; the batch goes on."""
    (tmp_path / "b.parquet").write_bytes(b"no Parquet")
    given = [message_file(tmp_path / "a.jsonl"), BatchSource("messages", "b.parquet", str(tmp_path / "b.parquet"))]
    assert 1 == begun(tmp_path).run(0, given).rejected
    assert [1] == delivered(tmp_path)


def test_a_worker_out_of_memory_rejects_nothing(tmp_path, monkeypatch):
    """Arrow's error says nothing about the file: the batch fails and may be tried again."""

    def no_memory(*_, **__):
        raise pa.ArrowMemoryError("malloc of size 1000000 failed")

    pq.write_table(pa.table({"id": [1], "text": ["coffee"], "x": [1.0], "y": [1.0]}), tmp_path / "a.parquet")
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", no_memory)
    pipeline = begun(tmp_path)
    with pytest.raises(MemoryError):
        pipeline.run(0, [BatchSource("messages", "a.parquet", str(tmp_path / "a.parquet"))])
    check_nothing_committed(tmp_path, pipeline)


def test_a_download_that_fails_without_a_number_rejects_nothing(tmp_path, monkeypatch):
    """Clients of remote file systems raise a plain TimeoutError: it is neither the content nor a file that is gone."""
    fsspec = pytest.importorskip("fsspec")

    def late(*_, **__):
        raise TimeoutError("the server did not answer")

    memory = type(fsspec.filesystem("memory"))
    monkeypatch.setattr(memory, "info", late)
    monkeypatch.setattr(memory, "_open", late)
    pipeline = begun(tmp_path)
    pipeline.skip_missing_files = True
    with pytest.raises(FileUnavailable, match=r"a\.jsonl cannot be read: the server did not answer") as raised:
        pipeline.run(0, [BatchSource("messages", "a.jsonl", f"memory://{tmp_path.name}/a.jsonl")])
    assert not isinstance(raised.value, FileMissing)
    check_nothing_committed(tmp_path, pipeline)


@pytest.mark.parametrize("read", [pickles.read, MessageSegment.read, MessageSequence.read])
def test_files_of_the_state_that_cannot_be_seen(tmp_path, read):
    """A file that is not visible yet may pass, and is not called damage that a copy must mend."""
    path = tmp_path / "file"
    with pytest.raises(StoreUnavailable) as raised:
        read(path)
    assert raised.value.may_pass


@pytest.mark.parametrize("read", [pickles.read, MessageSequence.read])
def test_files_of_the_state_on_a_disk_that_fails(tmp_path, read):
    """EIO may pass as well."""
    (tmp_path / "file").symlink_to(FAILS_WHEN_READ)
    with pytest.raises((StoreUnavailable, StoreError), match="Input/output error") as raised:
        read(tmp_path / "file")
    assert raised.value.may_pass
