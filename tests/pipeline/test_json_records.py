"""Records of Kafka as bytes: what is no JSON object is rejected, with its topic, partition and offset."""

import pyarrow as pa
import pytest
from test_pipeline import Stream, settings_of

from nearcast.pipeline.driver.batch_source import BatchSource

GOOD = b'{"id": %d, "text": "w1", "x": 0.0, "y": 0.0}'


@pytest.fixture
def stream(tmp_path):
    return Stream(tmp_path, settings_of("hash", 2, window=None), [{"id": 1, "query": "w1"}])


def run(stream, lines, source="posts/00012"):
    rejected = []
    stream.pipeline.on_rejected = rejected.extend
    rows = pa.table({"position": pa.array(range(40, 40 + len(lines))), "line": pa.array(lines, pa.binary())})
    report = stream.pipeline.run(0, [BatchSource("messages", source, rows=rows)])
    return report, rejected


def test_records_that_are_no_json_objects(stream):
    """None, nothing, other bytes than UTF-8, other values, half an object, one too deep: none stops the rest."""
    deep = GOOD[:-1] % 9 + b', "more": ' + b"[" * 3000 + b"]" * 3000 + b"}"
    bad = [None, b"", b" ", b"\xff\xfe{}", b"null", b"[1, 2]", b'"text"', b"7", b"{", b"hello", deep]
    report, rejected = run(stream, [GOOD % 1, *bad, GOOD % 2])
    assert (2, 2, len(bad)) == (report.messages, report.deliveries, report.rejected)
    assert list(range(41, 41 + len(bad))) == sorted(row.row for row in rejected)
    for row in rejected:
        assert row.reason.startswith(f"topic posts, partition 12, offset {row.row}: ")
        assert "line " not in row.reason
    reasons = {row.row: row.reason.partition(": ")[2] for row in rejected}
    assert ["it is empty; expected a JSON object"] * 3 == [reasons[at] for at in (41, 42, 43)]
    assert "the bytes are not UTF-8; expected a JSON object in UTF-8" == reasons[44]
    assert "null is no JSON object; expected one a row" == reasons[45]
    assert reasons[46].startswith("[1, 2] is no JSON object")
    assert reasons[50].endswith("expected one whole object {...}")


def test_rows_of_other_streams_are_numbered(stream):
    _, rejected = run(stream, [b"[]"], source="messages")
    assert ["row 40: [] is no JSON object; expected one a row"] == [row.reason for row in rejected]


def test_objects_over_several_lines_and_with_marks_before_them(stream):
    report, _ = run(stream, [(GOOD % 1).replace(b",", b",\n"), b"\x1e" + GOOD % 2, b"\xef\xbb\xbf" + GOOD % 3])
    assert (3, 0) == (report.messages, report.rejected)


def test_times_are_text_where_they_are_columns_and_elsewhere(stream):
    """A value `time` makes no column, nor does one within another object; text that is no time rejects its row."""
    lines = [
        b'{"id": 1, "text": "w1", "x": 0.0, "y": 0.0, "more": {"time": "2026-05-01"}, "expires": null}',
        b'{"id": 2, "text": "time", "x": 0.0, "y": 0.0, "more": {"time": "2026-05-02"}}',
    ]
    report, rejected = run(stream, lines)
    assert (2, 0, []) == (report.messages, report.rejected, rejected)


@pytest.mark.parametrize("bad", [b'"time": "no time"', b'"time": 7', b'"time": "2026-05-01T09:00:00"'])
def test_a_bad_time_rejects_its_record(stream, bad):
    good = GOOD[:-1] + b', "time": "2026-05-01T09:00:00Z"}'
    report, rejected = run(stream, [good % 1, GOOD[:-1] % 2 + b", " + bad + b"}", good % 3])
    assert (2, 1) == (report.messages, report.rejected)
    assert [(41, "time")] == [(row.row, row.field) for row in rejected]
