"""The table of moves: how fast a hub moves subscriptions, in batches and singly, and what that leaves behind.

Every rate is CPU time of the process, from a table of ids and places to deliveries. Before anything is timed, what the
index delivers over a short life of some rows is compared with `scan`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.bench.aims import Aim
from nearcast.bench.answers import AnswersDiffer
from nearcast.bench.encoding import learned
from nearcast.bench.moving.anchor import FENCES, FENCES_AIM, anchor_rate
from nearcast.bench.moving.life import LifeLimits, LifeWorld, live_through
from nearcast.bench.moving.measurement import ComparedLives
from nearcast.bench.timing import PASSES, Say, cpu_us, spread

if TYPE_CHECKING:
    from nearcast.bench.data.moving import MovingWorkload
    from nearcast.bench.moving.settings import MovingSetting, SettingData
    from nearcast.hub import Hub

QUESTION = "How many subscriptions a second can move among live messages, and what does that leave behind?"
#: Rows of the check before: subscriptions and messages, timestamps.
_CHECKED = (2_000, 2)
#: Single calls that are timed, messages that are published to see what moves left behind.
_SINGLES, _PUBLISHED = 2_000, 2_000
#: Moves a second beside publishing, in batches, and for how long.
BESIDE_RATE, BESIDE_BATCH, BESIDE_S = 50_000, 200, 3.0
#: After so much CPU time no further batch of scored subscriptions is moved; they are so much fewer.
SCORED_S, _TOPK_SHARE = 10.0, 0.2
#: How far `near` reaches, as a share of the map's width, among so many messages; less far among more of them, so that
#: as many are near.
_REACH, _REACH_AMONG = 0.05, 100_000
#: Scored subscriptions that are registered in a call: what they find waits in memory.
_REGISTERED = 10_000


@dataclass(frozen=True)
class AimsRequest:
    """What the table is about: the setting, the index, how many moves are timed and how many go into a call."""

    setting: MovingSetting
    files: SettingData
    index: str
    moves: int
    batch: int
    command: str = ""


@dataclass
class AimRows:
    """Rows of the table: what was measured, its value and unit, and what is aimed at with a million of each.

    Each is told in a line as soon as it is there: a run that is stopped has said what it measured until then.
    """

    tell: Say
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, what: str, value: float | None, unit: str, aim: Aim | None = None) -> None:
        """Add a row and tell it."""
        self.rows.append({"measure": what, "value": value, "unit": unit, "aim": "" if aim is None else str(aim)})
        figure = f"{what}: {'-' if value is None else f'{value:,}'} {unit}".rstrip()
        self.tell(figure if aim is None else f"{figure} (aim {aim})")


def run_aims(request: AimsRequest, say: Say, tell: Say) -> dict[str, Any]:
    """Return the report of a run: the workload, the machine, a row for each thing measured, each told when it is."""
    from nearcast.bench.report import machine

    say("comparing a short life with scan")
    checked, rows = _check(request), AimRows(tell)
    setting = request.setting
    per_timestamp = max(1, round(setting.subscriptions * setting.mobility))
    setting = replace(setting, timestamps=1 + -(-request.moves // per_timestamp))
    say("preparing the workload")
    workload = request.files.workload(setting)
    about = dict(request.files.about)
    _without_lifetime(workload, request, rows, say)
    _with_lifetime(workload, request, rows, say)
    del workload
    _scored(request, rows, say)
    n = min(FENCES, setting.subscriptions)
    say(f"moving {n:,} circles of 5 km")
    rate = anchor_rate(request.files, n, request.batch, request.index, setting.seed)
    rows.add(f"circles of 5 km over {n:,} live places (tile38 #491)", round(rate), "moves/s", FENCES_AIM)
    more = {"index": request.index, "batch": request.batch, "checked": checked, "command": request.command}
    return {"workload": {"question": QUESTION, **about, **more}, "machine": machine(), "results": rows.rows}


def _check(request: AimsRequest) -> str:
    """Let an index and `scan` live through a few timestamps of a few rows; raise `AnswersDiffer` if they disagree."""
    most, timestamps = _CHECKED
    setting = request.setting
    few = replace(
        setting,
        subscriptions=min(most, setting.subscriptions),
        messages=min(most, setting.messages),
        timestamps=timestamps,
        region_area=max(setting.region_area, 0.01),  # with few rows there is else nothing to compare
    )
    world = LifeWorld.of(request.files.workload(few))
    answers = ComparedLives(world, timestamps)
    digest = answers.new_digest()
    live_through(world, request.index, timestamps, LifeLimits(float("inf"), float("inf")), digest)
    answers.check(request.index, digest)
    return (
        f"{request.index} delivers what scan does over {timestamps} timestamps of {few.subscriptions:,} subscriptions"
        f" and {few.messages:,} messages, and after all moves what a new index does"
    )


# --- boolean subscriptions --------------------------------------------------------------------------------------


class MovingRate(NamedTuple):
    """How many rows moved in how much CPU time."""

    n: int
    seconds: float

    @property
    def per_s(self) -> int:
        """Rows a second."""
        return round(self.n / max(self.seconds, 1e-9))

    def and_then(self, other: MovingRate) -> MovingRate:
        """Return the rate over both."""
        return MovingRate(self.n + other.n, self.seconds + other.seconds)


def _measured(workload: MovingWorkload) -> range:
    """Return the timestamps that are measured: all but the first, in which everything is compiled."""
    return range(1, len(workload.movement.times))


def batches_of_moves(workload: MovingWorkload, timestamp: int, batch: int) -> Iterator[pa.Table]:
    """Yield the reports of a timestamp in tables of so many rows."""
    moves = workload.moves_at(timestamp)
    for first in range(0, moves.num_rows, batch):
        yield moves.slice(first, batch)


def move_all(hub: Hub, tables: Iterator[pa.Table], most_s: float = float("inf")) -> MovingRate:
    """Move tables of reports one after the other, no further one after so many seconds; return the rate."""
    n, seconds = 0, 0.0
    for table in tables:
        seconds += cpu_us(lambda table=table: len(hub.move_many(table))) / 1e6  # type: ignore[misc]
        n += table.num_rows
        if seconds > most_s:
            break
    return MovingRate(n, seconds)


def _new_hub(workload: MovingWorkload, request: AimsRequest, **options: Any) -> Hub:
    from nearcast.hub import Hub

    hub = Hub(workload.movement.space, index=request.index, **options)
    hub.subscribe_many(workload.subscriptions)
    hub.close()
    return hub


def _without_lifetime(workload: MovingWorkload, request: AimsRequest, rows: AimRows, say: Say) -> None:
    """Move everything in batches where messages are instants; compare publishing then with a new index."""
    say("moving without a lifetime")
    hub = _new_hub(workload, request)
    before = hub.stats()["index"]["bytes"]
    move_all(hub, batches_of_moves(workload, 0, request.batch))  # compiles
    rate = MovingRate(0, 0.0)
    for at in _measured(workload):
        rate = rate.and_then(move_all(hub, batches_of_moves(workload, at, request.batch)))
    rows.add("move_many without a lifetime", rate.per_s, "moves/s", Aim.at_least(200_000))
    hub.close()
    after, n = hub.stats()["index"]["bytes"], len(hub)
    rows.add("index, before any move", round(before / n, 1), "bytes/subscription")
    rows.add(f"index, after {rate.n:,} moves", round(after / n, 1), "bytes/subscription", Aim.at_most(250))
    say("publishing to what has moved, and to a new index")
    moved_us, fresh_us = _publishing_us(hub, workload, request)
    rows.add(f"publish_many after {rate.n:,} moves", round(moved_us, 3), "µs/message")
    rows.add("the same with a new index", round(fresh_us, 3), "µs/message")
    rows.add("one by the other", round(moved_us / max(fresh_us, 1e-9), 3), "", Aim.at_most(1.3))


def _publishing_us(hub: Hub, workload: MovingWorkload, request: AimsRequest) -> tuple[float, float]:
    """Return the µs per message of a hub, and of a new one with the same subscriptions at the same places."""
    from nearcast.hub import Hub

    messages = workload.messages.drop_columns(["time", "expires"])
    messages = messages.take(pa.array(spread(messages.num_rows, min(_PUBLISHED, messages.num_rows))))
    fresh = Hub(hub.space, index=request.index)
    fresh.subscribe_many(hub.to_table())
    fresh.close()
    names = ["subscription_id", "message_id"]
    told = [each.publish_many(messages).to_table().select(names) for each in (hub, fresh)]
    if not told[0].equals(told[1]):
        raise AnswersDiffer(
            f"{request.index} delivers {told[0].num_rows:,} matches after moves that are not the {told[1].num_rows:,}"
            " of a new index; no times are reported"
        )
    taken = [[cpu_us(lambda each=each: each.publish_many(messages)) for each in (hub, fresh)] for _ in range(PASSES)]  # type: ignore[misc]
    moved, new = np.min(taken, axis=0) / messages.num_rows
    return float(moved), float(new)


def _with_lifetime(workload: MovingWorkload, request: AimsRequest, rows: AimRows, say: Say) -> None:
    """Take a hub through all timestamps, its messages living; then time single calls, and publishing beside moves."""
    say("filling a hub with live messages")
    hub = _new_hub(workload, request, lifetime="expires")
    hub.publish_many(workload.messages_before())
    say("moving with a lifetime")
    move_all(hub, batches_of_moves(workload, 0, request.batch))  # compiles
    hub.publish_many(workload.messages_at(0))
    moving, publishing, n_messages = MovingRate(0, 0.0), 0.0, 0
    for at in _measured(workload):
        moving = moving.and_then(move_all(hub, batches_of_moves(workload, at, request.batch)))
        messages = workload.messages_at(at)
        publishing += cpu_us(lambda messages=messages: len(hub.publish_many(messages))) / 1e6  # type: ignore[misc]
        n_messages += messages.num_rows
    rows.add("move_many with a lifetime", moving.per_s, "moves/s", Aim.at_least(100_000))
    rows.add("publish_many with a lifetime", round(publishing * 1e6 / max(n_messages, 1), 3), "µs/message")
    timestamps = len(_measured(workload))
    what = f"a timestamp of 30 s: {moving.n // timestamps:,} moves, {n_messages // timestamps:,} messages"
    rows.add(what, round((moving.seconds + publishing) / timestamps, 3), "s", Aim.at_most(60, "on two cores"))
    live = hub.stats()["live"]
    words = _words_of(workload.messages)
    rows.add(
        "a live message, less 8 a word",
        round(live["bytes"] / live["messages"] - 8 * words, 1),
        "bytes",
        Aim.at_most(150),
    )
    say("moving one by one")
    p50, p99 = np.percentile(_single_moves_us(hub, workload), [50, 99])
    rows.add("hub.move, p50 by the clock", round(float(p50), 2), "µs", Aim.at_most(100))
    rows.add("hub.move, p99 by the clock", round(float(p99), 2), "µs", Aim.at_most(2_000))
    say(f"publishing beside {BESIDE_RATE:,} moves a second")
    p99_ms, rate_beside = _publishing_beside(hub, workload)
    what = f"hub.publish beside {rate_beside:,} moves/s, p99 by the clock"
    rows.add(what, round(p99_ms, 3), "ms", Aim.at_most(10, f"beside {BESIDE_RATE:,}"))
    hub.close()


def _words_of(messages: pa.Table) -> float:
    return float(len(messages["terms"].combine_chunks().flatten()) / messages.num_rows)


def _single_moves_us(hub: Hub, workload: MovingWorkload) -> list[float]:
    """Return the µs by the clock of single moves to reported places, without a time."""
    objects, places, _ = workload.movement.reports
    chosen = spread(len(objects), min(_SINGLES, len(objects)))
    ids = workload.subscriptions["id"].take(pa.array(objects[chosen])).to_pylist()
    taken = []
    for id_, place in zip(ids, places[chosen].tolist(), strict=True):
        began = time.perf_counter()
        hub.move(id_, tuple(place))
        taken.append((time.perf_counter() - began) * 1e6)
    return taken


class _MoverThread(threading.Thread):
    """Moves batches of subscriptions at a rate, until it is told to end."""

    def __init__(self, hub: Hub, moves: pa.Table):
        super().__init__(daemon=True)
        self._hub, self._moves, self.n, self._ends = hub, moves, 0, threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Make the batches that are due, then wait for the next."""
        began, first = time.perf_counter(), 0
        try:
            while not self._ends.is_set():
                wait = self.n / BESIDE_RATE - (time.perf_counter() - began)
                if wait > 0:
                    self._ends.wait(wait)
                    continue
                part = self._moves.slice(first, BESIDE_BATCH)
                first = (first + BESIDE_BATCH) % self._moves.num_rows
                self._hub.move_many(part)
                self.n += part.num_rows
        except BaseException as error:  # noqa: BLE001 - raised by `end`, in the thread that started this one
            self.error = error

    def end(self) -> None:
        """Wait for the last batch; raise what it failed with."""
        self._ends.set()
        self.join()
        if self.error is not None:
            raise self.error


