"""Messages while they are kept: looked up by arrival, or by id, in the inputs that runs hold."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast._ids import Id
from nearcast.durable.inputs import decoded
from nearcast.durable.outbox.id_hashes import hash_of
from nearcast.durable.outbox.runs import SortedRun
from nearcast.geo import Space
from nearcast.tables.cells import TableRows
from nearcast.tables.message_values import message_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.model import Message


#: Messages that are held as values, and how long the text of each may be.
_MOST_HELD, _LONGEST_HELD = 10_000, 10_000
#: Inputs that are held decoded, their bytes in all, and those of each.
_MOST_INPUTS, _MOST_BYTES, _LARGEST_BYTES = 4_096, 16 << 20, 1 << 20
#: Of an input that is read again, so many messages are read together: most of the time goes into the call.
_TOGETHER = 64


class DecodedInput(NamedTuple):
    """The messages of an input as they were published, the form of its schema, and the bytes it was decoded from."""

    table: pa.Table
    schema: bytes
    nbytes: int


class MessageCache:
    """The messages that were published or read last, by arrival: many subscribers read the same ones.

    Also the inputs that were read last, by the arrival of their first message: a page has messages of many inputs, and
    the next page others of the same ones.
    """

    def __init__(self) -> None:
        self._held: dict[int, Message] = {}
        self._inputs: OrderedDict[int, DecodedInput] = OrderedDict()
        self._input_bytes = 0
        self._lock = threading.Lock()

    def put(self, found: Mapping[int, Message]) -> None:
        """Hold messages, and forget the oldest of too many."""
        with self._lock:
            for arrival, message in found.items():
                if len(message.text or "") <= _LONGEST_HELD:
                    self._held[arrival] = message
            for arrival in list(islice(self._held, max(0, len(self._held) - _MOST_HELD))):
                del self._held[arrival]

    def among(self, arrivals: Iterable[int]) -> dict[int, Message]:
        """Return those of these messages that are held."""
        with self._lock:
            return {arrival: self._held[arrival] for arrival in arrivals if arrival in self._held}

    def input_of(self, run: SortedRun, at: int) -> tuple[DecodedInput, bool]:
        """Return an input of a run, and whether it was held or is decoded now; it is the same in any run."""
        first = int(run.published[at])
        with self._lock:
            if (held := self._inputs.get(first)) is not None:
                self._inputs.move_to_end(first)
                return held, True
        content = run.content[run.content_start[at] : run.content_start[at + 1]]
        is_held = content.nbytes <= _LARGEST_BYTES
        # What is held outlives the file that the run is mapped from.
        data = content.tobytes() if is_held else content.data
        table = decoded(data, f"an input of {run.path or 'the outbox'}").table
        found = DecodedInput(table, table.schema.serialize().to_pybytes(), len(data))
        if is_held:
            self._hold(first, found)
        return found, False

    def _hold(self, first: int, found: DecodedInput) -> None:
        with self._lock:
            if first not in self._inputs:
                self._inputs[first] = found
                self._input_bytes += found.nbytes
            while len(self._inputs) > _MOST_INPUTS or self._input_bytes > _MOST_BYTES:
                self._input_bytes -= self._inputs.popitem(last=False)[1].nbytes


def first_kept(runs: Sequence[SortedRun]) -> int:
    """Return the arrival of the oldest message that runs keep; what came before may still be held in memory."""
    return min((int(run.published[0]) for run in runs if len(run.published)), default=sys.maxsize)


def messages_at(runs: Sequence[SortedRun], arrivals: set[int], space: Space, cache: MessageCache) -> dict[int, Message]:
    """Return the messages that arrived in these steps, without those that are not kept; maybe some beside them."""
    oldest = first_kept(runs)
    wanted = {arrival for arrival in arrivals if arrival >= oldest}
    found = cache.among(wanted)
    if len(found) < len(wanted):
        read = _read(runs, wanted - found.keys(), space, cache)
        cache.put(read)
        found |= read
    return found


def _read(runs: Sequence[SortedRun], arrivals: set[int], space: Space, cache: MessageCache) -> dict[int, Message]:
    """Read messages from the inputs that runs hold, all inputs of one schema together."""
    wanted = np.unique(np.fromiter(arrivals, np.int64))
    tables: dict[bytes, tuple[list[pa.Table], list[int]]] = {}
    for run in runs:
        for at, own in _inputs_of(run, wanted):
            (table, schema, _), is_known = cache.input_of(run, at)
            own = _with_neighbours(run, at, own, cache) if is_known else own
            rows = _rows_of(run, at, own)
            parts, numbers = tables.setdefault(schema, ([], []))
            parts.append(table.slice(int(rows[0]), 1) if len(rows) == 1 else table.take(_arrow.numbers(rows)))
            numbers.extend(own.tolist())
    found: dict[int, Message] = {}
    for parts, numbers in tables.values():
        found.update(zip(numbers, message_values(pa.concat_tables(parts).combine_chunks(), space), strict=True))
    return found


def _inputs_of(run: SortedRun, wanted: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the inputs of a run that published some of the wanted messages, with the arrivals of these."""
    if not len(run.published):
        return
    inputs = np.searchsorted(run.published, wanted, side="right") - 1
    is_here = (inputs >= 0) & (wanted < run.published[inputs] + run.count[inputs])
    for at in np.unique(inputs[is_here]).tolist():
        yield at, wanted[is_here & (inputs == at)]


