"""The pipeline without Spark: every kind and plan, any number of partitions and any batches, against a hub."""

import random
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast import Hub, Vocabulary
from nearcast.errors import NearcastError
from nearcast.geo import Space
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import sink_of
from nearcast.pipeline.store.store import Store
from nearcast.pipeline.worker.tasks import forget_all
from nearcast.tables import Rejected, subscriptions_table
from nearcast.tables.time_limits import MaxAhead
from nearcast.window import Window
from support.streams import COLUMNS, Oracle, World, moment, values_in, write_files


class Stream:
    """A pipeline over files in a folder."""

    def __init__(self, folder, settings, rows, vocabulary=None, max_ahead=None):
        self.folder, self.settings, self.max_ahead = folder, settings, max_ahead
        self.store = Store(str(folder / "K"))
        self.vocabulary = vocabulary or Vocabulary()
        self.pipeline = self.opened()
        table = subscriptions_table(rows, settings.space, rejected=Rejected())
        assert not len(self.pipeline.begin(table, self.vocabulary.snapshot()))
        self.seen = 0

    def opened(self):
        sink = sink_of(str(self.folder / "out"), self.store)
        return Pipeline(self.store, self.settings, LocalRunner(), sink, max_ahead=MaxAhead.of(self.max_ahead))

    def run(self, batch, files, wall=None):
        folder = self.folder / f"batch-{batch}"
        paths = {name: folder / f"{name}.jsonl" for name in files}
        if not folder.exists():  # a batch that comes again is made of the same files
            folder.mkdir()
            write_files(folder, files)
        given = [
            BatchSource("messages" if name.startswith("messages") else "changes", name, str(path))
            for name, path in paths.items()
        ]
        report = self.pipeline.run(batch, given, wall=wall)
        return report, self.parts(batch)

    def parts(self, batch):
        """Return the part files of a batch as tables."""
        return [pq.read_table(path) for path in sorted((self.folder / "out").glob(f"part-{batch:08d}-*.parquet"))]


def in_order(tables):
    """Return the rows of the parts of a batch, by step; the order within a step is that of a part."""
    rows = [row for table in tables for row in table.to_pylist()]
    return [values_in(row) for row in rows]


def as_rows(deliveries):
    return [tuple(getattr(d, name) for name in COLUMNS) for d in deliveries]


def settings_of(plan, partitions, *, window, earth=False, index="trigger"):
    space = Space.earth() if earth else Space.plane()
    return PipelineSettings(space, plan=plan, partitions=partitions, window=window, index=index)


def check(
    tmp_path, seed, plan, partitions, window, kinds, *, earth=False, forget=0.0, reweigh=0.0, index="trigger", batches=6
):
    rng = random.Random(seed)
    world = World(seed, kinds=kinds, earth=earth)
    ids = list(range(1, 13))
    first = [world.subscription(id_) for id_ in ids[:8]]
    hub = Hub("earth" if earth else "plane", window=window)
    oracle = Oracle(hub)
    oracle.begin(first)
    stream = Stream(tmp_path, settings_of(plan, partitions, window=window, earth=earth, index=index), first)
    rejected = 0
    for batch in range(batches):
        files = world.batch(rng.randint(0, 12), rng.choice([0, 0, 2, 5]), ids)
        told = []
        if rng.random() < reweigh:
            words = random_words(rng)
            stream.pipeline.use_vocabulary(words)
            told = list(hub.use_vocabulary(words))
        expected = as_rows(oracle.run(files, told))
        if rng.random() < forget:
            forget_all()
        report, tables = stream.run(batch, files)
        rejected += report.rejected
        assert sorted(in_order(tables), key=str) == sorted(expected, key=str), f"batch {batch}"
        for table in tables:
            rows = in_order([table])
            places = [expected.index(row) for row in rows]
            assert places == sorted(places)
    assert rejected == oracle.rejected
    return stream


