"""Other plans and partitions for a stream that goes on, and snapshots: what is delivered is what a hub delivers."""

import json
import random

import pyarrow.parquet as pq
import pytest

from nearcast import Hub, Vocabulary
from nearcast.cli import main
from nearcast.errors import InvalidInput, NearcastError
from nearcast.geo import Space
from nearcast.pipeline.driver import rebalance
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.driver.rebalance import REQUEST, ask, balance_after, is_uneven
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import sink_of
from nearcast.pipeline.store.manifest import Manifests
from nearcast.pipeline.store.manifest_entries import LoadBalance
from nearcast.pipeline.store.store import Store
from nearcast.pipeline.worker.tasks import forget_all
from nearcast.tables import Rejected, subscriptions_table
from nearcast.window import Window
from support.streams import COLUMNS, Oracle, World, values_in, write_files

KINDS = ("within", "similar", "topk")
WINDOWS = {"count": Window.of(9), "time": Window.of("5s")}


class Broken(Exception):
    """What a runner raises that stands for a machine that goes down."""


class BreakingRunner(LocalRunner):
    """Goes down before, or after, its n-th job."""

    def __init__(self, before=None, after=None):
        self.before, self.after, self.jobs = before, after, 0

    def map(self, task, payloads, *, claims=None, prefer=None):
        self.jobs += 1
        if self.jobs == self.before:
            raise Broken
        done = super().map(task, payloads)
        if self.jobs == self.after:
            raise Broken
        return done


class Stream:
    """A pipeline over files in a folder, and a hub that is told the same."""

    def __init__(self, folder, seed, plan, partitions, window, kinds, *, earth=False, n=8):
        folder.mkdir(exist_ok=True)
        self.folder, self.random = folder, random.Random(seed)
        self.world, self.ids = World(seed, kinds=kinds, earth=earth), list(range(1, n + 5))
        space = Space.earth() if earth else Space.plane()
        self.settings = PipelineSettings(space, plan=plan, partitions=partitions, window=window)
        first = [self.world.subscription(id_) for id_ in self.ids[:n]]
        self.oracle = Oracle(Hub("earth" if earth else "plane", window=window))
        self.oracle.begin(first)
        self.checkpoint = folder / "K"
        self.store = Store(str(self.checkpoint)).within("nearcast")
        self.batch, self.rejected = 0, 0
        self.pipeline = self.opened()
        table = subscriptions_table(first, space, rejected=Rejected())
        assert not len(self.pipeline.begin(table, Vocabulary().snapshot()))

    def opened(self, runner=None, **options):
        sink = sink_of(str(self.folder / "out"), self.store)
        return Pipeline(self.store, self.settings, runner or LocalRunner(), sink, **options)

    def restart(self, runner=None, **options):
        """Go on as another process would."""
        forget_all()
        self.pipeline = self.opened(runner, **options)
        assert self.pipeline.resume()

    def files(self, n_messages=None, n_changes=None):
        r = self.random
        n_messages = r.randint(0, 12) if n_messages is None else n_messages
        return self.world.batch(n_messages, r.choice([0, 0, 2, 5]) if n_changes is None else n_changes, self.ids)

    def given(self, files):
        folder = self.folder / f"batch-{self.batch}"
        if not folder.exists():  # a batch that comes again is made of the same files
            folder.mkdir()
            write_files(folder, files)
        kinds = {name: "messages" if name.startswith("messages") else "changes" for name in files}
        return [BatchSource(kinds[name], name, str(folder / f"{name}.jsonl")) for name in files]

    def run(self, files=None):
        """Run a batch and compare it with the hub's."""
        files = self.files() if files is None else files
        report = self.pipeline.run(self.batch, self.given(files))
        self.check(files, report)

    def run_broken(self, runner):
        """Run a batch that breaks down somewhere, start again, and compare; tell whether it did break down."""
        files = self.files(6)
        self.restart(runner)
        try:
            self.check(files, self.pipeline.run(self.batch, self.given(files)))
        except Broken:
            before = self.manifest()
            self.restart()
            assert self.manifest() == before
            self.check(files, self.pipeline.run(self.batch, self.given(files)))
            return True
        return False

    def check(self, files, report):
        expected = as_rows(self.oracle.run(files))
        tables = self.parts(self.batch)
        found = [row for table in tables for row in in_order(table)]
        assert sorted(found, key=str) == sorted(expected, key=str), f"batch {self.batch}"
        for table in tables:
            places = [expected.index(row) for row in in_order(table)]
            assert places == sorted(places)
        self.rejected += report.rejected
        assert self.rejected == self.oracle.rejected
        self.batch += 1

    def parts(self, batch):
        return [pq.read_table(path) for path in sorted((self.folder / "out").glob(f"part-{batch:08d}-*.parquet"))]

    def manifest(self):
        return Manifests(self.store).last()

    def ask(self, plan=None, partitions=None):
        return ask(self.store, self.manifest(), plan, partitions)


