"""A broker of Kafka and Spark's connector, for the tests that ask for them."""

import pytest


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """Give a running broker, whose jars come by way of Spark."""
    pytest.importorskip("pyspark")
    from support.kafka_broker import Broker

    made = Broker(tmp_path_factory.mktemp("broker"))
    made.start()
    yield made
    made.kill()


@pytest.fixture(scope="module")
def topics(broker):
    """Give a client for the broker's topics."""
    from support.kafka_broker import Topics

    made = Topics(broker.plain)
    yield made
    made.close()


@pytest.fixture(scope="module")
def connector():
    """Return the jars of the connector, as `spark.jars` wants them."""
    from nearcast.pipeline.kafka_topics import CONNECTOR_JARS
    from support.maven import jars_of

    return ",".join(sorted(map(str, jars_of("connector", CONNECTOR_JARS, transitive=False).glob("*.jar"))))