def _with_neighbours(run: SortedRun, at: int, arrivals: NDArray[np.int64], cache: MessageCache) -> NDArray[np.int64]:
    """Return arrivals of an input with those around them that are not held, which others will ask for.

    Those asked for stay, although another reader may have put them into the cache since they were looked for there.
    """
    first, n = int(run.published[at]), int(run.count[at])
    blocks = np.unique((arrivals - first) // _TOGETHER)
    places = (blocks[:, None] * _TOGETHER + np.arange(_TOGETHER)).ravel()
    around: NDArray[np.int64] = first + places[places < n]
    held = np.fromiter(cache.among(around.tolist()), np.int64)
    return around[~np.isin(around, np.setdiff1d(held, arrivals))]


def newest_message(runs: Sequence[SortedRun], message_id: Id, space: Space, cache: MessageCache) -> Message | None:
    """Return the newest message with an id, found by its hash; run by run, and input by input where there is none."""
    wanted = hash_of(message_id)
    for run in reversed(runs):
        for at, arrivals in _candidates(run, wanted):
            table, rows = cache.input_of(run, at)[0].table, _rows_of(run, at, arrivals)
            named = rows[_are(TableRows(table.select(["id"]).take(_arrow.numbers(rows)), "ids", 0).ids(), message_id)]
            if len(named):
                return message_values(table.take(_arrow.numbers(named[-1:])), space)[0]
    return None


def _candidates(run: SortedRun, wanted: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield inputs of a run, the newest first, with the arrivals of those messages that may have an id of this hash."""
    if not run.is_indexed:
        for at in range(len(run.published) - 1, -1, -1):
            yield at, run.published[at] + np.arange(run.count[at])
        return
    first, last = np.searchsorted(run.id_hash, wanted), np.searchsorted(run.id_hash, wanted, side="right")
    yield from list(_inputs_of(run, np.sort(run.hashed[first:last])))[::-1]


def _rows_of(run: SortedRun, at: int, arrivals: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows of an input in which messages lie."""
    places: NDArray[np.int64] = arrivals - run.published[at]
    taken: NDArray[np.int64] = run.taken[run.taken_start[at] : run.taken_start[at + 1]]
    return taken[places] if len(taken) else places


def _are(ids: pa.Array, message_id: Id) -> NDArray[np.bool_]:
    """Tell which ids, of one type, are this one; text and integers are never equal."""
    if isinstance(message_id, str) == bool(pa.types.is_integer(ids.type)):
        return np.zeros(len(ids), np.bool_)
    return _arrow.array_of(pc.equal(ids, pa.scalar(message_id, ids.type))).astype(np.bool_)
