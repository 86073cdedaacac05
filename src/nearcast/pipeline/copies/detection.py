"""Detects, in partitions that hold copies, which top-k subscriptions a message may enter.

Returns these candidates by the partition that owns each subscription.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast import _arrow
from nearcast.columns import TOPK
from nearcast.pipeline.batch.changes import MOVE, SUBSCRIBE, groups_of, own_changes
from nearcast.pipeline.copies.candidates import Candidates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages, Subscriptions
    from nearcast.pipeline.batch.changes import BatchChanges
    from nearcast.pipeline.batch.inputs import BatchInputs
    from nearcast.pipeline.batch.router import Router
    from nearcast.pipeline.worker.partition import Partition


def detect(partition: Partition, inputs: BatchInputs, router: Router) -> dict[int, Candidates]:
    """Apply the changes of a batch to the copies of a partition and match its messages; return candidates by home."""
    rows = inputs.routed(partition.number, router, None)
    changes, groups = _changes(partition, inputs)
    # When the words of new copies are known.
    messages = inputs.of_rows(rows).messages_for(partition.state, are_kept=False)
    found: dict[int, list[Candidates]] = {}
    done = 0
    for group, stored in groups:
        assert changes is not None
        last = int(np.searchsorted(inputs.position, changes.position[group[0]]))
        _search(partition, messages, rows, done, last, found)
        done = last
        _change(partition, changes, stored, group)
    _search(partition, messages, rows, done, len(inputs), found)
    partition.detector.forget_expired(inputs.files.now)
    return {home: Candidates.concat(pieces) for home, pieces in found.items()}


def follow(partition: Partition, inputs: BatchInputs) -> None:
    """Apply only the changes of a batch to the copies of a partition."""
    changes, groups = _changes(partition, inputs)
    for group, stored in groups:
        assert changes is not None
        _change(partition, changes, stored, group)
    partition.detector.forget_expired(inputs.files.now)


def _changes(
    partition: Partition, inputs: BatchInputs
) -> tuple[BatchChanges | None, list[tuple[NDArray[np.int64], Subscriptions]]]:
    """Return the changes of a batch as a partition reads them, and groups of its own with their subscriptions."""
    if inputs.changes is None or inputs.changes.copies is None:
        return None, []
    changes, mine = own_changes(inputs.changes, partition.number)
    assert changes is not None
    stored = changes.subscriptions.into(partition.state.words)
    return changes, [(group, stored) for group in groups_of(changes, mine, inputs.position)]


def _search(
    partition: Partition,
    messages: Messages,
    rows: NDArray[np.int64],
    first: int,
    last: int,
    found: dict[int, list[Candidates]],
) -> None:
    """Detect candidates of the messages `first` to `last`; `messages` are those at `rows` of the batch."""
    low, high = np.searchsorted(rows, [first, last]).tolist()
    if not len(partition.detector) or low == high:
        return
    matches, number, home = partition.detector.detect(messages.part(low, high))
    row = rows[low:high][matches.rows()]
    for each in np.unique(home).tolist():
        here = home == each
        found.setdefault(each, []).append(Candidates(row[here], number[here], matches.score[here]))


def _change(partition: Partition, changes: BatchChanges, stored: Subscriptions, group: NDArray[np.int64]) -> None:
    ids = changes.ids.take(_arrow.numbers(group))
    op = int(changes.op[group[0]])
    if op == MOVE:
        partition.detector.move(ids, changes.moves.take(changes.at[group]))
        return
    partition.detector.remove(ids)
    if op != SUBSCRIBE:
        return
    is_topk = stored.kind[changes.at[group]] == TOPK
    here = group[is_topk & (changes.home[group] != partition.number) & changes.has_copy(group, partition.number)]
    if len(here):
        state = partition.state
        copies = stored.take(changes.at[here])
        partition.detector.put(copies, state.words, state.weights, changes.number[here], changes.home[here])