def random_words(rng):
    words = Vocabulary()
    words.learn_tokens([[f"w{i}"] for i in range(8) for _ in range(rng.choice([1, 2, 9]))])
    return words


@pytest.mark.parametrize("plan", ["location", "keyword", "prefix", "trigger"])
def test_words_may_weigh_something_else_at_any_batch(tmp_path, plan):
    """Prefixes and reaches follow, wherever subscriptions were placed before."""
    check(tmp_path, len(plan), plan, 3, Window.of(9), ("similar", "topk"), forget=0.3, reweigh=0.5)


ALL, BOOLEAN = ("within", "similar", "topk"), ("within", "similar")
#: Every plan with a window and without one, on several partitions; one partition, and each kind alone, once.
STREAMS = [
    (ALL, "hash", 2, 9),
    (ALL, "location", 4, "5s"),
    (ALL, "keyword", 3, 9),
    (ALL, "prefix", 3, "5s"),
    (ALL, "space-first", 5, 9),
    (ALL, "keyword-first", 2, "5s"),
    (ALL, "trigger", 5, 9),
    (ALL, "trigger", 1, "5s"),
    (BOOLEAN, "hash", 3, None),
    (("within",), "location", 2, None),
    (("similar",), "keyword", 5, None),
    (BOOLEAN, "prefix", 2, None),
    (BOOLEAN, "space-first", 2, None),
    (BOOLEAN, "keyword-first", 5, None),
    (BOOLEAN, "trigger", 3, None),
    (("topk",), "prefix", 1, 9),
]


@pytest.mark.parametrize(
    ("kinds", "plan", "partitions", "window"),
    STREAMS,
    ids=[f"{'+'.join(kinds)}-{plan}-{n}" for kinds, plan, n, _ in STREAMS],
)
def test_a_stream_delivers_what_a_hub_does(tmp_path, kinds, plan, partitions, window):
    seed = len(plan) * 31 + partitions * 7 + len(kinds)
    is_earth = bool(seed % 3 == 0)
    check(tmp_path, seed, plan, partitions, window and Window.of(window), kinds, earth=is_earth, forget=0.3, batches=5)


@pytest.mark.parametrize("plan", ["trigger", "prefix"])
def test_a_stream_that_starts_anew_before_every_batch_goes_on(tmp_path, plan):
    """What a driver knows is found again from the manifest: directory, routes, steps, clock."""
    world = World(11)
    ids = list(range(1, 13))
    first = [world.subscription(id_) for id_ in ids[:8]]
    oracle = Oracle(Hub("plane", window=9))
    oracle.begin(first)
    stream = Stream(tmp_path, settings_of(plan, 3, window=Window.of(9)), first)
    for batch in range(4):
        files = world.batch(8, 3, ids)
        expected = as_rows(oracle.run(files))
        stream.pipeline = stream.opened()
        assert stream.pipeline.resume()
        forget_all()
        _, tables = stream.run(batch, files)
        assert sorted(in_order(tables), key=str) == sorted(expected, key=str)


def test_a_batch_that_was_committed_is_not_run_again(tmp_path):
    world = World(2)
    stream = Stream(tmp_path, settings_of("trigger", 2, window=Window.of(9)), [world.subscription(1)])
    files = world.batch(10, 2, [1, 2])
    stream.run(0, files)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("part-*")}
    stream.pipeline = stream.opened()
    assert stream.pipeline.resume()
    report, _ = stream.run(0, files)
    assert report is None
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "out").glob("part-*")}


def test_a_batch_that_failed_leaves_no_trace(tmp_path):
    world, ids = World(3), [1, 2, 3]
    first = [world.subscription(id_) for id_ in ids]
    oracle = Oracle(Hub("plane", window=9))
    oracle.begin(first)
    stream = Stream(tmp_path, settings_of("trigger", 2, window=Window.of(9)), first)
    files = world.batch(10, 3, ids)
    stream.pipeline.runner = Failing(at=1)
    with pytest.raises(RuntimeError, match="out of luck"):
        stream.run(0, files)
    with pytest.raises(NearcastError, match=r"batch \d+ of .* was not finished"):
        stream.pipeline.run(0, [])
    assert not list((tmp_path / "out").glob("part-*"))
    stream.pipeline = stream.opened()
    assert stream.pipeline.resume()
    _, tables = stream.run(0, files)
    assert sorted(in_order(tables), key=str) == sorted(as_rows(oracle.run(files)), key=str)


