"""`match` in pieces and in order, as Spark jobs would run it, against the command itself."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast.cli._console import StepProgress
from nearcast.cli._inputs import InputFile
from nearcast.cli._match_job import MatchArguments, MatchJob
from nearcast.cli._spark_match import _in_order, _in_pieces
from nearcast.files import read_table
from nearcast.geo import Space
from nearcast.pipeline import file_match
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.tables import Rejected
from nearcast.window import Window
from support.streams import World


@pytest.fixture
def files(tmp_path):
    def write(kinds, seed=1, messages=300, subscriptions=60):
        world = World(seed, kinds=kinds)
        people = [world.subscription(number) for number in range(subscriptions)]
        people.append({"id": 10_000, "kind": "within", "query": "("})
        posts = []
        for number in range(messages):
            world.seconds += 0.1
            posts.append(world.message() if number % 50 else {"id": -number, "text": "lost", "x": 1.0})
        for name, rows in (("people", people), ("posts", posts)):
            (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return tmp_path / "people.jsonl", tmp_path / "posts.jsonl"

    return write


def job_of(people: Path, posts: Path, window):
    inputs = InputFile(people, "subscriptions", {}), InputFile(posts, "messages", {})
    return MatchJob(MatchArguments(people, posts, Path()), *inputs, Space.plane(), window, Rejected())


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".csv"])
def test_pieces_put_together_are_what_match_writes(files, nearcast, tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(file_match, "PIECE", 64)
    people, posts = files(("within", "similar"))
    expected = tmp_path / f"expected{suffix}"
    arguments = ("match", "--subscriptions", people, "--messages", posts, "--max-distance", 5, "--json")
    result = nearcast(*arguments, "--out", expected)
    assert result.status == 3
    job = job_of(people, posts, None)
    folder = tmp_path / "work"
    folder.mkdir()
    run = file_match.FileMatch(PipelineSettings(job.space, max_distance=5.0), LocalRunner(), folder, lambda *_: None)
    out = tmp_path / f"found{suffix}"
    counts = _in_pieces(job, run, job.subscriptions.table(job.rejected), None, out)
    summary = json.loads(result.out)
    assert {key: summary[key] for key in counts} == counts
    assert len(job.rejected) == summary["rejected"]
    if suffix == ".parquet":
        assert out.is_dir()
        parts = sorted(out.glob("part-*.parquet"))
        assert len(parts) > 1
        assert pa.concat_tables([pq.read_table(part) for part in parts]).equals(pq.read_table(expected))
    else:
        assert out.read_bytes() == expected.read_bytes()


def test_one_batch_of_top_k_is_what_match_tells_on_balance(files, nearcast, tmp_path, monkeypatch):
    people, posts = files(("within", "similar", "topk"), seed=4, messages=60)
    # With a batch for each message nothing is balanced away.
    monkeypatch.setattr(file_match, "BATCH", 1)
    monkeypatch.setattr("nearcast.cli._inputs.InputFile.batches", one_by_one(InputFile.batches))
    expected = tmp_path / "expected.parquet"
    arguments = ("match", "--subscriptions", people, "--messages", posts, "--window", 25)
    assert nearcast(*arguments, "--out", expected).status == 3
    job = job_of(people, posts, Window.of(25))
    folder = tmp_path / "work"
    folder.mkdir()
    settings = PipelineSettings(job.space, window=job.window, plan="trigger", partitions=3)
    run = file_match.FileMatch(settings, LocalRunner(), folder, lambda *_: None)
    out = tmp_path / "found.parquet"
    counts = _in_order(job, run, job.subscriptions.table(job.rejected), None, out, StepProgress())
    assert counts["deliveries"] == pq.read_metadata(expected).num_rows
    assert read_table(out).to_pylist() == read_table(expected).to_pylist()


def one_by_one(batches):
    def small(self, rejected):
        for table in batches(self, rejected):
            yield from (table.slice(at, 1) for at in range(table.num_rows))

    return small