def in_order(table):
    return [values_in(row) for row in table.to_pylist()]


def as_rows(deliveries):
    return [tuple(getattr(d, name) for name in COLUMNS) for d in deliveries]


# --- rebalancing --------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _swept_at_every_batch(monkeypatch):
    monkeypatch.setattr("nearcast.pipeline.driver.pipeline.SWEEP_EVERY", 1)


#: Every plan is left and come to, with more and with fewer partitions; with a window of each kind, and without one.
ROUTES = [
    ("count", [("hash", 2), ("trigger", 2), ("trigger", 5), ("trigger", 1), ("prefix", 4), ("keyword", 4)]),
    ("time", [("prefix", 1), ("keyword-first", 6), ("hash", 2), ("location", 3), ("space-first(2x2)", 4)]),
    (None, [("trigger", 3), ("prefix", 4), ("trigger", 2)]),
]


@pytest.mark.parametrize(("window", "route"), ROUTES, ids=["window by count", "window by time", "no window"])
def test_a_stream_goes_on_with_other_partitions(tmp_path, window, route):
    (plan, partitions), *others = route
    kinds, is_earth = KINDS if window else KINDS[:2], window == "time"
    stream = Stream(tmp_path, len(route), plan, partitions, WINDOWS.get(window), kinds, earth=is_earth)
    for plan, partitions in others:
        for _ in range(stream.random.randint(1, 2)):
            stream.run()
        stream.ask(plan, partitions)
        if stream.random.random() < 0.3:
            stream.restart()
        if stream.random.random() < 0.3:
            forget_all()
        stream.run()
        assert not stream.store.exists(REQUEST)
        manifest = stream.manifest()
        assert (manifest.plan.name, len(manifest.partitions)) == (plan, partitions)
        assert stream.pipeline.settings.partitions == partitions
        if stream.random.random() < 0.5:
            stream.restart()
    for _ in range(2):
        stream.run()


@pytest.mark.parametrize("plan", ["trigger", "prefix", "space-first"])
def test_thresholds_that_fall_in_a_batch_are_seen_to(tmp_path, plan):
    stream = Stream(tmp_path, len(plan), "hash", 2, Window.of(6), ("topk",), n=20)
    stream.run(stream.files(12, 4))
    stream.ask(plan, 4)
    for _ in range(2):
        stream.run(stream.files(25, 8))


def test_the_present_plan_is_learned_anew(tmp_path):
    stream = Stream(tmp_path, 3, "trigger", 3, WINDOWS["count"], KINDS)
    stream.run()
    before = stream.manifest()
    stream.ask()
    stream.run()
    after = stream.manifest()
    assert after.plan.name == "trigger"
    assert len(after.partitions) == 3
    assert before.plan.line != after.plan.line
    assert before.plan.folder != after.plan.folder
    stream.run()
    assert stream.manifest().plan.line == after.plan.line
    stream.run()
    kept = set(stream.store.list())
    still_used = {*before.recent, before.vocabulary.folder}
    assert not (kept & Manifests(stream.store).files_in_use(before)) - still_used
    assert not [name for name in kept if name.startswith(("exports", "shares"))]


