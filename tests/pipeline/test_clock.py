"""Late messages and beats of the wall clock in the pipeline, against a hub that is fed in the same order."""

import random
from datetime import datetime

import pytest

from nearcast import Hub
from nearcast.pipeline.worker.tasks import forget_all
from support.file_stream import FileStream, as_rows
from support.streams import Oracle, World, moment

HERE = {"x": 0.0, "y": 0.0}
FIRST = [
    {"id": 1, "query": "w1"},
    {"id": 2, "kind": "similar", "query": "w1", "threshold": 0.5, "max_distance": 5.0, **HERE},
    {"id": 3, "kind": "topk", "query": "w1", "k": 2, "max_distance": 5.0, **HERE},
    {"id": 4, "query": "w1", "expires": moment(50)},
]


def microseconds(seconds):
    return int(datetime.fromisoformat(moment(seconds)).timestamp() * 1e6)


def posts(*at):
    return {"messages-a": [{"id": int(10 * each), "text": "w1", "time": moment(each), **HERE} for each in at]}


@pytest.mark.parametrize(("plan", "parts"), [("hash", 0), ("prefix", 2), ("trigger", 0)])
def test_late_messages_reach_everybody_but_topk_as_in_a_hub(tmp_path, plan, parts):
    """In every plan, with a window here or divided, and in workers that must replay."""
    rng, world, ids = random.Random(len(plan)), World(len(plan) + parts), list(range(1, 13))
    first = [world.subscription(id_) for id_ in ids[:8]]
    oracle = Oracle(Hub("plane", window="5s"))
    oracle.begin(first)
    stream = FileStream(tmp_path, first, plan=plan, partitions=3, window="5s", parts=parts)
    for batch in range(4):
        files = world.batch(10, 3, ids)
        for name in ("messages-a", "messages-b"):
            for row in files.get(name, [])[::3]:
                row["time"] = moment(world.seconds - rng.randint(3, 9))
        expected = as_rows(oracle.run(files))
        if rng.random() < 0.4:
            forget_all()
        assert expected == stream.run(batch, files), f"batch {batch}"
    late = oracle.hub.stats()["late"]
    assert sum(each.late for each in stream.reports) == late > 0
    assert sum(each.rejected for each in stream.reports) == oracle.rejected


def test_the_clock_waits_for_the_rest_of_a_backlog(tmp_path):
    """Nothing of a backlog is late, no subscription ends before its messages came, and then the clock moves on."""
    oracle = Oracle(Hub("plane", window="10s"))
    oracle.begin(FIRST)
    stream = FileStream(tmp_path, FIRST)
    noon = microseconds(10_000)
    for batch, at in enumerate([(0, 1), (20, 21), (40, 49)]):
        found = stream.run(batch, posts(*at), beat=noon + batch, is_backlog=True)
        assert as_rows(oracle.run(posts(*at))) == found
        assert stream.pipeline.state.now == microseconds(at[-1])
    # The last of it brings no beat of its own: the one that waits counts.
    assert as_rows(oracle.run(posts(49.5), beat=noon + 2)) == stream.run(3, posts(49.5))
    assert (noon + 2, None) == (stream.pipeline.state.now, stream.pipeline.state.manifest.beat_due)
    assert 0 == sum(each.late for each in stream.reports)
    assert 3 == len(oracle.hub), "a subscription expires when the clock moves on"


def test_a_beat_that_waits_is_in_the_manifest(tmp_path):
    """A driver that is killed in the midst of a backlog goes on with the beat it had seen."""
    stream = FileStream(tmp_path, FIRST)
    stream.run(0, posts(0, 1), beat=microseconds(10_000), is_backlog=True)
    forget_all()
    stream.pipeline = stream.opened()
    assert stream.pipeline.resume()
    assert stream.pipeline.state.now == microseconds(1)
    stream.run(1, posts(2))
    assert stream.pipeline.state.now == microseconds(10_000)
