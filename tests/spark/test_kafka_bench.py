"""`nearcast bench spark --kafka`: a topic of a real broker is filled, read by Spark alone, and matched."""

import json
import os
import sys

import pytest

from support.kafka_broker import QUICK_JAVA
from support.waiting import run

pytestmark = pytest.mark.kafka

SIZES = ("--subscriptions", "200", "--messages", "120", "--batch", "60", "--no-steps", "--tiny", "1")


def test_a_topic_is_timed_beside_files(broker, topics, connector, tmp_path):
    """The figures are those of the batches after the warm-up."""
    topics.create("bench", 2)
    path = os.pathsep.join(filter(None, sys.path))
    submit = {"PYSPARK_SUBMIT_ARGS": f"--jars {connector} pyspark-shell", "JAVA_TOOL_OPTIONS": QUICK_JAVA}
    environment = {**os.environ, **submit, "PYTHONPATH": path}
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "nearcast", "bench", "spark", *SIZES]
    done = run([*command, "--kafka", f"kafka://{broker.plain}/bench", "--json", str(report)], env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads(report.read_text())["results"]
    topic = results["topic"]
    assert topics.count("bench") == 240
    assert topic["batches"] >= 2
    assert 120 <= topic["messages"] < 240  # a batch may be shorter: partitions of a topic need not be equally long
    assert topic["messages_per_s_without_broker"] > topic["messages_per_s"] > 0
    assert topic["broker_s"] > 0
    assert "stream from a topic" in done.stdout
    assert topics.count("bench-changes") == 240  # a topic that the benchmark made
    assert 120 <= topic["changes"] < 240  # as above
    assert topic["changes_per_s_without_broker"] > topic["changes_per_s"] > 0