@pytest.mark.parametrize(("when", "plan"), [("before", "trigger"), ("after", "prefix")])
def test_a_crash_at_any_job_loses_and_repeats_nothing(tmp_path, plan, when):
    stream = Stream(tmp_path, 11, "trigger", 2, WINDOWS["count"], KINDS)
    stream.run()
    job, partitions = 1, 3
    while True:
        stream.ask(plan, partitions)
        broke = stream.run_broken(BreakingRunner(**{when: job}))
        assert not stream.store.exists(REQUEST)
        assert len(stream.manifest().partitions) == partitions
        if not broke:
            break
        job, partitions = job + 1, 5 - partitions
    assert job >= 4


def test_a_request_is_met_once_even_if_it_could_not_be_removed(tmp_path, monkeypatch):
    stream = Stream(tmp_path, 5, "trigger", 2, WINDOWS["time"], KINDS)
    stream.run()
    stream.ask("prefix", 3)
    delete = Store.delete

    def refusing(store, names):
        names = list(names)
        if REQUEST in names:
            raise Broken
        delete(store, names)

    files = stream.files(8)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "delete", refusing)
        with pytest.raises(Broken):
            stream.pipeline.run(stream.batch, stream.given(files))
    assert stream.store.exists(REQUEST)
    line = stream.manifest().plan.line
    stream.restart()
    assert not stream.store.exists(REQUEST)
    assert stream.pipeline.run(stream.batch, stream.given(files)) is None
    expected = as_rows(stream.oracle.run(files))
    assert sorted((row for table in stream.parts(stream.batch) for row in in_order(table)), key=str) == sorted(
        expected, key=str
    )
    stream.batch += 1
    stream.rejected = stream.oracle.rejected
    stream.run()
    assert stream.manifest().plan.line == line


def test_a_request_that_cannot_be_met_is_noted_and_dropped(tmp_path):
    stream = Stream(tmp_path, 5, "trigger", 2, None, ("within",))
    stream.run()
    stream.store.put(REQUEST, lambda path: path.write_text(json.dumps({"id": "x", "plan": "by-moon"})))
    stream.run()
    assert "by-moon" in stream.manifest().rebalance.refused
    assert not stream.store.exists(REQUEST)
    stream.run()


@pytest.mark.parametrize(("ids", "kind"), [((1, 2), "int64"), (("1", "b"), "string")])
def test_ids_stay_what_they_are(tmp_path, ids, kind):
    """Whoever registered before a rebalance is known by the same id after it."""
    stream = Stream(tmp_path, 2, "hash", 3, None, ("within",))
    stream.ids = list(ids)
    stream.pipeline.state.id_types = (kind, None)
    stream.run({"changes-a": [{"op": "subscribe", **stream.world.subscription(id_)} for id_ in ids]})
    stream.ask("trigger", 2)
    stream.run({})
    before = stream.rejected
    stream.run({"changes-a": [{"op": "unsubscribe", "id": id_} for id_ in ids]})
    assert before == stream.rejected


# --- by the load --------------------------------------------------------------------------------------------------


def test_the_load_is_averaged_and_trusted_after_a_while():
    balance = None
    for _ in range(19):
        balance = balance_after(balance, [3.0, 1.0])
    assert not is_uneven(balance, 1.2)
    balance = balance_after(balance, [3.0, 1.0])
    assert balance.seconds == pytest.approx([3.0, 1.0])
    assert is_uneven(balance, 1.4)
    assert not is_uneven(balance, 1.6)
    for _ in range(30):
        balance = balance_after(balance, [1.0, 1.0])
    assert not is_uneven(balance, 1.2)
    assert balance_after(balance, [1.0]).batches == 1
    assert not is_uneven(LoadBalance((0.0, 0.0), 50), 1.0)


