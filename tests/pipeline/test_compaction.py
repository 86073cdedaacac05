"""Parts by hour, and their compaction: whatever happens meanwhile, readers see every row once."""

import json
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast import Vocabulary
from nearcast.errors import InvalidInput, NearcastError, NotSupported
from nearcast.geo import Space
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import FileSink
from nearcast.pipeline.sinks.compaction import _locked, compact
from nearcast.pipeline.store.store import Store
from nearcast.tables import Rejected, subscriptions_table
from support.waiting import join, run

KILLS = Path(__file__).parents[1] / "faults" / "compaction_kills.py"
NEVER = 600.0


class HourlyStream:
    """A pipeline in this process whose batches are each of a given time, and deliver two rows."""

    def __init__(self, folder, kind="parquet"):
        self.folder, self.out = folder, folder / "out"
        settings = PipelineSettings(Space.plane(), partitions=2, plan="hash")
        self.pipeline = Pipeline(
            Store(str(folder / "K")), settings, LocalRunner(), FileSink(str(self.out), kind, folders="hour")
        )
        rows = [{"id": number, "query": "tea"} for number in (1, 2)]
        table = subscriptions_table(rows, settings.space, rejected=Rejected())
        self.pipeline.begin(table, Vocabulary().snapshot())

    def run(self, batch, time=None):
        path = self.folder / f"{batch}.jsonl"
        path.write_text(json.dumps({"id": batch, "text": "tea", "x": 0.0, "y": 0.0, "time": time}))
        self.pipeline.run(batch, [BatchSource("messages", path.name, str(path))])


def parts(out):
    """Return the files that readers see, by folder."""
    return {each.name: sorted(path.name for path in each.iterdir()) for each in sorted(out.glob("hour=*"))}


def rows_in(out):
    """Return the key of every row that a reader finds: whoever lists before an exchange and reads after lists again."""
    while True:
        try:
            files = [path for each in sorted(out.glob("hour=*")) for path in sorted(each.glob("part-*"))]
            tables = [pq.ParquetFile(path).read(columns=["step", "subscription_id"]) for path in files]
        except FileNotFoundError:
            continue
        return [(row["step"], row["subscription_id"]) for table in tables for row in table.to_pylist()]


@pytest.fixture
def two_hours(tmp_path):
    """Return a folder with three batches of an hour that is over, and one of the next."""
    stream = HourlyStream(tmp_path)
    for batch, minute in enumerate(("08:00", "08:30", "08:59", "09:00")):
        stream.run(batch, f"2026-05-01T{minute}:00Z")
    return stream.out


def test_parts_lie_in_folders_by_hour_of_event_time(tmp_path):
    """Batches before any time have Hive's name for none; a new stream does not mix with what is there."""
    stream = HourlyStream(tmp_path)
    for batch, time in enumerate((None, "2026-05-01T08:10:00Z", "1969-12-31T23:59:00Z", "2026-05-01T09:00:00Z")):
        stream.run(batch, time)
    named = {f"hour={name}": batches for name, batches in EXPECTED_HOURS.items()}
    assert named == {hour: sorted({name[:13] for name in names}) for hour, names in parts(stream.out).items()}
    assert {"2026-05-01T08", "2026-05-01T09", None} == set(pq.read_table(stream.out)["hour"].to_pylist())
    with pytest.raises(InvalidInput, match="holds hour=2026-05-01T08/part-"):
        FileSink(str(stream.out)).check_new()


#: Event time does not go back: the message of 1969 is delivered in the hour of the one before it.
EXPECTED_HOURS = {
    "2026-05-01T08": ["part-00000001", "part-00000002"],
    "2026-05-01T09": ["part-00000003"],
    "__HIVE_DEFAULT_PARTITION__": ["part-00000000"],
}


def test_an_hour_that_is_over_becomes_one_file(two_hours):
    before, rows = parts(two_hours), rows_in(two_hours)
    report = compact(two_hours, now=0.0, keep_s=NEVER)
    assert parts(two_hours) == {
        "hour=2026-05-01T08": ["part-00000000-0000-to-00000002-0001.parquet"],
        "hour=2026-05-01T09": before["hour=2026-05-01T09"],
    }
    assert rows == rows_in(two_hours)
    (hour,) = report.compacted
    assert ("hour=2026-05-01T08", 6, 1, 1) == (hour.folder, hour.parts, hour.files, report.open_hours)
    again = compact(two_hours, now=0.0, keep_s=NEVER)
    assert ((), ()) == (again.compacted, again.skipped)


def test_replaced_parts_are_kept_for_readers_under_way_and_then_deleted(two_hours):
    compact(two_hours, now=0.0, keep_s=NEVER)
    work = two_hours / "_compaction"
    (old,) = [path for path in work.iterdir() if path.is_dir()]
    assert 6 == len(list(old.iterdir()))
    written = old.stat().st_ctime
    compact(two_hours, now=written + 599, keep_s=NEVER)
    assert old.is_dir()
    compact(two_hours, now=written + 601, keep_s=NEVER)
    assert ["lock"] == [path.name for path in work.iterdir()]


