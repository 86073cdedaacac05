"""Rows of a batch are encoded by the workers that hold them, and files are found without a job."""

import hashlib
import json
import os

import numpy as np
import pytest

from nearcast.geo import Space
from nearcast.pipeline.batch.segments import MessageSegment
from nearcast.pipeline.driver.source_identity import identities_of
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.store.store import Store
from nearcast.pipeline.worker.source_reader import ReadTask
from nearcast.spark.arrivals import arrivals_of, file_arrivals
from nearcast.spark.row_reader import RowReader
from nearcast.spark.sources import COLUMNS, InputFolders

SCHEMA = "kind string, source string, position long, path string, length long, arrived timestamp, row binary"


def records(n, source="topic/00000", first=100):
    texts = [json.dumps({"id": f"m{at}", "text": f"tea w{at}", "x": at, "y": 0}).encode() for at in range(n)]
    return [("messages", source, first + at, None, 0, None, bytearray(text)) for at, text in enumerate(texts)]


def frame_of(spark, rows, partitions):
    return spark.createDataFrame(rows, SCHEMA).repartition(partitions, "position")


@pytest.fixture
def task(tmp_path):
    settings = PipelineSettings(space=Space.plane(), partitions=1)
    return ReadTask(
        store=Store(tmp_path / "K"),
        settings=settings,
        batch=3,
        part=0,
        kind="messages",
        source="messages",
        path=None,
        plan=None,
        vocabulary=None,
    )


def given(frame, tasks):
    return arrivals_of(frame, InputFolders({}), [], RowReader(tasks)).given


def test_every_partition_becomes_a_segment(spark, task):
    """The driver gets names, times and numbers; messages are in the store, a bad record among the rejected."""
    rows = [*records(30), ("messages", "topic/00000", 130, None, 0, None, bytearray(b"no JSON"))]
    (source,) = given(frame_of(spark, rows, 3), {"messages": task})
    assert "100-130" == source.span
    assert 3 == len(source.reads)
    assert list(range(100, 130)) == sorted(int(row) for read in source.reads for row in read.row)
    ids = {}
    for read in source.reads:
        segment = MessageSegment.read(task.store.local(read.segment))
        ids.update(zip(read.row.tolist(), segment.messages.ids.to_pylist(), strict=True))
        assert (np.diff(read.row) > 0).all()
    assert {100 + at: f"m{at}" for at in range(30)} == ids
    (rejected,) = [row for read in source.reads for row in read.rejected]
    assert rejected.reason.startswith("topic topic, partition 0, offset 130: ")


def test_what_tells_rows_from_others_does_not_hang_on_partitions(spark, task):
    """A batch that comes again is known by its rows, and these are not encoded again."""
    before = given(frame_of(spark, records(20), 3), {"messages": task})
    segments = task.store.list("segments/")
    again = given(frame_of(spark, records(20), 2), {})
    assert identities_of(before) == identities_of(again)
    assert segments == task.store.list("segments/")
    changed = records(20)
    changed[7] = (*changed[7][:6], bytearray(b'{"id": "other", "text": "tea", "x": 0, "y": 0}'))
    assert identities_of(before) != identities_of(given(frame_of(spark, changed, 2), {}))


def test_rows_are_known_by_the_digests_that_are_in_manifests(spark):
    """A batch that an older version committed may come again."""
    rows = [*records(5), ("messages", "topic/00000", 105, None, 0, None, None)]
    (source,) = given(frame_of(spark, rows, 2), {})
    lines = [b"%d %b" % (row[2], bytes(row[6] or b"")) for row in rows]
    total = sum(int.from_bytes(hashlib.blake2b(line, digest_size=8).digest(), "big") for line in lines)
    assert f"6 {total % (1 << 64):016x}" == source.content
    assert "100-105" == source.span


def test_a_partition_with_several_sources_a_file_and_a_beat(spark, task):
    """Each source is read by itself, in the order of its positions; the others are told."""
    rows = [*reversed(records(4)), *records(3, "topic/00001", 7)]
    rows += [("messages", None, 0, "/in/a.jsonl", 5, None, None), ("clock", None, 12, None, 0, None, None)]
    frame = spark.createDataFrame(rows, SCHEMA).coalesce(1)
    found = arrivals_of(frame, InputFolders({"messages": "/in"}), [], RowReader({"messages": task}))
    assert 12 == found.beat
    spans = {each.source: (each.span, [read.row.tolist() for read in each.reads]) for each in found.given}
    first, second = [100, 101, 102, 103], [7, 8, 9]
    expected = {"a.jsonl": (None, []), "topic/00000": ("100-103", [first]), "topic/00001": ("7-9", [second])}
    assert expected == spans
    (read,) = found.given[1].reads
    assert ["m0", "m1", "m2", "m3"] == MessageSegment.read(task.store.local(read.segment)).messages.ids.to_pylist()


def test_rows_without_offsets_are_known_in_any_order(spark, task):
    one = [("messages", "messages", at, *row[3:]) for at, row in enumerate(records(9))]
    other = [("messages", "messages", at, *row[3:]) for at, row in enumerate(reversed(records(9)))]
    found = [identities_of(given(frame_of(spark, rows, 2), {"messages": task})) for rows in (one, other)]
    assert found[0] == found[1]


def test_files_are_found_without_a_job(spark, tmp_path):
    """Their names, sizes and times are those that Spark would tell."""
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    for at, name in enumerate(("b.jsonl", "deep/a b.jsonl")):
        (folder / name).write_text("{}\n" * (at + 1))
        os.utime(folder / name, ns=(0, 1_700_000_000_123_456_789 + at * 10**9))
    folders = InputFolders({"messages": str(folder)})
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(str(folder))
    table = reader.selectExpr(
        "'messages' kind", "null source", "0 position", "path", "length", "modificationTime arrived", "null row"
    )
    listed = [str(folder / name) for name in ("b.jsonl", "deep/a b.jsonl", "gone.jsonl")]
    assert folders.tell_all
    assert set(COLUMNS) == set(table.columns)
    assert arrivals_of(table, folders, listed) == file_arrivals(folders, listed)


@pytest.mark.parametrize(
    "roots",
    [{"messages": "s3a://b/in"}, {"messages": "/in", "changes": "/in/changes"}, {"messages": "/in", "changes": "/in"}],
    ids=["elsewhere", "nested", "one"],
)
def test_folders_that_do_not_tell_all(roots):
    assert not InputFolders(roots).tell_all
    assert InputFolders({"messages": "/in", "changes": "/in2"}).tell_all
    assert not InputFolders({"messages": "/in"}, has_rows=True).tell_all
    assert not InputFolders({"messages": "/in"}, has_clock=True).tell_all
