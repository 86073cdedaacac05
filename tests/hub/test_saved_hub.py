"""A saved hub is durable, replaced in one step, and checked when it is opened."""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from nearcast import Hub, indexes
from nearcast.errors import IncompatibleStore, UnknownIndex
from nearcast.saved_files.contents import read_signed
from support.saved_damage import harmed

#: Makes a hub with subscriptions of all kinds, polygons and a window that has moved on; `n` makes it another.
BUILD = """
from nearcast import Hub

def subscriptions(n):
    area = {"type": "Polygon", "coordinates": [[[9, 49], [11, 49], [11, 51], [9, 51], [9, 49]]]}
    for i in range(n):
        words = f"w{i % 7} w{i % 5}"
        yield {"id": 5 * i, "query": f"w{i % 7} AND NOT w{i % 3 + 7}", "lon": 10 + i / 100, "lat": 50, "radius_m": 5000}
        yield {"id": 5 * i + 1, "query": f'"w1 w2" OR w{i % 4}', "expires": "2030-01-01T00:00:00Z"}
        yield {"id": 5 * i + 2, "query": f"w{i % 7}", "region": area}
        yield {"id": 5 * i + 3, "kind": "similar", "query": words, "lon": 10 + i / 100, "lat": 50,
               "max_distance_m": 100000, "threshold": 0.3}
        yield {"id": 5 * i + 4, "kind": "topk", "query": words, "lon": 10, "lat": 50, "max_distance_m": 100000, "k": 2}

def messages(first, last):
    for j in range(first, last):
        yield {"id": f"m{j}", "text": f"w{j % 7} w{j % 5} w1 w2", "lon": 10 + j / 500, "lat": 50,
               "time": f"2026-01-01T00:00:{j:02d}Z"}

def build(n, index="trigger"):
    hub = Hub("earth", index=index, window="10s")
    assert not len(hub.subscribe_many(list(subscriptions(n))))
    hub.poll()
    hub.publish_many(list(messages(0, 15)))
    hub.unsubscribe(6)
    return hub
"""
_made: dict = {}
exec(BUILD, _made)
build, messages = _made["build"], _made["messages"]


def told(hub):
    """Return what the next messages deliver."""
    return hub.publish_many(list(messages(15, 25))).to_table().to_pylist()


def data_of(folder):
    """Return the subfolder that holds the data of a save."""
    return folder / read_signed((folder / "hub.json").read_bytes(), "")["folder"]


@pytest.fixture
def tmp_path(tmp_path_factory):
    """Lies in memory where it can: what is tested here is not the disk, and a busy one takes its time to sync."""
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK):
        yield tmp_path_factory.mktemp("saved")
        return
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


@pytest.fixture
def saved(tmp_path):
    """A saved hub of its own."""
    build(6).save(tmp_path / "saved")
    return tmp_path / "saved"


# Replaced in one step


@pytest.mark.modes
@pytest.mark.parametrize("index", ["trigger", "scan"])
def test_a_save_replaces_an_older_one(tmp_path, index):
    """What is opened is the newest save, and nothing of the older one is left."""
    build(3, index).save(tmp_path / "a")
    build(6, index).save(tmp_path / "a")

    opened = Hub.open(tmp_path / "a")
    assert len(build(6, index)) == len(opened)
    assert told(build(6, index)) == told(opened)
    assert {"hub.json", data_of(tmp_path / "a").name} == {path.name for path in (tmp_path / "a").iterdir()}


@pytest.mark.modes
def test_an_opened_hub_is_saved_onto_its_own_folder(tmp_path):
    """The files it maps are not pulled away: it goes on, and so does what was saved."""
    build(6).save(tmp_path / "a")
    opened = Hub.open(tmp_path / "a")
    opened.unsubscribe(11)
    opened.save(tmp_path / "a")
    opened.save(tmp_path / "a")

    again = Hub.open(tmp_path / "a", verify=True)
    assert told(opened) == told(again)