class Failing(LocalRunner):
    """Fails in the middle of a job."""

    def __init__(self, at):
        self.at = at

    def map(self, task, payloads, **more):
        if len(payloads) <= self.at:
            return super().map(task, payloads, **more)
        super().map(task, payloads[: self.at], **more)
        raise RuntimeError("out of luck")


def topk(id_, words, k, **more):
    return {"id": id_, "kind": "topk", "query": words, "k": k, "text_weight": 0.5, "max_distance": 10.0} | more


def test_a_subscription_an_expiry_that_lowers_a_threshold_and_a_new_best_message_in_one_batch(tmp_path):
    """The list of before runs dry in mid-batch, and what takes its place is to come later in the same batch."""
    first = [topk(1, "w1", 1, x=0.0, y=0.0)]
    oracle = Oracle(Hub("plane", window="5s"))
    oracle.begin(first)
    stream = Stream(tmp_path, settings_of("trigger", 2, window=Window.of("5s")), first)

    def message(id_, at, second, text="w1"):
        return {"id": id_, "text": text, "x": at, "y": 0.0, "time": moment(second)}

    batches = [
        {"messages-a": [message(1, 0.0, 0), message(2, 9.0, 3)]},
        {
            # Message 1 leaves at second 6, 2 is best until 7, then 4; 2 and 3 enter the new list of 2 before.
            "messages-a": [message(3, 8.0, 5), message(4, 1.0, 7), message(5, 5.0, 6, "w2")],
            "changes-a": [{"op": "subscribe", "time": moment(6)} | topk(2, "w1 w2", 2, x=9.0, y=0.0)],
        },
        {"messages-a": [message(6, 20.0, 30)]},
    ]
    for batch, files in enumerate(batches):
        expected = as_rows(oracle.run(files))
        _, tables = stream.run(batch, files)
        assert sorted(in_order(tables), key=str) == sorted(expected, key=str)
        assert expected


def test_another_vocabulary_delivers_the_difference_with_the_next_batch(tmp_path):
    first = [topk(1, "w1 w2", 1, x=0.0, y=0.0, text_weight=1.0)]
    hub = Hub("plane", window=9)
    oracle = Oracle(hub)
    oracle.begin(first)
    stream = Stream(tmp_path, settings_of("trigger", 2, window=Window.of(9)), first)
    files = {"messages-a": [{"id": n, "text": text, "x": 0.0, "y": 0.0} for n, text in enumerate(["w1 w3", "w2"])]}
    _, tables = stream.run(0, files)
    assert in_order(tables) == as_rows(oracle.run(files))
    words = Vocabulary()
    words.learn_tokens([["w2"]] * 9 + [["w3"]] * 9 + [["w1"]])
    stream.pipeline.use_vocabulary(words)
    difference = list(hub.use_vocabulary(words))
    files = {"messages-a": [{"id": 7, "text": "nothing", "x": 0.0, "y": 0.0}]}
    _, tables = stream.run(1, files)
    assert difference
    assert in_order(tables) == as_rows([*difference, *oracle.run(files)])


def test_a_beat_of_the_clock_lets_messages_expire(tmp_path):
    first = [topk(1, "w1", 1, x=0.0, y=0.0)]
    hub = Hub("plane", window="5s")
    oracle = Oracle(hub)
    oracle.begin(first)
    stream = Stream(tmp_path, settings_of("trigger", 2, window=Window.of("5s")), first)
    files = {"messages-a": [{"id": 1, "text": "w1", "x": 0.0, "y": 0.0, "time": moment(0)}]}
    _, tables = stream.run(0, files)
    assert in_order(tables) == as_rows(oracle.run(files))
    later = datetime.fromisoformat(moment(20))
    stream.pipeline.run(1, [], beat=int(later.timestamp() * 1e6))
    assert in_order(stream.parts(1)) == as_rows(hub.advance(later))


