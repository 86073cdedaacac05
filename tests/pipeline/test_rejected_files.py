"""Files that a stream or `prepare` cannot use at all: the reason says how their columns can be renamed."""

import pyarrow.parquet as pq

from nearcast.geo import Space
from nearcast.pipeline.preparation.prepared_store import prepare
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.store.store import Store
from nearcast.pipeline.worker.source_reader import ReadTask, read_source


def read(tmp_path, line: str, **settings):
    """Return the reasons that a file of one line is rejected for as a source of a batch."""
    path = tmp_path / "posts.jsonl"
    path.write_text(line + "\n")
    task = ReadTask(
        store=Store(str(tmp_path / "K")),
        settings=PipelineSettings(Space.earth(), **settings),
        batch=0,
        part=0,
        kind="messages",
        source="posts.jsonl",
        path=str(path),
        plan=None,
        vocabulary=None,
    )
    return [row.reason for row in read_source(task).rejected]


def test_a_source_that_lacks_a_column_says_how_to_name_another_one(tmp_path):
    expected = (
        "nothing of this source was used: posts.jsonl: there is no column text or terms; there are: id, body, lon, lat;"
        " rename one, --map text=NAME or renames={'text': 'NAME'}"
    )
    assert [expected] == read(tmp_path, '{"id": 1, "body": "tea", "lon": 1.0, "lat": 1.0}')


def test_a_source_with_a_column_in_the_way_says_how_to_rename_it(tmp_path):
    line = '{"id": 1, "text": "tea", "lon": 1.0, "lat": 1.0, "x": 1.0, "y": 1.0}'
    (reason,) = read(tmp_path, line)
    assert reason.endswith("rename it, --map NAME=x or renames={'NAME': 'x'}")


def test_prepare_says_it_of_a_whole_file(tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "good.jsonl").write_text('{"id": 1, "body": "tea", "lon": 1.0, "lat": 1.0}\n')
    (tmp_path / "raw" / "twice.jsonl").write_text('{"id": 2, "text": "tea", "body": "", "lon": 1.0, "lat": 1.0}\n')
    settings = PipelineSettings(Space.earth(), renames={"text": "body"})
    about = prepare([tmp_path / "raw"], tmp_path / "store", settings, LocalRunner())
    assert (1, 1) == (about["messages"], about["rejected"])
    (row,) = pq.read_table(tmp_path / "store" / "rejected.parquet").to_pylist()
    assert ("twice.jsonl", "text") == (row["source"], row["field"])
    assert row["reason"].startswith("nothing of this file was used: two columns would be called text")
    assert row["reason"].endswith(", --map NAME=text or renames={'NAME': 'text'}")
