"""Two drivers on one checkpoint: the one that came last goes on, the other ends, and readers see one clean stream."""

import errno
import itertools
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from faults.small_stream import SmallStream
from nearcast.errors import IncompatibleStore, InvalidInput
from nearcast.pipeline.driver import pipeline as pipeline_module
from nearcast.pipeline.driver.pipeline import SWEEP_EVERY
from nearcast.pipeline.preparation.prepared_store import prepare
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.store import local_place
from nearcast.pipeline.store.checkpoint_report import inspect_checkpoint
from nearcast.pipeline.store.manifest import Manifests
from nearcast.pipeline.store.manifest_log import Slot, slots_in
from nearcast.pipeline.store.store import Store, StoreConflict, StoreError, epoch_of
from support.streams import write_files
from support.waiting import PATIENCE_S, wait_until

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return SmallStream(tmp_path_factory.mktemp("clean"), messages=4).clean()


@pytest.fixture
def stream(tmp_path):
    return SmallStream(tmp_path, messages=4)


def before(owner, name, act):
    """Let `act` happen once before a method of an object is called."""
    method = getattr(owner, name)

    def acting(*given, **more):
        setattr(owner, name, method)
        act()
        return method(*given, **more)

    setattr(owner, name, acting)


def names_the_winner(error, winner):
    said = str(error.value)
    assert "\n" not in said
    epoch = winner.manifests.epoch
    assert f"was taken over by process {os.getpid()} on {epoch.host}, started {epoch.started}" in said


def is_whole(stream):
    """A restart works, and everything a manifest names is there."""
    driver = stream.started()
    driver.manifests.verify(driver.state.manifest)
    return driver


# --- the commit -------------------------------------------------------------------------------------------------


def test_a_driver_that_pauses_between_its_check_and_its_commit_commits_nothing(stream, clean):
    """The second one has only started, and swept what the first was about to commit."""
    first, others = stream.started(), []
    stream.run(first, 0)
    before(first.manifests, "commit", lambda: others.append(stream.started()))
    with pytest.raises(StoreConflict) as error:
        stream.run(first, 1)
    names_the_winner(error, others[0])
    assert not [name for name in stream.delivered() if name.startswith("part-00000001")]
    stream.run(others[0])
    assert stream.delivered() == clean
    is_whole(stream)


def test_a_process_that_is_paused_at_its_commit_ends_with_one_line(stream, clean):
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)]), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, str(TESTS / "faults" / "paused_driver.py"), str(stream.folder), "1"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            wait_until((stream.folder / "paused").exists, is_alive=lambda: process.poll() is None)
            second = stream.started()
            stream.run(second)
            (stream.folder / "go").touch()
            said, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    (line,) = said.splitlines()
    assert re.match(rf"StoreConflict: .*/K was taken over by process {os.getpid()} on \S+, started \S+Z; this", line)
    assert f"process {process.pid} on" in line
    assert stream.delivered() == clean
    is_whole(stream)


def test_a_commit_into_a_slot_that_is_empty_again_does_not_count(tmp_path):
    """The log is forgotten from its beginning; what the first was to fill has been filled and removed."""
    stream = SmallStream(tmp_path, batches=6)
    clean = stream.clean()
    first = stream.started()
    stream.run(first, 0)

    def go_on():
        stream.run(stream.started())

    before(first.manifests, "commit", go_on)
    with pytest.raises(StoreConflict, match="was taken over by"):
        stream.run(first, 1)
    assert stream.delivered() == clean
    assert is_whole(stream).state.manifest.batch == 5


def test_a_driver_whose_files_are_swept_in_the_middle_of_a_batch_names_the_other(stream, clean):
    """What it misses first is a file; what is to blame is the other driver."""
    first = stream.started()
    stream.run(first, 0)
    before(first, "_match", stream.started)
    with pytest.raises(StoreConflict, match="was taken over by"):
        stream.run(first, 1)
    stream.run(stream.started())
    assert stream.delivered() == clean


def test_each_of_many_drivers_in_turn_goes_on(stream, clean):
    drivers = [stream.started() for _ in range(3)]
    for batch in range(4):
        drivers.append(stream.started())
        stream.run(drivers[-1], batch)
    for driver in drivers[:-1]:
        with pytest.raises((StoreConflict, IncompatibleStore)):
            stream.run(driver)
    assert stream.delivered() == clean
    epochs = [driver.store.epoch for driver in drivers]
    assert epochs == sorted(set(epochs))


