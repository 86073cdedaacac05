"""Prepared stores in an object store, against a real S3 API: no local folder named `s3:`, the same stream from both."""

import json

import pyarrow.parquet as pq
import pytest

from nearcast.errors import IncompatibleStore, InvalidInput
from nearcast.geo import Space
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.preparation.prepared_store import about_prepared, prepare, raw_files
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import sink_of
from nearcast.pipeline.store.store import Store
from support.s3_server import s3, s3_environment

__all__ = ["s3", "s3_environment"]

SUBSCRIPTIONS = "id,kind,query\n1,within,coffee\n2,within,tea\n3,within,(\n"
MESSAGES = '{"id": 1, "text": "coffee", "x": 1, "y": 1}\n{"id": 2, "text": "tea", "x": 1, "y": 1}\n'


def settings():
    return PipelineSettings(Space.plane(), plan="hash", partitions=2)


@pytest.fixture
def raw(s3):
    store = Store(f"{s3}/raw")
    store.put("people.csv", lambda path: path.write_text(SUBSCRIPTIONS))
    store.put("deeper/posts 1.jsonl", lambda path: path.write_text(MESSAGES))
    store.put("_hidden.jsonl", lambda path: path.write_text("no JSON"))
    store.put("read.me", lambda path: path.write_text("no data"))
    return f"{s3}/raw"


def test_raw_files_of_a_bucket(raw):
    """A folder is its readable files, in order; a file is itself; one line where there is none."""
    assert [f"{raw}/deeper/posts 1.jsonl", f"{raw}/people.csv"] == raw_files([raw])
    assert [f"{raw}/people.csv"] == raw_files([f"{raw}/people.csv"])
    with pytest.raises(InvalidInput, match=r"s3://.*/never has no file that ends in"):
        raw_files([f"{raw}/never"])


def test_a_store_prepared_in_a_bucket(raw, s3, tmp_path, monkeypatch):
    """It says what one on a path says, a stream begins from it, and nothing appears in the working folder."""
    monkeypatch.chdir(tmp_path)
    out = f"{s3}/prepared"
    about = prepare([raw], out, settings(), LocalRunner())
    assert (2, 2, 1) == (about["messages"], about["subscriptions"], about["rejected"])
    assert about == about_prepared(out)
    assert [] == list(tmp_path.iterdir())
    with pytest.raises(InvalidInput, match="is prepared already"):
        prepare([raw], out, settings(), LocalRunner())
    store = Store(tmp_path / "K")
    pipeline = Pipeline(store, settings(), LocalRunner(), sink_of(str(tmp_path / "out"), store))
    pipeline.begin_from(f"{out}/nearcast")
    pipeline.run(0, [BatchSource("messages", "posts 1.jsonl", f"{raw}/deeper/posts 1.jsonl")])
    parts = [pq.read_table(path).to_pylist() for path in (tmp_path / "out").glob("part-*.parquet")]
    found = {(str(row["subscription_id"]), row["message_id"]) for part in parts for row in part}
    assert {("1", 1), ("2", 2)} == found


def test_a_prepared_store_that_lost_a_file(raw, s3):
    """It is refused by name."""
    prepare([raw], f"{s3}/prepared", settings(), LocalRunner())
    store = Store(f"{s3}/prepared")
    about = json.loads(store.read_bytes("prepared.json"))
    assert "vocabulary.parquet" in about["files"]
    store.delete(["vocabulary.parquet"])
    with pytest.raises(IncompatibleStore, match=r"s3://.*/vocabulary\.parquet is damaged: it has 0 bytes"):
        about_prepared(store.root)
