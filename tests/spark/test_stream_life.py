"""How streams on Spark begin, idle and stop: partitions, workers that stay, and a stop that always comes to an end."""

import gc
import importlib
import json
import threading
import weakref
from types import SimpleNamespace

import pytest

from nearcast import Hub
from nearcast.errors import IncompatibleStore, InvalidInput, NearcastError
from nearcast.pipeline.store.manifest_log import slots_in
from nearcast.pipeline.store.store import Store
from nearcast.spark.batch_gate import BatchGate
from nearcast.spark.keep_warm import WarmKeeper
from nearcast.spark.session import slots_in as task_slots_in
from nearcast.spark.stream import Stream, stream
from nearcast.tables import Rejected, subscriptions_table
from support.waiting import PATIENCE_S, join, wait_until

stream_module = importlib.import_module("nearcast.spark.stream")


class Inflow:
    """A stream over a folder, to which files are added one by one."""

    def __init__(self, spark, folder):
        self.spark, self.folder, self.reports = spark, folder, []
        (folder / "in").mkdir(parents=True)
        self.table = subscriptions_table([{"id": 1, "query": "tea"}], Hub("plane").space, rejected=Rejected())

    def arrive(self, number):
        row = {"id": number, "text": "tea", "x": 0.0, "y": 0.0}
        draft = self.folder / f"{number}.jsonl"
        draft.write_text(json.dumps(row))
        draft.rename(self.folder / "in" / draft.name)

    def start(self, on_batch=None, **options):
        def note(progress):
            self.reports.append(progress.report)
            if on_batch is not None:
                on_batch(progress)

        return stream(
            str(self.folder / "in"),
            self.table,
            out="memory",
            checkpoint=self.folder / "K",
            space="plane",
            spark=self.spark,
            on_batch=note,
            **options,
        )


def test_a_stream_can_be_stopped_by_its_own_batch(spark, tmp_path):
    """`on_batch` is called in the batch: it does not wait for the batch to end, and the stream ends behind it."""
    inflow = Inflow(spark, tmp_path)
    for number in range(3):
        inflow.arrive(number)
    started = threading.Event()

    def stop(_):
        started.wait(PATIENCE_S)
        running.stop()

    running = inflow.start(stop, at_once=1, trigger="100 milliseconds", partitions=1)
    started.set()
    assert running.wait(PATIENCE_S)
    assert [1] == [each.messages for each in inflow.reports]
    again = inflow.start(once=True, partitions=1)
    assert again.wait(PATIENCE_S)
    assert [1, 2] == [each.messages for each in inflow.reports]


def test_a_batch_that_begins_while_the_stream_stops_is_refused_and_hangs_nobody(spark, tmp_path):
    """Spark waits for its thread without a limit, and that thread for our answer."""
    inflow = Inflow(spark, tmp_path)
    inflow.arrive(1)
    running = inflow.start(trigger="100 milliseconds", partitions=1)
    wait_until(lambda: inflow.reports, is_alive=lambda: running.is_active)
    at_the_gate, enter, stop = threading.Event(), BatchGate._enter, running.query.stop

    def noted(gate):
        at_the_gate.set()
        enter(gate)

    def stop_when_a_batch_begins():
        inflow.arrive(2)
        assert at_the_gate.wait(PATIENCE_S)
        stop()

    running._gate._enter = noted.__get__(running._gate)
    running.query.stop = stop_when_a_batch_begins
    running.stop()
    assert running.wait(PATIENCE_S)
    assert 1 == len(inflow.reports)


def test_a_closed_gate_refuses_who_waits_and_lets_who_is_inside_finish():
    gate, refused = BatchGate(), []
    with gate.entered():
        assert gate.is_entered_here
        waits = threading.Thread(target=lambda: refused.append(_refused(gate)))
        waits.start()
        gate.close()
        waits.join(PATIENCE_S)
        assert ["the stream is stopping"] == refused
    gate.wait_until_left()
    assert "the stream is stopping" == _refused(gate)


