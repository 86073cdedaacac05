"""A large Parquet file of messages is read in pieces, by row groups; what is delivered stays the same."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast.files.parquet_rows import row_group_pieces
from nearcast.geo import Space
from nearcast.pipeline.driver import batch_reading
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import sink_of
from nearcast.pipeline.store.store import Store
from nearcast.text import Vocabulary

SUBSCRIPTIONS = pa.table({"id": ["a", "b"], "query": ["tea", "w7"]})
N = 40


def messages(bad=None):
    rows = pa.table({"id": [f"m{at}" for at in range(N)], "text": [f"tea w{at % 9}" for at in range(N)]})
    rows = rows.append_column("x", pa.array([float(at) for at in range(N)]))
    return rows.append_column("y", pa.array([None if at == bad else 0.0 for at in range(N)]))


def delivered(folder, path, monkeypatch, piece_bytes):
    monkeypatch.setattr(batch_reading, "PIECE_BYTES", piece_bytes)
    store = Store(folder / "K")
    settings = PipelineSettings(space=Space.plane(), partitions=2)
    pipeline = Pipeline(store, settings, LocalRunner(), sink_of(str(folder / "out"), store))
    pipeline.begin(SUBSCRIPTIONS, Vocabulary())
    report = pipeline.run(0, [BatchSource("messages", path.name, str(path), n_bytes=path.stat().st_size)])
    parts = sorted((folder / "out").rglob("part-*"))
    return report, [part.read_bytes() for part in parts], pipeline


@pytest.mark.parametrize("bad", [None, 23], ids=["good", "a bad row"])
def test_pieces_deliver_what_the_file_does(tmp_path, monkeypatch, bad):
    path = tmp_path / "messages.parquet"
    pq.write_table(messages(bad), path, row_group_size=5)
    whole, expected, _ = delivered(tmp_path / "whole", path, monkeypatch, 1 << 40)
    cut, found, pipeline = delivered(tmp_path / "cut", path, monkeypatch, 100)
    assert len(row_group_pieces(path, 100)) > 1
    assert len(pipeline.state.manifest.recent) > 1
    assert (whole.messages, whole.rejected, whole.deliveries) == (cut.messages, cut.rejected, cut.deliveries)
    assert whole.rejected == (bad is not None)
    assert expected == found


def test_a_file_with_a_damaged_piece_is_rejected_once_and_whole(tmp_path, monkeypatch):
    path = tmp_path / "messages.parquet"
    pq.write_table(messages(), path, row_group_size=5, compression="none", use_dictionary=False)
    data = bytearray(path.read_bytes())
    about = pq.read_metadata(path).row_group(6).column(1)
    data[about.data_page_offset : about.data_page_offset + 12] = b"\xff" * 12
    path.write_bytes(data)
    report, _, pipeline = delivered(tmp_path / "cut", path, monkeypatch, 100)
    assert (0, 1) == (report.messages, report.rejected)
    assert () == pipeline.state.manifest.recent


def test_pieces_cover_every_row_group_once(tmp_path):
    path = tmp_path / "messages.parquet"
    pq.write_table(messages(), path, row_group_size=3)
    for least in (1, 300, 1000):
        pieces = row_group_pieces(path, least)
        assert list(range(14)) == [group for piece in pieces for group in piece]
    assert [] == row_group_pieces(path, 1 << 30)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing more")
    assert [] == row_group_pieces(tmp_path / "bad.parquet", 1)