def test_a_stream_of_uneven_load_is_balanced_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(rebalance, "_TRUSTED_AFTER", 5)
    stream = Stream(tmp_path, 8, "trigger", 3, WINDOWS["count"], KINDS)
    stream.restart(rebalance_above=1.0)
    lines = []
    for _ in range(8):
        stream.run(stream.files(3, 0))
        lines.append(stream.manifest().plan.line)
    assert len(set(lines[:5])) == 1
    assert lines[5] != lines[4]
    assert len(set(lines[5:])) == 1
    assert stream.manifest().rebalance.id == "load-4"


# --- snapshots ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "window", "later"), [("trigger", "count", 0), ("prefix", "time", 2), ("hash", "count", 1)]
)
def test_a_stream_goes_on_from_snapshots(tmp_path, plan, window, later):
    stream = Stream(tmp_path, later * 3 + len(plan), plan, 3, WINDOWS[window], KINDS)
    for _ in range(3):
        stream.run()
    assert stream.pipeline.snapshots_due(3)
    assert not stream.pipeline.snapshots_due(4)
    old = Manifests(stream.store).files_in_use(stream.manifest())
    write = stream.pipeline.snapshots_to_write()
    for _ in range(later):
        stream.run()
    snapshots = write()
    assert stream.pipeline.take_snapshots(snapshots)
    stream.pipeline.snapshot_every = 1
    stream.run()
    manifest = stream.manifest()
    assert [entry.snapshot_batch for entry in manifest.partitions] == [3 + later] * 3
    assert [len(entry.deltas) for entry in manifest.partitions] == [0] * 3
    assert [files.batch for files in manifest.batches] == list(range(3, 4 + later))
    assert (manifest.directory, manifest.directory_batch) == (snapshots.directory, 2)
    assert manifest.plan.folder == snapshots.plan
    assert not set(manifest.plan.growth) & old
    stream.run()
    stream.restart()
    recent = set(manifest.recent)
    left = old & set(stream.store.list())
    assert left <= recent | {manifest.vocabulary.folder}
    stream.run()
    assert not stream.pipeline.take_snapshots(snapshots)


def test_snapshots_before_a_rebalance_are_of_no_use_after_it(tmp_path):
    stream = Stream(tmp_path, 4, "trigger", 2, WINDOWS["count"], KINDS)
    stream.run()
    snapshots = stream.pipeline.snapshots_to_write()()
    stream.ask("prefix", 3)
    stream.run()
    assert not stream.pipeline.take_snapshots(snapshots)
    for _ in range(3):
        stream.run()
    assert not set(snapshots.names) & set(stream.store.list())
    again = stream.pipeline.snapshots_to_write()()
    assert stream.pipeline.take_snapshots(again)
    stream.ask("trigger", 2)
    stream.run()
    stream.restart()
    for _ in range(2):
        stream.run()


def test_snapshots_that_nobody_takes_go_away_at_a_restart(tmp_path):
    stream = Stream(tmp_path, 4, "trigger", 2, None, ("within",))
    stream.run()
    snapshots = stream.pipeline.snapshots_to_write()()
    stream.run()
    assert set(snapshots.names) <= set(stream.store.list())
    stream.restart()
    assert not set(snapshots.names) & set(stream.store.list())


@pytest.mark.parametrize("seed", [1, 2])
def test_everything_at_random(tmp_path, seed):
    rng = random.Random(seed)
    plans = ["hash", "location", "keyword", "prefix", "space-first", "keyword-first", "trigger"]
    window = WINDOWS[rng.choice(["count", "time"])]
    stream = Stream(tmp_path, seed, rng.choice(plans), rng.randint(1, 5), window, KINDS, earth=seed % 2 == 1)
    snapshots = None
    for _ in range(10):
        chance = rng.random()
        if chance < 0.3:
            stream.ask(rng.choice(plans), rng.randint(1, 5))
        elif chance < 0.5:
            snapshots = stream.pipeline.snapshots_to_write()()
        elif chance < 0.7 and snapshots is not None:
            stream.pipeline.take_snapshots(snapshots)
            snapshots = None
        if rng.random() < 0.2:
            stream.restart()
            snapshots = None
        if rng.random() < 0.2:
            forget_all()
        stream.run()