def _refused(gate):
    with pytest.raises(NearcastError) as caught, gate.entered():
        pass
    return str(caught.value)


def last_activity(spark):
    """Return when a Python worker was last used: what Spark goes by when it ends idle ones. It has no other window."""
    env = _field(spark, "org.apache.spark.SparkEnv$", "env", None)
    factories = _field(spark, "org.apache.spark.SparkEnv", "pythonWorkers", env).values().iterator()
    found = []
    while factories.hasNext():
        found.append(
            _field(spark, "org.apache.spark.api.python.PythonWorkerFactory", "lastActivityNs", factories.next())
        )
    return max(found)


def _field(spark, kind, name, value):
    """Return a private field, without a look at methods: some of SparkEnv name classes that are not there."""
    fields = spark._jvm.java.lang.Class.forName(kind).getDeclaredFields()
    (field,) = [each for each in fields if each.getName().split("$")[-1] == name]
    field.setAccessible(True)
    return field.get(value)


def test_an_idle_stream_keeps_its_workers(spark, tmp_path, monkeypatch):
    """What Spark goes by when it ends idle workers moves on while no batch comes."""
    monkeypatch.setattr(stream_module, "KEEP_WARM_S", 0.2)
    inflow = Inflow(spark, tmp_path)
    inflow.arrive(1)
    running = inflow.start(partitions=1)
    wait_until(lambda: inflow.reports, is_alive=lambda: running.is_active)
    for _ in range(3):
        before = last_activity(spark)
        wait_until(lambda before=before: last_activity(spark) > before, is_alive=lambda: running.is_active)
    assert 1 == len(inflow.reports)
    running.stop()
    join(running._keeper._thread)


def test_a_long_batch_keeps_the_workers_that_are_done_with_it(spark, tmp_path, monkeypatch):
    """Also where the stream ends with what is there; its keeper ends with it."""
    monkeypatch.setattr(stream_module, "KEEP_WARM_S", 0.2)
    inflow = Inflow(spark, tmp_path)
    inflow.arrive(1)
    seen = []

    def wait_for_jobs(_):
        for _ in range(3):
            before = last_activity(spark)
            wait_until(lambda before=before: last_activity(spark) > before)
            seen.append(before)

    running = inflow.start(wait_for_jobs, partitions=1, once=True)
    assert running.wait(PATIENCE_S)
    assert 3 == len(seen)
    join(running._keeper._thread)


class Linked:
    """An object that may point at another."""


def test_garbage_of_the_driver_is_collected_now_and_then(spark, tmp_path, monkeypatch):
    """Cycles of old objects, too, which hold the DataFrames of past batches in Spark's JVM."""
    monkeypatch.setattr(stream_module, "COLLECT_EVERY_S", 0.0)
    inflow = Inflow(spark, tmp_path)
    for number in range(2):
        inflow.arrive(number)
    seen = []

    def leave_a_cycle(_):
        alive = [each() is not None for each in seen]
        cycle = Linked()
        cycle.other = cycle
        for _ in range(3):  # into the old generation
            gc.collect()
        seen.append(weakref.ref(cycle))
        assert not any(alive)

    running = inflow.start(leave_a_cycle, at_once=1, partitions=1, once=True)
    assert running.wait(PATIENCE_S)
    assert [2, 0] == [len(seen), running.hook_failures]


