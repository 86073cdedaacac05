"""From topics of Kafka to a topic of Kafka, with a real broker and Spark's connector; the jars are fetched once.

The connector is of another version than Spark: none of the same can be had. Without its jars, or those of the broker,
the tests are skipped, and the summary says so.
"""

import contextlib
import io
import json
import traceback

import pytest

from faults.kafka_kills import KilledStream
from nearcast import Hub
from nearcast.geo import Space
from nearcast.spark.stream import stream
from nearcast.tables import Rejected, subscriptions_table
from support.kafka_broker import PASSWORD
from support.kafka_streams import delivered_in, expected_of
from support.streams import Oracle, World
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.kafka

#: What no record may be.
BAD = [None, b"", b"\xff{", b"[1]", b"hello", b'"text"']


# --- two starts, and starts that fail ---------------------------------------------------------------------------


def records_of(world, ids):
    """Return a batch of messages and changes as records of two topics."""
    files = world.batch(30, 8, ids)
    return {
        ("messages", 0): files.get("messages-a", []),
        ("messages", 1): files.get("messages-b", []),
        ("changes", 0): files["changes-a"],
    }


@contextlib.contextmanager
def noted(spark, path):
    """Write into a file what Java logs and Python prints meanwhile."""
    java = spark.sparkContext._jvm.org.apache.logging.log4j
    appender = java.core.appender.FileAppender.newBuilder().withFileName(str(path)).setName("noted").build()
    appender.start()
    root, printed = java.LogManager.getRootLogger(), io.StringIO()
    root.addAppender(appender)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            yield
    finally:
        root.removeAppender(appender)
        appender.stop()
        with path.open("a") as log:
            log.write(printed.getvalue())


class Starts:
    """Starts a stream from two topics to a third, and notes what each start complains of, and how many were sent."""

    def __init__(self, spark, topics, servers, folder, subscriptions):
        self._spark, self._topics, self._address = spark, topics, f"kafka://{servers}"
        self._checkpoint = folder / "K"
        self._table = subscriptions_table(subscriptions, Space.plane(), rejected=Rejected())
        self.records, self.ends = {}, []

    def send(self, records):
        for (topic, partition), rows in records.items():
            self._topics.send(topic, rows, partition)
            self.records.setdefault((topic, partition), []).extend(rows)

    def forget(self):
        """Leave the state of a crash between sending and noting what was sent."""
        (self._checkpoint / "nearcast/published.json").unlink()

    def run(self, kafka_options):
        """Work off what is there."""
        complaint = None
        try:
            running = stream(
                f"{self._address}/messages",
                self._table,
                changes=f"{self._address}/changes",
                out=f"{self._address}/deliveries",
                checkpoint=self._checkpoint,
                window=9,
                clock="event",
                space="plane",
                partitions=2,
                once=True,
                kafka_options=kafka_options,
                spark=self._spark,
            )
            assert running.wait(PATIENCE_S)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            complaint = {"says": str(error), "traceback": traceback.format_exc()}
        self.ends.append({"complaint": complaint, "sent": self._topics.count("deliveries")})


@pytest.fixture(scope="module")
def ran(broker, topics, connected, tmp_path_factory):
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
    starts = Starts(connected, topics, broker.secured, folder, subscriptions)
    with noted(connected, folder / "log"):
        starts.run(unquoted)
        starts.send(first)
        starts.run(wrong)
        starts.run({**broker.options, "kafka.max.request.size": "64"})
        starts.run(broker.options)
        starts.send(second)
        starts.run(broker.options)
        starts.run(broker.options)
        starts.forget()
        starts.run(broker.options)
    oracle = Oracle(Hub("plane", window=9))
    oracle.begin(subscriptions)
    expected = expected_of(oracle, folder / "K", starts.records)
    return folder, starts.ends, expected, (folder / "log").read_text()


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
    folder, ends, _, logged = ran
    assert "failed authentication" in logged
    assert "KafkaAdminClient" in ends[0]["complaint"]["says"]
    assert "Authentication failed" in ends[1]["complaint"]["says"]
    assert PASSWORD not in logged + json.dumps(ends)
    assert [] == [
        path for path in (folder / "K").rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()
    ]


# --- kills ------------------------------------------------------------------------------------------------------


def test_a_broker_and_a_driver_killed_between_batches_lose_nothing(broker, topics, connector, connected, tmp_path):
    """A running stream outlives its broker; another one goes on for a driver that was killed with its batch sent."""
    killed = KilledStream(broker, topics, connector, tmp_path, seed=4)
    killed.send()
    process = killed.start()
    try:
        assert process.wait_for(lambda: killed.published() is not None), process.said()
        first = killed.published()
        broker.kill()
        broker.start()
        killed.send()
        assert process.wait_for(lambda: killed.published() != first), process.said()
        sent = killed.count()
        killed.send()
        assert process.wait_for(lambda: killed.count() > sent), process.said()
    finally:
        was_running = process.kill()
    assert was_running
    killed.finish(connected)
