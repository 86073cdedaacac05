"""What a stream is started with, as one value: made once by `nearcast.spark.stream`, read by everything that starts it.

Importing this loads nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import pyarrow as pa

from nearcast.engine.lifetime import Lifetime
from nearcast.errors import InvalidInput
from nearcast.geo import Space
from nearcast.pipeline.kafka_topics import KafkaOptions, is_topic
from nearcast.pipeline.preparation.prepared_store import about_prepared
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import PartFolders
from nearcast.pipeline.store.store import Store
from nearcast.plans import parse_spec
from nearcast.tables import space_of
from nearcast.tables.time_limits import MaxAhead
from nearcast.text import Analyzer
from nearcast.window import Window

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from nearcast.pipeline.worker.source_reader import Kind
    from nearcast.text import Vocabulary

#: How far messages may lie ahead of the wall clock, where it moves time and nothing else is said.
WALL_MAX_AHEAD = "5m"
#: Files or Kafka records that make a batch at most: a backlog is worked off in pieces.
FILES_PER_BATCH, RECORDS_PER_BATCH = 100, 500_000

Clock = Literal["event", "wall"]
WindowMode = Literal["shared", "host", "partitioned"]


@dataclass(frozen=True)
class StreamOptions:
    """The parameters of `nearcast.spark.stream`, which tells what each means."""

    messages: str | Path | DataFrame
    subscriptions: pa.Table | DataFrame | str | Path
    out: Any
    checkpoint: str
    changes: str | Path | DataFrame | None = None
    window: Window | int | str | timedelta | None = None
    window_mode: WindowMode = "shared"
    lifetime: Lifetime | str | timedelta | None = None
    tell_expiry: bool = False
    plan: str = "trigger"
    partitions: int | None = None
    trigger: str = "1 seconds"
    clock: Clock | None = None
    max_ahead: str | timedelta | None = None
    vocabulary: Vocabulary | None = None
    space: str | Space | None = None
    max_distance: float | None = None
    analyzer: Analyzer | None = None
    index: str = "trigger"
    renames: dict[str, str] = field(default_factory=dict)
    sample: pa.Table | None = None
    once: bool = False
    at_once: int | None = None
    #: Values may be secrets.
    kafka_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    rebalance_above: float | None = None
    skip_missing_files: bool = False
    delivery_ids: bool = False
    part_folders: PartFolders = "one"

    def __post_init__(self) -> None:
        if self.clock not in (None, "event", "wall"):
            raise InvalidInput(f"clock is {self.clock!r}; expected event or wall")
        if self.window_mode not in ("shared", "host", "partitioned"):
            raise InvalidInput(f"window_mode is {self.window_mode!r}; expected shared, host or partitioned")
        self.kafka  # noqa: B018 - which refuses options that cannot be given

    # Input

    @property
    def is_kafka(self) -> bool:
        """Tell whether messages come from a topic."""
        return is_topic(self.messages)

    @cached_property
    def kafka(self) -> KafkaOptions:
        """The options of Spark's connector for Kafka, for every source and sink that is a topic."""
        return KafkaOptions(self.kafka_options)

    @property
    def is_by_wall(self) -> bool:
        """Tell whether the wall clock moves time, too."""
        return self.clock == "wall" or (self.clock is None and self.is_kafka)

    @property
    def ahead_limit(self) -> MaxAhead | None:
        """How far messages may lie ahead."""
        return MaxAhead.of(WALL_MAX_AHEAD if self.max_ahead is None and self.is_by_wall else self.max_ahead)

    @property
    def most_files(self) -> int:
        """The files of a folder that make a batch at most."""
        return self.at_once or FILES_PER_BATCH

    @property
    def most_records(self) -> int:
        """The records of a topic that make a batch at most."""
        return self.at_once or RECORDS_PER_BATCH

    def most_of(self, source: object) -> int:
        """Return how much of a source makes a batch at most: files of a folder, or records of a topic."""
        return self.most_records if is_topic(source) else self.most_files

    @property
    def topics(self) -> tuple[tuple[str, ...], ...]:
        """The topics that records arrive in, of each source that has some."""
        given = [urlsplit(str(each)) for each in (self.messages, self.changes) if str(each).startswith("kafka://")]
        return tuple(tuple(name.strip() for name in each.path.strip("/").split(",")) for each in given)

    @property
    def is_cut_by_spark(self) -> bool:
        """Tell whether everything comes from folders and topics, which Spark can work off in pieces and then end."""
        return all(isinstance(each, (str, Path)) for each in (self.messages, self.changes) if each is not None)

    @property
    def has_rows(self) -> bool:
        """Tell whether some input is rows, of a topic or a DataFrame."""
        return any(each is not None and not _is_folder(each) for each in (self.messages, self.changes))

    @property
    def sources(self) -> dict[Kind, str | Path | DataFrame]:
        """Where input comes from, by kind."""
        given: dict[Kind, str | Path | DataFrame | None] = {"messages": self.messages, "changes": self.changes}
        return {kind: each for kind, each in given.items() if each is not None}

    @property
    def folders(self) -> dict[str, str]:
        """The folders that files arrive in, by kind of input."""
        return {kind: str(each) for kind, each in self.sources.items() if _is_folder(each)}

    # Subscriptions

    @cached_property
    def prepared(self) -> dict[str, Any] | None:
        """What the head of a prepared store says, where subscriptions come from one; InvalidInput if it is none."""
        if not isinstance(self.subscriptions, (str, Path)):
            return None
        about = about_prepared(self.subscriptions)
        if about is None:
            raise InvalidInput(
                f"{self.subscriptions} was not made by nearcast prepare; give a table or a DataFrame of subscriptions"
            )
        return about

    @cached_property
    def table(self) -> pa.Table:
        """The subscriptions a new stream begins with; none where they come from a prepared store."""
        if isinstance(self.subscriptions, (str, Path)):
            return pa.table({})
        return self.subscriptions if isinstance(self.subscriptions, pa.Table) else self.subscriptions.toArrow()

    # State

    @property
    def store(self) -> Store:
        """Our half of the checkpoint."""
        return Store(f"{self.checkpoint.rstrip('/')}/nearcast")

    def settings(self, slots: int) -> PipelineSettings:
        """Return what stays as it is while the stream goes on; a partition for each slot unless given."""
        partitions = self.partitions or slots
        settings = PipelineSettings(
            self._space(),
            analyzer=Analyzer() if self.analyzer is None else self.analyzer,
            index=self.index,
            window=None if self.window is None else Window.of(self.window),
            max_distance=self.max_distance,
            plan=self.plan,
            partitions=partitions,
            renames=self.renames,
            window_parts={"shared": 0, "host": 1, "partitioned": partitions}[self.window_mode],
            window_by_host=self.window_mode == "host",
            lifetime=None if self.lifetime is None else Lifetime.of(self.lifetime),
            tell_expiry=self.tell_expiry,
        )
        parse_spec(settings.plan, settings.partitions)
        return settings

    def _space(self) -> Space:
        given = self.space if self.prepared is None else self.prepared["space"]
        if isinstance(given, Space):
            return given
        names = [*self.table.column_names, *([] if self.sample is None else self.sample.column_names)]
        return space_of(names, given)


def _is_folder(given: object) -> bool:
    return isinstance(given, (str, Path)) and not is_topic(given)
