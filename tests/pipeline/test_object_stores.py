"""Stores and sources in an object store, against a real S3 API on loopback: what a path can, a bucket can."""

import json
import pickle
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from nearcast import Vocabulary
from nearcast.errors import FileMissing, FileUnavailable, IncompatibleStore, NotSupported
from nearcast.geo import Space
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import RejectedSink, sink_of
from nearcast.pipeline.store import object_place
from nearcast.pipeline.store.object_place import ObjectPlace
from nearcast.pipeline.store.places import open_place, spark_url
from nearcast.pipeline.store.remote_place import RemotePlace
from nearcast.pipeline.store.store import Store, StoreConflict, StoreError
from nearcast.pipeline.worker.source_reader import fetched
from nearcast.tables import Rejected, subscriptions_table
from support.s3_server import BUCKET, s3, s3_environment, s3_server
from support.waiting import join

__all__ = ["s3", "s3_environment"]


@pytest.fixture
def store(s3, tmp_path):
    return Store(f"{s3}/store", cache=str(tmp_path / "cache"))


def content(data):
    return lambda path: path.write_bytes(data)


def test_files_and_folders(store):
    """Files and folders are put, listed, mapped, moved and deleted as on a path."""
    name, folder = store.unique("deltas", 1, 0, ".npz"), store.unique("snapshots", 1, 0)
    assert 3 == store.put(name, content(b"abc"))
    assert b"abc" == store.read_bytes(name) == store.local(name).read_bytes()
    summed = store.put_summed("a b#%20ä.bin", content(b"1")).name
    assert b"1" == store.read_bytes(summed)

    def write(path):
        (path / "index").mkdir()
        (path / "index" / "words").write_bytes(b"1234")
        (path / "ids").write_bytes(b"")

    assert 4 == store.put_folder(folder, write)
    assert {name: 3, folder: 4, summed: 1} == store.sizes()
    assert b"1234" == (store.local(folder) / "index" / "words").read_bytes()
    assert store.problem(folder) is None
    assert "is damaged: has 3 bytes, not 4" == store.problem(name, 4)
    store.move({name: "part-1"})
    assert not store.exists(name)
    assert [folder] == store.list("snapshots/")
    store.delete([folder, summed, "part-1", "never"])
    assert {} == store.sizes(with_hidden=True)
    assert "is missing" == store.problem(folder)
    with pytest.raises(IncompatibleStore, match=r"s3://.*/deltas/gone is missing"):
        store.read_bytes("deltas/gone")
    with pytest.raises(IncompatibleStore, match="is missing"):
        store.move({"never": "part-2"})


def test_names_that_begin_alike_are_not_inside(store):
    """A folder is no prefix of its neighbour's name."""
    store.put("part-1", content(b"1"))
    store.put("part-10/a", content(b"2"))
    store.delete(["part-1"])
    assert {"part-10/a": 1} == store.sizes()
    assert "is not complete" == store.problem("part-10")


class GoogleLike(BaseHTTPRequestHandler):
    """Answers as Google Cloud Storage does to list and delete: 404 for an object that is not there."""

    objects: ClassVar = set()

    def do_GET(self):
        entry = (
            "<Contents><Key>{}</Key><LastModified>2024-01-01T00:00:00Z</LastModified><Size>1</Size><ETag>1</ETag>"
            "</Contents>"
        )
        entries = "".join(entry.format(each) for each in sorted(self.objects))
        self._answer(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>")

    def do_DELETE(self):
        name = unquote(self.path).removeprefix("/bucket/")
        self._answer(204 if name in self.objects else 404)
        self.objects.discard(name)

    def _answer(self, status, body=""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


def test_deleting_where_the_server_tells_that_there_is_nothing(tmp_path, monkeypatch):
    """A folder has no object of its own name, which Google answers with 404: its files are deleted all the same."""
    pytest.importorskip("obstore")
    GoogleLike.objects.update(["K/snapshots/x/_contents.json", "K/snapshots/x/ids"])
    with ThreadingHTTPServer(("127.0.0.1", 0), GoogleLike) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        account = {"gcs_base_url": f"http://127.0.0.1:{server.server_port}", "disable_oauth": True}
        (tmp_path / "account.json").write_text(
            json.dumps(account | dict.fromkeys(("client_email", "private_key", "private_key_id"), ""))
        )
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "account.json"))
        Store("gs://bucket/K").delete(["snapshots/x", "never"])
        server.shutdown()
    assert set() == GoogleLike.objects


