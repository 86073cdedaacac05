"""The file of `nearcast stream --kafka-options`: as in Java's properties, and no secret in an error."""

import pytest

from nearcast.cli._console import UsageMistake
from nearcast.cli._kafka_options import kafka_options_in

FILE = """
# a comment
! another
kafka.security.protocol = SASL_SSL
kafka.sasl.jaas.config=org.example.Login required \\
    username="me" \\
    # password="hush";
failOnDataLoss=
"""


def test_names_and_values(tmp_path):
    path = tmp_path / "client.properties"
    path.write_text(FILE)
    assert kafka_options_in(path) == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.jaas.config": 'org.example.Login required username="me" # password="hush";',
        "failOnDataLoss": "",
    }
    assert {} == kafka_options_in(None)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("# first\nkafka.a=1\nhush\n", "line 3: expected name=value"),
        ("=hush", "line 1: expected name=value"),
        ("a hush = 1", "line 1: expected name=value"),
        ("subscribe=hush", "the Kafka option subscribe cannot be given: the address names the topic"),
    ],
)
def test_what_is_no_option_is_a_usage_mistake_that_shows_no_value(tmp_path, content, expected):
    path = tmp_path / "client.properties"
    path.write_text(content)
    with pytest.raises(UsageMistake, match=expected) as raised:
        kafka_options_in(path)
    assert str(path) in str(raised.value)
    assert "hush" not in str(raised.value)


def test_a_file_that_is_not_there(tmp_path, nearcast):
    """The command says so before it starts Spark."""
    (tmp_path / "in").mkdir()
    given = {"subscriptions": tmp_path / "s.csv", "messages": tmp_path / "in", "out": tmp_path / "out"}
    given |= {"checkpoint": tmp_path / "K", "kafka-options": tmp_path / "none"}
    ran = nearcast("stream", *(text for name, value in given.items() for text in (f"--{name}", value)))
    assert 2 == ran.status
    assert f"--kafka-options {tmp_path}/none cannot be read: No such file or directory" in ran.complaint
