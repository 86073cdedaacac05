"""From a topic of Kafka to a topic of Kafka, with a real broker; where Maven Central is out of reach it is skipped."""

import json
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import pytest

from nearcast import Hub
from support.spark_files import as_rows, rows_of
from support.streams import Oracle, World
from support.waiting import PATIENCE_S, run, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("spark")]

BROKER = ("org.apache.kafka", "kafka_2.13", "4.1.0")
CONNECTOR = ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13")
_PROGRAM = Path(__file__).parents[1] / "faults" / "kafka_round.py"
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


def ivy_jar():
    """Return the Ivy that Spark brings along."""
    import pyspark

    (found,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    return found


def central():
    """Return where Maven Central is, as Ivy knows it."""
    with zipfile.ZipFile(ivy_jar()) as jar:
        found = re.search(
            rb"https?://[\w./]+/maven2", jar.read("org/apache/ivy/plugins/resolver/IBiblioResolver.class")
        )
    assert found is not None
    return found[0].decode()


def why_missing(path):
    """Return why a file of Maven Central cannot be had, None if it can."""
    request = urllib.request.Request(f"{central()}/{path}", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=3):
            return None
    except urllib.error.HTTPError as error:
        error.close()
        return f"Maven Central has no {path}: {error}"
    except OSError as error:
        return f"Maven Central is out of reach: {error}"


@pytest.fixture(scope="module")
def connector():
    """Return Spark's connector for Kafka as Maven names it."""
    pyspark = pytest.importorskip("pyspark")
    version = pyspark.__version__
    for name in CONNECTOR:
        why = why_missing(f"org/apache/spark/{name}/{version}/{name}-{version}.pom")
        if why is not None:
            pytest.skip(why)
    return f"org.apache.spark:{CONNECTOR[0]}:{version}"


@pytest.fixture(scope="module")
def java():
    from nearcast._java import ensure_java

    return str(Path(ensure_java()) / "bin" / "java")


@pytest.fixture(scope="module")
def jars(connector, java, tmp_path_factory):
    """Fetch the broker with the Ivy that Spark brings along; without the connector it would be of no use."""
    group, name, version = BROKER
    why = why_missing(f"{group.replace('.', '/')}/{name}/{version}/{name}-{version}.pom")
    if why is not None:
        pytest.skip(why)
    folder = Path(os.environ.get("NEARCAST_CACHE_DIR") or tmp_path_factory.mktemp("kafka")).parent / "kafka"
    if not (folder / "complete").exists():
        places = ["-cache", str(folder / "cache"), "-retrieve", f"{folder}/lib/[artifact]-[revision].[ext]"]
        command = [java, "-jar", str(ivy_jar()), "-confs", "default", *places, "-dependency", *BROKER]
        done = run(command)
        if done.returncode:
            pytest.skip(f"the broker could not be fetched: {done.stdout[-500:]}")
        (folder / "complete").touch()
    return f"{folder}/lib/*"


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="module")
def broker(java, jars, tmp_path_factory):
    """Run one broker that is its own controller (KRaft), on this host alone; give its address."""
    folder = tmp_path_factory.mktemp("broker")
    port, controller = free_ports(2)
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "log.dirs": folder / "data",
        "offsets.topic.replication.factor": 1,
        "num.partitions": 1,
    }
    properties = folder / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    program = [java, "-Xmx512m", "-cp", jars]
    formatted = [*program, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(properties)]
    run(formatted, check=True)
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen([*program, "kafka.Kafka", str(properties)], stdout=log, stderr=log)
    try:
        wait_for_port(port, running)
        yield f"127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait(PATIENCE_S)


def wait_for_port(port, running):
    def answers():
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    wait_until(answers, is_alive=lambda: running.poll() is None, about=lambda: "the broker does not answer")


def test_a_broker_starts_and_answers(broker):
    assert broker.startswith("127.0.0.1:")


def test_a_stream_from_a_topic_to_a_topic(connector, broker, tmp_path):
    world = World(9)
    subscriptions = [world.subscription(id_) for id_ in range(1, 9)]
    batches = [[world.message() for _ in range(12)] for _ in range(2)]
    inputs = {"subscriptions": subscriptions, "batches": batches}
    (tmp_path / "inputs.json").write_text(json.dumps(inputs))
    command = [sys.executable, str(_PROGRAM), broker, connector, str(tmp_path)]
    done = run(command, env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    oracle = Oracle(Hub("plane", window=9))
    oracle.begin(subscriptions)
    expected = [row for rows in batches for row in as_rows(oracle.run({"messages": rows}))]
    # At least once: a delivery that came twice has the same id.
    by_id = dict(found)
    assert {delivery["delivery_id"] for delivery in by_id.values()} == set(by_id)
    assert sorted(rows_of(by_id.values()), key=str) == sorted(expected, key=str)
