"""Sinks that hand a batch over after its commit and note that they did: to a function, to the console, to memory."""

from __future__ import annotations

import json
import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from nearcast.errors import IncompatibleStore
from nearcast.pipeline.sinks.base import Output, Sink, Stager, in_order
from nearcast.pipeline.store.store import Store
from nearcast.tables.names import DELIVERY_SCHEMA

_FOLDER = "staged"
#: The names of the staged files that were handed over last.
_PUBLISHED = "published.json"


class AfterCommitSink(Sink):
    """A sink that is handed each batch after its commit, at least once; its rows have the column `delivery_id`.

    What was handed over is noted beside the state, so that a start repeats the last batch only where a crash came
    between the two. Its deliveries then have the ids they had.
    """

    def __init__(self, name: str, store: Store, extension: str):
        self.name = name
        self.stager = Stager(store, _FOLDER, extension, delivery_ids=True)

    @abstractmethod
    def send(self, batch: int, outputs: Sequence[Output]) -> None:
        """Hand over what was staged; outputs are in order, and there is at least one."""

    def publish(self, batch: int, outputs: Sequence[Output]) -> None:
        """Hand over the batch unless that is noted, and note it."""
        outputs = in_order(outputs)
        names = [each["staged"] for each in outputs]
        if not names or names == self._noted():
            return
        self._refuse_losses(batch, outputs)
        self.send(batch, outputs)
        self.stager.store.put(_PUBLISHED, lambda path: path.write_text(json.dumps(names)))

    def _noted(self) -> object:
        """Return the names that the last `publish` noted; None where there are none that can be read."""
        store = self.stager.store
        if not store.exists(_PUBLISHED):
            return None
        try:
            return json.loads(store.read_bytes(_PUBLISHED))
        except ValueError:
            return None  # then the batch is sent once more, which is allowed

    def _refuse_losses(self, batch: int, outputs: Sequence[Output]) -> None:
        store = self.stager.store
        for output in outputs:
            if not store.exists(output["staged"]):
                raise IncompatibleStore(
                    f"{store.root}/{output['staged']} is lost: {output['rows']:,} rows of batch {batch} were staged"
                    f" there and not handed over to {self.name} yet; bring it back, or begin anew with another"
                    " checkpoint"
                )


class CallableSink(AfterCommitSink):
    """The user's function of the deliveries and the number of the batch, at least once; not for an empty batch.

    It gets a DataFrame where a Spark session is running, else an Arrow table.
    """

    def __init__(self, function: Callable[[Any, int], object], store: Store):
        super().__init__("function", store, ".parquet")
        self.function = function

    def send(self, batch: int, outputs: Sequence[Output]) -> None:
        """Call the function."""
        session = _session_or_none()
        if session is None:
            self.function(_table(self.stager.store, outputs), batch)
        else:
            paths = [self.stager.store.url(each["staged"]) for each in outputs]
            self.function(session.read.parquet(*paths), batch)


class ConsoleSink(AfterCommitSink):
    """Deliveries on stdout, as lines of JSON."""

    def __init__(self, store: Store):
        super().__init__("console", store, ".jsonl")

    def send(self, batch: int, outputs: Sequence[Output]) -> None:
        """Print the staged lines."""
        for output in outputs:
            sys.stdout.write(self.stager.store.read_bytes(output["staged"]).decode())
        sys.stdout.flush()


class MemorySink(Sink):
    """Deliveries in the memory of the driver: `tables`, one for each batch that delivered something.

    Nothing is noted: what an earlier process held is gone, so that every start gets the last batch again.
    """

    def __init__(self, store: Store, *, delivery_ids: bool = False):
        self.name = "memory"
        self.stager = Stager(store, _FOLDER, ".parquet", delivery_ids=delivery_ids)
        self.tables: list[pa.Table] = []

    def publish(self, batch: int, outputs: Sequence[Output]) -> None:
        """Read the staged rows."""
        if outputs:
            self.tables.append(_table(self.stager.store, outputs))

    def to_table(self) -> pa.Table:
        """Return all deliveries so far as one table."""
        return pa.concat_tables(self.tables or [DELIVERY_SCHEMA.empty_table()], promote_options="permissive")


def _table(store: Store, outputs: Sequence[Output]) -> pa.Table:
    from pyarrow import parquet

    tables = [parquet.read_table(store.local(each["staged"]), partitioning=None) for each in in_order(outputs)]
    return pa.concat_tables(tables, promote_options="permissive")


def _session_or_none() -> Any:
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()
