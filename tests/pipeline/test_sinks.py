"""Sinks: what is committed is published once, whole, and with the same bytes; what is not is never seen."""

import json
import pickle
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from test_store import run_python

from nearcast.errors import IncompatibleStore, InvalidInput
from nearcast.files import read_table, row_groups
from nearcast.pipeline.sinks import (
    CallableSink,
    ConsoleSink,
    FileSink,
    KafkaSink,
    MemorySink,
    RejectedSink,
    sink_of,
)
from nearcast.pipeline.store.manifest import Manifests
from nearcast.pipeline.store.store import Store, StoreError
from nearcast.tables import Rejected
from nearcast.tables.names import DELIVERY_SCHEMA
from support.manifests import small_manifest

FORMATS = ["parquet", "jsonl"]


TEXT = pa.string()


def deliveries(first, last, kind=TEXT):
    """Some deliveries; ids of messages are of that type."""
    n = last - first
    numbers = pa.array(range(first, last), pa.int64())
    ids = numbers.cast(kind)
    columns = {
        "subscription_id": pa.array([f"s{i % 7}" for i in range(first, last)]),
        "message_id": ids,
        "change": pa.array(["+"] * n),
        "score": pa.array([i / 8 for i in range(first, last)], pa.float64()),
        "rank": pa.nulls(n, pa.int32()),
        "cause_id": ids,
        "time": pa.array([i * 1_000_000 for i in range(first, last)], pa.timestamp("us", tz="UTC")),
        "step": numbers,
        "arrival": numbers,
        "version": pa.array(["v1"] * n),
    }
    assert list(columns) == DELIVERY_SCHEMA.names
    return pa.table(columns)


def visible(out):
    """Return the part files by name, with their content."""
    return {path.name: path.read_bytes() for path in sorted(Path(out).iterdir()) if path.is_file()}


def rows_in(out):
    return [row for name in visible(out) for row in read_table(Path(out, name)).to_pylist()]


def staged_in(out):
    folder = Path(out, "_staging")
    return (
        sorted(path.name for path in folder.iterdir() if not path.name.startswith("published-"))
        if folder.exists()
        else []
    )


# --- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", FORMATS)
def test_nothing_is_seen_before_it_is_published(tmp_path, format_):
    sink = FileSink(str(tmp_path / "out"), format_)
    outputs = [sink.stage(12, p, [deliveries(10 * p, 10 * p + 5)]) for p in (0, 3)]
    assert [output["final"] for output in outputs] == [
        f"part-00000012-0000.{format_}",
        f"part-00000012-0003.{format_}",
    ]
    assert [output["rows"] for output in outputs] == [5, 5]
    assert visible(tmp_path / "out") == {}
    assert ds.dataset(tmp_path / "out", format="parquet" if format_ == "parquet" else "json").files == []
    sink.publish(12, outputs)
    assert list(visible(tmp_path / "out")) == [output["final"] for output in outputs]
    assert [row["step"] for row in rows_in(tmp_path / "out")] == [*range(5), *range(30, 35)]
    assert staged_in(tmp_path / "out") == []


def test_no_rows_no_file(tmp_path):
    sink = FileSink(str(tmp_path / "out"))
    assert sink.stage(1, 0, []) is None
    assert sink.stage(1, 0, [DELIVERY_SCHEMA.empty_table(), deliveries(3, 3)]) is None
    sink.publish(1, [])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("format_", FORMATS)
def test_publishing_again_changes_nothing(tmp_path, format_):
    sink = FileSink(str(tmp_path / "out"), format_)
    outputs = [sink.stage(1, p, [deliveries(p, p + 3)]) for p in range(3)]
    sink.publish(1, outputs)
    first = visible(tmp_path / "out")
    for again in (sink, FileSink(str(tmp_path / "out"), format_)):
        again.publish(1, outputs)
        assert visible(tmp_path / "out") == first


def test_publishing_goes_on_where_it_broke_off(tmp_path):
    sink = FileSink(str(tmp_path / "out"))
    outputs = [sink.stage(1, p, [deliveries(p, p + 3)]) for p in range(3)]
    sink.publish(1, outputs[:1])
    (tmp_path / "out/_staging/published-00000001-e0.json").unlink()
    sink.sweep(outputs)
    sink.publish(1, outputs)
    assert len(visible(tmp_path / "out")) == 3


