"""`nearcast match --engine spark`: a file of messages in pieces, side by side, deliveries in one order.

Without top-k subscriptions every piece is matched against all subscriptions, which workers map from one folder, and
writes a part of the answer. With them the messages go through the pipeline of a stream, in the order of the file.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast import engine
from nearcast._ids import INTEGERS
from nearcast.columns import NO_TIME
from nearcast.deliveries import Deliveries
from nearcast.engine.snapshot import open_files, save_files
from nearcast.files import DeliveryWriter, united
from nearcast.indexes import create
from nearcast.pipeline.batch.partition_deliveries import as_schema, id_type, merged, schema_of
from nearcast.pipeline.batch.segments import MessageSegment
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks.files import FileSink
from nearcast.pipeline.store.store import Store
from nearcast.tables import Rejected, RejectedRow, read_subscriptions
from nearcast.text import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.pipeline.runner import Runner

#: Messages in a piece, and in a batch of the stream's engine.
PIECE, BATCH = 1 << 16, 50_000
OnStep = Callable[[str, int | None], object]


@dataclass(frozen=True)
class EncodeTask:
    """Task: encode one piece of the messages, which lies in an Arrow file."""

    settings: PipelineSettings
    rows: str
    segment: str


@dataclass(frozen=True)
class EncodeResult:
    """What is known of an encoded piece: number of good messages, last time, document frequencies of its words."""

    messages: int
    last_time: int
    words: pa.Array
    df: NDArray[np.int64]
    id_type: str
    rejected: list[RejectedRow]


def encode_piece(task: EncodeTask) -> EncodeResult:
    """Read a piece and write its good messages as a segment."""
    with pa.memory_map(task.rows) as file:
        table = pa.ipc.open_file(file).read_all()
    vocabulary, rejected = Vocabulary(), Rejected()
    segment = MessageSegment.encoded(table, task.settings, vocabulary.table, source="messages", rejected=rejected)
    segment.write(Path(task.segment))
    messages = segment.messages
    vocabulary.learn(messages.term_start, messages.terms)
    assert isinstance(messages.ids, pa.Array)
    kind, last = id_type(messages.ids.type), int(messages.time.max(initial=NO_TIME))
    return EncodeResult(len(segment), last, segment.words, vocabulary.df_by_term, kind, list(rejected))


@dataclass(frozen=True)
class MatchTask:
    """Task: match one piece against all subscriptions, from this step and event time on."""

    state: str
    segment: str
    out: str
    first_step: int
    now: int
    id_types: tuple[str, str]
    delivery_ids: bool | None = None


def match_piece(task: MatchTask) -> int:
    """Match a piece and write its deliveries; return how many there are."""
    state, schema = _state(task.state), schema_of(*task.id_types)
    messages = MessageSegment.read(Path(task.segment)).messages_for(state)
    steps = np.arange(task.first_step, task.first_step + len(messages))
    # No step of the engine: pieces share one state, in any order, and what has expired for one is there for another.
    messages = replace(messages, steps=steps, clock=np.maximum(messages.time, task.now))
    deliveries = Deliveries([engine.deliveries_of(state, messages, state.index.match(messages))])
    with DeliveryWriter(task.out, delivery_ids=task.delivery_ids) as writer:
        for table in deliveries.tables(dictionaries=True):
            writer.write(as_schema(table, schema))
    return len(deliveries)


_states: dict[str, engine.State] = {}


def _state(folder: str) -> engine.State:
    """Return the subscriptions of a folder; the last ones are kept in this process."""
    if folder not in _states:
        _states.clear()
        _states[folder] = open_files(folder)
    return _states[folder]


class FileMatch:
    """One run of the command, in a folder of its own that is removed afterwards."""

    def __init__(
        self,
        settings: PipelineSettings,
        runner: Runner,
        folder: Path,
        on_step: OnStep,
        *,
        delivery_ids: bool | None = None,
    ):
        self.settings, self.runner, self.folder = settings, runner, folder
        self._on_step, self._delivery_ids = on_step, delivery_ids

    def run(
        self,
        subscriptions: pa.Table,
        messages: Iterator[pa.Table],
        vocabulary: Vocabulary | None,
        rejected: Rejected,
        *,
        suffix: str,
    ) -> tuple[list[Path], dict[str, Any]]:
        """Return the parts of the answer in order, and the counts."""
        pieces = self._pieces(messages)
        self._on_step("reading messages", None)
        tasks = [EncodeTask(self.settings, str(path), str(path.with_suffix(".segment"))) for path in pieces]
        encoded: list[EncodeResult] = self.runner.map(encode_piece, tasks)
        first = 0
        for each in encoded:
            rejected.extend(each.rejected)
        words = _learned(encoded) if vocabulary is None else vocabulary
        state = self._stored(subscriptions, words, rejected)
        counts: dict[str, Any] = {
            "messages": sum(each.messages for each in encoded),
            "subscriptions": len(state.index),
            "vocabulary_version": state.vocabulary.version,
        }
        types = {each.id_type for each in encoded if each.messages}
        kinds = ("int64" if state.ids.kinds == INTEGERS else "string", "int64" if types == {"int64"} else "string")
        save_files(state, self.folder / "state")
        matches = []
        now: int = NO_TIME
        for at, (task, each) in enumerate(zip(tasks, encoded, strict=True)):
            out = self.folder / f"part-{at:05d}{suffix}"
            state_folder = str(self.folder / "state")
            matches.append(MatchTask(state_folder, task.segment, str(out), first, now, kinds, self._delivery_ids))
            first, now = first + each.messages, max(now, each.last_time)
        self._on_step("matching messages", len(matches))
        counts["deliveries"] = sum(self.runner.map(match_piece, matches))
        counts["subscriptions"] -= int(np.count_nonzero((state.expires != NO_TIME) & (state.expires <= now)))
        return [Path(each.out) for each in matches], counts

    def run_in_order(
        self,
        subscriptions: pa.Table,
        messages: Iterator[pa.Table],
        vocabulary: Vocabulary,
        rejected: Rejected,
        *,
        write: Callable[[pa.Table], None],
    ) -> dict[str, Any]:
        """Take the messages through the pipeline of a stream, in order; hand over deliveries, net of each batch."""
        store = Store(str(self.folder / "K"))
        sink = _MergingSink(str(self.folder / "out"), write)
        pipeline = Pipeline(store, self.settings, self.runner, sink, claims=str(self.folder / "claims"))
        pipeline.by_time, pipeline.with_keys, pipeline.notes_sources = False, True, False
        pipeline.on_rejected = rejected.extend
        snapshot = vocabulary.snapshot()
        rejected.extend(pipeline.begin(subscriptions, snapshot))
        n_messages = n_deliveries = batch = 0
        self._on_step("matching messages", None)
        for table in _of_size(messages, BATCH):
            report = pipeline.run(batch, [BatchSource("messages", "messages", rows=table)])
            assert report is not None
            n_messages, n_deliveries, batch = n_messages + report.messages, n_deliveries + report.deliveries, batch + 1
        return {
            "messages": n_messages,
            "subscriptions": len(pipeline.state.directory),
            "deliveries": n_deliveries,
            "vocabulary_version": snapshot.version,
        }

    def _pieces(self, messages: Iterator[pa.Table]) -> list[Path]:
        """Write the messages in pieces that workers map."""
        paths = []
        for at, table in enumerate(_of_size(messages, PIECE)):
            path = self.folder / f"{at:05d}.arrow"
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            paths.append(path)
        return paths

    def _stored(self, table: pa.Table, vocabulary: Vocabulary, rejected: Rejected) -> engine.State:
        settings = self.settings
        self._on_step("storing subscriptions", table.num_rows)
        state = engine.State(create(settings.index, settings.space), analyzer=settings.analyzer, vocabulary=vocabulary)
        columns = read_subscriptions(
            table,
            settings.space,
            state.words,
            state.analyzer,
            max_distance=settings.max_distance,
            has_window=False,
            rejected=rejected,
        )
        engine.step(state, engine.Subscribe(columns))
        return state


class _MergingSink(FileSink):
    """Hands over the deliveries of a batch, merged from all partitions, and removes what was staged."""

    def __init__(self, out: str, write: Callable[[pa.Table], None]):
        super().__init__(out)
        self._write = write

    def publish(self, batch: int, outputs: Any) -> None:
        from pyarrow import parquet

        names = [each["staged"] for each in outputs]
        if names:
            self._write(merged([parquet.read_table(self.store.local(name)) for name in names]))
            self.store.delete(names)


def _of_size(tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield the rows in tables of about this many, the schemas as they come."""
    waiting: list[pa.Table] = []
    for table in tables:
        for first in range(0, max(table.num_rows, 1), rows):
            waiting.append(table.slice(first, rows))
            if sum(each.num_rows for each in waiting) >= rows:
                yield united(waiting).combine_chunks()
                waiting = []
    if waiting:
        yield united(waiting).combine_chunks()


def _learned(encoded: list[EncodeResult]) -> Vocabulary:
    return Vocabulary.summed((each.words, each.df, each.messages) for each in encoded)


def put_together(parts: list[Path], out: Path) -> None:
    """Put the parts of an answer in place: a folder of Parquet files, else one file."""
    if out.suffix.lower() == ".parquet":
        _replace_folder(parts, out)
        return
    temporary = out.with_name(f".{out.name}.parts")
    has_header = out.suffix.lower() == ".csv"
    try:
        with temporary.open("wb") as whole:
            for at, part in enumerate(parts):
                with part.open("rb") as file:
                    if has_header and at:
                        file.readline()
                    shutil.copyfileobj(file, whole, 1 << 20)
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)


def _replace_folder(parts: list[Path], out: Path) -> None:
    temporary = out.with_name(f".{out.name}.parts")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir()
        for part in parts:
            shutil.move(part, temporary / part.name)
        if out.is_dir():
            shutil.rmtree(out)
        else:
            out.unlink(missing_ok=True)
        temporary.rename(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