@pytest.mark.modes
def test_an_index_that_is_not_registered_is_named_with_the_remedy(tmp_path, monkeypatch):
    """An index of one's own is known once its module is imported."""
    Hub("plane", index="scan").save(tmp_path / "hub")
    monkeypatch.delitem(indexes._registry, "scan")
    with pytest.raises(UnknownIndex, match="'scan', which is not registered here; import the module that registers it"):
        Hub.open(tmp_path / "hub")


def test_a_folder_that_holds_anything_else_is_refused(tmp_path):
    """Nothing in it is touched."""
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty and holds no saved hub"):
        build(3).save(tmp_path)
    (tmp_path / "hub.json").write_text('{"format": "of somebody else"}')
    with pytest.raises(FileExistsError, match="not empty and holds no saved hub"):
        build(3).save(tmp_path)
    assert {"precious.txt", "hub.json"} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.modes
def test_what_a_save_cut_short_left_is_removed_by_the_next(tmp_path):
    """Data that no head names goes; so does a head that was not put in place."""
    build(3).save(tmp_path / "a")
    shutil.copytree(data_of(tmp_path / "a"), tmp_path / "a" / "files-00000000")
    (tmp_path / "a" / ".hub.json.1.00000000").write_text("{")
    build(3).save(tmp_path / "a")
    assert {"hub.json", data_of(tmp_path / "a").name} == {path.name for path in (tmp_path / "a").iterdir()}


@pytest.mark.modes
def test_a_save_of_the_first_format_is_refused_by_name_and_replaced(tmp_path):
    """It has its files beside the head and no checksums; a new save onto it leaves none of them."""
    hub = build(4)
    hub.save(tmp_path / "new")
    head = read_signed((tmp_path / "new" / "hub.json").read_bytes(), "")
    shutil.copytree(data_of(tmp_path / "new"), tmp_path / "old", ignore=shutil.ignore_patterns("texts"))
    about = {name: value for name, value in head.items() if name not in ("folder", "files")}
    (tmp_path / "old" / "hub.json").write_text(json.dumps(about | {"format": 1, "by_slot": []}))

    with pytest.raises(IncompatibleStore, match="has format 1, this version reads 2; save it again"):
        Hub.open(tmp_path / "old")
    hub.save(tmp_path / "old")
    assert told(build(4)) == told(Hub.open(tmp_path / "old", verify=True))
    assert {"hub.json", data_of(tmp_path / "old").name} == {path.name for path in (tmp_path / "old").iterdir()}


@pytest.mark.modes
def test_a_hub_is_opened_while_others_save_onto_its_folder(tmp_path):
    """Whoever opens it gets one save or the other, whole, however often they are replaced meanwhile."""
    small, large, is_over = build(2), build(3), threading.Event()
    small.save(tmp_path / "a")

    def save_on(hub):
        while not is_over.is_set():
            hub.save(tmp_path / "a")

    savers = [threading.Thread(target=save_on, args=(hub,)) for hub in (small, large)]
    for saver in savers:
        saver.start()
    try:
        found = [len(Hub.open(tmp_path / "a")) for _ in range(10)]
    finally:
        is_over.set()
        for saver in savers:
            saver.join()
    assert {len(small), len(large)} >= set(found)