def test_json_lines_and_sizes(tmp_path):
    """Lines stay as they are. A file ends before it would be too large, and what is large enough is left alone."""
    stream = HourlyStream(tmp_path, "jsonl")
    for batch in range(4):
        stream.run(batch, f"2026-05-01T{8 + batch // 3:02d}:00:00Z")
    hour = stream.out / "hour=2026-05-01T08"
    lines = [path.read_bytes() for path in sorted(hour.iterdir())]
    most = sum(map(len, lines[:4]))
    compact(stream.out, now=0.0, keep_s=NEVER, file_bytes=most)
    names = ["part-00000000-0000-to-00000001-0001.jsonl", "part-00000002-0000-to-00000002-0001.jsonl"]
    assert names == sorted(path.name for path in hour.iterdir())
    assert b"".join(lines) == b"".join((hour / name).read_bytes() for name in names)
    assert () == compact(stream.out, now=0.0, keep_s=NEVER, file_bytes=most).compacted
    compact(stream.out, now=0.0, keep_s=NEVER)
    assert ["part-00000000-0000-to-00000002-0001.jsonl"] == [path.name for path in hour.iterdir()]


def test_parts_with_other_columns_stay_apart(two_hours):
    """As after a start with another `--delivery-ids`."""
    hour = two_hours / "hour=2026-05-01T08"
    path = sorted(hour.iterdir())[-1]
    table = pq.ParquetFile(path).read()
    pq.write_table(table.append_column("delivery_id", pa.array(["x"] * table.num_rows)), path)
    rows = rows_in(two_hours)
    compact(two_hours, now=0.0, keep_s=NEVER)
    names = ["part-00000000-0000-to-00000002-0000.parquet", "part-00000002-0001.parquet"]
    assert names == sorted(each.name for each in hour.iterdir())
    assert rows == rows_in(two_hours)


def test_what_cannot_be_compacted_is_left_alone(two_hours):
    """A damaged part, a file of somebody else, a place elsewhere, no hours at all: told, and nothing changed."""
    hour = two_hours / "hour=2026-05-01T08"
    part = sorted(hour.iterdir())[1]
    content = part.read_bytes()
    part.write_bytes(content[:100])
    (skipped,) = compact(two_hours, now=0.0, keep_s=NEVER).skipped
    assert skipped[0] == hour.name
    assert "a part in it is damaged" in skipped[1]
    part.write_bytes(content)
    (hour / "notes.txt").touch()
    report = compact(two_hours, now=0.0, keep_s=NEVER)
    assert ((hour.name, "notes.txt in it is no part of a stream"),) == report.skipped
    assert 7 == len(list(hour.iterdir()))
    with pytest.raises(NotSupported, match="only a folder of this host"):
        compact("s3://bucket/out", now=0.0, keep_s=NEVER)
    with pytest.raises(InvalidInput, match="--part-folders hour"):
        compact(hour, now=0.0, keep_s=NEVER)


def test_a_second_copy_is_refused(two_hours):
    before = parts(two_hours)
    with _locked(two_hours), pytest.raises(NearcastError, match="is being compacted by another process"):
        compact(two_hours, now=0.0, keep_s=NEVER)
    assert before == parts(two_hours)


def test_killed_at_any_line_readers_see_every_row_once(two_hours, tmp_path):
    """And the next run ends what the killed one had begun."""
    rows, copies = rows_in(two_hours), tmp_path / "copies"
    copies.mkdir()
    compact(two_hours, now=0.0, keep_s=NEVER)  # so that each copy also has something to delete
    stream_of_copies = two_hours / "hour=2026-05-01T08"
    for path in (two_hours / "_compaction").glob("hour=*"):
        for part in path.iterdir():
            (stream_of_copies / part.name).write_bytes(part.read_bytes())
    (stream_of_copies / "part-00000000-0000-to-00000002-0001.parquet").unlink()
    ended = run([sys.executable, KILLS, copies, two_hours, "29"])
    assert 0 == ended.returncode, ended.stderr
    statuses = dict(line.split() for line in ended.stdout.splitlines())
    assert 8 < len(statuses)
    assert ["0"] == [status for status in statuses.values() if status != "-9"]
    for copy in sorted(copies.iterdir()):
        assert rows == rows_in(copy), copy.name
        assert len(parts(copy)["hour=2026-05-01T08"]) in ((1,) if copy.name.endswith("-again") else (1, 6))


def test_a_stream_that_writes_and_readers_that_read_meanwhile(tmp_path):
    """A reader finds no row twice, and none that it has seen is ever missing."""
    stream, ended, faults = HourlyStream(tmp_path), threading.Event(), []

    def read():
        known = set()
        while not ended.is_set():
            found = rows_in(stream.out)
            if len(found) != len(set(found)) or not known <= set(found):
                faults.append((known, found))
            known = set(found)

    def compact_again_and_again():
        while not ended.is_set():
            if list(stream.out.glob("hour=*")):
                compact(stream.out, now=0.0, keep_s=NEVER)

    threads = [threading.Thread(target=each) for each in (read, compact_again_and_again)]
    for each in threads:
        each.start()
    for batch in range(24):
        stream.run(batch, f"2026-05-01T{batch // 4:02d}:{batch % 4:02d}:00Z")
    ended.set()
    for each in threads:
        join(each)
    compact(stream.out, now=0.0, keep_s=NEVER)
    assert [] == faults
    assert 48 == len(set(rows_in(stream.out)))
    assert [1] * 5 == [len(names) for names in parts(stream.out).values()][:5]


def test_the_command(two_hours, nearcast):
    ended = nearcast("compact", two_hours, "--json")
    assert 0 == ended.status, ended.err
    assert [6] == [each["parts"] for each in json.loads(ended.out)["compacted"]]
    wrong = nearcast("compact", two_hours, "--keep", "soon")
    assert (2, "") == (wrong.status, wrong.out)
    assert "--keep is 'soon'; expected a number and one of s, m, h, such as 10m" in wrong.err
