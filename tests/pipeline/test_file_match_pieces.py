"""Pieces of a file share the state of a worker: no piece changes what another one gets."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast.geo import Space
from nearcast.pipeline import file_match
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.tables import Rejected


class BackwardRunner(LocalRunner):
    """Runs the tasks from the last to the first, as a worker may that is given them again."""

    def map(self, function, payloads, **options):
        return super().map(function, payloads[::-1], **options)[::-1]


def found_by(runner, folder: Path) -> list[tuple[int, int]]:
    """Return which subscription gets which message: 0 lives on, 1 expires after the second of four messages."""
    folder.mkdir()
    times = [f"2024-05-01T00:00:0{second}Z" for second in range(4)]
    people = pa.table({"id": [0, 1], "query": ["w", "w"], "expires": [None, times[2]]})
    posts = pa.table({"id": [0, 1, 2, 3], "text": ["w"] * 4, "x": [0.0] * 4, "y": [0.0] * 4, "time": times})
    run = file_match.FileMatch(PipelineSettings(Space.plane()), runner, folder, lambda *_: None)
    parts, counts = run.run(people, iter([posts]), None, Rejected(), suffix=".parquet")
    assert (4, 6, 1) == (counts["messages"], counts["deliveries"], counts["subscriptions"])
    whole = pa.concat_tables([pq.read_table(part) for part in parts])
    return list(zip(*(whole[name].to_pylist() for name in ("message_id", "subscription_id")), strict=True))


@pytest.mark.parametrize("runner", [LocalRunner(), BackwardRunner()], ids=["forward", "backward"])
def test_a_subscription_that_expires_gets_the_same_whatever_order_pieces_are_matched_in(runner, tmp_path, monkeypatch):
    monkeypatch.setattr(file_match, "PIECE", 1)
    assert [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (3, 0)] == found_by(runner, tmp_path / "work")
