"""The files of a stream: complete or not there, whatever kills the writer; manifests that say what is wrong."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import fields, replace
from pathlib import Path

import pytest
from pyarrow import fs

from nearcast.errors import IncompatibleStore, InvalidInput, NearcastError, NotSupported
from nearcast.pipeline.store import places
from nearcast.pipeline.store import store as store_module
from nearcast.pipeline.store.checkpoint_report import inspect_checkpoint
from nearcast.pipeline.store.manifest import Manifest, Manifests
from nearcast.pipeline.store.manifest_entries import (
    BatchFiles,
    DriverEpoch,
    LoadBalance,
    PartitionEntry,
    PlanEntry,
    RebalanceNote,
    SourcesEntry,
    VocabularyEntry,
    WindowEntry,
)
from nearcast.pipeline.store.remote_place import RemotePlace
from nearcast.pipeline.store.state_format import STATE_FORMAT
from nearcast.pipeline.store.store import Store, StoreConflict, StoreError, batch_of
from nearcast.saved_files.contents import signed
from support.manifests import small_manifest
from support.waiting import join, run, wait_until

CRASHED = 9


@pytest.fixture(params=["path", "file://", "arrow", "memory://"])
def store(request, tmp_path, monkeypatch):
    """A store in each kind of place; "arrow" is a place that is reached only through Arrow."""
    if request.param == "path":
        return Store(tmp_path / "store")
    if request.param == "file://":
        return Store((tmp_path / "store").as_uri())
    cache = str(tmp_path / "cache")
    if request.param == "arrow":
        place = RemotePlace("arrow://store", fs.LocalFileSystem(), str(tmp_path / "store"), cache)
        monkeypatch.setattr(store_module, "open_place", lambda *_: place)
        return Store("arrow://store", cache=cache)
    pytest.importorskip("fsspec")
    return Store(f"memory://{tmp_path.name}/store", cache=cache)


@pytest.fixture
def here(tmp_path):
    return Store(tmp_path / "store")


def content(data):
    return lambda path: path.write_bytes(data)


def folder_of(**files):
    def write(folder):
        for name, data in files.items():
            path = folder / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)

    return write


# --- names and places -------------------------------------------------------------------------------------------


def test_names_are_unique_and_tell_their_batch(here):
    name = here.unique("deltas", 12, 3, ".npz")
    assert name.startswith("deltas/00000012-0003-e0-")
    assert name.endswith(".npz")
    assert name != here.unique("deltas", 12, 3, ".npz")
    assert batch_of(name) == 12
    assert batch_of(here.unique("plans", -1)) == -1
    assert batch_of(f"{here.unique('snapshots', 7, 1)}/index/words.npy") == 7
    for other in ("manifests/00000012.json", "_staging/00000001-0000-1f2e3d4c.parquet", "rebalance.json", "Oslo"):
        assert batch_of(other) is None


def test_workers_in_another_folder_find_the_same_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = Store("K")
    assert store.root == f"{tmp_path}/K"
    assert Store(f"file:{tmp_path}/K").put("a", content(b"1")) == 1
    assert store.read_bytes("a") == b"1"
    assert store.url("a") == f"file://{tmp_path}/K/a"


def test_spark_unescapes_nothing():
    assert Store("/a b").url("c#d") == "file:///a b/c#d"
    assert Store("file:///a%20b").url("c") == places.spark_url("file:/a%20b/c") == "file:///a b/c"
    assert ["/a b", "hdfs://h/a%20b"] == [places.spark_url(root) for root in ("/a b", "hdfs://h/a%20b")]


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../other", "a/../../b", "a//b", "./a"])
def test_names_outside_of_the_store_are_refused(here, name):
    with pytest.raises(InvalidInput, match="no name in a store"):
        here.read_bytes(name)


def test_files(store):
    name = store.unique("deltas", 1, 0, ".npz")
    assert not store.exists(name)
    assert store.put(name, content(b"abc")) == 3
    assert store.exists(name)
    assert store.read_bytes(name) == b"abc"
    assert store.local(name).read_bytes() == b"abc"
    assert store.local(name).suffix == ".npz"
    assert store.sizes() == {name: 3}
    assert store.list("deltas/") == [name]
    assert store.list("del") == [name]
    assert store.list("snapshots/") == []
    assert store.problem(name, 3) is None
    assert store.problem(name, 4) == "is damaged: has 3 bytes, not 4"
    store.delete([name, "deltas/never"])
    assert store.list() == []
    assert store.problem(name) == "is missing"


def test_folders_are_one_thing(store):
    name = store.unique("snapshots", 1, 0)
    assert store.put_folder(name, folder_of(index__words=b"1234", ids=b"")) == 4
    assert store.exists(name)
    assert store.sizes() == {name: 4}
    assert store.list("snapshots/") == [name]
    assert store.list("snapshots/00000002") == []
    assert store.problem(name) is None
    found = store.local(name)
    assert (found / "index" / "words").read_bytes() == b"1234"
    assert (found / "ids").read_bytes() == b""
    assert store.read_bytes(f"{name}/index/words") == b"1234"
    store.delete([name])
    assert store.sizes(with_hidden=True) == {}
    assert not store.exists(name)


def test_a_folder_that_lost_a_file(store):
    name = store.unique("snapshots", 1, 0)
    store.put_folder(name, folder_of(words=b"1234", ids=b"12"))
    store.put(f"{name}/words", content(b"123"))
    assert store.problem(name) == "is damaged: words in it has 3 bytes, not 4"
    store.delete([f"{name}/words"])
    assert store.problem(name) == "lacks words"
    store.put(f"{name}/_contents.json", content(b'{"words": '))
    assert store.problem(name) == "is damaged: _contents.json in it is cut off or was edited"
    store.delete([f"{name}/_contents.json"])
    assert store.problem(name) == "is not complete"
    assert not store.exists(name)


def test_commit_is_for_the_first(store):
    store.commit("manifests/1.json", b"one")
    store.commit("manifests/1.json", b"one")
    with pytest.raises(StoreConflict, match=r"manifests/1.json is there already.* two runs share this checkpoint"):
        store.commit("manifests/1.json", b"two")
    assert store.read_bytes("manifests/1.json") == b"one"
    assert store.list() == ["manifests/1.json"]


def test_move(store):
    store.put("_staging/a", content(b"1"))
    store.move({"_staging/a": "part-1"})
    assert store.sizes() == {"part-1": 1}
    with pytest.raises(IncompatibleStore, match="_staging/a is missing"):
        store.move({"_staging/a": "part-1"})


def test_missing_files(store):
    for read in (store.read_bytes, store.local):
        with pytest.raises(IncompatibleStore, match=r"deltas/gone is missing; bring it back") as raised:
            read("deltas/gone")
        assert "\n" not in str(raised.value)


def test_stores_travel(store):
    store.put("a", content(b"1"))
    data = pickle.dumps(store)
    assert len(data) < 300
    assert pickle.loads(data) == store
    assert pickle.loads(data).read_bytes("a") == b"1"
    assert store.within("deeper").root == f"{store.root}/deeper"


def test_stores_within(store):
    store.within("deeper").put("a", content(b"1"))
    if not isinstance(store._place, RemotePlace) or store.root.startswith("memory"):
        assert store.list() == ["deeper/a"]


def test_only_one_of_many_writers_commits(here):
    outcomes = []

    def commit(data):
        try:
            here.commit("manifests/1.json", data)
            outcomes.append(data)
        except StoreConflict:
            pass

    writers = [threading.Thread(target=commit, args=(bytes([n]) * 1000,)) for n in range(16)]
    for writer in writers:
        writer.start()
    for writer in writers:
        join(writer)
    assert outcomes == [here.read_bytes("manifests/1.json")]


def test_a_file_system_without_links(here, monkeypatch):
    def no_links(*_):
        raise PermissionError

    monkeypatch.setattr(os, "link", no_links)
    test_commit_is_for_the_first(here)


# --- downloads --------------------------------------------------------------------------------------------------


def remote_store(tmp_path, monkeypatch):
    place = RemotePlace("arrow://store", fs.LocalFileSystem(), str(tmp_path / "store"), str(tmp_path / "cache"))
    monkeypatch.setattr(store_module, "open_place", lambda *_: place)
    return Store("arrow://store")


def test_downloads_happen_once_and_go_when_unused(tmp_path, monkeypatch):
    store = remote_store(tmp_path, monkeypatch)
    store.put("a.npy", content(b"1"))
    store.put_folder("folder", folder_of(x=b"2"))
    first = store.local("a.npy")
    folder = store.local("folder")
    inode = first.stat().st_ino
    assert store.local("a.npy") == first
    assert first.stat().st_ino == inode
    store.put("a.npy", content(b"22"))
    assert store.local("a.npy").read_bytes() == b"22"
    assert len(list((tmp_path / "cache").iterdir())) == 3
    for path in (first, folder):
        os.utime(path.parent, (0, 0))
    assert store.local("folder") == folder
    store.put("b.npy", content(b"3"))
    store.local("b.npy")
    assert folder.exists()
    assert not first.exists()
    os.utime(folder.parent, (0, 0))
    store.put("c.npy", content(b"4"))
    store.local("c.npy")
    assert not folder.exists()
    assert store.local("folder").is_dir()


def test_a_folder_whose_upload_broke_off_is_not_there(tmp_path, monkeypatch):
    store = remote_store(tmp_path, monkeypatch)
    upload = RemotePlace._upload

    def fail_at_last(self, source, target):
        if source.name == "_contents.json":
            raise ConnectionResetError(104, "Connection reset by peer")
        return upload(self, source, target)

    monkeypatch.setattr(RemotePlace, "_upload", fail_at_last)
    name = store.unique("snapshots", 3, 0)
    with pytest.raises(StoreError, match="cannot be written: Connection reset by peer"):
        store.put_folder(name, folder_of(a=b"1", b=b"2"))
    assert not store.exists(name)
    assert store.list() == [f"{name}/a", f"{name}/b"]
    Manifests(store).sweep([], at_start=True)
    assert store.list() == []


def test_places_that_nobody_knows(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(places.importlib, "import_module", missing)
    with pytest.raises(NotSupported, match="install fsspec, or use a path"):
        Store("gopher://host/store").list()


# --- manifests --------------------------------------------------------------------------------------------------


def manifest_of(batch, **more):
    given = {
        "fingerprint": {"space": "earth", "window": 1000, "analyzer": {"language": "english", "stem": True}},
        "query_id": "q1",
        "next_step": 10 * batch,
        "counts": {"messages": 5, "deliveries": 7},
        "seconds": 0.25,
    }
    return small_manifest(batch, **(given | more))


def test_manifests_come_back(store):
    manifests = Manifests(store)
    assert manifests.last() is None
    for batch in (8, 9, 10, 100_000_000):
        manifests.commit(manifest_of(batch, now=batch))
    assert manifests.batches() == [8, 9, 10, 100_000_000]
    assert manifests.last() == manifest_of(100_000_000, now=100_000_000)
    assert manifests.read(9) == manifest_of(9, now=9)
    manifests.commit(manifest_of(9, now=9))
    with pytest.raises(StoreConflict):
        manifests.commit(manifest_of(9, now=10))
    manifests.forget_before(10)
    assert manifests.batches() == [10, 100_000_000]


def test_every_field_comes_back_in_its_type():
    """A manifest is one value: what is read equals what was written, in every field."""
    whole = manifest_of(
        1,
        plan=PlanEntry("trigger", 2, "plans/00000001-1f2e3d4c", ("growth/00000001-1f2e3d4c",), "line"),
        partitions=(PartitionEntry("snapshots/00000001-1f2e3d4c", 0, ("deltas/00000001-1f2e3d4c",)),),
        windows=(WindowEntry(None, -1), WindowEntry("windows/00000001-1f2e3d4c", 1)),
        batches=(BatchFiles(1, ("a", "b"), "s", None, None, 7, 8, beat=9),),
        beat_due=9,
        id_types=("int64", None),
        recent=("a", "b"),
        outputs=({"staged": "x", "final": None, "rows": 1},),
        load=({"seconds": 0.5, "messages": 9},),
        balance=LoadBalance((0.5, 0.25), 3),
        rebalance=RebalanceNote("x", refused="why"),
        sizes={"a": 1},
        driver=DriverEpoch(3, "host", 12, "2026-01-01T00:00:00Z"),
        sources=(SourcesEntry(1, 2, "1f2e"),),
        last_sources={"messages a": "1 2"},
        stream_id="1f2e",
    )
    read = Manifest.from_bytes(whole.to_bytes())
    assert whole == read
    assert whole.to_bytes() == read.to_bytes()
    defaults = manifest_of(1)
    kept = {"batch", "vocabulary", "directory", "directory_batch", "fingerprint", "query_id", "next_step", "now"}
    kept |= {"counts", "seconds"}
    assert [] == [
        each.name
        for each in fields(Manifest)
        if each.name not in kept and getattr(whole, each.name) == getattr(defaults, each.name)
    ]


def test_a_manifest_with_other_fields_is_refused():
    """A field that is unknown, or lacks, is of no version that writes this format."""
    content = {"format": STATE_FORMAT, **manifest_of(1).to_json()}
    for changed in (content | {"more": 1}, {name: each for name, each in content.items() if name != "batch"}):
        with pytest.raises(IncompatibleStore, match="is damaged: its fields are others"):
            Manifest.from_bytes(signed(changed))


def test_a_manifest_that_was_cut_off_or_edited_is_refused(here):
    manifests = Manifests(here)
    manifests.commit(manifest_of(1))
    path = Path(here.root, "manifests/00000001.json")
    whole = path.read_bytes()
    for length in range(len(whole)):
        with pytest.raises(IncompatibleStore):
            Manifest.from_bytes(whole[:length])
    for changed in (whole[: len(whole) // 2], whole.replace(b"1000", b"2000"), b"[]", b"null", b"\xff", b""):
        path.write_bytes(changed)
        with pytest.raises(IncompatibleStore, match=r"manifests/00000001.json is damaged: .*begin anew") as raised:
            manifests.last()
        assert "\n" not in str(raised.value)


def test_a_manifest_of_another_version_or_batch(here):
    manifests = Manifests(here)
    content = json.loads(manifest_of(1).to_bytes())
    here.commit("manifests/00000001.json", json.dumps({**content, "format": 99}).encode())
    with pytest.raises(IncompatibleStore, match=f"has format 99, this version reads {STATE_FORMAT}; go on"):
        manifests.last()
    here.commit("manifests/00000002.json", manifest_of(3).to_bytes())
    with pytest.raises(IncompatibleStore, match="it is that of batch 3"):
        manifests.last()


def test_other_settings_are_refused_by_name(here):
    manifests, manifest = Manifests(here), manifest_of(1)
    begun = manifest.fingerprint
    manifests.check(manifest, begun, "q1")
    manifests.check(manifest, begun | {"max_distance": None})
    for given, told in [
        (begun | {"window": 2000}, "begun with window 1000, not 2000; "),
        (begun | {"window": None}, "begun with window 1000, not none; "),
        (begun | {"max_distance": 5.0}, "begun with no max distance, not 5.0; "),
        (begun | {"analyzer": {"language": "norwegian", "stem": True}}, "analyzer language english, not norwegian; "),
        ({"window": 1000, "analyzer": begun["analyzer"]}, "begun with space earth, not none; "),
    ]:
        with pytest.raises(IncompatibleStore, match=told) as raised:
            manifests.check(manifest, given)
        assert str(raised.value).startswith(f"the checkpoint {here.root} was begun with")
    with pytest.raises(IncompatibleStore, match="belongs to query q1, not q2"):
        manifests.check(manifest, begun, "q2")
    sized = replace(manifest, fingerprint=begun | {"plan": {"grid": [4, 4], "name": "trigger"}})
    manifests.check(sized, begun | {"plan": {"grid": (4, 4), "name": "trigger"}})
    with pytest.raises(IncompatibleStore, match="begun with plan name trigger, not hash; "):
        manifests.check(sized, begun | {"plan": {"grid": (4, 4), "name": "hash"}})


def a_batch(store, batch):
    """Write the files of a batch and its manifest."""
    delta = store.unique("deltas", batch, 0, ".npz")
    snapshot = store.unique("snapshots", batch, 0)
    sizes = {delta: store.put(delta, _in_pieces)}
    store.put_folder(snapshot, lambda folder: [_in_pieces(folder / name) for name in ("a", "b")])
    manifest = manifest_of(batch, partitions=(PartitionEntry(snapshot, batch, (delta,)),), sizes=sizes)
    Manifests(store).commit(manifest)
    return manifest


def _in_pieces(path):
    with path.open("wb") as file:
        for _ in range(3):
            file.write(b"0123456789")
            file.flush()
            sys.audit("nearcast.test.piece", str(path))


def test_what_is_named_is_verified(store):
    manifests, manifest = Manifests(store), a_batch(store, 1)
    delta, snapshot = manifest.partitions[0].deltas[0], manifest.partitions[0].snapshot
    assert manifests.files_in_use(manifest) == {delta, snapshot}
    manifests.verify(manifest)
    store.put(delta, content(b"short"))
    with pytest.raises(IncompatibleStore, match=rf"{delta} is damaged: has 5 bytes, not 30, and batch 1 needs it"):
        manifests.verify(manifest)
    store.put(delta, _in_pieces)
    store.delete([f"{snapshot}/b"])
    with pytest.raises(IncompatibleStore, match=rf"{snapshot} lacks b, and batch 1 needs it; bring it back"):
        manifests.verify(manifest)
    store.delete([snapshot])
    with pytest.raises(IncompatibleStore, match=rf"{snapshot} is missing"):
        manifests.verify(manifest)


def test_sweeping(store):
    manifests = Manifests(store)
    first, second = a_batch(store, 1), a_batch(store, 2)
    in_the_making = store.unique("deltas", 3, 0, ".npz")
    left_over, snapshot_in_the_making = store.unique("deltas", 2, 0, ".npz"), store.unique("snapshots", 2, 0)
    handed = store.unique("staged", 2, 0, ".parquet")
    for name in (in_the_making, left_over, snapshot_in_the_making, handed, "rebalance.json"):
        store.put(name, content(b""))
    second = replace(second, outputs=({"staged": handed, "final": None, "rows": 1},))
    used = {manifest.batch: manifests.files_in_use(manifest) for manifest in (first, second)}
    always = {"rebalance.json", "manifests/00000001.json", "manifests/00000002.json"}

    assert manifests.sweep([first, second], spare=[snapshot_in_the_making]) == [left_over]
    assert manifests.sweep([second]) == sorted({snapshot_in_the_making, *used[1]})
    assert set(store.list()) == always | used[2] | {in_the_making}
    assert manifests.sweep([second], at_start=True) == [in_the_making]
    assert manifests.sweep([second], at_start=True) == []
    assert handed in store.list()


def test_a_start_sweeps_drafts_of_the_state_and_of_the_log_alone(here):
    """Another driver may probe the place just then, or look whether workers see it; a command may leave a request."""
    folder, _, name = here.unique("deltas", 1, 0, ".npz").partition("/")
    drafts = [f"{folder}/.1f2e3d4c.{name}", "manifests/.1f2e3d4c.00000001-2.json"]
    others = [".probe-1f2e3d4c", ".seen-1f2e3d4c", "requests/.1f2e3d4c.rebalance.json"]
    for each in (*drafts, *others):
        here.put(each, content(b""))
    assert Manifests(here).sweep([], at_start=True) == drafts
    assert [*here.sizes(with_hidden=True)] == others


# --- crashes: the writer dies before each of its file operations -------------------------------------------------


def two_batches(root):
    """Go on from whatever is there to batch 2, as a stream does."""
    store = Store(root)
    manifests = Manifests(store)
    last = manifests.last()
    if last is not None:
        manifests.verify(last)
        manifests.forget_before(last.batch)
    manifests.sweep([last] if last else [], at_start=True)
    for batch in range(last.batch + 1 if last else 1, 3):
        last = a_batch(store, batch)
        manifests.forget_before(batch)
        manifests.sweep([last])


def crash_everywhere(work, folder, every):
    """Run `work` in a process that dies at a file operation below `folder`, at each `every`-th, until one survives."""
    for n in range(0, 10_000, every):
        root = Path(folder, f"{n:04d}")
        child = os.fork()
        if child == 0:
            _die_at(n, str(root))
            work(root)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != CRASHED:
            return n if status == 0 else sys.exit(f"operation {n}: status {status}")
    return None


def _die_at(n, root):
    left = [n]

    def count(event, arguments):
        if arguments and isinstance(arguments[0], (str, Path)) and str(arguments[0]).startswith(root):
            if left[0] == 0:
                os._exit(CRASHED)
            left[0] -= 1

    sys.addaudithook(count)


def run_python(code, *arguments, **options):
    paths = [str(Path(__file__).parent), *(path for path in sys.path if path)]
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    return run(command, env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)}, **options)


def test_a_crash_at_any_operation_leaves_only_complete_things(tmp_path):
    code = "import sys, test_store as t; print(t.crash_everywhere(t.two_batches, sys.argv[1], 3))"
    ran = run_python(code, tmp_path)
    assert ran.returncode == 0, ran.stderr
    n = int(ran.stdout)
    assert n > 50
    last_batches = []
    for root in sorted(tmp_path.iterdir()):
        store = Store(root)
        manifests = Manifests(store)
        assert [store.problem(name) for name in store.list()] == [None] * len(store.list())
        assert all(size in (30, 60) for name, size in store.sizes().items() if batch_of(name) is not None)
        last = manifests.last()
        last_batches.append(last.batch if last else 0)
        if last:
            manifests.verify(last)
        two_batches(root)
        assert set(store.sizes(with_hidden=True)) == {
            "manifests/00000002.json",
            *manifests.files_in_use(manifests.read(2)),
        }
        assert not [path for path in root.rglob("*") if path.name.startswith(".")]
    assert last_batches == sorted(last_batches)
    assert set(last_batches) == {0, 1, 2}


def commit_for_ever(root):
    manifests = Manifests(Store(root))
    last = manifests.last()
    batch = last.batch if last else -1
    while True:
        batch += 1
        manifests.commit(manifest_of(batch, query_id="x" * 100_000))


def test_kill_9_leaves_whole_manifests(here):
    before = -1
    for after_s in (0.01, 0.11):
        code = f"import test_store as t; print('ready', flush=True); t.commit_for_ever({here.root!r})"
        paths = [str(Path(__file__).parent), *(path for path in sys.path if path)]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            wait_until(
                lambda last=before: Manifests(here).batches()[-1:] not in ([], [last]),
                is_alive=lambda it=process: it.poll() is None,
            )
            time.sleep(after_s)
            process.kill()
        last = Manifests(here).last()
        assert last is not None
        assert Manifests(here).batches() == list(range(last.batch + 1))
        assert last.batch > before
        before = last.batch
    for batch in range(before + 1):
        assert Manifests(here).read(batch).batch == batch


# --- disks that are full, or not ours ----------------------------------------------------------------------------

FULL = """
import resource, sys
from nearcast.errors import NearcastError
from nearcast.pipeline.store.store import Store
store = Store(sys.argv[1])
store.commit("manifests/00000000.json", b"ok")
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
big = b"x" * 10_000
def folder(path):
    (path / "a").write_bytes(b"1")
    (path / "b").write_bytes(big)
