"""What a plan costs: copies of subscriptions, partitions per message, matches away from home, and balance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.columns import TOPK
from nearcast.plans.pieces import messages_of_keys
from nearcast.plans.routes import Routes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages, Subscriptions
    from nearcast.plans.base import Placement, Plan

#: Messages that are matched to count hops.
_MATCHED = 500
#: Bytes of a message besides its words: place, time, expiry, totals and an id.
_ROW_BYTES = 4 * 8 + 8 + 8 + 3 * 8 + 8
_WORD_BYTES = 4


def measure(
    plan: Plan,
    subscriptions: Subscriptions,
    weights: NDArray[np.float64],
    sample: Messages,
    thresholds: NDArray[np.float64] | None = None,
) -> dict[str, Any]:
    """Return what it costs to place these subscriptions and to route these messages by the plan.

    - `replication`: copies per subscription
    - `tuples`: partitions per message
    - `hops`: matches per message whose home does not get the message, so that a copy has to tell it. Counted by
      matching up to 500 messages; None where there are no copies
    - `cost_balance`: the largest cost of a partition by the mean, its subscriptions times its messages (Eq. 15, 16)
    - `busiest`: the largest cost of a partition as a share of all subscriptions times all messages
    - `message_balance`, `subscription_balance`: the same of messages and of subscriptions
    - `bytes`: per message, what is sent: its row, once for each partition
    - `keys`: how many there are
    """
    placement = plan.place(subscriptions, np.arange(len(subscriptions)), weights, thresholds)
    routes = Routes(plan.partitions, plan.grid)
    routes.add(placement.keys)
    start, partition = routes.route(sample)
    held = copies_by_partition(placement, plan.partitions)
    got = np.bincount(partition, minlength=plan.partitions)
    sent = np.diff(start)
    row_bytes = _ROW_BYTES + _WORD_BYTES * np.diff(sample.term_start)
    return {
        "plan": plan.name,
        "partitions": plan.partitions,
        "replication": float(held.sum() / max(len(subscriptions), 1)),
        "tuples": float(sent.mean()) if len(sample) else 0.0,
        "hops": _hops(plan, placement, subscriptions, weights, sample, thresholds),
        "cost_balance": balance(held * got),
        "busiest": float((held * got).max() / max(len(subscriptions) * len(sample), 1)),
        "message_balance": balance(got),
        "subscription_balance": balance(held),
        "bytes": float((sent * row_bytes).mean()) if len(sample) else 0.0,
        "keys": len(placement.keys.word),
    }


def count_pairs(
    plan: Plan,
    subscriptions: Subscriptions,
    weights: NDArray[np.float64],
    messages: Messages,
    thresholds: NDArray[np.float64] | None = None,
) -> int:
    """Count the keys of subscriptions that messages meet: about the pairs that routes must bring together.

    It does not depend on homes, so that it tells what thresholds spare before anybody is placed again.
    """
    assert plan.grid is not None
    keys = plan.keys(subscriptions, np.arange(len(subscriptions), dtype=np.int32), weights, thresholds)
    return int(messages_of_keys(keys.word, keys.cell, messages, plan.grid).sum())


def balance(amounts: NDArray[Any]) -> float:
    """Return the largest amount by the mean; 1 where there is nothing."""
    mean = float(amounts.mean())
    return float(amounts.max()) / mean if mean > 0.0 else 1.0


def copies_by_partition(placement: Placement, partitions: int) -> NDArray[np.int64]:
    """Return how many subscriptions each partition holds."""
    if placement.copies is None:
        return np.bincount(placement.home, minlength=partitions)
    held = [np.count_nonzero((placement.copies >> np.uint64(p)) & np.uint64(1)) for p in range(partitions)]
    return np.array(held, np.int64)


def _hops(
    plan: Plan,
    placement: Placement,
    subscriptions: Subscriptions,
    weights: NDArray[np.float64],
    sample: Messages,
    thresholds: NDArray[np.float64] | None,
) -> float | None:
    """Return how many matches per message no home finds."""
    if placement.copies is None or not len(sample):
        return None
    from nearcast.indexes import create

    index = create("trigger", plan.space)
    index.set_weights(np.ascontiguousarray(weights, np.float64))
    slots = index.insert(subscriptions)
    topk = np.flatnonzero(subscriptions.kind == TOPK)
    if thresholds is not None and len(topk):
        index.set_thresholds(slots[topk], np.ascontiguousarray(thresholds[topk], np.float64))
    few = sample.part(0, min(_MATCHED, len(sample)))
    matches = index.match(few)
    row_of = np.full(int(slots.max(initial=-1)) + 1, -1, np.int64)
    row_of[slots] = np.arange(len(slots))
    routes = Routes(plan.partitions, plan.grid)
    routes.add(placement.keys)
    start, partition = routes.route(few)
    got = np.zeros((len(few), plan.partitions), np.bool_)
    got[np.repeat(np.arange(len(few)), np.diff(start)), partition] = True
    is_at_home = got[matches.rows(), placement.home[row_of[matches.slots]]]
    return float(np.count_nonzero(~is_at_home) / len(few))
