"""From topics of Kafka to a topic of Kafka, with a real broker and Spark's connector; the jars are fetched once.

The connector is of another version than Spark: none of the same can be had. Without its jars, or those of the broker,
the tests are skipped, and the summary says so.
"""

import json
import os
import pickle
import sys
from pathlib import Path

import pytest

from faults.kafka_kills import KilledStream
from nearcast import Hub
from support.kafka_broker import PASSWORD, QUICK_JAVA
from support.kafka_streams import delivered_in, expected_of
from support.streams import Oracle, World
from support.waiting import run

pytestmark = pytest.mark.kafka

_PROGRAM = Path(__file__).parents[1] / "faults" / "kafka_starts.py"
#: What no record may be.
BAD = [None, b"", b"\xff{", b"[1]", b"hello", b'"text"']


def test_a_broker_keeps_its_records_when_it_is_killed(broker, topics):
    """The broker and the client of the tests, without Spark and its connector."""
    topics.create("alone", 2)
    topics.send("alone", [{"id": 1}, None, b"\xff"], 1)
    broker.kill()
    broker.start()
    assert [(1, 0, b'{"id": 1}'), (1, 1, None), (1, 2, b"\xff")] == [
        (each.partition, each.offset, each.value) for each in topics.records("alone")
    ]


# --- two starts, and starts that fail ---------------------------------------------------------------------------


def records_of(world, ids):
    """Return a batch of messages and changes as records of two topics."""
    files = world.batch(30, 8, ids)
    return {
        ("messages", 0): files.get("messages-a", []),
        ("messages", 1): files.get("messages-b", []),
        ("changes", 0): files["changes-a"],
    }


def united(starts):
    found = {}
    for start in starts:
        for place, rows in start["records"].items():
            found.setdefault(place, []).extend(rows)
    return found


@pytest.fixture(scope="module")
def ran(broker, topics, connector, tmp_path_factory):
    """Start a stream with broken options, with a wrong password and with records too large to send; twice as it should
    be; in vain; and as after a crash between sending and noting.
    """
    folder = tmp_path_factory.mktemp("starts")
    for name, partitions in (("messages", 2), ("changes", 1), ("deliveries", 3)):
        topics.create(name, partitions)
    world, ids = World(9), list(range(1, 13))
    subscriptions = [world.subscription(id_) for id_ in ids[:8]]
    first, second = records_of(world, ids), records_of(world, ids)
    first[("messages", 1)] = [*BAD, *first[("messages", 1)]]
    wrong = {name: value.replace(PASSWORD, f"{PASSWORD}-not") for name, value in broker.options.items()}
    wrong["fetchOffset.numRetries"] = "1"  # for the connector, not for Kafka's clients
    unquoted = {**wrong, "kafka.sasl.jaas.config": f"Login required password={PASSWORD} {PASSWORD}"}
    starts = [
        {"records": {}, "options": unquoted},
        {"records": first, "options": wrong},
        {"records": {}, "options": {**broker.options, "kafka.max.request.size": "64"}},
        {"records": {}, "options": broker.options},
        {"records": second, "options": broker.options},
        {"records": {}, "options": broker.options},
        {"records": {}, "options": broker.options, "forgets": True},
    ]
    given = {"jars": connector, "plain": broker.plain, "servers": broker.secured, "subscriptions": subscriptions}
    (folder / "starts").write_bytes(pickle.dumps({**given, "starts": starts}))
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": path, "JAVA_TOOL_OPTIONS": QUICK_JAVA}
    done = run([sys.executable, str(_PROGRAM), str(folder)], env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    oracle = Oracle(Hub("plane", window=9))
    oracle.begin(subscriptions)
    ends = json.loads((folder / "ends.json").read_text())
    expected = expected_of(oracle, folder / "K", united(starts))
    return folder, ends, expected, done.stdout + done.stderr


def test_a_stream_between_topics_equals_a_hub_over_two_starts(ran, topics):
    """Messages and changes in, deliveries out, keyed and in order by subscription."""
    _, ends, expected, _ = ran
    found, _ = delivered_in(topics.records("deliveries"))
    assert [None] * 4 == [end["complaint"] for end in ends[3:]]
    assert expected == found
    assert any(row[2] == "-" for rows in found.values() for row in rows)


def test_a_batch_is_sent_again_only_where_that_was_not_noted(ran, topics):
    """Starts that find the note send nothing again; what is sent again has equal ids."""
    _, ends, expected, _ = ran
    _, repeated = delivered_in(topics.records("deliveries"))
    _, _, failed, first, second, in_vain, after_crash = (end["sent"] for end in ends)
    assert 0 == failed < first < second == in_vain < after_crash
    assert sum(map(len, expected.values())) == in_vain
    assert second - first == repeated == after_crash - in_vain


def test_records_that_are_no_json_objects_are_rejected_by_topic_partition_and_offset(ran):
    folder, *_ = ran
    parts = (folder / "K/_rejected").glob("part-*")
    rejected = [json.loads(line) for path in parts for line in path.read_text().splitlines()]
    reasons = [row["reason"] for row in rejected if row["source"] == "messages/00001"]
    assert len(BAD) == len(reasons)
    for offset, reason in enumerate(reasons):
        assert reason.startswith(f"topic messages, partition 1, offset {offset}: ")
        assert "line " not in reason


def test_a_batch_that_cannot_be_sent_is_told_in_one_line(ran):
    _, ends, *_ = ran
    says = ends[2]["complaint"]["says"]
    assert "\n" not in says
    assert "/deliveries: batch 0 is committed and could not be sent: " in says
    assert says.endswith("configuration; the next start sends it")
    assert "max.request.size" in says


def test_secrets_are_in_no_error_log_or_checkpoint(ran):
    folder, ends, _, printed = ran
    assert "KafkaAdminClient" in ends[0]["complaint"]["says"]
    assert "Authentication failed" in ends[1]["complaint"]["says"]
    assert PASSWORD not in printed + json.dumps(ends)
    assert [] == [
        path for path in (folder / "K").rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()
    ]


# --- kills ------------------------------------------------------------------------------------------------------


def test_a_broker_and_a_driver_killed_between_batches_lose_nothing(broker, topics, connector, tmp_path):
    """A running stream outlives its broker; another one goes on for a driver that was killed with its batch sent."""
    stream = KilledStream(broker, topics, connector, tmp_path, seed=4)
    stream.send()
    process = stream.start()
    try:
        assert process.wait_for(lambda: stream.published() is not None), process.said()
        first = stream.published()
        broker.kill()
        broker.start()
        stream.send()
        assert process.wait_for(lambda: stream.published() != first), process.said()
        sent = stream.count()
        stream.send()
        assert process.wait_for(lambda: stream.count() > sent), process.said()
    finally:
        was_running = process.kill()
    assert was_running
    stream.finish()
