"""The memory of a worker: states of partitions that it may use again instead of opening them from the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from nearcast.pipeline.store.store import Store

_State = TypeVar("_State")


class StateCache(Generic[_State]):
    """States by store and number of the partition: they save time and are never the truth.

    A state is taken out while it is worked on and put back when it is whole, so one that was left halfway is lost.
    """

    def __init__(self) -> None:
        self._states: dict[tuple[Store, int], _State] = {}

    def take(self, store: Store, number: int) -> _State | None:
        """Return the state of a partition, which is no longer held here then."""
        return self._states.pop((store, number), None)

    def look(self, store: Store, number: int) -> _State | None:
        """Return the state of a partition, which stays."""
        return self._states.get((store, number))

    def put(self, store: Store, number: int, state: _State) -> None:
        """Hold the state of a partition, in place of an older one."""
        self._states[store, number] = state

    def drop(self, store: Store, is_stale: Callable[[_State], bool]) -> None:
        """Forget the states of a store that are stale, to give their memory back."""
        for key, state in list(self._states.items()):
            if key[0] == store and is_stale(state):
                del self._states[key]

    def clear(self) -> None:
        """Forget everything, as a new process would not have it."""
        self._states.clear()
