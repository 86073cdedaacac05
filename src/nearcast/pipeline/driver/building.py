"""Builds the partitions of a plan by tasks, from files of columns: learns the plan from a sample, places, builds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.columns import Messages, Subscriptions
from nearcast.pipeline.batch.router import Router
from nearcast.pipeline.driver.placing import PlacedShare, PlaceTask, place_share
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.worker.partition_keys import PLACED_BELOW
from nearcast.pipeline.worker.tasks import BuildTask, build_partition
from nearcast.plans import Keys, learn
from nearcast.text.weights import TermWeights
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from nearcast.pipeline.runner import Runner
    from nearcast.pipeline.settings import PipelineSettings
    from nearcast.pipeline.worker.share import SharePart
    from nearcast.plans import Plan
    from nearcast.text import Vocabulary

#: Subscriptions that a plan is learned from at most.
LEARNED_FROM = 100_000
#: Fewer subscriptions than this are encoded and placed in this process: a job would take longer.
FEW = 20_000

#: Returns messages to learn from, encoded with the words of subscriptions.
MessageSample = Callable[[WordTable], Messages]


def sample_step(n: int) -> int:
    """Return of how many subscriptions one is learned from, when there are n."""
    return max(1, -(-n // LEARNED_FROM))


def runner_for(n: int, runner: Runner) -> Runner:
    """Return what encodes and places n subscriptions: this process where they are few."""
    return LocalRunner() if n < FEW else runner


def learned_plan(
    parts: Sequence[SharePart], settings: PipelineSettings, messages: MessageSample, vocabulary: Vocabulary
) -> Plan:
    """Learn the plan that settings name from the samples of these parts, which together know all words."""
    words = WordTable()
    known = pc.unique(pa.concat_arrays([part.words for part in parts]))
    # In an order that is the same however rows were cut into parts: what is alike is told apart by it.
    words.ids_of_column(known.take(pc.sort_indices(known)), add=True)
    order = np.argsort(np.concatenate([part.number for part in parts]))
    columns = Subscriptions.concat([part.sample.into(words) for part in parts]).take(order)
    thresholds = PLACED_BELOW * np.concatenate([part.threshold for part in parts])[order]
    return learn(
        settings.plan,
        settings.partitions,
        settings.space,
        words,
        columns,
        messages(words),
        TermWeights(words, vocabulary).of_table(words, 0),
        thresholds=thresholds,
        window=None if settings.window is None else settings.window.count,
    )


@dataclass(frozen=True)
class BuiltPartitions:
    """The routes of a plan, where each share of subscriptions went, and the snapshots of all partitions."""

    router: Router
    placed: list[PlacedShare]
    snapshots: list[str]


def built(plan: Plan, shares: Sequence[PlaceTask], first: BuildTask, runner: Runner, n: int) -> BuiltPartitions:
    """Place n subscriptions in these shares, and build all partitions, with the parameters of `first`.

    The plan that the tasks name is still to be said. Files are removed as soon as they were read.
    """
    store, batch = first.store, first.batch
    folder = store.unique("plans", batch)
    store.put_folder(folder, plan.save)
    tasks = [replace(share, plan=folder) for share in shares]
    placed: list[PlacedShare] = runner_for(n, runner).map(place_share, tasks)
    store.delete([folder])
    router = Router.of(plan, Keys.concat([each.keys.into(plan) for each in placed]))
    builds = [
        replace(
            first,
            number=number,
            subscriptions=tuple(each.pieces[number] for each in placed if number in each.pieces),
        )
        for number in range(plan.partitions)
    ]
    snapshots: list[str] = runner.map(build_partition, builds)
    store.delete([name for each in placed for name in each.pieces.values()])
    return BuiltPartitions(router, placed, snapshots)
