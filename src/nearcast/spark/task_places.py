"""Which executor, and which worker in it, ran a task last: the tasks of the next job are sent to the same.

Spark places tasks anew in every job, and whoever lacks a partition must open and replay it. An executor is named as
Spark's preferred location, which is only a wish: Spark waits for a busy one for `spark.locality.wait`, and forgets one
that is gone. Of workers Spark knows nothing: a task in the wrong one gives no outcome, and runs again in another job.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Hashable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

_ID, _HOST = "--executor-id", "--hostname"
#: A worker's parent is the daemon that it was forked from, or the executor; the daemon's is the executor.
_GENERATIONS = 3


class ExecutorPlace(NamedTuple):
    """An executor: its id, which no other one of the application ever has, and its host."""

    id: str
    host: str

    @property
    def location(self) -> str:
        """The executor as a preferred location."""
        return f"executor_{self.host.replace('_', '-')}_{self.id}"


@cache
def executor_here() -> ExecutorPlace | None:
    """Return the executor whose worker this process is; None where the driver runs tasks itself, or nobody can tell."""
    process = "self"
    for _ in range(_GENERATIONS):
        try:
            status = Path(f"/proc/{process}/status").read_text()
            process = next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:"))
            words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except (OSError, StopIteration):
            return None
        if _ID in words and _HOST in words:
            return ExecutorPlace(words[words.index(_ID) + 1], words[words.index(_HOST) + 1])
    return None


class TaskPlaces:
    """The executor and the worker that last ran a task with each state: a partition, or a part of a divided window."""

    def __init__(self) -> None:
        self._last: dict[Hashable, ExecutorPlace] = {}
        self._workers: dict[Hashable, tuple[ExecutorPlace | None, int]] = {}

    def note(self, payload: Any, place: ExecutorPlace | None, worker: int) -> None:
        """Note where a task ran, and the number of the process that ran it."""
        key = _state_key(payload)
        if key is None:
            return
        self._workers[key] = place, worker
        if place is not None:
            self._last[key] = place

    def workers(self, payloads: Sequence[Any], slots: int) -> list[int | None]:
        """Return the process id of the worker that should run each task, None for any.

        No worker gets more than its share: if one has all states, since it was the first, others take some over.
        """
        most = -(-len(payloads) // max(slots, 1))
        given: Counter[tuple[ExecutorPlace | None, int]] = Counter()
        wanted: list[int | None] = []
        for payload in payloads:
            worker = self._workers.get(_state_key(payload))
            if worker is None or given[worker] == most:
                wanted.append(None)
            else:
                given[worker] += 1
                wanted.append(worker[1])
        return wanted

    def preferred(self, payloads: Sequence[Any], context: SparkContext) -> list[ExecutorPlace | None]:
        """Return where tasks should run, None for anywhere.

        No executor gets more than its share: what it has beyond that, after others died or before they came, moves.
        """
        wanted = [self._last.get(_state_key(each)) for each in payloads]
        if all(place is None for place in wanted):
            return wanted
        alive = alive_executors(context)
        most = -(-len(payloads) // max(len(alive), 1))
        given: Counter[str] = Counter()
        for at, place in enumerate(wanted):
            if place is None or place.id not in alive or given[place.id] == most:
                wanted[at] = None
            else:
                given[place.id] += 1
        return wanted


def _state_key(payload: Any) -> Hashable:
    """Return what tells the state that a task needs from others'; None for a task without one."""
    ref = getattr(payload, "ref", None)
    return None if ref is None else (type(ref), ref.store, ref.number)


def alive_executors(context: SparkContext) -> set[str]:
    """Return the ids of the executors there are."""
    ids = context._jsc.sc().getExecutorIds()
    return {str(ids.apply(at)) for at in range(ids.size())}


#: The number of a task's own payload, and the payload itself, pickled; empty where tasks have all of them.
GivenPayload = tuple[int, bytes]


def distributed(
    context: SparkContext, given: list[GivenPayload], places: Sequence[ExecutorPlace | None] = ()
) -> RDD[Any]:
    """Return an RDD with one payload in each partition, which prefers its place if it has one; `given_in` reads it."""
    places = places or [None] * len(given)
    if all(place is None for place in places):
        return context.parallelize(given, len(given))
    order = sorted(range(len(given)), key=lambda at: places[at] is None)
    texts = [f"{given[at][0]} {b64encode(given[at][1]).decode()}" for at in order]
    return _placed(context, texts, [place.location for at in order if (place := places[at]) is not None])


def given_in(row: GivenPayload | str) -> GivenPayload:
    """Return the payload that a task was given."""
    if not isinstance(row, str):
        return row
    number, _, content = row.partition(" ")
    return int(number), b64decode(content)


def _placed(context: SparkContext, elements: list[str], locations: list[str]) -> RDD[str]:
    """Return an RDD with a partition for each text, of which the first ones have these preferred locations.

    As many calls into Java for a thousand elements as for one.
    """
    from pyspark.core.rdd import RDD
    from pyspark.serializers import UTF8Deserializer

    java = context._jvm
    assert java is not None
    nothing = _seq(java, [])
    wanted = _seq(java, locations).grouped(1).toSeq().padTo(len(elements), nothing)
    tag = java.scala.reflect.ClassTag.apply(java.java.lang.Class.forName("java.lang.String"))
    made = context._jsc.sc().makeRDD(_seq(java, elements).zip(wanted), tag)
    return RDD(made.toJavaRDD(), context, UTF8Deserializer())


def _seq(java: Any, texts: list[str]) -> Any:
    """Return a Scala Seq of texts, which travel as one."""
    kind = java.java.lang.Class.forName("java.util.ArrayList")
    texts_there = java.com.fasterxml.jackson.databind.ObjectMapper().readValue(json.dumps(texts), kind)
    return java.PythonUtils.toSeq(texts_there)
