"""The memory of a worker: states of partitions, and files it read, that it may use again instead of opening them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from nearcast.pipeline.store.store import Store

_State = TypeVar("_State")
_Value = TypeVar("_Value")
#: Streams of one session, each with a store, that do not evict each other's values; more would hold much of the past.
_MOST_STORES = 4


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


class RecentByStore(Generic[_Value]):
    """A cache of the `each` values of every store that were used last, for the stores that were used last.

    The streams of a session share workers, and some of their work is done in threads of the driver.
    """

    def __init__(self, each: int) -> None:
        self._each = each
        self._stores: OrderedDict[Store, OrderedDict[Hashable, _Value]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, store: Store, key: Hashable, make: Callable[[], _Value]) -> _Value:
        """Return the value under a key of a store, made now if it is not held."""
        with self._lock:
            held = self._stores.get(store)
            if held is not None and key in held:
                self._put(store, key, held[key])
                return held[key]
        value = make()
        with self._lock:
            self._put(store, key, value)
        return value

    def _put(self, store: Store, key: Hashable, value: _Value) -> None:
        held = self._stores.setdefault(store, OrderedDict())
        held[key] = value
        held.move_to_end(key)
        self._stores.move_to_end(store)
        while len(held) > self._each:
            held.popitem(last=False)
        while len(self._stores) > _MOST_STORES:
            self._stores.popitem(last=False)
