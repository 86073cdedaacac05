"""Files that Spark listed for a batch and gave no row for become sources of it, marked as gone."""

from datetime import datetime

import pyarrow as pa
import pytest

from nearcast.errors import NearcastError
from nearcast.spark.arrivals import arrivals_of
from nearcast.spark.sources import COLUMNS, InputFolders


class Frame:
    """A DataFrame of a batch, already collected."""

    columns = COLUMNS

    def __init__(self, rows):
        types = [pa.string(), pa.string(), pa.int64(), pa.string(), pa.int64(), pa.timestamp("us"), pa.string()]
        schema = pa.schema(list(zip(COLUMNS, types, strict=True)))
        self._table = pa.Table.from_pylist(rows, schema)

    def select(self, *_):
        return self

    def toArrow(self):  # noqa: N802 - as Spark calls it
        return self._table


def row(path, kind="messages"):
    return {"kind": kind, "position": 0, "path": f"file:{path}", "length": 7, "arrived": datetime(2026, 1, 1)}  # noqa: DTZ001


def test_a_file_without_a_row_is_gone():
    """Its kind is that of the deepest folder; files of other sources are left alone."""
    folders = InputFolders({"messages": "/data", "changes": "/data/changes"}, are_all_files=False)
    listed = ["/data/a.jsonl", "/data/b.jsonl", "/data/changes/c.jsonl", "/elsewhere/d.jsonl"]
    found = arrivals_of(Frame([row("/data/a.jsonl")]), folders, listed).given
    expected = [
        ("changes", "c.jsonl", "/data/changes/c.jsonl", True),
        ("messages", "a.jsonl", "/data/a.jsonl", False),
        ("messages", "b.jsonl", "/data/b.jsonl", True),
    ]
    assert expected == [(each.kind, each.source, each.path, each.is_gone) for each in found]


def test_a_file_in_none_of_the_folders_is_not_lost_in_silence():
    with pytest.raises(
        NearcastError, match=r"/elsewhere/d\.jsonl was listed by Spark .* folders /data: it would be lost"
    ):
        arrivals_of(Frame([]), InputFolders({"messages": "/data"}), ["/elsewhere/d.jsonl"])


def test_links_are_not_followed(spark, tmp_path):
    """Spark does not follow them either: a file that is gone lies in the folder as it was called."""
    (tmp_path / "real").mkdir()
    (tmp_path / "a link").symlink_to(tmp_path / "real")
    for given in (f"{tmp_path}/a link", f"{tmp_path}/real/../a link/", f"file://{tmp_path}/a link"):
        folders = InputFolders.of(spark, {"messages": given}, are_all_files=True)
        (found,) = arrivals_of(Frame([]), folders, [f"{tmp_path}/a link/deep/a b.jsonl"]).given
        assert ("messages", "deep/a b.jsonl", True) == (found.kind, found.source, found.is_gone)


def test_folders_elsewhere_are_called_what_spark_calls_them(spark):
    """A URI may leave out the host, and S3 is s3a; clients are made, and asked nothing."""
    other = spark.newSession()
    other.conf.set("fs.defaultFS", "hdfs://127.0.0.1:1")
    other.conf.set("fs.s3a.impl", "org.apache.hadoop.fs.http.HttpFileSystem")
    other.conf.set("fs.s3a.impl.disable.cache", "true")
    given = {"messages": "s3://bucket/in/", "changes": "hdfs:///in"}
    listed = ["s3a://bucket/in/deep/a b.jsonl", "hdfs://127.0.0.1:1/in/c.jsonl"]
    found = arrivals_of(Frame([]), InputFolders.of(other, given, are_all_files=True), listed).given
    expected = [("changes", "c.jsonl", listed[1]), ("messages", "deep/a b.jsonl", listed[0])]
    assert expected == [(each.kind, each.source, each.path) for each in found]