def test_a_stop_waits_for_no_job_that_never_ends(monkeypatch):
    """Without executors the job that keeps workers, and the one that writes snapshots, wait for ever."""
    monkeypatch.setattr(stream_module, "SNAPSHOTS_END_S", 0.0)
    begun, stopped, executors = threading.Event(), threading.Event(), threading.Event()

    def wait_for_executors(*_):
        begun.set()
        executors.wait()

    runner = SimpleNamespace(map=wait_for_executors)
    snapshots = {"snapshots_due": lambda _: True, "snapshots_to_write": lambda: executors.wait}
    running = Stream(SimpleNamespace(runner=runner, **snapshots), {}, None)
    running.query = SimpleNamespace(stop=stopped.set)
    running._snapshots.begin_if_due()
    running._keeper = WarmKeeper(runner, lambda: 1, lambda: True, 0.0)
    assert begun.wait(PATIENCE_S)
    stopping = threading.Thread(target=running.stop, daemon=True)
    stopping.start()
    join(stopping)
    assert stopped.is_set()
    executors.set()
    join(running._keeper._thread)


def test_folders_with_a_space_in_their_names(spark, tmp_path):
    """As a URI, too, where it is written %20: Spark reads what was staged, and has its half beside ours."""
    inflow = Inflow(spark, tmp_path / "a b")
    inflow.arrive(1)
    found, checkpoint = [], inflow.folder / "K"
    running = stream(
        (inflow.folder / "in").as_uri(),
        inflow.table,
        out=lambda frame, _: found.extend(row.message_id for row in frame.collect()),
        checkpoint=checkpoint.as_uri(),
        space="plane",
        partitions=1,
        once=True,
        spark=spark,
    )
    assert running.wait(PATIENCE_S)
    assert [1] == found
    assert (checkpoint / "nearcast" / "manifests").is_dir()
    assert (checkpoint / "spark" / "metadata").exists()


def test_a_start_without_the_half_of_spark_is_refused_and_stops_nobody(spark, tmp_path):
    inflow = Inflow(spark, tmp_path)
    inflow.arrive(1)
    assert inflow.start(once=True, partitions=1).wait(PATIENCE_S)
    (tmp_path / "K" / "spark").rename(tmp_path / "spark")
    store = Store(tmp_path / "K" / "nearcast")
    log = slots_in(store)
    with pytest.raises(IncompatibleStore, match="half of the checkpoint is missing"):
        inflow.start(once=True, partitions=1)
    assert log == slots_in(store), "it has no fence"


CLUSTER = "spark://host:7077"


@pytest.mark.parametrize(
    ("master", "settings", "slots"),
    [
        ("local[3,4]", {}, 3),
        ("local-cluster[3,2,512]", {}, 6),
        ("local[3]", {"spark.default.parallelism": "5"}, 5),
        (CLUSTER, {"spark.default.parallelism": "12"}, 12),
        (CLUSTER, {"spark.cores.max": "8"}, 8),
        (CLUSTER, {"spark.cores.max": "8", "spark.task.cpus": "2"}, 4),
        ("yarn", {"spark.executor.instances": "3", "spark.executor.cores": "4"}, 12),
    ],
)
def test_slots_are_those_that_settings_promise(master, settings, slots):
    """Not those of the executors that have registered so far: a stream keeps its partitions for good."""
    assert slots == task_slots_in(master, settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"spark.executor.instances": "3"},
        {"spark.executor.instances": "3", "spark.executor.cores": "4", "spark.dynamicAllocation.enabled": "true"},
    ],
)
def test_slots_that_no_setting_promises_are_asked_for(settings):
    with pytest.raises(InvalidInput, match=r"spark://host:7077 runs at once is not known before .* give partitions"):
        task_slots_in(CLUSTER, settings)


def test_a_stream_that_goes_on_asks_for_no_slots(spark, tmp_path, monkeypatch):
    """It has its partitions, whatever runs now."""
    inflow = Inflow(spark, tmp_path)
    inflow.arrive(1)
    assert inflow.start(once=True, partitions=3).wait(PATIENCE_S)
    monkeypatch.setattr(stream_module, "slots_of", None)
    inflow.arrive(2)
    again = inflow.start(once=True)
    assert again.wait(PATIENCE_S)
    assert (3, 2) == (again.pipeline.settings.partitions, len(inflow.reports))