def _publishing_beside(hub: Hub, workload: MovingWorkload) -> tuple[float, int]:
    """Return the 99th percentile in ms of single publishing while others move, and how many moves a second were made.

    Nothing has a time, so that nothing is late; messages are instants then, and what lives is searched all the same.
    """
    moves = workload.moves_at(0).drop_columns(["time"])
    some = workload.messages.slice(0, _PUBLISHED).drop_columns(["time", "expires"]).to_pylist()
    movers, taken = _MoverThread(hub, moves), list[float]()
    movers.start()
    began = time.perf_counter()
    while not taken or time.perf_counter() - began < BESIDE_S:
        message = some[len(taken) % len(some)]
        at = time.perf_counter()
        len(hub.publish(message))
        taken.append((time.perf_counter() - at) * 1e3)
    lasted = time.perf_counter() - began
    movers.end()
    return float(np.percentile(taken, 99)), round(movers.n / lasted)


# --- scored subscriptions ---------------------------------------------------------------------------------------


def _scored(request: AimsRequest, rows: AimRows, say: Say) -> None:
    """Move subscriptions that score messages: similar ones with a lifetime, top-k ones over a window."""
    for kind, share, aim in (("similar", 1.0, Aim.at_least(30_000)), ("topk", _TOPK_SHARE, None)):
        say(f"moving subscriptions of kind {kind}")
        n, m = (max(1, round(each * share)) for each in (request.setting.subscriptions, request.setting.messages))
        setting = replace(request.setting, kind=kind, subscriptions=n, messages=m, timestamps=2)
        rate = _scored_rate(request.files.workload(setting), request, kind)
        where = f"{n:,} over a window of {m:,}" if kind == "topk" else "with a lifetime"
        rows.add(f"move_many of {kind}, {where}", rate.per_s, "moves/s", aim)