@pytest.mark.modes
def test_everything_is_on_disk_before_the_head_names_it(tmp_path, monkeypatch):
    """Files, their folders and the new head are synced before the head is renamed, and the folder after it."""
    calls = []
    sync, replace = os.fsync, os.replace

    def recorded_sync(descriptor):
        calls.append(("sync", str(Path(f"/proc/self/fd/{descriptor}").readlink())))
        sync(descriptor)

    def recorded_replace(old, new):
        if Path(new).name == "hub.json":
            calls.append(("replace", str(new)))
            assert ("sync", str(old)) in calls
        replace(old, new)

    hub = build(3)
    monkeypatch.setattr(os, "fsync", recorded_sync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    hub.save(tmp_path / "deep" / "a")

    at = calls.index(("replace", str(tmp_path / "deep" / "a" / "hub.json")))
    before, after = [path for _, path in calls[:at]], [path for _, path in calls[at + 1 :]]
    data = data_of(tmp_path / "deep" / "a")
    expected = {str(path) for path in data.rglob("*")} | {str(data), str(data.parent), str(tmp_path)}
    assert set() == expected - set(before)
    assert before.index(str(data)) > max(before.index(str(path)) for path in data.rglob("*"))
    assert [str(data.parent)] == after


# Kills and full disks: in a process of its own, which may fork


KILLED = (
    BUILD
    + '''
import os, random, shutil, signal, sys
from pathlib import Path

folder, rng = Path(sys.argv[1]), random.Random(1)
small, large = build(2), build(4)
sizes = {len(small), len(large)}
small.save(folder)

EVENTS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree")

def n_events(hub):
    """Count the file operations of a save: the moments at which it can be cut short."""
    count = 0
    def hook(event, arguments):
        nonlocal count
        count += armed and event in EVENTS
    armed = True
    sys.addaudithook(hook)
    hub.save(folder)
    armed = False
    return count

def killed_at(hub, moment):
    """Save in a child that kills itself at one of its file operations."""
    child = os.fork()
    if child == 0:
        left = moment
        def hook(event, arguments):
            nonlocal left
            if event in EVENTS:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        try:
            hub.save(folder)
        finally:
            os._exit(0)
    os.waitpid(child, 0)

def cleaned():
    """Remove what killed saves left, so that the moments of the next one are known."""
    for path in folder.iterdir():
        if path.is_dir() and path.name not in (folder / "hub.json").read_text():
            shutil.rmtree(path)

last = n_events(large)
moments = [*rng.sample(range(1, last), 9), *range(last - 5, last + 1)]
found = set()
for turn, moment in enumerate(moments):
    if turn % 3:
        cleaned()
    killed_at((small, large)[turn % 2], moment)
    found.add(len(Hub.open(folder, verify=True)))
assert found == sizes, found
large.save(folder)
assert len(list(folder.iterdir())) == 2, list(folder.iterdir())
'''
)


FULL = (
    BUILD
    + """
import resource, sys
from pathlib import Path

folder = Path(sys.argv[1])
small, large = build(2), build(6)
small.save(folder)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
for limit in (0, 150, 400, 1000, 2000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        large.save(folder)
        raise SystemExit(f"a save succeeded with {limit} bytes a file")
    except OSError:
        pass
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert len(Hub.open(folder, verify=True)) == len(small)
    assert len(list(folder.iterdir())) == 2, list(folder.iterdir())
large.save(folder)
assert len(Hub.open(folder, verify=True)) == len(large)
"""
)


@pytest.mark.parametrize("script", [KILLED, FULL], ids=["killed", "no space"])
def test_a_save_cut_short_leaves_the_old_save_whole(tmp_path, script):
    """Killed at many of its file operations, or out of space in one of its files, it leaves the old save or the new."""
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a")], capture_output=True, text=True, timeout=600, check=False
    )
    assert (0, "") == (run.returncode, run.stderr)


# Damage


