"""A stream between topics, in processes that are killed, as are the broker's; a session works off what is left."""

from faults.processes import StreamProcess
from nearcast import Hub
from nearcast.files import read_table
from nearcast.spark.stream import stream
from nearcast.tables import Rejected
from support.kafka_broker import PASSWORD, QUICK_JAVA
from support.kafka_streams import delivered_in, expected_of
from support.spark_files import write_table
from support.streams import Oracle, World
from support.waiting import PATIENCE_S


class KilledStream:
    """`nearcast stream` between topics as processes that are killed, each going on where the last one ended."""

    def __init__(self, broker, topics, connector, folder, seed):
        self.broker, self.topics, self.folder, self._connector = broker, topics, folder, connector
        self.checkpoint, self._log = folder / "K", folder / "log"
        self._names = f"messages-{seed}", f"deliveries-{seed}"
        for name, partitions in zip(self._names, (1, 3), strict=True):
            topics.create(name, partitions)
        self._world = World(seed)
        self._subscriptions = [self._world.subscription(id_) for id_ in range(1, 21)]
        write_table(folder / "subscriptions.jsonl", self._subscriptions, [])
        lines = [f"{name}={value}\n" for name, value in broker.options.items()]
        (folder / "kafka.properties").write_text("".join(["# of the tests\n", *lines]))
        self._sent = []

    def _given(self):
        messages, deliveries = (f"kafka://{self.broker.secured}/{name}" for name in self._names)
        given = {"messages": messages, "out": deliveries, "checkpoint": self.checkpoint}
        return {**given, "window": 9, "clock": "event", "space": "plane", "partitions": 2}

    def start(self):
        """Start a process; Spark is given the connector as anybody would give it to a command."""
        given = {**self._given(), "subscriptions": self.folder / "subscriptions.jsonl"}
        given |= {"kafka-options": self.folder / "kafka.properties", "trigger": "100ms"}
        arguments = [text for name, value in given.items() for text in (f"--{name}", value)]
        submit = f"--jars {self._connector} pyspark-shell"
        environment = {"PYSPARK_SUBMIT_ARGS": submit, "JAVA_TOOL_OPTIONS": QUICK_JAVA}
        return StreamProcess(self._log, arguments, **environment)

    def send(self, n=20):
        rows = [self._world.message() for _ in range(n)]
        self.topics.send(self._names[0], rows)
        self._sent += rows

    def count(self):
        """Return how many deliveries were sent."""
        return self.topics.count(self._names[1])

    def n_batches(self):
        """Return how many batches Spark has begun."""
        notes = self.checkpoint / "spark" / "offsets"
        return max((int(path.name) + 1 for path in notes.glob("[0-9]*")), default=0)

    def last_commit(self):
        """Return the name of the newest manifest, None before the first."""
        manifests = self.checkpoint / "nearcast" / "manifests"
        return max((path.name for path in manifests.glob("[0-9]*.json")), default=None)

    def published(self):
        """Return the note of what was sent last, None before the first."""
        note = self.checkpoint / "nearcast" / "published.json"
        return note.read_text() if note.exists() else None

    def finish(self, spark):
        """Work off what is there, in a session that finds the connector; return how many records are repeated.

        Fails unless the topic holds what a hub delivers, some of it more than once.
        """
        table = read_table(self.folder / "subscriptions.jsonl", source="subscriptions", rejected=Rejected())
        options = {**self._given(), "kafka_options": self.broker.options}
        running = stream(subscriptions=table, once=True, spark=spark, **options)
        assert running.wait(PATIENCE_S)
        oracle = Oracle(Hub("plane", window=9))
        oracle.begin(self._subscriptions)
        expected = expected_of(oracle, self.checkpoint, {(self._names[0], 0): self._sent})
        found, repeated = delivered_in(self.topics.records(self._names[1]))
        assert expected == found
        assert PASSWORD not in self._log.read_text(errors="replace")
        return repeated
