"""Streams on Spark: each carries all three kinds and delivers what a hub does that is fed in the same order."""

import importlib
import itertools
import json
import random
import shutil
import time
from datetime import UTC, datetime

import pytest

from nearcast import Hub, Vocabulary
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.spark.stream import stream
from nearcast.tables import Rejected, subscriptions_table
from support import streams
from support.spark_files import PER_BATCH, Inbox, as_rows, contents, parts_of, rows_of
from support.streams import Oracle, World, moment
from support.waiting import PATIENCE_S, wait_until

#: `nearcast.spark.stream` is the function of that name.
stream_module = importlib.import_module("nearcast.spark.stream")

#: Plan, partitions (one, as many as slots, more), window, format of the input, sink, clock. Each format, number of
#: partitions and kind of window meets each clock; `tests/pipeline/test_pipeline.py` has every plan.
STREAMS = [
    ("hash", 2, "count", "jsonl", "parquet", "event"),
    ("prefix", 5, "time", "parquet", "memory", "event"),
    ("trigger", 1, "time", "csv", "function", "event"),
    ("keyword-first", 1, "time", "jsonl", "jsonl", "wall"),
    ("trigger", 2, "count", "parquet", "function", "wall"),
    ("location", 5, "count", "csv", "memory", "wall"),
]
#: Far more than a test takes: what the wall clock leaves in the window.
LONG = "10m"


class Running:
    """A stream over an inbox: every `run` is a start that works off what arrived since the last one."""

    def __init__(self, spark, folder, rows, *, sink="parquet", extension="jsonl", **options):
        self.spark, self.folder = spark, folder
        self.inbox = Inbox(folder, extension)
        self.options = {"space": "plane", "partitions": 2, "at_once": PER_BATCH, **options}
        self.table = subscriptions_table(rows, Hub(self.options["space"]).space, rejected=Rejected())
        self.sink = sink
        self.out = folder / ("out.jsonl" if sink == "jsonl" else "out")
        self.handed = {}
        self.remembered, self.starts = [], []
        self.reports, self.beats = [], []
        self.last = None

    def start(self, *, once=True, **options):
        outs = {"memory": "memory", "function": self._take}
        self.last = stream(
            str(self.inbox.messages),
            self.table,
            changes=str(self.inbox.changes),
            out=outs.get(self.sink, str(self.out)),
            checkpoint=self.folder / "K",
            once=once,
            spark=self.spark,
            on_batch=self._note,
            **{**self.options, **options},
        )
        return self.last

    def run(self, **options):
        """Start, and wait until what is there is worked off."""
        self.starts.append(len(self.reports))
        running = self.start(**options)
        assert running.wait(PATIENCE_S)
        if self.sink == "memory":
            self.remembered.append([rows_of(table) for table in running.pipeline.sink.tables])
        return running

    def _take(self, frame, batch):
        self.handed[batch] = rows_of(frame.toArrow())

    def _note(self, progress):
        self.reports.append(progress.report)
        self.beats.append(self.last.pipeline.state.history[-1].beat)

    def parts(self, batch):
        return parts_of(self.out, batch)

    def delivered(self, batch):
        """Return the deliveries of a batch in some order; those of each partition stay in theirs."""
        if self.sink == "function":
            return self.handed.get(batch, [])
        return [row for part in self.parts(batch) for row in part]


def expected_of(oracle, batches, beats):
    """Return what a hub delivers in each batch, its clock moved on by the same beats."""
    found = []
    for files, beat in zip(batches, beats, strict=True):
        found.append(as_rows(oracle.run(files, beat=beat)))
    return found


def in_one_file(files):
    """Return a batch with the rows of each kind in one file: it is not full, and the wall clock moves on."""
    return {
        f"{kind}-a": [row for name, rows in files.items() if name.startswith(kind) for row in rows]
        for kind in ("messages", "changes")
    }


def with_text_ids(rows):
    return [{**row, "id": str(row["id"])} for row in rows]


