"""Topics of Kafka by address, `kafka://host:port/topic`, and the options of Spark's connector for reading and writing.

Importing this loads nothing of Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from nearcast.errors import InvalidInput, NotSupported

_SCHEME = "kafka://"
_EXPECTED = "expected kafka://host:port/topic"
#: What Kafka's clients are told begins so; the rest is for the connector.
_CLIENT = "kafka."
#: Options that follow from the address, or from other parameters of a stream.
_TAKEN = {
    "kafka.bootstrap.servers": "the address names the servers",
    "subscribe": "the address names the topic",
    "subscribepattern": "a source is one topic",
    "assign": "a source is one topic",
    "topic": "the address names the topic",
    "maxoffsetspertrigger": "use at_once",
    "includeheaders": "headers are not read",
}
#: Names of options whose values are nobody's business.
_SECRET = re.compile(r"password|secret|token|jaas|credential|private|keystore\.key|key\.pem", re.IGNORECASE)
#: Where a secret begins inside a line of JAAS, such as password="…".
_WITHIN = re.compile(r"(?:password|secret|token)\w*\s*=(.*)", re.IGNORECASE | re.DOTALL)
#: What ends a word there.
_BETWEEN = re.compile(r"""[\s"';=]+""")
#: Words this short hide nothing.
_SHORT = 3
#: The jars of a connector that can be had and works with Spark 4.3; tests fetch these.
CONNECTOR_JARS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.1"),
)


def is_topic(given: object) -> bool:
    """Tell whether a topic is meant."""
    return str(given).startswith(_SCHEME)


@dataclass(frozen=True)
class KafkaTopic:
    """A topic, and the servers through which it is reached: one `host:port`, or several with commas between them."""

    servers: str
    name: str

    @classmethod
    def of(cls, given: str) -> KafkaTopic:
        """Return the topic at an address; InvalidInput if it names none."""
        servers, _, name = given.removeprefix(_SCHEME).partition("/")
        if "@" in given:
            # Whatever stands before it may be a password.
            raise InvalidInput(
                f"the address of a topic holds a user name or password; {_EXPECTED}, and put these into the option"
                " kafka.sasl.jaas.config"
            )
        if not is_topic(given) or not servers or not name or "/" in name:
            raise InvalidInput(f"{given} names no topic of Kafka; {_EXPECTED}")
        return cls(servers, name)

    def __str__(self) -> str:
        return f"{_SCHEME}{self.servers}/{self.name}"


@dataclass(frozen=True)
class KafkaOptions:
    """Options of Spark's connector under its own names; those that begin with `kafka.` go to Kafka's clients.

    Values may be secrets: neither `repr` nor an error shows one.
    """

    values: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name, value in self.values.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise InvalidInput(f"the Kafka option {name} is a {type(value).__name__}; expected text")
            if name.lower() in _TAKEN:
                raise InvalidInput(f"the Kafka option {name} cannot be given: {_TAKEN[name.lower()]}")

    def for_reading(self, topic: KafkaTopic, records_per_batch: int | None) -> dict[str, str]:
        """Return the options of a source; it begins with the oldest record unless `startingOffsets` is given."""
        begin = {} if any(name.lower().startswith("starting") for name in self.values) else _FROM_THE_FIRST
        most = {} if records_per_batch is None else {"maxOffsetsPerTrigger": str(records_per_batch)}
        address = {"kafka.bootstrap.servers": topic.servers, "subscribe": topic.name}
        return {**begin, **self.values, **most, **address}

    def for_writing(self, topic: KafkaTopic) -> dict[str, str]:
        """Return the options of a sink: of those given the ones for Kafka's clients."""
        given = {name: value for name, value in self.values.items() if name.lower().startswith(_CLIENT)}
        return {**given, "kafka.bootstrap.servers": topic.servers, "topic": topic.name}

    def without_secrets(self, text: str) -> str:
        """Return a text with `[hidden]` in place of every secret among the values."""
        for secret in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(secret, "[hidden]")
        return text

    def _secrets(self) -> set[str]:
        """Return the secrets whole, and the words of them: an error may show a piece."""
        values = [value for name, value in self.values.items() if _SECRET.search(name) and value]
        words = [word for value in values for rest in _WITHIN.findall(value) for word in _BETWEEN.split(rest)]
        return {*values, *(word for word in words if len(word) > _SHORT)}


_FROM_THE_FIRST = {"startingOffsets": "earliest"}


def without_connector(topic: KafkaTopic) -> NotSupported:
    """Return what to raise where Spark has no connector for Kafka: it names jars that can be had."""
    *jars, last = (f"{name} {version}" for _, name, version in CONNECTOR_JARS)
    return NotSupported(
        f"{topic}: this Spark has no connector for Kafka; set spark.jars to the jars of {', '.join(jars)} and {last}"
        " (Kafka in docs/spark.md says how to fetch them), or to those of an installed connector"
    )
