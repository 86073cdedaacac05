"""How much of each source makes a batch, and how many tasks run at once where the machine is not all ours."""

import json
import os
import sys

import pytest

from nearcast.pipeline.store.store import Store
from nearcast.spark.backlog import BacklogGauge
from nearcast.spark.stream_options import FILES_PER_BATCH, RECORDS_PER_BATCH, StreamOptions
from support.waiting import run

TOPIC = "kafka://host:9092/changes"


@pytest.mark.parametrize(("messages", "changes"), [("in", TOPIC), (TOPIC, "more")])
def test_a_folder_and_a_topic_have_each_its_own_limit(messages, changes):
    """Changes of a topic beside messages in files are not cut into batches of a hundred records."""
    given = StreamOptions(messages, None, "out", "K", changes=changes)
    limits = {"in": FILES_PER_BATCH, "more": FILES_PER_BATCH, TOPIC: RECORDS_PER_BATCH}
    assert {"messages": limits[messages], "changes": limits[changes]} == {
        kind: given.most_of(each) for kind, each in given.sources.items()
    }


@pytest.mark.parametrize(("taken", "is_full"), [(100, False), (500, True)])
def test_a_batch_is_full_by_the_limit_of_each_source(tmp_path, taken, is_full):
    (tmp_path / "offsets").mkdir()
    for batch, offset in enumerate((0, taken)):
        (tmp_path / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps({'changes': {'0': offset}})}")
    assert is_full == BacklogGauge(Store(str(tmp_path)), 100, 500, (("changes",),)).is_full(1, [])


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be taken away")
def test_cores_that_a_process_may_not_use_are_not_counted():
    """Spark's Java does not count them either: a stream would get more partitions than tasks run at once."""
    program = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from nearcast.spark.session import slots_in; print(slots_in('local[*,4]', {}))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = run([sys.executable, "-c", program], env=environment)
    assert (0, "1") == (done.returncode, done.stdout.strip()), done.stderr
