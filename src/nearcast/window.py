"""`Window`: how many messages of a stream count, or for how long."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.errors import InvalidInput
from nearcast.geo.shapes import shorten

if TYPE_CHECKING:
    from numpy.typing import NDArray

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_FORM = re.compile(r"\s*([0-9]+)\s*([smhd]?)\s*")
_EXPECTED = "expected a number of messages like 100000, or a time like 30s, 15m, 2h, 7d"
_MOST_MESSAGES = 1 << 31
_LONGEST = timedelta(days=36_500)
_EARLIEST = np.iinfo(np.int64).min


def length_of(given: Any, field: str, expected: str) -> int:
    """Return the microseconds of a time like "30s" or a timedelta; else raise `InvalidInput` with what was expected."""
    length = None
    if isinstance(given, (str, timedelta)):
        try:
            length = Window.of(given).length
        except InvalidInput:
            length = None
    if length is None:
        raise InvalidInput(f"{field} is {shorten(given)}; {expected}", field=field)
    return length


@dataclass(frozen=True)
class Window:
    """The most recent `count` messages, or those of the last `length` microseconds of event time.

    >>> Window.of("15m")
    Window(count=None, length=900000000)
    >>> str(Window.of(100_000))
    '100000'
    """

    count: int | None
    length: int | None

    def __post_init__(self) -> None:
        given = [each for each in (self.count, self.length) if each is not None]
        if len(given) != 1 or given[0] < 1:
            raise InvalidInput(
                f"a window has a count or a length above 0, not {self.count} and {self.length}", field="window"
            )

    @classmethod
    def of(cls, given: Window | int | str | timedelta) -> Window:
        """Return the window that a number, a text like "30s" or a timedelta describes."""
        if isinstance(given, Window):
            return given
        if isinstance(given, timedelta):
            return cls._lasting(given, given)
        if isinstance(given, str) and (form := _FORM.fullmatch(given)):
            number, unit = int(form[1]), form[2]
            if unit:
                length = timedelta(seconds=min(number * _UNITS[unit], 2 * int(_LONGEST.total_seconds())))
                return cls._lasting(length, given)
            given = number
        if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= _MOST_MESSAGES:
            raise InvalidInput(f"window is {shorten(given)}; {_EXPECTED}", field="window")
        return cls(given, None)

    @classmethod
    def _lasting(cls, length: timedelta, given: Any) -> Window:
        if not timedelta(0) < length <= _LONGEST:
            raise InvalidInput(f"window is {shorten(given)}; {_EXPECTED}, above 0 and up to 36500d", field="window")
        return cls(None, length // timedelta(microseconds=1))

    @property
    def is_by_time(self) -> bool:
        """Tell whether time decides how long a message counts."""
        return self.length is not None

    def is_late(self, time: NDArray[np.int64], clock: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which messages lie before a window of time that ends at these event times; those without a time do."""
        if self.length is None:
            return np.zeros(len(time), np.bool_)
        late: NDArray[np.bool_] = time <= np.maximum(clock, _EARLIEST + self.length) - self.length
        return late

    def __str__(self) -> str:
        if self.length is None:
            return str(self.count)
        seconds, rest = divmod(self.length, 1_000_000)
        if rest:
            return f"{self.length / 1e6:g}s"
        unit = next((name for name in "dhm" if seconds % _UNITS[name] == 0), "s")
        return f"{seconds // _UNITS[unit]}{unit}"