def test_readers_may_take_published_files_away(tmp_path):
    sink = FileSink(str(tmp_path / "out"))
    outputs = [sink.stage(1, 0, [deliveries(0, 3)])]
    sink.publish(1, outputs)
    (tmp_path / "out" / outputs[0]["final"]).unlink()
    sink.sweep(outputs)
    sink.publish(1, outputs)
    assert visible(tmp_path / "out") == {}


def test_what_is_lost_is_told(tmp_path):
    sink = FileSink(str(tmp_path / "out"))
    outputs = [sink.stage(1, p, [deliveries(0, 3)]) for p in range(2)]
    (tmp_path / "out" / outputs[1]["staged"]).unlink()
    with pytest.raises(
        IncompatibleStore,
        match=r"out/part-00000001-0001.parquet is lost: 3 rows of batch 1 were staged as _staging/.*, and neither",
    ) as raised:
        sink.publish(1, outputs)
    assert "\n" not in str(raised.value)


def test_orphans_are_swept(tmp_path):
    sink = FileSink(str(tmp_path / "out"))
    kept = sink.stage(2, 0, [deliveries(0, 3)])
    sink.stage(2, 0, [deliveries(0, 3)])  # an attempt that was given up
    sink.stage(3, 1, [deliveries(0, 3)])  # a batch that was never committed
    (tmp_path / "out/_staging/.1f2e3d4c.00000003-0000-1f2e3d4c.parquet").write_bytes(b"half")
    sink.sweep([kept])
    assert staged_in(tmp_path / "out") == [kept["staged"].removeprefix("_staging/")]
    sink.publish(2, [kept])
    sink.sweep()
    assert staged_in(tmp_path / "out") == []
    assert list(visible(tmp_path / "out")) == ["part-00000002-0000.parquet"]


def test_a_place_that_cannot_be_written_is_found_out_before_the_first_batch(tmp_path):
    FileSink(str(tmp_path / "out")).check()
    assert staged_in(tmp_path / "out") == []
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written: Not a directory"):
        FileSink(str(tmp_path / "file" / "out")).check()


def test_a_new_stream_does_not_write_over_an_old_one(tmp_path):
    sink = FileSink(str(tmp_path / "out"))
    sink.check_new()
    sink.publish(0, [sink.stage(0, 0, [deliveries(0, 3)])])
    with pytest.raises(InvalidInput, match=r"out holds part-00000000-0000.parquet of another run; choose another"):
        FileSink(str(tmp_path / "out")).check_new()


@pytest.mark.parametrize("format_", FORMATS)
def test_the_same_rows_make_the_same_bytes(tmp_path, monkeypatch, format_):
    monkeypatch.setattr(row_groups, "ROWS", 64)
    whole = deliveries(0, 200)
    cuts = [
        [whole],
        [whole.slice(0, 1), whole.slice(1, 0), whole.slice(1, 150), whole.slice(151)],
        [whole.slice(at, 7) for at in range(0, 200, 7)],
        [pa.concat_tables([whole.slice(0, 50), whole.slice(50)])],
    ]
    contents = []
    for at, tables in enumerate(cuts):
        sink = FileSink(str(tmp_path / f"out{at}"), format_)
        sink.publish(1, [sink.stage(1, 0, iter(tables))])
        contents.append(visible(tmp_path / f"out{at}"))
    assert contents == contents[:1] * len(cuts)
    assert len(rows_in(tmp_path / "out0")) == 200
    if format_ == "parquet":  # rows do not wait in memory for the last of them
        assert pq.read_metadata(tmp_path / "out0/part-00000001-0000.parquet").num_row_groups == 4


def test_the_same_rows_make_the_same_pages(tmp_path):
    whole = deliveries(0, 150_000)
    sinks = [FileSink(str(tmp_path / name)) for name in ("whole", "cut")]
    cut = [whole.slice(at, 1777) for at in range(0, 150_000, 1777)]
    staged = [sink.stage(1, 0, tables) for sink, tables in zip(sinks, ([whole], cut), strict=True)]
    contents = [sink.store.read_bytes(each["staged"]) for sink, each in zip(sinks, staged, strict=True)]
    assert contents[0] == contents[1]