@pytest.mark.parametrize("window", [None, "5s"])
def test_messages_from_the_future_are_refused_as_a_hub_refuses_them(tmp_path, window):
    """Wrong clocks among the messages move no time: subscriptions stay, and the window goes on."""
    window = None if window is None else Window.of(window)
    world = World(3, kinds=("within", "similar") if window is None else ("within", "topk"))
    ids = list(range(1, 13))
    first = [world.subscription(id_) for id_ in ids[:8]]
    oracle = Oracle(Hub("plane", window=window, max_ahead="3s"))
    oracle.begin(first)
    stream = Stream(tmp_path, settings_of("trigger", 3, window=window), first, max_ahead="3s")
    rejected = 0
    for batch in range(4):
        files = world.batch(8, 4, ids)
        for rows in (files.get("messages-a", []), files.get("messages-b", [])):
            for row in rows[1::3]:
                row["time"] = moment(world.seconds + 3 * world.random.randint(1, 400))
        expected = as_rows(oracle.run(files))
        report, tables = stream.run(batch, files)
        rejected += report.rejected
        assert sorted(in_order(tables), key=str) == sorted(expected, key=str), f"batch {batch}"
    assert rejected == oracle.rejected > 0


def test_with_a_wall_clock_messages_lie_ahead_of_that(tmp_path):
    """Each row alone is compared with it, also the first of all; the reason names both times."""
    stream = Stream(tmp_path, settings_of("hash", 2, window=None), [{"id": 1, "query": "w1"}], max_ahead="5m")
    told = []
    stream.pipeline.on_rejected = told.extend
    times = [moment(301), moment(300), moment(10**9), moment(0)]
    files = {"messages-a": [{"id": i, "text": "w1", "x": 0.0, "y": 0.0, "time": at} for i, at in enumerate(times)]}
    wall = int(datetime.fromisoformat(moment(0)).timestamp() * 1e6)
    _, tables = stream.run(0, files, wall=wall)
    assert [3, 1] == [row[1] for row in in_order(tables)]
    assert [(0, "time"), (2, "time")] == [(row.row, row.field) for row in told]
    assert "from the future: more than 5m after the wall clock, which is 2026-01-01 00:00:00" in told[0].reason
    assert stream.pipeline.state.now == wall + 300_000_000


def test_a_subscription_that_has_expired_is_a_rejected_change(tmp_path):
    """What stood under its id stays."""
    stream = Stream(tmp_path, settings_of("hash", 2, window=None), [{"id": 1, "query": "w1"}])
    told = []
    stream.pipeline.on_rejected = told.extend
    here = {"x": 0.0, "y": 0.0}
    stream.run(0, {"messages-a": [{"id": 1, "text": "w1", "time": moment(10), **here}]})
    changes = [{"op": "subscribe", "id": id_, "query": "w2", "expires": moment(9)} for id_ in (1, 2)]
    _, tables = stream.run(1, {"changes-a": changes, "messages-a": [{"id": 2, "text": "w1 w2", **here}]})
    assert [1] == [row[0] for row in in_order(tables)]
    assert [(0, "expires"), (1, "expires")] == [(row.row, row.field) for row in told]


def test_ids_keep_the_type_of_the_first_ones(tmp_path):
    stream = Stream(tmp_path, settings_of("hash", 2, window=None), [{"id": 1, "query": "w1"}])
    report, _ = stream.run(0, {"messages-a": [{"id": 1, "text": "w1", "x": 0.0, "y": 0.0}]})
    assert report.deliveries == 1
    files = {
        "messages-a": [{"id": "text", "text": "w1", "x": 0.0, "y": 0.0}],
        "changes-a": [{"op": "subscribe", "id": "text", "query": "w1"}],
    }
    report, _ = stream.run(1, files)
    assert (report.deliveries, report.rejected) == (0, 2)


