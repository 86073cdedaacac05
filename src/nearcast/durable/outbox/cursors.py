"""`Cursor`: the place of a delivery in the log, by which a subscriber resumes."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from nearcast.errors import InvalidInput
from nearcast.geo.shapes import shorten

_FORM = re.compile(r"([0-9]{1,18})-([0-9]{1,9})", re.ASCII)


class Cursor(NamedTuple):
    """The number of a step, and which of its deliveries it is, counted from 1 over all subscribers.

    Replay gives the same cursors. As text it is `STEP-ROW`; 0-0 lies before all deliveries.

    >>> str(Cursor(12, 3)), Cursor.parse("12-3") < Cursor(12, 4)
    ('12-3', True)
    """

    step: int
    row: int

    def __str__(self) -> str:
        return f"{self.step}-{self.row}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Return the cursor that a text like "12-3" stands for; `InvalidInput` for anything else."""
        found = _FORM.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise InvalidInput(f"cursor is {shorten(text)}; expected STEP-ROW, like 12-3", field="cursor")
        return cls(int(found[1]), int(found[2]))

    @classmethod
    def of(cls, given: Any) -> Cursor:
        """Return a cursor, given as one or as its text."""
        if isinstance(given, tuple) and len(given) == 2 and all(type(each) is int and each >= 0 for each in given):
            return cls(*given)
        return cls.parse(given)


#: Before all deliveries.
BEGIN = Cursor(0, 0)