def test_rejected_rows_are_published_alike(tmp_path):
    rejected = Rejected()
    rejected.add("messages", 3, 7, "lat", "91 is no latitude")
    sink = RejectedSink(str(tmp_path / "out"))
    output = sink.stage(4, None, [rejected.to_table()])
    assert output["final"] == "part-00000004.jsonl"
    sink.publish(4, [output])
    line = (tmp_path / "out/_rejected/part-00000004.jsonl").read_text()
    assert json.loads(line) == {
        "source": "messages",
        "row": 3,
        "id": "7",
        "field": "lat",
        "reason": "91 is no latitude",
    }
    FileSink(str(tmp_path / "out")).check_new()


def test_files_in_another_place():
    pytest.importorskip("fsspec")
    sink = FileSink("memory://sinks/out", "jsonl")
    outputs = [sink.stage(1, 0, [deliveries(0, 3)])]
    assert sink.store.list("part-") == []
    for _ in range(2):
        sink.publish(1, outputs)
        assert sink.store.list("part-") == ["part-00000001-0000.jsonl"]
    assert len(sink.store.read_bytes("part-00000001-0000.jsonl").splitlines()) == 3
    sink.sweep()
    sink.publish(1, outputs)


# --- crashes -----------------------------------------------------------------------------------------------------


def stream(root):
    """Deliver two batches of two partitions, going on from whatever is there."""
    store, sink = Store(root / "K"), FileSink(str(root / "out"), "jsonl")
    manifests = Manifests(store)
    last = manifests.last()
    if last is None:
        sink.check_new()
    outputs = last.outputs if last else []
    sink.sweep(outputs)
    if last:
        sink.publish(last.batch, outputs)
    for batch in range(last.batch + 1 if last else 0, 2):
        staged = [sink.stager.stage(batch, p, [deliveries(10 * batch + p, 10 * batch + p + 3)]) for p in range(2)]
        manifests.commit(small_manifest(batch, outputs=tuple(staged)))
        sink.publish(batch, staged)


def test_a_crash_at_any_operation_loses_and_repeats_nothing(tmp_path):
    (tmp_path / "clean").mkdir()
    stream(tmp_path / "clean")
    clean = visible(tmp_path / "clean/out")
    assert len(clean) == 4
    (tmp_path / "crashed").mkdir()
    code = "import sys, test_store as s, test_sinks as t; print(s.crash_everywhere(t.stream, sys.argv[1], 3))"
    ran = run_python(code, tmp_path / "crashed")
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 50
    for root in (tmp_path / "crashed").iterdir():
        seen = visible(root / "out") if (root / "out").exists() else {}
        last = Manifests(Store(root / "K")).last()
        committed = {output["final"] for batch in range(last.batch + 1 if last else 0) for output in _of(batch)}
        assert set(seen) <= committed
        assert all(clean[name] == data for name, data in seen.items())
        stream(root)
        assert visible(root / "out") == clean
        assert staged_in(root / "out") == []


def _of(batch):
    return [{"final": f"part-{batch:08d}-{partition:04d}.jsonl"} for partition in range(2)]


FULL = """
import resource, sys
import test_sinks
from nearcast.errors import NearcastError
from nearcast.pipeline.sinks import FileSink
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
for name in sys.argv[2:]:
    sink = FileSink(f"{sys.argv[1]}/{name}", name)
    try:
        sink.stage(1, 0, [test_sinks.deliveries(0, 10_000)])
    except NearcastError as error:
        print(type(error).__name__, error)
"""


def test_a_full_disk(tmp_path):
    ran = run_python(FULL, tmp_path, *FORMATS)
    assert ran.returncode == 0, ran.stderr
    for name, line in zip(FORMATS, ran.stdout.splitlines(), strict=True):
        assert line.startswith(f"{StoreError.__name__} {tmp_path}/{name}/_staging/00000001-0000-")
        assert "cannot be written: " in line
        assert "File too large" in line
        assert "make room and start again" in line
        assert staged_in(tmp_path / name) == []