def same(found, expected, what=""):
    assert sorted(found, key=str) == sorted(expected, key=str), what


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: "-".join(map(str, case)))
def test_a_stream_delivers_what_a_hub_does(spark, tmp_path, monkeypatch, case):
    plan, partitions, length, extension, sink, clock = case
    is_wall = clock == "wall"
    if is_wall:
        monkeypatch.setattr(streams, "BEGIN", datetime.now(UTC).replace(microsecond=0))
    seed = STREAMS.index(case)
    monkeypatch.setattr(stream_module, "SNAPSHOT_EVERY", 2 if seed % 2 else 20)
    rng, world, ids = random.Random(seed), World(seed), list(range(1, 13))
    first = [world.subscription(id_) for id_ in ids[:8]]
    batches = [world.batch(rng.randint(1, 12), rng.choice([0, 2, 5]), ids) for _ in range(5)]
    if extension == "csv":  # where all ids are text
        first = with_text_ids(first)
        batches = [{name: with_text_ids(rows) for name, rows in files.items()} for files in batches]
    window = 9 if length == "count" else LONG if is_wall else "5s"
    chosen = {"plan": plan, "partitions": partitions, "extension": extension, "sink": sink, "clock": clock}
    running = Running(spark, tmp_path, first, window=window, **chosen)
    if is_wall:
        batches[2], batches[4] = in_one_file(batches[2]), in_one_file(batches[4])
    for start in (batches[:3], batches[3:]):
        for files in start:
            running.inbox.add(files, each=1 if is_wall and files is start[-1] else PER_BATCH)
        running.run()
    assert [report.batch for report in running.reports] == list(range(len(batches)))
    oracle = Oracle(Hub("plane", window=window))
    oracle.begin(first)
    check_deliveries(running, expected_of(oracle, batches, running.beats))
    assert sum(report.rejected for report in running.reports) == oracle.rejected


def check_deliveries(running, expected):
    if running.sink == "memory":
        # A start hands the last batch over again; a batch without deliveries is not handed over.
        cut = running.starts[1]
        told = [rows for rows in expected[:cut] + expected[cut - 1 :] if rows]
        for found, rows in zip(itertools.chain(*running.remembered), told, strict=True):
            same(found, rows)
        return
    for batch, rows in enumerate(expected):
        same(running.delivered(batch), rows, f"batch {batch}")
        for part in running.parts(batch):
            places = [rows.index(row) for row in part]
            assert places == sorted(places)


# --- named cases ------------------------------------------------------------------------------------------------

TOP = {"kind": "topk", "query": "tea milk", "x": 1.0, "y": 1.0, "max_distance": 10.0, "text_weight": 0.5, "k": 1}
NEAR = {"id": 1, **TOP}
WITHIN = {"id": 2, "kind": "within", "query": "tea", "x": 1.0, "y": 1.0, "radius": 3.0}
SIMILAR = {"id": 3, "kind": "similar", "query": "tea", "x": 2.0, "y": 2.0, "max_distance": 10.0, "threshold": 0.4}


def tea(id_, seconds, text="tea", x=1.0, y=1.0):
    return {"id": id_, "text": text, "x": x, "y": y, "time": moment(seconds)}


def compare(running, rows, batches, *, window, hub=None):
    """Work off the batches in one start and compare each with a hub; return the hub's deliveries by batch."""
    for files in batches:
        running.inbox.add(files)
    running.run()
    oracle = Oracle(Hub("plane", window=window) if hub is None else hub)
    oracle.begin(rows)
    expected = expected_of(oracle, batches, running.beats)
    for batch, told in enumerate(expected):
        same(running.delivered(batch), told, f"batch {batch}")
    return expected


@pytest.mark.parametrize("plan", ["trigger", "prefix"])
def test_a_subscription_an_expiry_and_a_new_best_message_in_one_batch(spark, tmp_path, plan):
    batches = [
        {"messages-a": [tea(1, 0, "tea milk"), tea(2, 3, "milk", x=5.0)]},
        {
            "changes-a": [{"op": "subscribe", "id": 9, **TOP, "query": "milk", "time": moment(6)}],
            # The first leaves at 5 s: the second is best until the fourth comes.
            "messages-a": [tea(3, 6, "tea", x=9.0), tea(4, 7, "tea milk", x=2.0)],
        },
    ]
    rows = [NEAR, WITHIN, SIMILAR]
    running = Running(spark, tmp_path, rows, plan=plan, partitions=4, window="5s")
    _, second = compare(running, rows, batches, window="5s")
    changes = {(row[0], row[1], row[2]) for row in second}
    assert {(1, 1, "-"), (1, 4, "+"), (9, 4, "+")} <= changes


def test_a_batch_of_changes_alone(spark, tmp_path):
    rows = [NEAR, WITHIN, SIMILAR]
    batches = [
        {"messages-a": [tea(1, 0), tea(2, 1, x=9.0, y=9.0)]},
        {"changes-a": [{"op": "move", "id": 1, "x": 9.0, "y": 9.0, "time": moment(2)}]},
        {"changes-a": [{"op": "unsubscribe", "id": 2}, {"op": "subscribe", "id": 7, **TOP}]},
    ]
    running = Running(spark, tmp_path, rows, window=5)
    _, second, third = compare(running, rows, batches, window=5)
    assert {row[2] for row in second} == {"+", "-"}
    assert third


