"""Recorded trajectories as people have them: rows that lack something, and times in any form that tables take."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast.bench.data.movement.replay import replayed
from nearcast.errors import InvalidColumns

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)
TIMES = [BEGIN + timedelta(seconds=10 * each) for each in range(6)]


def test_rows_that_lack_something_are_left_out(tmp_path):
    """A row without object, time or place, and one off the earth, do not stop the others."""
    table = {
        "obj": ["a", None, "a", "a", "b", "a"],
        "ts": pa.array([*TIMES[:2], None, *TIMES[3:]], pa.timestamp("us", "UTC")),
        "lon": [1.0, 2.0, 3.0, None, 500.0, 6.0],
        "lat": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    }
    pq.write_table(pa.table(table), tmp_path / "cabs.parquet")
    moved = replayed(tmp_path / "cabs.parquet", 1, timestamps=3)

    assert [[1.0, 0.0]] == moved.first.tolist()
    assert [[6.0, 0.0]] == moved.reports.places.tolist()


def test_times_may_be_text_with_a_zone(tmp_path):
    """As in JSON lines, which have no other."""
    lines = [f'{{"obj": 7, "time": "{each:%Y-%m-%dT%H:%M:%SZ}", "x": {at}, "y": 0}}' for at, each in enumerate(TIMES)]
    (tmp_path / "walk.jsonl").write_text("\n".join(lines) + "\n")
    moved = replayed(tmp_path / "walk.jsonl", 1, timestamps=2)

    assert [1.0, 2.0, 3.0, 4.0, 5.0] == moved.reports.places[:, 0].tolist()
    assert int(BEGIN.timestamp() * 1e6) == moved.begin


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (
            {"obj": [1], "ts": [1_800_000_000], "x": [1.0], "y": [1.0]},
            "column ts is of type int64; expected timestamps",
        ),
        ({"obj": [1], "ts": TIMES[:1], "x": ["east"], "y": [1.0]}, "column x is of type string; expected numbers"),
        ({"obj": [1], "ts": TIMES[:1], "x": [float("nan")], "y": [1.0]}, "has no row with obj, ts and a place"),
    ],
)
def test_what_is_no_time_or_place_is_refused(tmp_path, columns, reason):
    """Numbers of an unknown unit are not taken for times."""
    pq.write_table(pa.table(columns), tmp_path / "cabs.parquet")
    with pytest.raises(InvalidColumns, match=reason):
        replayed(tmp_path / "cabs.parquet", 1, timestamps=1)
