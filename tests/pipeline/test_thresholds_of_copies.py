"""Thresholds of homes reach the copies in other partitions before every batch, whatever was saved in the one before."""

import pytest

from nearcast import Hub
from nearcast.pipeline.worker.tasks import forget_all
from support.file_stream import FileStream, as_rows
from support.streams import Oracle, moment

WORDS = [f"w{i}" for i in range(6)]
#: Enough messages of one moment for a top-1 list to have a threshold.
MANY = 200


def topk(id_, *words):
    place = {"x": 0.0, "y": 0.0, "max_distance": 10.0}
    return {"id": id_, "kind": "topk", "query": " ".join(words), "k": 1, "text_weight": 0.5} | place


def message(id_, text, x, seconds):
    return {"id": id_, "text": text, "x": x, "y": 0.0, "time": moment(seconds)}


@pytest.mark.parametrize(("plan", "restarts"), [("keyword", True), ("prefix", False)])
def test_a_threshold_that_fell_in_a_batch_with_snapshots_is_known_to_copies_in_the_next(tmp_path, plan, restarts):
    """All that filled the list leaves the window in batch 2; what comes in batch 3 is seen by a copy alone."""
    first = [topk(at, word, WORDS[(at + 1) % len(WORDS)]) for at, word in enumerate(WORDS)]
    oracle = Oracle(Hub("plane", window="5s"))
    oracle.begin(first)
    stream = FileStream(tmp_path, first, plan=plan, partitions=3, window="5s")
    directory = stream.pipeline.state.directory
    at = next(at for at in range(len(first)) if int(directory.copies[at]).bit_count() == 2)
    query = first[at]["query"]
    batches = [
        [message(id_, query, 0.001 * id_, 0) for id_ in range(MANY)],
        [message(MANY, "elsewhere", 9.0, 2)],
        [message(MANY + 1, "elsewhere", 9.0, 10)],
        [message(MANY + 2 + id_, word, 9.0, 11) for id_, word in enumerate(query.split())],
    ]
    for batch, messages in enumerate(batches):
        if restarts:
            forget_all()
            stream.pipeline = stream.opened()
            assert stream.pipeline.resume()
        stream.pipeline.snapshot_every = 1 if batch == 2 else None
        files = {"messages-a": messages}
        assert as_rows(oracle.run(files)) == stream.run(batch, files), f"batch {batch}"
        if batch == 2:
            assert {()} == {entry.deltas for entry in stream.pipeline.state.manifest.partitions}