def test_two_drivers_that_begin_at_once(stream, clean):
    """Nothing was committed yet: the first one's beginning is void."""
    first, others = stream.driver(), []
    before(first.manifests, "commit", lambda: others.append(stream.started()))
    with pytest.raises(StoreConflict) as error:
        stream.begin(first)
    names_the_winner(error, others[0])
    stream.run(others[0])
    assert stream.delivered() == clean


def test_a_stream_that_another_began_is_not_begun_again(stream):
    first = stream.driver()
    assert not first.resume()
    stream.started()
    with pytest.raises(IncompatibleStore, match="holds a stream already, at batch -1; start again to go on with it"):
        first.begin_from("anything")


def test_two_drivers_begin_from_one_prepared_store(tmp_path):
    """The names of what is copied are of each driver's own."""
    stream = SmallStream(tmp_path)
    raw = write_files(tmp_path, {"people": stream.subscriptions})["people"]
    prepare([raw], tmp_path / "store", stream.settings, LocalRunner())
    first, second = stream.driver(), stream.driver()
    before(first.manifests, "commit", lambda: second.begin_from(str(tmp_path / "store" / "nearcast")))
    with pytest.raises(StoreConflict, match="was taken over by"):
        first.begin_from(str(tmp_path / "store" / "nearcast"))
    stream.run(second)
    named = second.manifests.files_in_use(second.state.manifest)
    assert {epoch_of(name) for name in named} == {second.store.epoch}
    assert is_whole(stream).state.manifest.batch == 3


# --- what is swept ----------------------------------------------------------------------------------------------


def test_a_driver_that_is_slow_to_sweep_at_its_start_leaves_the_files_of_the_next_one(stream, clean):
    """Snapshots and parts that the next driver has written and not committed yet."""
    stream.run(stream.started(), 0)
    slow, second, staged = stream.driver(), [], []

    def next_starts():
        second.append(stream.started())
        assert second[0].take_snapshots(second[0].snapshots_to_write()())
        staged.append(second[0].sink.stage(1, 0, [pa.table({"id": [1]})]))

    before(slow.manifests, "sweep", next_starts)
    assert slow.resume()
    assert second[0].sink.missing(staged) == []
    stream.run(second[0])
    assert stream.delivered() == clean
    is_whole(stream)


def test_a_driver_that_is_slow_to_sweep_after_a_commit_leaves_the_snapshots_of_the_next_one(stream, clean, monkeypatch):
    """Its sweep knows the two manifests of before, which name no snapshot of the next driver."""
    monkeypatch.setattr(pipeline_module, "SWEEP_EVERY", 2)
    first, second = stream.started(), []
    stream.run(first, 1)

    def next_starts():
        second.append(stream.started())
        snapshots = second[0].snapshots_to_write()()
        assert second[0].take_snapshots(snapshots)

    before(first.manifests, "sweep", next_starts)
    stream.run(first, 2)  # was committed before: only its sweep came late
    stream.run(second[0])
    assert stream.delivered() == clean
    is_whole(stream)


def test_a_driver_whose_fence_is_swept_before_it_is_there_takes_over_from_the_one_that_swept(
    stream, clean, monkeypatch
):
    """Both wanted the same slot; the other's sweep takes the draft away."""
    stream.run(stream.started(), 0)
    late, linked, others = stream.driver(), local_place._linked, []

    def after_another(temporary, path):
        monkeypatch.setattr(local_place, "_linked", linked)
        others.append(stream.started())
        assert not temporary.exists()
        return linked(temporary, path)

    monkeypatch.setattr(local_place, "_linked", after_another)
    assert late.resume()
    with pytest.raises(StoreConflict) as error:
        stream.run(others[0])
    names_the_winner(error, late)
    stream.run(late)
    assert stream.delivered() == clean


@pytest.mark.parametrize("is_there", [False, True])
def test_a_fence_that_failed_for_no_other_driver_is_told(stream, monkeypatch, is_there):
    """Nobody else has gone on: trying again would be for ever, or take over from oneself."""
    stream.run(stream.started(), 0)
    linked = local_place._linked

    def failing(temporary, path):
        if is_there:
            linked(temporary, path)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(temporary))

    monkeypatch.setattr(local_place, "_linked", failing)
    with pytest.raises(StoreError, match="cannot be written: No such file") as error:
        stream.driver().resume()
    assert not isinstance(error.value, StoreConflict)


