"""A real broker of Kafka as a process of its own, and a client for its topics that needs neither Java nor Spark."""

import json
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from nearcast.bench.spark.local_broker import LocalBroker
from support.maven import broker_jars
from support.waiting import PATIENCE_S, wait_until

USER, PASSWORD = "nearcast", "pa55word-of-nobody"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
#: For a Java that lives for seconds: compile little, and collect garbage in one thread.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_PASSING = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._TRANSPORT,
    KafkaError._UNKNOWN_PARTITION,
)


class Broker(LocalBroker):
    """A broker with a plain listener and one with SASL, which compiles little: it lives for seconds."""

    def __init__(self, folder: Path):
        super().__init__(
            folder,
            broker_jars(),
            listeners={"PLAINTEXT": "PLAINTEXT", "SASL_PLAINTEXT": "SASL_PLAINTEXT"},
            settings={
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{_LOGIN} user_{USER}="{PASSWORD}";',
                # One that was killed is missed sooner, and comes back sooner.
                "broker.session.timeout.ms": 2000,
                "broker.heartbeat.interval.ms": 500,
            },
            java_options=["-Xmx512m", *QUICK_JAVA.split()],
        )
        self.secured = self.servers["SASL_PLAINTEXT"]

    @property
    def options(self):
        """What a client must know to use the listener with SASL, as Spark's connector names it."""
        return {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": f'{_LOGIN} username="{USER}" password="{PASSWORD}";',
        }


class TopicRecord(NamedTuple):
    """A record of a topic."""

    partition: int
    offset: int
    key: str | None
    value: bytes


class Topics:
    """The topics of a broker."""

    def __init__(self, servers):
        # The client would print a line for every attempt to reach a broker that was killed.
        self._servers = {"bootstrap.servers": servers, "log_level": 0}

    def create(self, name, partitions=1):
        """Make a topic, and wait until it is there."""
        admin = AdminClient(self._servers)  # what it does ends with it
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(PATIENCE_S)

    def send(self, name, rows, partition=0):
        """Append rows to a partition: dicts as JSON, bytes and None as they are."""
        producer = Producer({**self._servers, "max.in.flight": 1})
        errors = []
        for row in rows:
            value = json.dumps(row).encode() if isinstance(row, dict) else row
            producer.produce(name, value, partition=partition, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(PATIENCE_S) == 0
        assert [error for error in errors if error is not None] == []

    def count(self, name):
        """Return how many records were ever appended; 0 while the broker does not say."""
        try:
            found = self._reader.list_topics(name, PATIENCE_S).topics[name].partitions
            places = [TopicPartition(name, partition) for partition in found]
            return sum(self._reader.get_watermark_offsets(each, PATIENCE_S)[1] for each in places)
        except KafkaException as error:
            if _is_passing(error):
                return 0
            raise

    @cached_property
    def _reader(self):
        return Consumer({**self._servers, "group.id": "tests", "enable.auto.commit": False})

    def records(self, name):
        """Return all records there are now, by partition and offset."""
        (found,) = wait_until(lambda: self._records_or_none(name))
        return found

    def _records_or_none(self, name):
        """Return a tuple of all records; None while partitions have no leader, as after the start of a broker."""
        try:
            found = self._reader.list_topics(name, PATIENCE_S).topics[name].partitions
            return ([record for partition in sorted(found) for record in self._of(name, partition)],)
        except KafkaException as error:
            if _is_passing(error):
                return None
            raise

    def _of(self, name, partition):
        consumer = self._reader
        first, end = consumer.get_watermark_offsets(TopicPartition(name, partition), PATIENCE_S)
        if first == end:
            return
        consumer.assign([TopicPartition(name, partition, first)])
        at = first
        while at < end:
            record = consumer.poll(PATIENCE_S)
            assert record is not None
            assert record.error() is None, record.error()
            key = record.key()
            at = record.offset() + 1
            yield TopicRecord(partition, record.offset(), None if key is None else key.decode(), record.value())
        consumer.unassign()

    def close(self):
        """Leave the broker."""
        self._reader.close()


def _is_passing(error):
    """Tell whether a broker that has just started answers so."""
    return error.args[0].retriable() or error.args[0].code() in _PASSING
