"""`nearcast bench spark --kafka`: a topic of a real broker is filled, read by Spark alone, and matched."""

import json

import pytest

from nearcast.bench.spark.topic import CHANGE_BATCHES

pytestmark = pytest.mark.kafka

SIZES = ("--subscriptions", 200, "--messages", 120, "--batch", 60, "--no-steps", "--no-match", "--tiny", 1)


def test_a_topic_is_timed_beside_files(broker, topics, connected, nearcast, tmp_path, monkeypatch):
    """The figures are those of the batches after the warm-up."""
    for module in ("data", "stream"):
        monkeypatch.setattr(f"nearcast.bench.spark.{module}.TINY_WARM", 1)
    monkeypatch.setattr("nearcast.cli.bench_spark.bench_session", lambda *_: connected)
    topics.create("bench", 2)
    report = tmp_path / "report.json"
    result = nearcast("bench", "spark", *SIZES, "--kafka", f"kafka://{broker.plain}/bench", "--json", report)
    assert 0 == result.status, result.err
    topic = json.loads(report.read_text())["results"]["topic"]
    assert topics.count("bench") == 240
    assert topic["batches"] >= 2
    assert 120 <= topic["messages"] < 240  # a batch may be shorter: partitions of a topic need not be equally long
    assert topic["messages_per_s_without_broker"] > topic["messages_per_s"] > 0
    assert topic["broker_s"] > 0
    assert "stream from a topic" in result.out
    changes = 60 * CHANGE_BATCHES
    assert topics.count("bench-changes") == changes  # a topic that the benchmark made
    assert changes - 120 <= topic["changes"] < changes  # as above
    assert topic["changes_per_s_without_broker"] > topic["changes_per_s"] > 0