# --- sinks that are handed what was delivered ----------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "K")


def test_memory(store):
    sink = sink_of("memory", store)
    assert isinstance(sink, MemorySink)
    assert sink.to_table().num_rows == 0
    outputs = [sink.stage(1, p, [deliveries(p, p + 2)]) for p in (0, 1)]
    assert sink.tables == []
    sink.publish(1, outputs[::-1])
    sink.publish(2, [])
    assert [table.num_rows for table in sink.tables] == [4]
    assert sink.to_table()["message_id"].to_pylist() == ["0", "1", "1", "2"]
    sink.sweep()
    assert store.list() == []


def test_console(store, capsys):
    sink = sink_of("console", store)
    assert isinstance(sink, ConsoleSink)
    sink.publish(1, [sink.stage(1, 0, [deliveries(0, 2)])])
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["message_id"] for line in lines] == ["0", "1"]


def test_functions_get_tables_where_there_is_no_spark(store, monkeypatch):
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    got = []
    sink = sink_of(lambda table, batch: got.append((batch, table.num_rows)), store)
    assert isinstance(sink, CallableSink)
    outputs = [sink.stager.stage(5, p, [deliveries(0, 2)]) for p in (0, 1)]
    sink.publish(5, outputs)
    sink.publish(6, [])
    assert got == [(5, 4)]


def test_what_workers_get_is_small(store, tmp_path):
    for sink in (sink_of(lambda *_: None, store), sink_of("memory", store), FileSink(str(tmp_path / "out"))):
        data = pickle.dumps(sink.stager)
        assert len(data) < 500
        assert pickle.loads(data) == sink.stager


def test_staged_files_last_as_long_as_their_manifest(store):
    sink, manifests = sink_of("memory", store), Manifests(store)
    kept = small_manifest(1, outputs=(sink.stage(1, 0, [deliveries(0, 2)]),))
    given_up = sink.stage(1, 0, [deliveries(0, 2)])
    assert manifests.sweep([kept]) == [given_up["staged"]]
    sink.publish(1, kept.outputs)
    manifests.verify(kept)
    assert manifests.sweep([small_manifest(2)]) == [kept.outputs[0]["staged"]]


# --- which sink is meant -------------------------------------------------------------------------------------------


def test_sinks_by_name(store, tmp_path):
    for name, extension in [
        ("out", ".parquet"),
        ("out.parquet", ".parquet"),
        ("v1.2", ".parquet"),
        ("out.jsonl", ".jsonl"),
        ("out.NDJSON", ".jsonl"),
    ]:
        sink = sink_of(str(tmp_path / name), store)
        assert isinstance(sink, FileSink)
        assert sink.stager.extension == extension
    assert sink_of(tmp_path / "out", store).name == f"parquet {tmp_path}/out"
    assert sink_of(sink, store) is sink
    kafka = sink_of("kafka://a:9092,b:9092/deliveries", store)
    assert isinstance(kafka, KafkaSink)
    assert (kafka.topic.servers, kafka.topic.name) == ("a:9092,b:9092", "deliveries")


def test_sinks_that_cannot_be(store, tmp_path):
    (tmp_path / "file").write_text("")
    for given, told in [
        ("kafka://a:9092", "names no topic of Kafka; expected kafka://host:port/topic"),
        ("kafka://a/b/c", "names no topic of Kafka"),
        (str(tmp_path / "out.csv"), "a stream writes a folder of .parquet or .jsonl parts"),
        (str(tmp_path / "file"), "is a file; a stream writes a folder of parts"),
    ]:
        with pytest.raises(InvalidInput, match=told):
            sink_of(given, store)
    with pytest.raises(InvalidInput, match="format 'csv' cannot be written by a stream"):
        FileSink("out", "csv")


def test_no_spark_is_loaded_until_it_is_needed():
    code = "import sys, nearcast.pipeline.sinks, nearcast.pipeline.store.checkpoint_report; "
    code += "print({'pyspark', 'pandas'} & set(sys.modules))"
    assert run_python(code).stdout == "set()\n"
