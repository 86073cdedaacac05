"""Faults of streams: whatever dies, the output of one that goes on equals that of a clean run, byte for byte."""

import errno
import json
import os
import resource
import shutil
import signal
import time

import pytest

from faults.processes import StreamProcess, command_of, pids, session_of
from faults.rounds import MINUTES, rounds
from faults.sinks import DriverEnded, DyingSink, HalfPublishingSink
from nearcast import Vocabulary
from nearcast.cli.stream import _sample
from nearcast.errors import IncompatibleStore, NearcastError
from nearcast.files import read_table
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.store import local_place
from nearcast.pipeline.worker import tasks
from nearcast.spark.stream import stream
from nearcast.tables import Rejected
from support.spark_files import PER_BATCH, Inbox, contents, write_table
from support.streams import World
from support.waiting import PATIENCE_S

N_BATCHES, HALF = 4, 2


class Faulty:
    """A stream at one place that is brought back to its half, or to its beginning, for each fault."""

    def __init__(self, spark, folder, seed=5, plan="prefix", partitions=3, window=60):
        self.spark, self.folder = spark, folder
        self.inbox = Inbox(folder)
        self.options = {"plan": plan, "partitions": partitions, "window": window, "at_once": PER_BATCH}
        world, ids = World(seed), list(range(1, 61))
        self.subscriptions = folder / "subscriptions.jsonl"
        write_table(self.subscriptions, [world.subscription(id_) for id_ in ids[:40]], [])
        self._batches = [world.batch(60, 6, ids) for _ in range(N_BATCHES)]
        self.checkpoint, self.out = folder / "K", folder / "out"
        self.batches = []

    def arrive(self, first, last):
        for files in self._batches[first:last]:
            self.inbox.add(files)

    def make_clean(self):
        """Run to the end, and keep what is there in the middle and then."""
        self.arrive(0, HALF)
        self.run()
        shutil.copytree(self.checkpoint, self.folder / "half" / "K")
        shutil.copytree(self.out, self.folder / "half" / "out")
        self.arrive(HALF, N_BATCHES)
        self.run()
        self.clean = contents(self.out)
        assert {int(name[5:13]) for name in self.clean if name.startswith("part-0")} == set(range(N_BATCHES))

    def clear(self):
        shutil.rmtree(self.checkpoint, ignore_errors=True)
        shutil.rmtree(self.out, ignore_errors=True)

    def restore(self):
        """Bring back the state in the middle of the stream."""
        self.clear()
        shutil.copytree(self.folder / "half" / "K", self.checkpoint)
        shutil.copytree(self.folder / "half" / "out", self.out)
        self.batches.clear()

    def start(self, **options):
        chosen = {**self.options, "out": str(self.out), "space": "plane", "changes": str(self.inbox.changes), **options}
        messages = str(self.inbox.messages)
        table = read_table(self.subscriptions, source="subscriptions", rejected=Rejected())
        return stream(
            messages,
            table,
            checkpoint=self.checkpoint,
            sample=_sample(messages),
            once=True,
            spark=self.spark,
            on_batch=lambda progress: self.batches.append(progress.report.batch),
            **chosen,
        )

    def run(self, **options):
        assert self.start(**options).wait(PATIENCE_S)

    def fails(self, kind=NearcastError, **options):
        """Start, expect one line of error, and return it."""
        with pytest.raises(kind) as found:
            self.start(**options).wait(PATIENCE_S)
        assert "\n" not in str(found.value)
        return str(found.value)

    def recovers(self):
        """Go on without a fault; the output is that of the clean run."""
        self.run()
        self.is_clean()

    def is_clean(self, *, with_rejected=True):
        """Compare with the clean run; a sink of one's own has no place for rejected rows."""
        found, clean = (
            {name: each[name] for name in each if with_rejected or not name.startswith("_rejected")}
            for each in (contents(self.out), self.clean)
        )
        assert sorted(found) == sorted(clean)
        assert [name for name in found if found[name] != clean[name]] == []

    def process(self, log, master="local[2,4]", *, is_endless=False, **environment):
        options = {name.replace("_", "-"): value for name, value in self.options.items()}
        options |= {"messages": self.inbox.messages, "changes": self.inbox.changes, "out": self.out}
        options |= {"checkpoint": self.checkpoint, "space": "plane", "subscriptions": self.subscriptions}
        arguments = [text for name, value in options.items() for text in (f"--{name}", value)]
        return StreamProcess(log, [*arguments, *([] if is_endless else ["--once"])], master, **environment)

    def files(self, kind):
        return sorted((self.checkpoint / "nearcast" / kind).iterdir())


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory):
    faulty = Faulty(spark, tmp_path_factory.mktemp("faults"))
    faulty.make_clean()
    return faulty


@pytest.fixture
def faulty(made):
    made.restore()
    return made


# --- what is killed ---------------------------------------------------------------------------------------------