# --- the command --------------------------------------------------------------------------------------------------


def run_command(capsys, *arguments):
    with pytest.raises(SystemExit) as left:
        main(["rebalance", *map(str, arguments)])
    out = capsys.readouterr()
    return left.value.code, out.out, out.err


@pytest.fixture
def stream(tmp_path):
    return Stream(tmp_path, 1, "trigger", 2, None, ("within",))


def test_the_command_leaves_a_request(stream, capsys):
    stream.run()
    code, out, _ = run_command(capsys, stream.checkpoint, "--plan", "prefix", "--partitions", 3)
    assert (code, out) == (0, f"{stream.checkpoint}: from the next batch on, plan prefix with 3 partitions\n")
    code, out, _ = run_command(capsys, stream.checkpoint, "--plan", "space-first(2x3)", "--json")
    assert code == 0
    answer = json.loads(out)
    assert answer.pop("request") == json.loads(stream.store.read_bytes(REQUEST))["id"]
    assert answer == {
        "checkpoint": str(stream.checkpoint),
        "plan": "space-first(2x3)",
        "partitions": 6,
        "after_batch": 0,
        "was": {"plan": "trigger", "partitions": 2},
    }
    stream.run()
    assert stream.manifest().plan.name == "space-first(2x3)"
    assert len(stream.manifest().partitions) == 6
    assert run_command(capsys, stream.checkpoint)[0] == 0
    stream.run()
    assert len(stream.manifest().partitions) == 6


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--plan", "by-moon"], "plan is 'by-moon'; expected one of hash"),
        (["--partitions", "0"], "partitions are 0; expected 1 or more"),
        (["--partitions", "-3"], "partitions are -3; expected 1 or more"),
        (["--plan", "prefix", "--partitions", "65"], "plans with copies allow 64 at most"),
        (["--plan", "space-first(2x2)", "--partitions", "5"], "two numbers whose product is 5"),
        (["--partitions", "many"], "valid integer"),
    ],
)
def test_the_command_refuses_what_cannot_be(stream, capsys, options, reason):
    code, out, err = run_command(capsys, stream.checkpoint, *options)
    assert (code, out) == (2, "")
    assert reason in err
    assert err.count("\n") == 1
    assert not stream.store.exists(REQUEST)


def test_the_command_needs_a_checkpoint(tmp_path, capsys):
    for there, reason in (
        ("nowhere", "there is no such checkpoint"),
        ("file", "is a file"),
        ("empty", "no folder nearcast"),
        ("new", "no batch was finished yet"),
    ):
        if there == "file":
            (tmp_path / there).write_text("")
        elif there != "nowhere":
            (tmp_path / there / ("nearcast" if there == "new" else "")).mkdir(parents=True)
        code, _, err = run_command(capsys, tmp_path / there)
        assert code == 2
        assert reason in err
        assert err.count("\n") == 1


def test_a_snapshot_in_the_making_is_not_swept_away(tmp_path):
    stream = Stream(tmp_path, 4, "trigger", 2, None, ("within",))
    stream.run()
    snapshots = stream.pipeline.snapshots_to_write()()
    for _ in range(3):
        stream.run()
    assert stream.pipeline.take_snapshots(snapshots)
    stream.run()
    stream.restart()
    stream.run()


def test_a_damaged_request_stops_the_stream_in_one_line(stream):
    stream.store.put(REQUEST, lambda path: path.write_text("{"))
    with pytest.raises(InvalidInput, match="delete it and ask again") as error:
        stream.pipeline.run(0, [])
    assert isinstance(error.value, NearcastError)
    stream.store.delete([REQUEST])
    stream.restart()
    stream.run()
