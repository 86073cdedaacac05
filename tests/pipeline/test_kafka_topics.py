"""Addresses of topics, and the options that lead to them: what is given, what is refused, and that secrets stay so."""

import pytest

from nearcast.errors import InvalidInput
from nearcast.pipeline.kafka_topics import CONNECTOR_JARS, KafkaOptions, KafkaTopic, is_topic, without_connector

TOPIC = KafkaTopic("a:9092,b:9092", "posts")
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="hush-hush";'


def test_addresses():
    """One server or several, and a topic."""
    assert TOPIC == KafkaTopic.of("kafka://a:9092,b:9092/posts")
    assert "kafka://a:9092,b:9092/posts" == str(TOPIC)
    assert is_topic("kafka://a/b")
    assert not is_topic("posts/")


@pytest.mark.parametrize("given", ["kafka://", "kafka://a:9092", "kafka://a:9092/", "kafka:///posts", "kafka://a/b/c"])
def test_addresses_without_a_topic_are_refused(given):
    with pytest.raises(InvalidInput, match=f"^{given} names no topic of Kafka; expected kafka://host:port/topic"):
        KafkaTopic.of(given)


@pytest.mark.parametrize("given", ["kafka://me:hush@a:9092/posts", "kafka://me:hush/hush@a:9092/posts"])
def test_passwords_in_addresses_are_refused_and_not_shown(given):
    with pytest.raises(InvalidInput, match=r"holds a user name or password; .* kafka\.sasl\.jaas\.config") as raised:
        KafkaTopic.of(given)
    assert "hush" not in str(raised.value)


def test_sources_get_all_options_and_sinks_those_of_the_clients():
    given = KafkaOptions({"kafka.security.protocol": "SSL", "failOnDataLoss": "false"})
    address = {"kafka.bootstrap.servers": TOPIC.servers}
    assert given.for_reading(TOPIC, 7) == {
        **address,
        "kafka.security.protocol": "SSL",
        "failOnDataLoss": "false",
        "startingOffsets": "earliest",
        "subscribe": "posts",
        "maxOffsetsPerTrigger": "7",
    }
    assert given.for_writing(TOPIC) == {**address, "kafka.security.protocol": "SSL", "topic": "posts"}


@pytest.mark.parametrize("name", ["startingOffsets", "startingoffsets", "startingTimestamp"])
def test_a_stream_may_begin_elsewhere_than_with_the_oldest_record(name):
    found = KafkaOptions({name: "latest"}).for_reading(TOPIC, None)
    assert {name: "latest"} == {each: value for each, value in found.items() if each.lower().startswith("starting")}


@pytest.mark.parametrize("name", ["kafka.bootstrap.servers", "subscribe", "Assign", "topic", "maxOffsetsPerTrigger"])
def test_options_that_follow_from_others_are_refused(name):
    with pytest.raises(InvalidInput, match=f"the Kafka option {name} cannot be given: ") as raised:
        KafkaOptions({name: "hush-hush"})
    assert "hush" not in str(raised.value)


def test_values_that_are_no_text_are_refused_and_not_shown():
    with pytest.raises(InvalidInput, match=r"^the Kafka option kafka\.linger\.ms is a int; expected text$"):
        KafkaOptions({"kafka.linger.ms": 4711})


def test_secrets_are_hidden():
    """Whole values, and what a line of JAAS calls a password, also in pieces; other values are shown."""
    options = KafkaOptions(
        {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.jaas.config": JAAS,
            "kafka.ssl.keystore.password": "open sesame",
        }
    )
    assert "hush" not in repr(options)
    assert "[hidden] SASL_SSL" == options.without_secrets(f"{JAAS} SASL_SSL")
    assert "read [[hidden]] for me" == options.without_secrets("read [hush-hush] for me")
    assert "bad [hidden]" == options.without_secrets("bad open sesame")
    unquoted = KafkaOptions({"kafka.sasl.jaas.config": JAAS.replace('"', "").replace("hush-hush", "pass word")})
    assert "expected [;], read [[hidden]]" == unquoted.without_secrets("expected [;], read [word]")


def test_a_missing_connector_is_refused_with_versions_that_exist():
    says = str(without_connector(TOPIC))
    assert says.startswith("kafka://a:9092,b:9092/posts: this Spark has no connector for Kafka; set spark.jars to ")
    assert [] == [name for _, name, version in CONNECTOR_JARS if f"{name} {version}" not in says]
    assert "4.3.0" not in says