def moments_of(faulty, batch):
    """Return the folders and names of files by which one sees how far a stream has come in a batch."""
    nearcast = faulty.checkpoint / "nearcast"
    return {
        "segment": (nearcast / "segments", f"{batch:08d}-*"),
        "delta": (nearcast / "deltas", f"{batch:08d}-*"),
        "staged": (faulty.out / "_staging", f"{batch:08d}-*"),
        "manifest": (nearcast / "manifests", f"{batch:08d}.json"),
        "published": (faulty.out, f"part-{batch:08d}-*"),
        "offsets": (faulty.checkpoint / "spark" / "offsets", f"{batch}"),
    }


def killed_at(faulty, log, batch, moment, later_s=0.0):
    """Start a stream and kill all of it at a moment of a batch; tell whether it was still running."""
    process = faulty.process(log)
    folder, pattern = moments_of(faulty, batch)[moment]
    try:
        process.wait_for(lambda: next(folder.glob(pattern), None) is not None)
        time.sleep(later_s)
    finally:
        was_running = process.kill()
    return was_running


def killed_once(faulty, rng, log):
    """Start a stream and kill all of it at a random moment; tell whether it was still running."""
    batch, moment = rng.randrange(N_BATCHES), rng.choice(list(moments_of(faulty, 0)))
    return killed_at(faulty, log, batch, moment, rng.choice([0, 0, rng.uniform(0, 0.3)]))


def test_a_driver_killed(made, tmp_path):
    """Driver, Java and workers end in the middle of a batch; what a batch has committed is told apart from it."""
    made.clear()
    log = tmp_path / "log"
    assert killed_at(made, log, 2, "delta"), log.read_text()
    made.recovers()


@pytest.mark.skipif(not MINUTES, reason="takes as long as one wants: make test-faults")
def test_drivers_killed_for_a_long_time(spark, tmp_path):
    for seed, rng, folder in rounds(tmp_path):
        plan = rng.choice(["trigger", "prefix", "hash", "keyword-first"])
        faulty = Faulty(spark, folder, seed, plan, rng.choice([1, 2, 4]), rng.choice([60, "5s"]))
        faulty.make_clean()
        faulty.clear()
        log = folder / "log"
        kills = sum(killed_once(faulty, rng, log) for _ in range(rng.randint(1, 5)))
        assert faulty.process(log).wait() in (0, 3), log.read_text()
        faulty.is_clean()
        print(f"seed {seed}: {kills} kills, {plan}")  # noqa: T201 - for whoever watches


@pytest.mark.skipif(not MINUTES, reason="two more Javas to start: make test-faults")
def test_an_executor_killed(faulty, tmp_path):
    log = tmp_path / "log"
    process = faulty.process(log, "local-cluster[2,1,2048]", SPARK_WORKER_DIR=str(tmp_path / "work"))
    try:
        deltas = faulty.checkpoint / "nearcast" / "deltas"
        assert process.wait_for(lambda: next(deltas.glob(f"{HALF + 1:08d}-*"), None) is not None), process.said()
        first, *_ = process.executors()
        os.kill(first, signal.SIGKILL)
    except BaseException:
        process.kill()
        raise
    assert process.wait() in (0, 3), process.said()
    faulty.is_clean()


def test_workers_that_exit_in_the_middle_of_a_task(faulty, tmp_path):
    faulty.run(out=DyingSink(faulty.out, tmp_path / "deaths", deaths=3, batch=HALF + 1))
    assert len(list((tmp_path / "deaths").iterdir())) == 3
    faulty.is_clean(with_rejected=False)


def test_a_worker_that_exits_at_every_attempt(faulty, tmp_path):
    complaint = faulty.fails(out=DyingSink(faulty.out, tmp_path / "deaths", deaths=99, batch=HALF))
    assert "worker" in complaint
    faulty.recovers()


def test_a_driver_that_ends_before_all_parts_are_published(faulty):
    """The first one publishes none of a batch, the second one some of the batch behind it."""
    for batch, parts in ((HALF, 0), (HALF + 1, 1)):
        with pytest.raises(DriverEnded):
            faulty.start(out=HalfPublishingSink(faulty.out, batch=batch, parts=parts)).wait(PATIENCE_S)
    faulty.run()
    faulty.is_clean(with_rejected=False)


# --- what runs again --------------------------------------------------------------------------------------------


def test_a_batch_that_runs_again_by_force(made):
    made.restore()
    made.run()
    commits = made.checkpoint / "spark" / "commits"
    for path in commits.glob(f"*{N_BATCHES - 1}*"):
        path.unlink()
    made.batches.clear()
    made.recovers()
    assert made.batches == []


def test_a_batch_that_runs_again_from_the_state_before_it(faulty):
    """Spark knows of a batch that nearcast has not committed: the last manifest is gone with all it wrote."""
    faulty.run()
    manifest = faulty.files("manifests")[-1]
    shutil.copytree(faulty.checkpoint / "spark", faulty.folder / "later", dirs_exist_ok=True)
    manifest.unlink()
    for path in (faulty.checkpoint / "spark" / "commits").glob(f"*{N_BATCHES - 1}*"):
        path.unlink()
    for path in faulty.out.glob(f"part-{N_BATCHES - 1:08d}-*"):
        path.unlink()
    faulty.batches.clear()
    faulty.recovers()
    assert faulty.batches == [N_BATCHES - 1]