def _for_places(subscriptions: pa.Table) -> pa.Table:
    """Return similar subscriptions none of which words alone satisfy, wherever it is: those gain nothing by moving."""
    weight, threshold = (subscriptions[name].to_numpy() for name in ("text_weight", "threshold"))
    needs_place = np.where(threshold > weight, threshold, weight + (1.0 - weight) * threshold)
    at = subscriptions.column_names.index("threshold")
    return subscriptions.set_column(at, "threshold", pa.array(needs_place))


def _scored_rate(workload: MovingWorkload, request: AimsRequest, kind: str) -> MovingRate:
    from nearcast.hub import Hub
    from nearcast.text import Analyzer

    space, before = workload.movement.space, workload.messages_before()
    reach = _REACH * float(space.distance(*workload.movement.bounds))
    reach *= min(1.0, math.sqrt(_REACH_AMONG / before.num_rows))
    more: dict[str, Any] = {"window": before.num_rows} if kind == "topk" else {"lifetime": "expires"}
    hub = Hub(
        space,
        index=request.index,
        vocabulary=learned(before, space, Analyzer()),
        max_distance=reach,
        **more,
    )
    hub.publish_many(before)  # first: new subscriptions find it all in one search
    wanted = _for_places(workload.subscriptions) if kind == "similar" else workload.subscriptions
    for first in range(0, wanted.num_rows, _REGISTERED):
        hub.subscribe_many(wanted.slice(first, _REGISTERED))
        hub.poll()
    hub.close()
    move_all(hub, batches_of_moves(workload, 0, min(request.batch, 100)), 1.0)  # compiles
    rate = move_all(hub, batches_of_moves(workload, 1, request.batch), SCORED_S)
    hub.close()
    return rate