def test_a_move_before_a_subscription_is_replaced_in_the_same_batch(spark, tmp_path):
    rows = [NEAR, WITHIN, SIMILAR]
    anywhere = {"kind": "within", "query": "milk"}
    batches = [
        {
            "changes-a": [
                {"op": "move", "id": 2, "x": 9.0, "y": 9.0, "time": moment(1)},
                {"op": "subscribe", "id": 2, **anywhere, "time": moment(3)},
            ],
            "messages-a": [tea(1, 0), tea(2, 2, x=9.0, y=9.0), tea(3, 4, "milk")],
        },
    ]
    running = Running(spark, tmp_path, rows, window=5, partitions=4)
    (told,) = compare(running, rows, batches, window=5)
    assert {row[1] for row in told if row[0] == 2} == {1, 2, 3}


def test_a_stream_may_begin_with_nothing(spark, tmp_path):
    running = Running(spark, tmp_path, [], window=5)
    running.run()
    assert not running.reports
    batches = [{"changes-a": [{"op": "subscribe", **NEAR}], "messages-a": [tea(1, 0)]}]
    (told,) = compare(running, [], batches, window=5)
    assert len(told) == 1


def test_beats_of_the_clock_let_messages_leave_and_are_the_same_in_a_batch_that_runs_again(
    spark, tmp_path, monkeypatch
):
    monkeypatch.setattr(streams, "BEGIN", datetime.now(UTC).replace(microsecond=0))
    walls, run = {}, Pipeline.run

    def noted(pipeline, batch, given, *, wall=None, **more):
        walls.setdefault(batch, set()).add(wall)
        return run(pipeline, batch, given, wall=wall, **more)

    monkeypatch.setattr(Pipeline, "run", noted)
    window = "4s"
    running = Running(spark, tmp_path, [NEAR, WITHIN], window=window, clock="wall")
    batches = [{"messages-a": [tea(1, 0)]}]
    running.inbox.add({"messages-a": [*batches[0]["messages-a"], tea(2, 0) | {"time": "9999-01-01T00:00:00Z"}]})
    running.run()
    assert [1] == [report.rejected for report in running.reports if report.messages]
    shutil.copytree(tmp_path / "K" / "nearcast", tmp_path / "before")
    shutil.copytree(running.out, tmp_path / "out-before")
    time.sleep(max(0.0, streams.BEGIN.timestamp() + 6 - time.time()))
    running.run()
    last = len(running.reports) - 1
    oracle = Oracle(Hub("plane", window=window))
    oracle.begin([NEAR, WITHIN])
    expected = expected_of(oracle, batches + [{}] * last, running.beats)
    found = [running.delivered(batch) for batch in range(last + 1)]
    for one, other in zip(found, expected, strict=True):
        same(one, other)
    assert [row[:3] for rows in found for row in rows if row[4] is not None] == [(1, 1, "+"), (1, 1, "-")]
    told = contents(running.out)
    # The state of before the last batch, and Spark not sure that the batch was done.
    for place, saved in ((tmp_path / "K" / "nearcast", "before"), (running.out, "out-before")):
        shutil.rmtree(place)
        shutil.copytree(tmp_path / saved, place)
    for commit in (tmp_path / "K" / "spark" / "commits").glob(f"*{last}*"):
        commit.unlink()
    running.run()
    assert running.beats[last + 1] == running.beats[last]
    assert all(len(seen) == 1 and None not in seen for seen in walls.values()), "the wall clock of a batch changed"
    again = contents(running.out)
    assert told == {name: again[name] for name in told}


def test_a_new_vocabulary_delivers_the_difference(spark, tmp_path):
    flat, steep = Vocabulary(), Vocabulary()
    flat.learn_tokens([["tea"], ["milk"], ["cup"]])
    steep.learn_tokens([["tea"], ["tea"], ["tea"], ["milk"], ["tea", "cup"]])
    rows = [{**NEAR, "text_weight": 1.0}, SIMILAR]
    first = {"messages-a": [tea(1, 0, "tea cup"), tea(2, 0, "milk cup cup")]}
    second = {"messages-a": [tea(3, 1, "cup")]}
    running = Running(spark, tmp_path, rows, window=5)
    running.inbox.add(first)
    running.run(vocabulary=flat)
    running.inbox.add(second)
    running.run(vocabulary=steep)
    hub = Hub("plane", window=5, vocabulary=flat)
    oracle = Oracle(hub)
    oracle.begin(rows)
    same(running.delivered(0), as_rows(oracle.run(first)))
    difference = list(hub.use_vocabulary(steep))
    assert difference
    told = oracle._numbered(difference) + oracle._numbered(oracle.run(second))
    same(running.delivered(1), as_rows(streams.net(told)))