# --- what is damaged: one line before the first batch -----------------------------------------------------------


def refused(faulty, **options):
    complaint = faulty.fails(IncompatibleStore, **options)
    assert faulty.batches == []
    return complaint


@pytest.mark.parametrize("kind", ["deltas", "segments", "sequences"])
def test_a_file_that_was_cut_off(faulty, kind):
    victim = faulty.files(kind)[-1]
    os.truncate(victim, victim.stat().st_size // 2)
    assert victim.name in refused(faulty)


def test_a_segment_that_is_missing(faulty):
    victim = faulty.files("segments")[0]
    victim.unlink()
    assert f"{victim.name} is missing" in refused(faulty)


def test_a_snapshot_that_is_not_complete(faulty):
    folder = faulty.files("snapshots")[0]
    victim = next(path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size > 100)
    victim.unlink()
    assert folder.name in refused(faulty)


def test_a_manifest_that_was_edited(faulty):
    path = faulty.files("manifests")[-1]
    path.write_text(json.dumps({**json.loads(path.read_text()), "next_step": 1}))
    assert path.name in refused(faulty)


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"window": 61}, "window 60, not 61"), ({"window": None}, "window 60, not none")],
    ids=["window", "no window"],
)
def test_other_settings(faulty, options, expected):
    assert expected in refused(faulty, **options)


def test_another_place_for_deliveries(faulty, tmp_path):
    assert "sink" in refused(faulty, out=str(tmp_path / "other"))


def test_the_state_of_another_query(faulty):
    path = faulty.checkpoint / "spark" / "metadata"
    path.write_text(json.dumps({"id": "00000000-0000-0000-0000-000000000000"}))
    assert "belongs to query" in refused(faulty)


@pytest.mark.parametrize("half", ["spark", "nearcast"])
def test_half_a_checkpoint(faulty, half):
    shutil.rmtree(faulty.checkpoint / half)
    assert "half of the checkpoint is missing" in refused(faulty)


def test_a_stream_that_goes_on_without_its_changes(faulty):
    faulty.fails(changes=None)
    assert faulty.batches == []
    faulty.recovers()


# --- no room ----------------------------------------------------------------------------------------------------


def workers():
    """Return the Python processes of Spark below this one."""
    parents = {pid: found[1] for pid in pids() if (found := session_of(pid)) is not None}

    def is_below(pid):
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return [pid for pid in parents if "nearcast.spark.daemon" in command_of(pid) and is_below(pid)]


@pytest.fixture
def small_files():
    """Let workers write no file larger than so many bytes, as if the disk were full."""
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)

    def limit(size):
        for pid in workers():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    yield limit
    for pid in workers():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)


def test_no_room_for_what_workers_write(faulty, small_files):
    """For nothing at first, then for the beginning of a file."""
    for size in (0, 1500):
        small_files(size)
        assert "File too large" in faulty.fails()
    small_files(resource.RLIM_INFINITY)
    faulty.recovers()


def test_no_room_for_what_the_driver_writes(faulty, monkeypatch):
    """For the manifest of a batch, then for the sequences of the next one."""
    sync = local_place.sync
    for kind, batch in (("manifests", HALF), ("sequences", HALF + 1)):

        def full(path, kind=kind, batch=batch):
            if path.parent.name == kind and f"{batch:08d}" in path.name:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            sync(path)

        with monkeypatch.context() as patched:
            patched.setattr(local_place, "sync", full)
            assert "make room" in faulty.fails()
    faulty.recovers()


# --- what a worker remembers ------------------------------------------------------------------------------------


def test_a_worker_does_not_use_the_state_of_an_attempt_that_was_given_up(faulty, monkeypatch):
    """An attempt with another vocabulary leaves a state of the same batch in a worker that lives on."""
    monkeypatch.setattr(stream_runner(), "SparkRunner", lambda _: LocalRunner())
    other = Vocabulary()
    other.learn_tokens([[f"w{n}" for n in range(m)] for m in range(8)])
    tasks.forget_all()
    with monkeypatch.context() as patched:
        patched.setattr("nearcast.pipeline.store.manifest.Manifests.commit", interrupted)
        given_up = faulty.start(vocabulary=other)
        with pytest.raises(DriverEnded):
            given_up.wait(PATIENCE_S)
    stale = dict(tasks._cache._states)
    assert stale
    monkeypatch.setattr(tasks._cache, "_states", Restored(stale))
    faulty.recovers()


def stream_runner():
    import importlib

    return importlib.import_module("nearcast.spark.stream")


def interrupted(*_):
    raise DriverEnded


class Restored(dict):
    """The memory of a second worker, which comes into play when the first has run a batch."""

    def __init__(self, stale):
        super().__init__()
        self.stale, self.kept = stale, 0

    def pop(self, key, *default):
        self.kept += 1
        if key in self.stale and self.kept > len(self.stale):
            super().__setitem__(key, self.stale.pop(key))
        return super().pop(key, *default)
