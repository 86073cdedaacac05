"""Takes an engine through the life of a workload that moves, timestamp by timestamp, and times its parts.

Subscriptions come first, then the messages that are alive at the beginning; then at each timestamp the reports of
places, and the messages that arrive. Times are CPU time of the process. Five parts are told apart: `match` of the
index, `append` of the store of live messages, the index's own change of places, `difference` of the store, and what a
tree takes to build parts of itself anew. Many indexes change places when they are next asked: that counts as changing
places, whoever asks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.bench.encoding import EncodedWorkload
from nearcast.bench.moving.life_answers import LifeDigest
from nearcast.bench.stopwatch import Stopwatch
from nearcast.bench.timing import WARM_UP_SUBSCRIPTIONS, settle, spread
from nearcast.errors import InvalidColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.data.moving import MovingWorkload
    from nearcast.columns import Messages, Subscriptions
    from nearcast.deliveries import Piece
    from nearcast.engine import State
    from nearcast.engine.move_items import MoveItems
    from nearcast.tables import Rejected
    from nearcast.text import Analyzer
    from nearcast.text.words import WordTable

#: Messages that go through an engine at once: the first time, and where their deliveries fit into memory at most.
PORTIONS = (1 << 12, 1 << 14)
#: Messages that indexes with a cost model see first, as a sample of those to come.
HISTORY = 5_000
_PHASES = ("match", "append", "relocate", "rebuild", "difference", "drop", "other")


@dataclass(frozen=True)
class LifeWorld:
    """A workload that moves, its subscriptions in columns; `kept` marks the objects whose subscriptions are there."""

    workload: MovingWorkload
    words: WordTable
    analyzer: Analyzer
    subscriptions: Subscriptions
    history: Messages
    kept: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, workload: MovingWorkload) -> LifeWorld:
        """Encode the subscriptions of a workload; `InvalidColumns` if a row cannot be used."""
        from nearcast.tables import Rejected, read_messages, read_subscriptions
        from nearcast.text import Analyzer
        from nearcast.text.words import WordTable

        words, analyzer, rejected = WordTable(), Analyzer(), Rejected()
        space, before = workload.movement.space, workload.messages_before()
        subscriptions = read_subscriptions(workload.subscriptions, space, words, analyzer, rejected=rejected)
        sample = before.take(pa.array(spread(before.num_rows, min(HISTORY, before.num_rows))))
        history = read_messages(sample, space, words, analyzer, rejected=rejected)
        _must_be_good(rejected)
        return cls(workload, words, analyzer, subscriptions, history)

    def encoded(self) -> EncodedWorkload:
        """Return the subscriptions and a sample of messages, as benchmarks of single indexes take them."""
        space = self.workload.movement.space
        return EncodedWorkload(space, self.words, self.subscriptions, self.history, history=self.history)

    def of_rows(self, rows: NDArray[np.int64]) -> LifeWorld:
        """Return the same with some of the subscriptions, in ascending order, and their reports."""
        kept = np.zeros(len(self.subscriptions), np.bool_)
        kept[rows] = True
        return replace(self, subscriptions=self.subscriptions.take(rows), kept=kept)

    def new_state(self, spec: str) -> State:
        """Return an engine with all subscriptions and no message."""
        from nearcast.engine import State, Subscribe, step
        from nearcast.engine.lifetime import Lifetime
        from nearcast.indexes import create

        index = create(spec, self.workload.movement.space)
        index.learn(self.history)
        state = State(index, words=self.words, analyzer=self.analyzer, lifetime=Lifetime())
        step(state, Subscribe(self.subscriptions))
        settle(index)
        return state

    def publishing(self, state: State, messages: pa.Table) -> Iterator[Callable[[], list[Piece]]]:
        """Yield calls that publish messages, each to be made before the next; a portion is encoded before its call."""
        from nearcast.deliveries import MessagePortions
        from nearcast.engine import Publish, step
        from nearcast.tables import Rejected, read_messages

        assert state.live is not None
        rejected, portions = Rejected(), MessagePortions(*PORTIONS)

        def publish(item: Publish) -> list[Piece]:
            pieces = step(state, item)
            portions.deliveries += sum(map(len, pieces))
            return pieces

        for first, last in portions.of(messages.num_rows):
            columns = read_messages(
                messages.slice(first, last - first),
                self.workload.movement.space,
                self.words,
                self.analyzer,
                weights=state.weights,
                live_words=state.live.word_table,
                rejected=rejected,
            )
            _must_be_good(rejected)
            yield partial(publish, Publish(columns))

    def moving(self, state: State, timestamp: int) -> Callable[[], list[Piece]]:
        """Return a call that applies the reports of a timestamp; they are read before."""
        from nearcast.engine.move_items import MoveItems
        from nearcast.tables import Rejected
        from nearcast.tables.moves import read_moves

        table, rejected = self.workload.moves_at(timestamp), Rejected()
        if self.kept is not None:
            table = table.filter(pa.array(self.kept[self.workload.movement.at(timestamp).objects]))
        moves = read_moves(table, self.workload.movement.space, rejected=rejected)
        _must_be_good(rejected)
        return partial(_apply, state, MoveItems(state, moves))


def _apply(state: State, items: MoveItems) -> list[Piece]:
    from nearcast.engine import step
    from nearcast.tables import Rejected

    pieces, rejected = [piece for item in items for piece in step(state, item)], Rejected()
    items.report(rejected, "moves")
    _must_be_good(rejected)
    return pieces


def _must_be_good(rejected: Rejected) -> None:
    for row in rejected:
        raise InvalidColumns(f"the workload cannot be used: {row.source} row {row.row}, {row.field}: {row.reason}")


class LifeLimits(NamedTuple):
    """How long filling an engine may take by the clock, and after how much CPU time no further timestamp begins."""

    fill_s: float
    measure_s: float


@dataclass
class LifeTimes:
    """What an engine took: CPU seconds by phase over the timestamps measured, how many moves and messages these had.

    `skipped` says why nothing was measured. `n_bytes` are those of the index and of the store of live messages.
    """

    skipped: str | None = None
    timestamps: int = 0
    n_moves: int = 0
    n_messages: int = 0
    n_deliveries: int = 0
    n_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_PHASES, 0.0))

    def per_message_us(self, *phases: str) -> float | None:
        """Return the microseconds of some phases per message, None where there was none."""
        return _us(sum(self.seconds[phase] for phase in phases), self.n_messages)

    def per_move_us(self, *phases: str) -> float | None:
        """Return the microseconds of some phases per report, None where there was none."""
        return _us(sum(self.seconds[phase] for phase in phases), self.n_moves)


def _us(seconds: float, n: int) -> float | None:
    return round(seconds * 1e6 / n, 3) if n else None


def live_through(
    world: LifeWorld, spec: str, timestamps: int, limits: LifeLimits, digest: LifeDigest | None = None
) -> LifeTimes:
    """Take an engine through some timestamps; return its times, with what it delivered in `digest`."""
    state, times = world.new_state(spec), LifeTimes()
    digest = LifeDigest() if digest is None else digest
    times.skipped = _fill(world, state, limits, digest)
    if times.skipped is None:
        _measure(world, state, timestamps, limits, digest, times)
        assert state.live is not None
        times.n_bytes = state.index.stats()["bytes"] + state.live.stats()["bytes"]
    state.index.close()
    return times


def _fill(world: LifeWorld, state: State, limits: LifeLimits, digest: LifeDigest) -> str | None:
    """Publish the messages that are alive at the beginning; return why it was given up, if it was."""
    began, n, taken = time.perf_counter(), world.workload.messages_before().num_rows, 0.0
    for publish in world.publishing(state, world.workload.messages_before()):
        if taken > limits.fill_s:
            return (
                f"{state.published:,} of {n:,} messages took {taken:,.3g} s to match and file before the first"
                f" timestamp, {taken * n / state.published:,.3g} s are expected for all; the limit is"
                f" {limits.fill_s:g} s"
            )
        digest.add(publish())
        taken = time.perf_counter() - began
    digest.end_part("before the first timestamp")
    settle(state.index)
    return None


def _measure(
    world: LifeWorld, state: State, timestamps: int, limits: LifeLimits, digest: LifeDigest, times: LifeTimes
) -> None:
    watch, before = _watched(state), digest.n_deliveries
    times.seconds = watch.seconds
    for timestamp in range(timestamps):
        if timestamp and watch.total > limits.measure_s:
            return
        move = world.moving(state, timestamp)
        digest.add(watch.measured(move))
        messages = world.workload.messages_at(timestamp)
        for publish in world.publishing(state, messages):
            digest.add(watch.measured(publish))
        digest.end_part(f"timestamp {timestamp}")
        times.timestamps += 1
        times.n_moves += len(world.workload.movement.at(timestamp).objects)
        times.n_messages += messages.num_rows
        times.n_deliveries = digest.n_deliveries - before


def _watched(state: State) -> Stopwatch:
    """Return a stopwatch between the parts of an engine."""
    watch = Stopwatch(_PHASES)
    for owner, method, phase in (
        (state.index, "match", "match"),
        (state.index, "replace", "relocate"),
        (state.index, "move", "relocate"),
        (state.index, "_bring_up_to_date", "relocate"),
        (state.index, "_regrow", "rebuild"),
        (state.live, "append", "append"),
        (state.live, "difference", "difference"),
        (state.live, "drop", "drop"),
    ):
        if hasattr(owner, method):
            watch.watch_call(owner, method, phase)
    return watch


def try_out(world: LifeWorld, spec: str) -> None:
    """Go through every step with some of the rows, so that compilation is not timed."""
    n = min(WARM_UP_SUBSCRIPTIONS, len(world.subscriptions))
    few = world.of_rows(spread(len(world.subscriptions), n))
    state, before = few.new_state(spec), world.workload.messages_before()
    for publish in few.publishing(state, before.slice(0, WARM_UP_SUBSCRIPTIONS)):
        publish()
    few.moving(state, 0)()
    for publish in few.publishing(state, world.workload.messages_at(0).slice(0, WARM_UP_SUBSCRIPTIONS)):
        publish()
    state.index.close()