# --- what is published ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("consumed", [False, True])
def test_a_driver_that_is_slow_to_publish_repeats_nothing(stream, clean, consumed):
    """What it committed the next one has published, and readers may have taken it away."""
    first, second = stream.started(), []
    stream.run(first, 0)

    def next_starts():
        second.append(stream.started())
        assert [name for name in stream.delivered() if name.startswith("part-00000001")]
        if consumed:
            for path in stream.out.glob("part-00000001-*"):
                path.unlink()
        stream.run(second[0], 2)

    before(first.sink, "publish", next_starts)
    with pytest.raises(StoreConflict, match="was taken over by"):
        stream.run(first, 2)
    stream.run(second[0])
    kept = {name: data for name, data in clean.items() if not (consumed and name.startswith("part-00000001"))}
    assert stream.delivered() == kept
    is_whole(stream)


def test_two_drivers_publish_the_same_batch_side_by_side(stream, clean):
    """One has looked for the staged files, the other moves them first."""
    first, second = stream.started(), []
    stream.run(first, 0)
    before(first.sink.stager.store, "move", lambda: second.append(stream.started()))
    stream.run(first, 1)
    stream.run(second[0])
    assert stream.delivered() == clean


# --- what is refused --------------------------------------------------------------------------------------------


def test_a_start_that_is_refused_stops_nobody(stream, clean, tmp_path):
    first = stream.started()
    stream.run(first, 0)
    other = SmallStream(tmp_path / "other", window=10)
    other.checkpoint, other.out = stream.checkpoint, stream.out
    with pytest.raises(IncompatibleStore, match="begun with window 9, not 10"):
        other.started()
    stream.run(first)
    assert stream.delivered() == clean


def test_a_start_that_its_caller_refuses_stops_nobody(stream):
    first = stream.started()
    stream.run(first, 0)
    log = slots_in(first.store)

    def refuse(manifest):
        raise IncompatibleStore(f"not from batch {manifest.batch}")

    with pytest.raises(IncompatibleStore, match="not from batch 0"):
        stream.driver().resume(refuse)
    assert slots_in(first.store) == log


def test_a_beginning_that_is_refused_stops_nobody(stream):
    (stream.out).mkdir()
    (stream.out / "part-00000000-0000.parquet").touch()
    with pytest.raises(InvalidInput, match="of another run"):
        stream.started()
    assert slots_in(Store(str(stream.checkpoint))) == []


@pytest.mark.parametrize("kind", ["deltas", "_staging"])
def test_a_manifest_never_names_a_file_that_is_missing(stream, clean, kind):
    """Whatever took it away: the commit is refused by name, and a restart runs the batch again."""
    driver, victims = stream.started(), []
    stream.run(driver, 0)
    folder = stream.out / kind if kind == "_staging" else stream.checkpoint / kind

    def lose():
        victims.append(sorted(folder.glob("00000001-*"))[0])
        victims[0].unlink()

    before(driver, "_commit", lose)
    with pytest.raises(IncompatibleStore) as error:
        stream.run(driver, 1)
    assert f"{victims[0]} is missing, and batch 1 needs it; the batch was not committed" in str(error.value)
    stream.run(stream.started())
    assert stream.delivered() == clean


def test_a_snapshot_that_is_missing_is_not_taken_into_a_manifest(stream, clean):
    driver = stream.started()
    stream.run(driver, 0)
    taken = driver.snapshots_to_write()()
    assert driver.take_snapshots(taken)
    driver.store.delete([taken.directory])
    with pytest.raises(IncompatibleStore, match=f"{taken.directory} is missing, and batch 1 needs it"):
        stream.run(driver, 1)
    stream.run(stream.started())
    assert stream.delivered() == clean


# --- the log ----------------------------------------------------------------------------------------------------