@pytest.mark.modes
@pytest.mark.parametrize("how", ["flipped", "zeroed", "cut off", "missing"])
def test_damage_to_any_file_is_named(saved, how):
    """With `verify`, every file that differs in a byte is refused with its name."""
    folder = saved
    rng, wrong = random.Random(how), {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        whole = path.read_bytes()
        for at in {0, len(whole) - 1, rng.randrange(len(whole))} if how != "missing" else {0}:
            if how == "missing":
                path.unlink()
            else:
                path.write_bytes(harmed(whole, how, at))
            try:
                Hub.open(folder, verify=True)
                wrong[str(path)] = f"opened with damage at {at}"
            except IncompatibleStore as error:
                if path.name not in str(error) or "\n" in str(error):
                    wrong[str(path)] = str(error)
            path.write_bytes(whole)
    assert {} == wrong
    assert told(build(6)) == told(Hub.open(folder, verify=True))


@pytest.mark.modes
def test_contents_are_compared_unless_that_is_declined(saved):
    """By default a small hub is verified; `verify=False` opens other contents, where they lead nowhere wrong."""
    folder = saved
    path = data_of(folder) / "index" / "popularity.npy"
    np.save(path, np.load(path) + 1)
    with pytest.raises(IncompatibleStore, match=r"popularity\.npy is damaged: its content is not what was written"):
        Hub.open(folder)
    assert told(build(6)) == told(Hub.open(folder, verify=False))


@pytest.mark.modes
def test_a_large_hub_is_not_read_as_a_whole_unless_asked(saved, monkeypatch):
    """Beyond `VERIFY_BYTES` contents are compared with `verify=True` alone; parsed files always are."""
    folder = saved
    path = data_of(folder) / "index" / "popularity.npy"
    np.save(path, np.load(path) + 1)
    monkeypatch.setattr("nearcast.saved_files.contents.VERIFY_BYTES", 1)
    assert told(build(6)) == told(Hub.open(folder))
    with pytest.raises(IncompatibleStore, match=r"popularity\.npy"):
        Hub.open(folder, verify=True)
    ids = data_of(folder) / "topk" / "ids.parquet"
    ids.write_bytes(harmed(ids.read_bytes(), "flipped", 20))
    with pytest.raises(IncompatibleStore, match=r"ids\.parquet is damaged"):
        Hub.open(folder, verify=False)


FUZZED = (
    BUILD
    + '''
import random, sys
from pathlib import Path
from nearcast.errors import IncompatibleStore

folder, index, rng = Path(sys.argv[1]), sys.argv[2], random.Random(3)
build(6, index).save(folder)
opened = refused = 0

def mutated(data):
    """Damage the data of an array, mostly, and sometimes its header."""
    at = rng.randrange(128 if len(data) > 128 and rng.random() < 0.9 else 0, len(data))
    n = rng.choice([1, 4, 8, 64, 4096])
    new = {0: lambda: bytes([data[at] ^ (1 << rng.randrange(8))]), 1: lambda: bytes(n), 2: lambda: b"\\xff" * n,
           3: lambda: rng.randbytes(n)}[rng.randrange(4)]()[: len(data) - at]
    return data[:at] + new + data[at + len(new) :]

def use(hub):
    """Do what a user would: whatever is raised, this process must live to see it."""
    hub.publish_many(list(messages(15, 22))).to_table()
    hub.unsubscribe(7)
    hub.subscribe({"id": 1000, "query": "w1"})
    hub.move(10, (10.2, 50.1))
    hub.advance("2026-01-01T00:01:00Z").to_table()

for path in sorted(folder.rglob("*.npy")):
    whole = path.read_bytes()
    for _ in range(int(sys.argv[3])):
        path.write_bytes(mutated(whole))
        try:
            hub = Hub.open(folder, verify=False)
            opened += 1
        except IncompatibleStore:
            refused += 1
            continue
        try:
            use(hub)
        except Exception as error:
            print(f"{path.name}: {error!r}")
    path.write_bytes(whole)
assert opened > 20 and refused > 20, (opened, refused)
'''
)


@pytest.mark.parametrize(("index", "times"), [("trigger", 1), ("scan", 1)])
def test_damage_that_was_not_looked_for_neither_crashes_nor_hangs(tmp_path, index, times):
    """Without `verify` a damaged hub is refused, or works: no offset leads out of its array or around in circles."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FUZZED, str(tmp_path / "a"), index, str(times)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (0, "") == (run.returncode, run.stderr), run.stdout
