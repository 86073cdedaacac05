"""Files that Spark listed for a batch and gave no row for become sources of it, marked as gone."""

from datetime import datetime

import pyarrow as pa

from nearcast.spark.sources import COLUMNS, arrivals_of


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
    roots = {"messages": "/data", "changes": "/data/changes"}
    listed = ["/data/a.jsonl", "/data/b.jsonl", "/data/changes/c.jsonl", "/elsewhere/d.jsonl"]
    found = arrivals_of(Frame([row("/data/a.jsonl")]), roots, listed).given
    expected = [
        ("changes", "c.jsonl", "/data/changes/c.jsonl", True),
        ("messages", "a.jsonl", "/data/a.jsonl", False),
        ("messages", "b.jsonl", "/data/b.jsonl", True),
    ]
    assert expected == [(each.kind, each.source, each.path, each.is_gone) for each in found]


def test_s3_and_s3a_name_the_same_folder():
    """Names of files are relative to the folder as the user called it."""
    found = arrivals_of(Frame([]), {"messages": "s3://bucket/in/"}, ["s3a://bucket/in/deep/a b.jsonl"]).given
    assert [("deep/a b.jsonl", "s3a://bucket/in/deep/a b.jsonl")] == [(each.source, each.path) for each in found]
