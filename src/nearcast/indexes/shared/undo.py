"""An undo log: how to restore what an unfinished change of an index has overwritten.

A change may be cut short anywhere between two Python instructions: Ctrl-C, `MemoryError`, an error of our own. Before
each write the change notes a call that restores what the write replaces. The end of the change discards the notes. A
change that raises runs them, newest first. If that is cut short too (a second Ctrl-C), the notes are still there, and
whoever takes the lock of the index next runs them first. So the notes, not an `except` clause, are what is relied upon.

Rules for whoever writes a change:

- Note first, then write. Every note restores a state, whether or not its write took place, and may run twice.
- A note keeps references and copies of the items that the call names, never a copy of a column: lists, dicts and
  counters are replaced instead of changed in place, and what is appended behind the end of a column needs no note.
- A kernel is one instruction: it is run or it is not.
- Where the old state would be expensive to keep, the note may finish the work instead (a redo log): a merge notes the
  very call that puts its result in place.

The alternatives: copies of the arrays (a million slots a call), copy-on-write of everything (trees and chains would
have to be persistent), or an `except` clause without notes (it is cut short by the second Ctrl-C). The price of this
one is a small tuple for each note.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Note = tuple[Callable[..., Any], tuple[Any, ...]]


class UndoLog:
    """The notes of the change under way, newest last; empty between changes. Used under the lock of its index.

    `with log:` around a change ends it: the notes are discarded, or run if the change raises. Changes do not nest.

    >>> class Counter: n = 1
    >>> log, counter = UndoLog(), Counter()
    >>> with log:
    ...     log.attributes(counter, "n")
    ...     counter.n = 2
    ...     raise KeyboardInterrupt
    Traceback (most recent call last):
    KeyboardInterrupt
    >>> counter.n
    1
    """

    __slots__ = ("_notes",)

    def __init__(self) -> None:
        self._notes: list[_Note] = []

    def __bool__(self) -> bool:
        return bool(self._notes)

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Note a call that restores something; it must do no harm when run twice."""
        self._notes.append((function, arguments))

    def attributes(self, owner: Any, *names: str) -> None:
        """Note the present values of attributes."""
        self._notes.append((_set_attributes, (owner, {name: getattr(owner, name) for name in names})))

    def items(self, array: NDArray[Any], index: NDArray[Any]) -> None:
        """Note the present items of an array at these indices."""
        self._notes.append((_set_items, (array, index, array[index])))

    def fill(self, array: NDArray[Any], index: NDArray[Any] | slice, value: float) -> None:
        """Note that all items of an array at these indices have one value."""
        self._notes.append((_set_items, (array, index, value)))

    def roll_back(self) -> None:
        """Run the notes of a change that was cut short, if there are any."""
        while self._notes:
            function, arguments = self._notes[-1]
            function(*arguments)
            self._notes.pop()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind is None:
            self._notes = []
        else:
            self.roll_back()


def _set_attributes(owner: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(owner, name, value)


def _set_items(array: NDArray[Any], index: Any, value: Any) -> None:
    array[index] = value
