"""Rehearsals: small hubs that do all a hub can do, so that every kernel is compiled and stored before it is needed.

Numba compiles a kernel when it is first called. A rehearsal calls it with a few made-up rows through the hub, as users
do. Every kernel has one signature, so what a rehearsal compiles is what they need.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.engine.word_compaction import compacted, used_words
from nearcast.geo import Area, Box, Circle, Space
from nearcast.hub import Hub
from nearcast.indexes import DEFAULT_INDEX, IndexInfo, available
from nearcast.model import SIMILARITIES, Message, Similar, Subscription, TopK, Within
from nearcast.tables import Rejected, messages_table, read_messages, read_subscriptions, subscriptions_table
from nearcast.tables.names import ROW_COLUMN
from nearcast.text import Analyzer, Vocabulary
from nearcast.text.words import WordTable

_WORDS = [f"word{i}" for i in range(200)]
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_RING = [[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0], [0.0, 0.0]]
_KINDS = ("within", "similar", "topk")
_SPACES = ("earth", "plane")
#: Few rows become segments, cells and merges under these options; kernels do not depend on them.
_SMALL = {"trigger": "trigger:leaf_rows=8,few=1,delta_rows=16"}
_N_SUBSCRIPTIONS, _N_MESSAGES = 120, 100


class Rehearsal(NamedTuple):
    """Something to do, and what it is called where progress is shown."""

    title: str
    run: Callable[[], None]


def rehearsals(indexes: list[str] | None = None) -> Iterator[Rehearsal]:
    """Yield what compiles the kernels of these indexes, of the default one unless given; `within` comes first."""
    chosen = [DEFAULT_INDEX] if indexes is None else indexes
    infos = [each for each in available() if each.name in chosen]
    for info in infos:
        for kind in [each for each in _KINDS if each in info.kinds]:
            for space in _SPACES:
                yield Rehearsal(f"{info.name}, {kind}, {space}", partial(_live, info, kind, space))
    # Some keep live messages in their own structure; the others share a store, which one of them walks through.
    walking = [each for each in infos if each.options["live"] == each.name]
    walking += [each for each in available() if each.name == DEFAULT_INDEX and len(walking) < len(infos)]
    for info in walking:
        for space in _SPACES:
            yield Rehearsal(f"{info.name}, live messages, {space}", partial(_walk, info, space))
    for space in _SPACES:
        yield Rehearsal(f"many top-k at once, {space}", partial(_join, space))
    yield Rehearsal("partition plans", _plan)


def _live(info: IndexInfo, kind: str, space: str) -> None:
    """Let a hub with subscriptions of one kind, and a few boolean ones, live through everything."""
    rng = random.Random(1)
    window: int | str | None = ("1h" if space == "plane" else 50) if kind == "topk" else None
    hub = Hub(space, index=_SMALL.get(info.name, info.name), max_distance=5.0, window=window)
    wanted = [_subscription(kind, number, rng) for number in range(_N_SUBSCRIPTIONS)]
    if "within" in info.kinds:  # matches of several kinds are merged
        wanted += [_subscription("within", _N_SUBSCRIPTIONS + number, rng) for number in range(8)]
    said = [_message(number, rng) for number in range(_N_MESSAGES)]
    for each in wanted[:3]:
        hub.subscribe(each)
    for message in said[:3]:
        hub.publish(message)
    hub.explain(said[0], wanted[0].id)
    hub.publish_many(said)
    hub.subscribe_many(wanted)
    _settle(hub)
    _say(hub, said)
    hub.subscribe(wanted[4])
    hub.move(wanted[5].id, (1.0, 1.0))
    hub.unsubscribe(wanted[6].id)
    _compact_words(hub)
    _roll_back(hub)
    vocabulary = Vocabulary()
    vocabulary.learn_texts(pa.array([each.text for each in said]), Analyzer())
    hub.use_vocabulary(vocabulary)
    _say(hub, said)
    hub.explain(said[0], wanted[0].id)
    if kind != "topk":
        hub.estimate(wanted[0], said)
    with tempfile.TemporaryDirectory() as folder:
        hub.save(Path(folder) / "hub")
        again = Hub.open(Path(folder) / "hub")
        _say(again, said)
        again.subscribe_many(wanted)
        again.publish_many(said)
        again.advance(_BEGIN + timedelta(days=1))


def _walk(info: IndexInfo, space: str) -> None:
    """Let subscriptions walk among live messages, in a hub that tells all it can."""
    rng = random.Random(3)
    hub = Hub(space, index=info.name, max_distance=5.0, lifetime="30s", tell_expiry=True)
    kinds = [kind for kind in ("within", "similar") if kind in info.kinds]
    wanted = [_subscription(kinds[number % len(kinds)], number, rng) for number in range(_N_SUBSCRIPTIONS)]
    hub.subscribe_many(wanted)
    hub.subscribe(Within("walker", "", Circle(0.0, 0.0, 2.0), min_move=0.5))
    hub.publish_many([_message(number, rng) for number in range(_N_MESSAGES)])
    hub.subscribe(wanted[0])
    for place in ((0.1, 0.0), (1.0, 1.0), Box(0.0, 0.0, 2.0, 2.0)):
        hub.move("walker", place)
    names = ("lon", "lat") if space == "earth" else ("x", "y")
    carried = [
        number
        for number, each in enumerate(wanted)
        if isinstance(each, Similar) or number // 4 % 4 < 2  # no polygon
    ]
    hub.move_many([{"id": wanted[number].id, names[0]: 1.0, names[1]: 2.0} for number in carried])
    hub.use_vocabulary(Vocabulary())
    hub.current(wanted[1].id)
    hub.safe("walker")
    hub.poll()
    with tempfile.TemporaryDirectory() as folder:
        hub.save(Path(folder) / "hub")
        again = Hub.open(Path(folder) / "hub")
        again.move("walker", (3.0, 3.0))
        again.advance(_BEGIN + timedelta(days=1))


def _say(hub: Hub, said: list[Message]) -> None:
    """Publish a few messages one by one, and many as tables."""
    hub.publish(said[0]).to_table()
    table = messages_table(said, hub.space, rejected=Rejected())
    list(hub.publish_many(table))
    table = table.drop_columns([ROW_COLUMN])
    hub.publish_many(pa.concat_tables([table] * 25), threads=2).to_table()


def _settle(hub: Hub) -> None:
    getattr(hub._state.index, "settle", lambda: None)()


def _compact_words(hub: Hub) -> None:
    """Do what a hub does when most of its words are those of subscriptions, or of messages, that went."""
    compacted(hub._state, used_words(hub._state)).index.abandon()
    if hub._state.topk is not None:
        hub._state.topk.messages.used_words()


def _roll_back(hub: Hub) -> None:
    """Do what a hub with a window does after a call that was interrupted; here none was."""
    topk = hub._state.topk
    if topk is not None:
        topk.roll_back(topk.undo_point(hub._state.next_step))


def _join(space: str) -> None:
    """Subscribe to as many at once as are not searched for one by one."""
    from nearcast.topk.window.segmented_index import SegmentedMessages

    rng, n = random.Random(4), SegmentedMessages.JOINED_FROM
    hub = Hub(space, max_distance=5.0, window=50)
    hub.publish_many([_message(number, rng) for number in range(_N_MESSAGES)])
    x, y = (pa.array([rng.uniform(-9, 9) for _ in range(n)]) for _ in range(2))
    text = pa.array([" ".join(rng.sample(_WORDS[:40], 3)) for _ in range(n)])
    kind, id_ = pa.array(["topk"] * n), pa.array(range(n))
    names = ("lon", "lat") if space == "earth" else ("x", "y")
    hub.subscribe_many(pa.table({"id": id_, "kind": kind, "query": text, names[0]: x, names[1]: y}))


def _plan() -> None:
    """Learn every plan of a stream, place subscriptions and route messages by it."""
    from nearcast.plans import PLAN_NAMES, Routes, learn

    rng, space, words, analyzer, rejected = random.Random(2), Space.earth(), WordTable(), Analyzer(), Rejected()
    wanted = [_subscription(_KINDS[number % 3], number, rng) for number in range(60)]
    said = [_message(number, rng) for number in range(60)]
    table = subscriptions_table(wanted, space, rejected=rejected)
    columns = read_subscriptions(table, space, words, analyzer, max_distance=5.0, rejected=rejected)
    messages = read_messages(messages_table(said, space, rejected=rejected), space, words, analyzer, rejected=rejected)
    weights = np.ones(len(words))
    for name in PLAN_NAMES:
        plan = learn(name, 4, space, words, columns, messages, weights)
        placement = plan.place(columns, np.arange(len(columns)), weights, None)
        routes = Routes(plan.partitions, plan.grid)
        routes.add(placement.keys)
        routes.without_known(placement.keys)
        routes.route(messages)


def _subscription(kind: str, number: int, rng: random.Random) -> Subscription:
    x, y = rng.uniform(-9, 9), rng.uniform(-9, 9)
    few = [_WORDS[number], *rng.sample(_WORDS[:40], 2)]
    if kind == "topk":
        return TopK(f"s{number}", " ".join(few), (x, y), k=3)
    if kind == "similar":
        similarity = SIMILARITIES[number % len(SIMILARITIES)]
        return Similar(f"s{number}", " ".join(few), (x, y), threshold=0.2, similarity=similarity)
    queries = ("{} {}", "{} OR {}", '"{} {}" AND NOT {}', "{} AND NOT {}")
    regions = (Box(x, y, x + 3, y + 3), Circle(x, y, 2.0), Area({"type": "Polygon", "coordinates": [_RING]}), None)
    return Within(f"s{number}", queries[number % 4].format(*few), regions[number // 4 % 4])


def _message(number: int, rng: random.Random) -> Message:
    x, y = rng.uniform(-9, 9), rng.uniform(-9, 9)
    return Message(
        f"m{number}", " ".join(rng.choices(_WORDS[:40], k=6)), (x, y), time=_BEGIN + number * timedelta(seconds=1)
    )
