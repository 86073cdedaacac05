"""Checks of arguments that all indexes share: kinds, live slots, equal lengths."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import TYPE_CHECKING

import numpy as np

from nearcast.columns import KIND_NAMES, TOPK, Subscriptions
from nearcast.errors import NotSupported, UnknownSubscription

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes import IndexInfo


def only_kinds(subscriptions: Subscriptions, info: IndexInfo) -> None:
    """Refuse kinds that an index does not match."""
    known = [KIND_NAMES.index(name) for name in info.kinds]
    if len(known) == len(KIND_NAMES):
        return
    other = np.flatnonzero(~np.isin(subscriptions.kind, known))
    if len(other):
        kind = KIND_NAMES[subscriptions.kind[other[0]]]
        raise NotSupported(
            f"the index {info.name!r} matches {' and '.join(info.kinds)} subscriptions only;"
            f" row {other[0]} is of kind {kind!r}"
        )


def only_topk(held: Subscriptions, rows: NDArray[np.int64]) -> None:
    """Refuse thresholds for rows that keep their own."""
    if (held.kind[rows] != TOPK).any():
        raise ValueError("only subscriptions of kind 'topk' have a threshold to set")


def checked_slots(
    slots: NDArray[np.int32], n_slots: int, is_alive: Callable[[NDArray[np.int32]], NDArray[np.bool_]]
) -> NDArray[np.int32]:
    """Return the slots as an array if each is alive and none is named twice."""
    given = np.atleast_1d(np.asarray(slots))
    if len(given) == 1 and 0 <= given[0] < n_slots and is_alive(given)[0]:
        return given.astype(np.int32)  # a few microseconds for the one slot of a single change
    ascending = np.sort(given)
    if (ascending[1:] == ascending[:-1]).any():
        raise ValueError("a slot was named twice in one call")
    in_range = (given >= 0) & (given < n_slots)
    checked = np.where(in_range, given, 0).astype(np.int32)
    alive = in_range.copy()
    alive[in_range] = is_alive(checked[in_range])
    if not alive.all():
        raise UnknownSubscription(f"slot {given[np.argmin(alive)]} holds no subscription")
    return checked


def same_length(slots: NDArray[np.int32], values: Sized, name: str) -> None:
    """Refuse a call that gives not one value for each slot."""
    if len(slots) != len(values):
        raise ValueError(f"{len(slots)} slots were given for {len(values)} {name}")