def test_names_of_the_store_carry_the_epoch_and_parts_do_not(stream, clean):
    """A part is the same whoever delivers it."""
    first = stream.started()
    stream.run(first, 1)
    second = stream.started()
    stream.run(second)
    last, epochs = second.state.manifest, {first.store.epoch, second.store.epoch}
    names = {name for name in Store(str(stream.checkpoint)).list() if Slot.of(name) is None}
    assert {epoch_of(name) for name in names} == epochs
    assert {epoch_of(delta) for entry in last.partitions for delta in entry.deltas} == epochs
    assert sorted(stream.delivered()) == sorted(clean)


def test_epochs_do_not_come_again_when_a_checkpoint_is_restored(stream, clean, monkeypatch):
    """What drivers after the copy left in the folder of deliveries is older than whoever goes on from the copy."""
    this_driver, clock = pipeline_module.this_driver, itertools.count(1_000, 1_000)
    monkeypatch.setattr(pipeline_module, "this_driver", lambda: replace(this_driver(), number=next(clock)))
    stream.run(stream.started(), 0)
    shutil.copytree(stream.checkpoint, stream.folder / "copy")
    later = [stream.started() for _ in range(5)]
    left = later[-1].sink.stager.store.unique("_staging", 3, 0, ".parquet")
    later[-1].sink.stager.store.put(left, lambda path: path.touch())
    shutil.rmtree(stream.checkpoint)
    shutil.copytree(stream.folder / "copy", stream.checkpoint)
    restored = stream.started()
    assert restored.store.epoch > max(driver.store.epoch for driver in later)
    assert not (stream.out / left).exists()
    stream.run(restored)
    assert stream.delivered() == clean


def test_a_clock_that_went_back_begins_the_next_epoch(stream, monkeypatch):
    first = stream.started()
    late = replace(first.manifests.epoch, number=1)
    monkeypatch.setattr(pipeline_module, "this_driver", lambda: late)
    assert stream.started().store.epoch == first.store.epoch + 1


def test_the_log_says_who_drives(stream):
    stream.run(stream.started(), 0)
    second = stream.started()
    log = slots_in(second.store)
    assert log == [Slot(-1), Slot(-1, 1), Slot(0), Slot(1)]
    assert Manifests(second.store).batches() == [-1, 0]
    stream.run(second, 1)
    assert [slot.name for slot in slots_in(second.store)] == [
        "manifests/00000000.json",
        "manifests/00000001.json",
        "manifests/00000001-1.json",
    ]
    assert second.state.manifest.driver == second.manifests.epoch
    assert second.state.manifest == Manifests(second.store).last()
    stream.checkpoint.rename(stream.folder / "nearcast")
    found = inspect_checkpoint(str(stream.folder))
    assert found["driver"] == second.manifests.epoch.to_json()
    assert found["batches_kept"] == [0, 1]


def test_a_checkpoint_is_inspected_while_its_driver_goes_on(tmp_path, monkeypatch):
    """What was listed is gone when it is read: look again."""
    stream = SmallStream(tmp_path, batches=SWEEP_EVERY + 2, messages=3, changes=1)
    stream.checkpoint = tmp_path / "nearcast"
    driver = stream.started()
    stream.run(driver, 2)
    fenced_by, verify = Manifests._fenced_by, Manifests.verify

    def fenced_by_late(manifests, slot):
        monkeypatch.setattr(Manifests, "_fenced_by", fenced_by)
        stream.run(driver, 5)
        return fenced_by(manifests, slot)

    def verify_late(manifests, manifest):
        monkeypatch.setattr(Manifests, "verify", verify)
        assert driver.take_snapshots(driver.snapshots_to_write()())
        stream.run(driver)
        return verify(manifests, manifest)

    monkeypatch.setattr(Manifests, "_fenced_by", fenced_by_late)
    monkeypatch.setattr(Manifests, "verify", verify_late)
    found = inspect_checkpoint(str(tmp_path))
    last = len(stream.given) - 1
    assert (found["batch"], found["batches_kept"]) == (last, [last - 1, last])


def test_a_manifest_under_other_names_is_the_same_otherwise(stream):
    driver = stream.started()
    stream.run(driver, 1)
    manifest = driver.state.manifest
    names = sorted(driver.manifests.files_in_use(manifest))
    renamed = manifest.with_names({name: f"{name}x" for name in names})
    assert driver.manifests.files_in_use(renamed) == {f"{name}x" for name in names}
    back = renamed.with_names({f"{name}x": name for name in names})
    assert back == replace(manifest, sizes={})
