"""A broker of Kafka and Spark's connector for the tests that ask for them, one of each for all."""

import pytest

from support.maven import connector_jars, fetch_meanwhile


@pytest.fixture(scope="session", autouse=True)
def _jars_meanwhile(request):
    """Fetch the jars of Kafka while the tests before those of Kafka run."""
    if any(item.get_closest_marker("kafka") for item in request.session.items):
        fetch_meanwhile()


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """Give a running broker, whose jars come by way of Spark."""
    pytest.importorskip("pyspark")
    from support.kafka_broker import Broker

    made = Broker(tmp_path_factory.mktemp("broker"))
    made.start()
    yield made
    made.kill()


@pytest.fixture(scope="session")
def topics(broker):
    """Give a client for the broker's topics."""
    from support.kafka_broker import Topics

    made = Topics(broker.plain)
    yield made
    made.close()


@pytest.fixture(scope="session")
def connector():
    """Return the jars of the connector, as `spark.jars` wants them."""
    return ",".join(sorted(map(str, connector_jars().glob("*.jar"))))


@pytest.fixture(scope="session")
def connected(spark, connector):
    """Give the session of all tests, which finds the connector from now on, as if it had been in `spark.jars`."""
    java = spark.sparkContext._jvm
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in connector.split(","):
        loader.addURL(java.java.io.File(jar).toURI().toURL())
    return spark


@pytest.fixture
def unconnected(spark):
    """Give the session of all tests, which does not find the connector, even where another test has needed it."""
    thread = spark.sparkContext._jvm.java.lang.Thread.currentThread()
    loader = thread.getContextClassLoader()
    thread.setContextClassLoader(loader.getParent())
    yield spark
    thread.setContextClassLoader(loader)