def test_rows_of_a_streaming_frame_come_in_the_order_of_seq(spark, tmp_path):
    (tmp_path / "rows").mkdir()
    schema = "seq long, id long, text string, x double, y double"
    frame = spark.readStream.schema(schema).json(str(tmp_path / "rows"))
    messages = [{"seq": 10 - n, "id": n, "text": "tea", "x": 1.0 + n / 10, "y": 1.0} for n in range(8)]
    messages.append({"seq": 20, "id": 99, "text": "tea", "x": 1.0, "y": None})
    lines = [json.dumps(each) for each in messages]
    for part in range(2):
        (tmp_path / "rows" / f"{part}.json").write_text("\n".join(lines[part::2]))
    handed = []
    running = stream(
        frame,
        subscriptions_table([NEAR, WITHIN], Hub("plane").space, rejected=Rejected()),
        out=lambda deliveries, _: handed.append(rows_of(deliveries.toArrow())),
        checkpoint=tmp_path / "K",
        window=3,
        space="plane",
        partitions=2,
        once=True,
        spark=spark,
    )
    assert running.wait(PATIENCE_S)
    oracle = Oracle(Hub("plane", window=3))
    oracle.begin([NEAR, WITHIN])
    by_seq = sorted(messages, key=lambda each: each["seq"])
    expected = oracle.run({"messages": [{k: v for k, v in each.items() if k != "seq"} for each in by_seq]})
    (found,) = handed
    same(found, as_rows(expected))
    assert oracle.rejected == 1


def test_bad_rows_are_rejected_and_stop_nothing(spark, tmp_path):
    rows = [NEAR, WITHIN]
    running = Running(spark, tmp_path, rows, window=5)
    batches = [
        {
            "messages-a": [tea(1, 0), {"id": 2, "text": "tea"}, {"id": 3, "text": "tea", "x": "far", "y": 1.0}],
            "changes-a": [{"op": "dance", "id": 1}, {"op": "move", "id": 44, "x": 1.0, "y": 1.0}],
        },
        {"messages-a": [tea(4, 1)], "changes-a": [{"op": "subscribe", "id": 5, "kind": "within", "query": "tea AND"}]},
    ]
    for files in batches:
        running.inbox.add(files)
    running.run()
    oracle = Oracle(Hub("plane", window=5))
    oracle.begin(rows)
    same(running.delivered(0), as_rows(oracle.run({"messages": batches[0]["messages-a"][:1]})))
    same(running.delivered(1), as_rows(oracle.run({"messages": batches[1]["messages-a"]})))
    parts = sorted((running.out / "_rejected").glob("part-*"))
    found = [json.loads(line) for path in parts for line in path.read_text().splitlines()]
    told = [(row["source"], row["row"]) for row in found]
    assert sorted(told) == [
        ("0000-changes-a.jsonl", 0),
        ("0000-changes-a.jsonl", 1),
        ("0000-messages-a.jsonl", 1),
        ("0000-messages-a.jsonl", 2),
        ("0001-changes-a.jsonl", 0),
    ]
    assert all(row["reason"] for row in found)


def test_a_stream_that_is_stopped_loses_and_repeats_nothing(spark, tmp_path):
    world, ids = World(77), list(range(1, 13))
    rows = [world.subscription(id_) for id_ in ids[:8]]
    batches = [world.batch(8, 2, ids) for _ in range(7)]
    running = Running(spark, tmp_path, rows, window=9, plan="prefix")
    for files in batches:
        running.inbox.add(files)
    for enough in (1, 3):
        going = running.start(once=False, trigger="0 seconds")
        wait_until(lambda n=enough: len(running.reports) >= n, is_alive=lambda it=going: it.is_active)
        going.stop()
        assert not going.is_active
    assert len(running.reports) < len(batches)
    running.run()
    assert [report.batch for report in running.reports] == list(range(len(batches)))
    oracle = Oracle(Hub("plane", window=9))
    oracle.begin(rows)
    for batch, files in enumerate(batches):
        same(running.delivered(batch), as_rows(oracle.run(files)), f"batch {batch}")
