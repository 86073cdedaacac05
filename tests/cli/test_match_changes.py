"""`nearcast match --changes` and `--lifetime`: a file of changes between the messages, in the order of a stream."""

import json

import pyarrow.parquet as pq
import pytest

from nearcast import Hub, Vocabulary
from support.streams import COLUMNS, Oracle, World, values_in


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class Files:
    """Three input files and the command line for them."""

    def __init__(self, folder, subscriptions, messages, changes):
        self.inputs = (
            "--subscriptions", write_lines(folder / "subscriptions.jsonl", subscriptions),
            "--messages", write_lines(folder / "messages.jsonl", messages),
            "--changes", write_lines(folder / "changes.jsonl", changes),
        )  # fmt: skip
        self.out, self.rejected = folder / "out.parquet", folder / "rejected.parquet"

    def match(self, nearcast, *options):
        return nearcast("match", *self.inputs, "--out", self.out, "--rejected", self.rejected, *options)

    def told(self):
        rows = pq.read_table(self.out).to_pylist()
        return [(row["subscription_id"], row["change"], row["message_id"]) for row in rows]


def at(second):
    return f"2026-01-01T00:00:{second:02d}Z"


WALK = [
    {"op": "move", "id": "anna", "x": 5.0, "y": 0.0, "time": at(2)},
    {"op": "subscribe", "id": "ben", "query": "tea", "x": 0.0, "y": 0.0, "radius": 1.0, "time": at(2)},
    {"op": "unsubscribe", "id": "anna", "time": at(9)},
]
ANNA = [{"id": "anna", "query": "tea", "x": 0.0, "y": 0.0, "radius": 1.0}]
POSTS = [
    {"id": 2, "text": "tea", "x": 5.0, "y": 0.0, "time": at(2)},
    {"id": 1, "text": "tea", "x": 0.0, "y": 0.0, "time": at(1)},
    {"id": 3, "text": "tea", "x": 5.0, "y": 0.0, "time": at(9)},
]


def test_changes_come_before_messages_of_the_same_time(nearcast, tmp_path):
    """Rows of both files are put in order by time; without a lifetime messages are instants."""
    files = Files(tmp_path, ANNA, POSTS, WALK)
    assert 0 == files.match(nearcast).status
    assert [("anna", "+", 1), ("anna", "+", 2)] == files.told()


def test_with_a_lifetime_changes_tell_their_difference(nearcast, tmp_path):
    """What a move leaves behind is told, and what a new subscription finds."""
    files = Files(tmp_path, ANNA, POSTS, WALK)
    assert 0 == files.match(nearcast, "--lifetime", "10m").status
    assert [("anna", "+", 1), ("anna", "-", 1), ("ben", "+", 1), ("anna", "+", 2)] == files.told()


def test_rows_of_changes_that_cannot_be_used_are_rejected(nearcast, tmp_path):
    """Under their source and row; the others are carried out."""
    changes = [
        {"op": "jump", "id": "anna"},
        {"op": "unsubscribe", "id": "nobody"},
        {"op": "move", "id": "nobody", "x": 1.0, "y": 1.0},
        {"op": "subscribe", "id": "ben", "query": "tea AND"},
        {"op": "unsubscribe", "id": "anna"},
    ]
    files = Files(tmp_path, ANNA, POSTS, changes)
    assert 3 == files.match(nearcast).status
    rejected = pq.read_table(files.rejected).to_pylist()
    expected = [(0, "op"), (1, "id"), (2, "id"), (3, "query")]
    assert expected == sorted((row["row"], row["field"]) for row in rejected if row["source"] == "changes")
    assert [] == files.told()


def test_what_spark_cannot_do_is_refused(nearcast, tmp_path):
    """Before anything is read."""
    files = Files(tmp_path, ANNA, POSTS, WALK)
    result = files.match(nearcast, "--engine", "spark")
    assert 2 == result.status
    assert "--engine local" in result.err
    assert 2 == files.match(nearcast, "--lifetime", "soon").status


class TimedOracle(Oracle):
    """A hub that is fed row by row, reports with their times."""

    def _change(self, row):
        if row["op"] != "move":
            return super()._change(row)
        found = self.hub.move_many([{name: row.get(name) for name in ("id", "x", "y", "time")}])
        self.rejected += len(found.rejected)
        return list(found)


@pytest.mark.parametrize("lifetime", [None, "6s"])
def test_files_are_matched_as_a_hub_that_is_fed_in_order(nearcast, tmp_path, lifetime):
    """Deliveries with all their columns, and as many rejected rows."""
    world = World(5, kinds=("within", "similar"))
    ids = [f"s{i}" for i in range(12)]
    subscriptions = [world.subscription(id_) for id_ in ids]
    batches = [world.batch(6, 6, ids) for _ in range(12)]
    joined = {"messages": [], "changes": []}
    for batch in batches:
        for name, rows in batch.items():
            joined[name.split("-")[0]] += rows
    files = Files(tmp_path, subscriptions, joined["messages"], joined["changes"])
    words = Vocabulary()
    words.learn_tokens([row["text"].split() for row in joined["messages"]])
    oracle = TimedOracle(Hub("plane", vocabulary=words, lifetime=lifetime))
    oracle.begin(subscriptions)
    expected = oracle.run(joined)
    options = () if lifetime is None else ("--lifetime", lifetime)
    files.match(nearcast, *options)
    found = [values_in(row) for row in pq.read_table(files.out).to_pylist()]
    assert [tuple(getattr(each, name) for name in COLUMNS) for each in expected] == found
    assert len(expected) > 20
    assert {"+"} == {row[2] for row in found} if lifetime is None else {"+", "-"} == {row[2] for row in found}
    assert oracle.rejected == pq.read_table(files.rejected).num_rows


@pytest.mark.parametrize("wrong", ["messages", "move", "subscribe"])
def test_strict_refuses_misspelt_columns_of_both_files(nearcast, tmp_path, wrong):
    """Without it they are warnings."""
    posts = [{**post, "expirse": at(9)} for post in POSTS] if wrong == "messages" else POSTS
    changes = [{**change, "radus": 2.0} if change["op"] == wrong else change for change in WALK]
    if wrong != "messages":
        changes = [change for change in changes if change["op"] == wrong]
    files = Files(tmp_path, ANNA, posts, changes)
    relaxed = files.match(nearcast)
    assert (0, True) == (relaxed.status, "did you mean" in relaxed.err)
    files.out.unlink()
    refused = files.match(nearcast, "--strict")
    assert (1, True, False) == (refused.status, "is not known; did you mean" in refused.err, files.out.exists())
