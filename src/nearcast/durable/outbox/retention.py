"""`Retention`: how long deliveries wait for their subscriber, and how many bytes they may take."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from nearcast.errors import InvalidInput
from nearcast.geo.shapes import shorten
from nearcast.window import length_of

_EXPECTED = "expected a time like 30s, 15m, 2h, 7d, or None: no limit"


@dataclass(frozen=True)
class Retention:
    """Limits of the outbox: the age of deliveries in event time, and the bytes of its files; None: no limit.

    Files are dropped as a whole, the oldest first: a file when all of it is too old, or when all files together take
    more bytes.

    >>> Retention(age="7d").age_us
    604800000000
    """

    age: str | timedelta | None = "7d"
    bytes: int | None = 10 << 30

    def __post_init__(self) -> None:
        if self.age is not None:
            length_of(self.age, "age", _EXPECTED)
        if self.bytes is not None and (type(self.bytes) is not int or self.bytes < 1):
            raise InvalidInput(f"bytes is {shorten(self.bytes)}; expected a number above 0, or None", field="bytes")

    @property
    def age_us(self) -> int | None:
        """Return the longest age in microseconds."""
        return None if self.age is None else length_of(self.age, "age", _EXPECTED)