for write in (
    lambda: store.put("deltas/a", lambda path: path.write_bytes(big)),
    lambda: store.put_folder("snapshots/a", folder),
    lambda: store.commit("manifests/00000001.json", big),
):
    try:
        write()
    except NearcastError as error:
        print(error)
"""


def test_a_full_disk(here):
    ran = run_python(FULL, here.root)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        f"{here.root}/{name} cannot be written: File too large; make room and start again, nothing that was committed"
        " is lost"
        for name in ("deltas/a", "snapshots/a", "manifests/00000001.json")
    ]
    assert list(here.sizes(with_hidden=True)) == ["manifests/00000000.json"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_of_somebody_else(here):
    here.put("a", content(b""))
    Path(here.root).chmod(0o500)
    try:
        with pytest.raises(StoreError, match="b cannot be written: Permission denied; give this user the right to it"):
            here.put("b", content(b""))
    finally:
        Path(here.root).chmod(0o700)


def test_a_store_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="deltas/a cannot be written: Not a directory"):
        Store(tmp_path / "file").put("deltas/a", content(b""))


def test_what_writers_raise_comes_through(store):
    def refuse(path):
        path.write_bytes(b"half")
        raise NearcastError("no")

    with pytest.raises(NearcastError, match=r"^no$"):
        store.put("a", refuse)
    assert store.sizes(with_hidden=True) == {}


# --- inspect -----------------------------------------------------------------------------------------------------


def checkpoint_at(folder):
    store = Store(folder).within("nearcast")
    a_batch(store, 6)
    last = a_batch(store, 7)
    segment = store.unique("segments", 7, suffix=".arrow")
    store.put(segment, content(b"x" * 2500))
    last = replace(
        last,
        batch=8,
        now=1_700_000_000_000_000,
        plan=PlanEntry("trigger", 1, "", (), "a line"),
        vocabulary=VocabularyEntry("v1", ""),
        recent=(segment,),
        load=({"seconds": 0.5, "messages": 9},),
    )
    Manifests(store).commit(last)
    (folder / "spark").mkdir()
    (folder / "spark" / "offsets").write_text("123")
    return last


def test_inspecting(tmp_path):
    last = checkpoint_at(tmp_path / "K")
    found = inspect_checkpoint(str(tmp_path / "K"))
    assert json.loads(json.dumps(found)) == found
    assert found["batch"] == 8
    assert found["batches_kept"] == [6, 7, 8]
    plan = {"name": "trigger", "partitions": 1, "folder": "", "growth": [], "line": "a line"}
    assert found["plan"] == plan | {"needed": [], "spread": 0.0, "spread_at_first": 0.0}
    assert found["counts"] == {"subscriptions": 0, "messages": 5, "changes": 0, "deliveries": 7, "rejected": 0}
    assert found["files"] == {"deltas": 1, "segments": 1, "snapshots": 1}
    assert found["settings"] == last.fingerprint
    assert found["bytes"]["kinds"]["deltas"] == 60
    assert found["bytes"]["unused"] == 90
    assert found["bytes"]["spark"] == 3
    (partition,) = found["partitions"]
    assert partition == {
        "partition": 0,
        "snapshot": last.partitions[0].snapshot,
        "snapshot_batch": 7,
        "snapshot_bytes": 60,
        "deltas": list(last.partitions[0].deltas),
        "delta_bytes": 30,
        "messages": 9,
        "seconds": 0.5,
    }


def test_what_cannot_be_inspected(tmp_path):
    with pytest.raises(InvalidInput, match="there is no such checkpoint"):
        inspect_checkpoint(str(tmp_path / "K"))
    (tmp_path / "K").mkdir()
    with pytest.raises(InvalidInput, match="is not a checkpoint of nearcast: it has no folder nearcast"):
        inspect_checkpoint(str(tmp_path / "K"))
    (tmp_path / "K" / "nearcast").mkdir()
    with pytest.raises(InvalidInput, match="no batch was finished yet"):
        inspect_checkpoint(str(tmp_path / "K"))
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="is a file; expected the folder given as --checkpoint"):
        inspect_checkpoint(str(tmp_path / "file"))


def test_the_command(nearcast, tmp_path):
    from nearcast.cli import app, inspect

    if "inspect" not in {command.name for command in app.registered_commands}:
        app.command("inspect")(inspect.inspect)
    last = checkpoint_at(tmp_path / "K")
    ran = nearcast("inspect", tmp_path / "K")
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert "plan          trigger, 1 partition" in lines
    assert "time          2023-11-14T22:13:20Z" in lines
    snapshot = last.partitions[0].snapshot
    assert lines[-1] == (
        f"partition 0: {snapshot} of batch 7 (60 bytes), 1 delta (30 bytes), 9 messages in 0.500 s (100%)"
    )
    assert json.loads(nearcast("inspect", tmp_path / "K", "--json").out)["batch"] == 8
    missing = nearcast("inspect", tmp_path / "gone")
    assert (missing.status, missing.complaint) == (2, f"nearcast: {tmp_path}/gone: there is no such checkpoint")
    (tmp_path / "K/nearcast/manifests/00000008.json").write_text("{")
    damaged = nearcast("inspect", tmp_path / "K")
    assert damaged.status == 1
    assert "00000008.json is damaged" in damaged.complaint


def test_a_folder_that_is_removed_while_it_is_listed_counts_nothing(tmp_path, monkeypatch):
    """A stream that begins lists the store while the last worker of the one before removes what it wrote."""
    store = Store(tmp_path)
    store.put_folder("a/b", lambda folder: (folder / "c").write_text("c"))
    looks, scandir = [], os.scandir

    def removed_at_the_second_look(path):
        looks.append(path if isinstance(path, int) else Path(path))  # `rmtree` looks by descriptors
        if looks.count(tmp_path / "a" / "b") == 2 and looks[-1] == tmp_path / "a" / "b":
            shutil.rmtree(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", removed_at_the_second_look)
    assert {"a/b": 0} == store.sizes()