def test_s3a_and_s3_are_the_same_place(store):
    """Spark's name of a bucket leads to the same files, and is what Spark is told."""
    store.put("a", content(b"1"))
    assert b"1" == Store(store.root.replace("s3:", "s3a:")).read_bytes("a")
    assert store.url("a") == f"s3a:{store.root.removeprefix('s3:')}/a"
    assert "s3a://b/x" == spark_url("s3://b/x")
    assert pickle.loads(pickle.dumps(store)).read_bytes("a") == b"1"


def test_only_one_of_many_writers_commits(store):
    """The server decides, by If-None-Match: whoever comes second learns of it, with its own process or not."""
    outcomes = []

    def commit(data):
        try:
            store.commit("manifests/1.json", data)
            outcomes.append(data)
        except StoreConflict:
            pass

    writers = [threading.Thread(target=commit, args=(bytes([n]) * 100,)) for n in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        join(writer)
    assert outcomes == [store.read_bytes("manifests/1.json")]
    store.commit("manifests/1.json", outcomes[0])
    program = f"from nearcast.pipeline.store.store import Store; Store({store.root!r}).commit('manifests/1.json', b'x')"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "StoreConflict" in other.stderr
    assert outcomes == [store.read_bytes("manifests/1.json")]


def test_a_checkpoint_needs_conditional_puts(store, monkeypatch):
    """A store that ignores the condition, as older servers do, is refused by name."""
    store.check_commits()
    assert {} == store.sizes(with_hidden=True)
    monkeypatch.setattr(ObjectPlace, "create", lambda self, name, data: self._put_anyway(name, data))
    monkeypatch.setattr(ObjectPlace, "_put_anyway", _put_anyway, raising=False)
    with pytest.raises(NotSupported, match=rf"{store.root} cannot be a checkpoint: it puts a file where there is one"):
        store.check_commits()
    assert {} == store.sizes(with_hidden=True)


def _put_anyway(self, name, data):
    self._client.put(self._bucket, self._at(name), data)
    return True


def test_a_large_file_is_put_in_parts_and_comes_back(store):
    """Beyond what one request carries, a file still appears whole."""
    data = bytes(range(256)) * (1 << 16)
    assert len(data) == store.put("large", content(data))
    assert data == store.local("large").read_bytes()


class RefusingFiles:
    """Files of Arrow where no file is moved onto another, as on HDFS; `rival` writes just before a move."""

    def __init__(self, rival=lambda: None):
        self._files, self._rival = fs.LocalFileSystem(), rival

    def __getattr__(self, name):
        return getattr(self._files, name)

    def move(self, old, new):
        self._rival()
        if Path(new).exists():
            raise OSError(f"cannot move onto {new}")
        self._files.move(old, new)


def test_a_rival_that_commits_just_before_a_rename(tmp_path):
    """The loser learns that it lost, and leaves nothing behind."""
    files = RefusingFiles(rival=lambda: (tmp_path / "1.json").write_bytes(b"rival"))
    place = RemotePlace("hdfs://host/store", files, str(tmp_path), None)
    assert not place.create("1.json", b"ours")
    assert {"1.json": b"rival"} == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert RemotePlace("hdfs://host/store", RefusingFiles(), str(tmp_path), None).create("2.json", b"ours")


def test_the_memory_of_fsspec_commits_once(tmp_path):
    """Places of fsspec write exclusively, or are refused."""
    pytest.importorskip("fsspec")
    store = Store(f"memory://{tmp_path.name}/store")
    store.check_commits()
    store.commit("a", b"1")
    with pytest.raises(StoreConflict):
        store.commit("a", b"2")
    assert ["a"] == store.list()


def test_a_place_of_fsspec_without_exclusive_writes(tmp_path, monkeypatch):
    """It is refused as a checkpoint."""
    fsspec = pytest.importorskip("fsspec")
    memory = type(fsspec.filesystem("memory"))
    write = memory.pipe_file
    monkeypatch.setattr(memory, "pipe_file", lambda self, path, data, **_: write(self, path, data))
    with pytest.raises(NotSupported, match=r"memory://.* cannot be a checkpoint"):
        Store(f"memory://{tmp_path.name}/other").check_commits()


def test_the_client_is_missing(monkeypatch):
    """The error names what to install."""

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(object_place.importlib, "import_module", missing)
    for scheme in ("s3", "s3a", "gs", "abfs"):
        with pytest.raises(NotSupported, match=rf"{scheme}://bucket/x is in an object store; .*nearcast\[remote\]"):
            open_place(f"{scheme}://bucket/x")


def test_a_bucket_that_is_not_there(s3):
    """It is named, in one line, before anything is read."""
    store = Store(s3.replace(BUCKET, "no-such-bucket"))
    with pytest.raises(StoreError, match=r"s3://no-such-bucket/\S+ cannot be \w+: .*NoSuchBucket") as raised:
        store.list()
    assert "\n" not in str(raised.value)


# --- sources and a whole pipeline -------------------------------------------------------------------------------


def message(id_):
    return (json.dumps({"id": id_, "text": "coffee", "x": 1.0, "y": 1.0}) + "\n").encode()


def opened(s3, runner=None):
    store = Store(f"{s3}/K/nearcast")
    sink = sink_of(f"{s3}/out", store)
    settings = PipelineSettings(Space.plane(), plan="hash", partitions=2)
    return Pipeline(store, settings, runner or LocalRunner(), sink, RejectedSink(f"{s3}/out"))


def begun(s3):
    pipeline = opened(s3)
    table = subscriptions_table([{"id": 1, "kind": "within", "query": "coffee"}], Space.plane(), rejected=Rejected())
    pipeline.begin(table, Vocabulary().snapshot())
    return pipeline


def delivered(s3):
    out = Store(f"{s3}/out")
    return sorted(id_ for name in out.list("part-") for id_ in pq.read_table(out.local(name))["message_id"].to_pylist())


def source(s3, name, id_):
    Store(f"{s3}/in").put(name, content(message(id_)))
    return BatchSource("messages", name, f"{s3.replace('s3:', 's3a:')}/in/{name}")


def test_a_stream_in_a_bucket(s3):
    """Input, checkpoint and output in a bucket: batches are delivered, also after a restart; nothing is rejected."""
    pipeline = begun(s3)
    assert 1 == pipeline.run(0, [source(s3, "a b.jsonl", 1)]).deliveries
    again = opened(s3)
    assert again.resume()
    assert 1 == again.run(1, [source(s3, "deeper/b.jsonl", 2)]).deliveries
    assert [1, 2] == delivered(s3)
    assert [] == Store(f"{s3}/out/_rejected").list("part-")


def test_an_object_that_is_gone(s3):
    """It stops its batch, or is rejected when that was asked for."""
    pipeline = begun(s3)
    gone = BatchSource("messages", "gone.jsonl", f"{s3}/in/gone.jsonl")
    with pytest.raises(FileMissing, match=r"s3://\S+/in/gone\.jsonl: there is no such file"):
        pipeline.run(0, [gone, source(s3, "a.jsonl", 1)])
    again = opened(s3)
    assert again.resume()
    again.skip_missing_files = True
    assert 1 == again.run(0, [gone, source(s3, "a.jsonl", 1)]).rejected
    assert [1] == delivered(s3)


def test_a_server_that_is_gone(s3, monkeypatch):
    """No connection is no malformed content: the file cannot be read for now."""
    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        given = source(s3, "a.jsonl", 1)
        with fetched(given.path) as path:
            assert message(1) == path.read_bytes()
    with pytest.raises(FileUnavailable, match=r"s3a://\S+/in/a\.jsonl cannot be read: ") as raised, fetched(given.path):
        pass
    assert raised.value.may_pass
    assert "\n" not in str(raised.value)