def test_other_settings_than_the_stream_was_begun_with_are_refused_in_one_line(tmp_path):
    stream = Stream(tmp_path, settings_of("hash", 2, window=Window.of(9)), [])
    stream.settings = settings_of("hash", 2, window=Window.of(10))
    with pytest.raises(NearcastError, match="window 9, not 10"):
        stream.opened().resume()


def test_a_batch_that_is_not_the_next_is_refused(tmp_path):
    stream = Stream(tmp_path, settings_of("hash", 2, window=None), [])
    with pytest.raises(NearcastError, match="ends with batch -1, and batch 5 comes next"):
        stream.pipeline.run(5, [])


def test_a_file_that_cannot_be_read_is_rejected_and_stops_nothing(tmp_path):
    stream = Stream(tmp_path, settings_of("hash", 2, window=None), [{"id": 1, "query": "w1"}])
    rejected = []
    stream.pipeline.on_rejected = rejected.extend
    good, bad, other = tmp_path / "good.jsonl", tmp_path / "bad.parquet", tmp_path / "other.csv"
    good.write_text('{"id": 1, "text": "w1", "x": 0.0, "y": 0.0}\n')
    bad.write_bytes(b"no Parquet at all")
    other.write_text("id,text\n1,w1\n")
    given = [BatchSource("messages", path.name, str(path)) for path in (bad, good, other)]
    report = stream.pipeline.run(0, given)
    assert (report.messages, report.deliveries, report.rejected) == (1, 1, 2)
    assert [(row.source, row.field) for row in rejected] == [("bad.parquet", None), ("other.csv", "x")]


def test_a_record_that_spoils_the_others_is_rejected_alone(tmp_path):
    stream = Stream(tmp_path, settings_of("hash", 2, window=None), [{"id": 1, "query": "w1"}])
    rejected = []
    stream.pipeline.on_rejected = rejected.extend
    good = '{"id": %d, "text": "w1", "x": 0.0, "y": 0.0}'
    deep = '{"id": 9, "text": "w1", "x": 0.0, "y": 0.0, "more": ' + "[" * 3000 + "]" * 3000 + "}"
    foreign, separated = good % 3, "\x1e" + good % 4
    lines = [good % 1, deep, foreign.replace("}", ', "lon": 3.0}'), separated, "", good % 5]
    rows = pa.table({"position": pa.array(range(10, 16)), "line": lines})
    report = stream.pipeline.run(0, [BatchSource("messages", "topic/00000", rows=rows)])
    assert (report.messages, report.deliveries) == (3, 3)
    assert sorted(row.row for row in rejected) == [11, 12, 14]
    rows = pa.table({"position": pa.array([16, 17]), "line": [(good % 6).replace("6", '"x"'), good % 7]})
    report = stream.pipeline.run(1, [BatchSource("messages", "topic/00000", rows=rows)])
    assert (report.messages, report.rejected) == (1, 1)


def test_integers_among_ids_of_text_are_rejected_in_any_batch(tmp_path):
    """5 and "5" are two ids, and a stream has one type of them: nobody is unsubscribed by the other."""
    stream = Stream(
        tmp_path, settings_of("hash", 2, window=None), [{"id": "a", "query": "w1"}, {"id": "5", "query": "w1"}]
    )
    report, _ = stream.run(
        0, {"changes-a": [{"op": "unsubscribe", "id": 5}], "changes-b": [{"op": "unsubscribe", "id": "a"}]}
    )
    assert 1 == report.rejected
    _, found = stream.run(1, {"messages-a": [{"id": 1, "text": "w1", "x": 0.0, "y": 0.0}]})
    assert ["5"] == [each for table in found for each in table["subscription_id"].to_pylist()]
