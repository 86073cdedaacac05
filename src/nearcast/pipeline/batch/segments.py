"""Message segments: the messages of one source of a batch, encoded once, in an Arrow file that every worker maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast.columns import Messages, joined
from nearcast.errors import unreadable_store
from nearcast.tables import Rejected, read_messages
from nearcast.text.weights import message_totals
from nearcast.text.words import UNKNOWN, WordTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.engine import State
    from nearcast.pipeline.settings import PipelineSettings
    from nearcast.text.weights import TermWeights

_COLUMNS = ("id", "box", "time", "expires", "terms", "totals", "partitions")
_TOTALS = pa.list_(pa.float64(), 3)
_PARTITIONS = pa.large_list(pa.int32())


@dataclass(frozen=True)
class MessageSegment:
    """Messages whose terms are numbers of `words`, -1 for the gap between a text and given terms.

    `route_start` and `route` are the partitions each message goes to; None stands for all of them.
    """

    messages: Messages
    words: pa.Array
    route_start: NDArray[np.int64] | None = None
    route: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.messages)

    @classmethod
    def encoded(
        cls, table: pa.Table, settings: PipelineSettings, words: WordTable, *, source: str, rejected: Rejected
    ) -> MessageSegment:
        """Return the good rows of a table of messages, without attributes; their words are added to a table."""
        messages = read_messages(
            table, settings.space, words, settings.analyzer, source=source, add_words=True, rejected=rejected
        )
        return cls(replace(messages, attributes=None), words.words())

    def messages_for(self, state: State, *, are_kept: bool = True) -> Messages:
        """Return the messages encoded by the words of a state, with totals and other words where it needs them.

        Without `are_kept` they are only matched, and enter neither window nor live store.
        """
        totals = self.messages.totals
        if state.needs_totals and totals is None:
            totals = self.totals(state.weights)
        window_terms = None
        if state.topk is not None and are_kept:
            # Where the window is held elsewhere, only the words of subscriptions count here.
            is_own = state.topk.word_table is not state.words
            window_terms = self.terms_in(state.topk.word_table, add=is_own)
        return replace(
            self.messages,
            terms=self.terms_in(state.words),
            totals=totals,
            window_terms=window_terms,
            live_terms=None if state.live is None or not are_kept else self.terms_in(state.live.word_table, add=True),
        )

    def totals(self, weights: TermWeights) -> NDArray[np.float64]:
        """Return `Messages.totals` of the messages under these weights."""
        own = WordTable()
        return message_totals(self.messages.term_start, self.terms_in(own, add=True), own, weights)

    def terms_in(self, table: WordTable, *, add: bool = False) -> NDArray[np.int32]:
        """Return the terms of all messages as a table has them."""
        term_of = np.append(table.ids_of_column(self.words, add=add), np.int32(UNKNOWN))  # the last is that of -1
        terms: NDArray[np.int32] = term_of[self.messages.terms]
        return terms

    def with_used_words(self) -> MessageSegment:
        """Return the same messages with no other words than theirs."""
        used = np.zeros(len(self.words) + 1, np.bool_)
        used[self.messages.terms] = True  # the last is that of -1
        terms = np.flatnonzero(used[:-1])
        number_of = np.full(len(used), UNKNOWN, np.int32)
        number_of[terms] = np.arange(len(terms), dtype=np.int32)
        messages = replace(self.messages, terms=number_of[self.messages.terms])
        return replace(self, messages=messages, words=self.words.take(_arrow.numbers(terms)))

    def write(self, path: Path) -> None:
        """Write one file."""
        messages = self.messages
        terms = pa.DictionaryArray.from_arrays(
            pa.array(messages.terms, mask=messages.terms < 0), self.words.cast(pa.string())
        )
        columns = [
            messages.ids if isinstance(messages.ids, pa.Array) else pa.array(messages.ids),
            pa.FixedSizeListArray.from_arrays(_arrow.numbers(messages.box.ravel()), 4),
            _arrow.numbers(messages.time),
            _arrow.numbers(messages.expires),
            pa.LargeListArray.from_arrays(_arrow.numbers(messages.term_start), terms),
            _fixed(messages.totals, len(messages)),
            _lists(self.route_start, self.route, len(messages)),
        ]
        batch = pa.record_batch(columns, names=list(_COLUMNS))
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)

    @classmethod
    def read(cls, path: Path) -> MessageSegment:
        """Map a file; `IncompatibleStore` if it is missing or damaged."""
        try:
            batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        except (OSError, pa.ArrowException) as error:
            raise unreadable_store(f"{path} is missing or damaged ({error}); restore the checkpoint", error) from None
        column = dict(zip(batch.schema.names, batch.columns, strict=True))
        terms = column["terms"].flatten()
        return cls(
            Messages(
                column["id"],
                _arrow.array_of(column["terms"].offsets) - _first(column["terms"].offsets),
                _arrow.array_of(pc.fill_null(terms.indices, UNKNOWN)).astype(np.int32, copy=False),
                _arrow.array_of(column["box"].flatten()).reshape(-1, 4),
                _arrow.array_of(column["time"]),
                _arrow.array_of(column["expires"]),
                totals=_floats(column["totals"]),
            ),
            terms.dictionary,
            *_routes(column["partitions"]),
        )


def concat(segments: Sequence[MessageSegment]) -> MessageSegment:
    """Return the messages of all segments, in order, without their routes unless it is one."""
    if len(segments) == 1:
        return segments[0]
    table = WordTable()
    terms = [segment.terms_in(table, add=True) for segment in segments]
    messages = [segment.messages for segment in segments]
    totals = [each.totals for each in messages]
    return MessageSegment(
        Messages(
            _joined_ids([each.ids for each in messages]),
            joined([each.term_start for each in messages]),
            np.concatenate(terms) if terms else np.empty(0, np.int32),
            np.concatenate([each.box for each in messages]) if messages else np.empty((0, 4)),
            _numbers([each.time for each in messages]),
            _numbers([each.expires for each in messages]),
            totals=None if not totals or any(each is None for each in totals) else np.concatenate(totals),  # type: ignore[arg-type]
        ),
        table.words(),
    )


def taken(segment: MessageSegment, rows: NDArray[np.int64]) -> MessageSegment:
    """Return some messages in a given order, without their routes."""
    return replace(segment, messages=segment.messages.take(rows), route_start=None, route=None)


def _joined_ids(ids: list[Any]) -> pa.Array:
    arrays = [each for each in ids if len(each)]
    if not arrays:
        return ids[0] if ids else _arrow.strings([])
    if len({array.type for array in arrays}) > 1:
        arrays = [array.cast(pa.string()) for array in arrays]
    return pa.concat_arrays(arrays)


def _numbers(arrays: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(arrays) if arrays else np.empty(0, np.int64)


def _first(offsets: pa.Array) -> int:
    return int(offsets[0].as_py())


def _fixed(values: NDArray[np.float64] | None, n: int) -> pa.Array:
    if values is None:
        return pa.nulls(n, _TOTALS)
    return pa.FixedSizeListArray.from_arrays(_arrow.numbers(values.ravel()), 3)


def _floats(column: pa.Array) -> NDArray[np.float64] | None:
    if len(column) and column.null_count == len(column):
        return None
    return _arrow.array_of(column.flatten()).reshape(-1, 3)


def _lists(start: NDArray[np.int64] | None, values: NDArray[np.int32] | None, n: int) -> pa.Array:
    if start is None or values is None:
        return pa.nulls(n, _PARTITIONS)
    return pa.LargeListArray.from_arrays(_arrow.numbers(start), _arrow.numbers(values))


def _routes(column: pa.Array) -> tuple[NDArray[np.int64] | None, NDArray[np.int32] | None]:
    if len(column) and column.null_count == len(column):
        return None, None
    start = _arrow.array_of(column.offsets)
    return start - start[0], _arrow.array_of(column.flatten())
