"""What `nearcast bench spark --kafka` refuses before it times anything."""

import pytest

from nearcast.bench.spark.topic import run_topic
from nearcast.errors import NotSupported
from nearcast.pipeline.kafka_topics import KafkaTopic


def test_a_session_without_the_connector_is_told_which_jars_it_needs(unconnected, tmp_path):
    topic = KafkaTopic.of("kafka://host:9092/posts")
    sizes = {"batch": 1, "plan": "trigger", "partitions": 1, "deliveries": 0}
    with pytest.raises(NotSupported, match=r"has no connector for Kafka; set spark\.jars to the jars of"):
        run_topic(unconnected, None, topic, tmp_path, **sizes, say=print)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--kafka", "localhost:9092"], "names no topic of Kafka; expected kafka://host:port/topic"),
        (["--kafka", "kafka://h:1/t", "--kind", "topk"], "--kafka is for --kind within"),
        (["--kafka", "kafka://h:1/t", "--soak", "5"], "--kafka goes with neither --figure nor --soak"),
    ],
)
def test_options_that_do_not_go_with_a_topic(nearcast, options, complaint):
    result = nearcast("bench", "spark", *options)
    assert 2 == result.status
    assert complaint in " ".join(result.err.split())
