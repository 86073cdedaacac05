"""Rows that cannot be used: which, and why. One row is rejected once, for the first thing found wrong with it."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.errors import InvalidInput, InvalidQuery
from nearcast.geo.shapes import shorten

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("row", pa.int64()),
        ("id", pa.string()),
        ("field", pa.string()),
        ("reason", pa.string()),
    ]
)


class RejectedRow(NamedTuple):
    """One row that cannot be used; `row` counts from 0 within `source`, `id` is its id as text if it has one."""

    source: str
    row: int
    id: str | None
    field: str | None
    reason: str


class Rejected:
    """The rows that were left out, in the order they were found, and `warnings` about what rejected none.

    >>> rejected = Rejected()
    >>> rejected.add("subscriptions", 4, "s5", "query", "a bracket is not closed")
    >>> len(rejected), rejected.to_table().column_names
    (1, ['source', 'row', 'id', 'field', 'reason'])
    """

    def __init__(self) -> None:
        self._rows: list[RejectedRow] = []
        #: What looks like a mistake and rejected no row: one line each, each once.
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        """Note what looks like a mistake of the whole table, unless it is noted already."""
        if text not in self.warnings:
            self.warnings.append(text)

    def add(self, source: str, row: int, id: str | int | None, field: str | None, reason: str) -> None:  # noqa: A002
        """Note one row; the reason is put on one line."""
        name = None if id is None else storable(id if isinstance(id, str) else shorten(id))
        self._rows.append(RejectedRow(source, int(row), name, field, storable(" ".join(reason.split()))))

    def extend(self, rows: Iterable[RejectedRow]) -> None:
        """Note all rows of another list, and its warnings where it has some."""
        self._rows.extend(rows)
        for text in rows.warnings if isinstance(rows, Rejected) else ():
            self.warn(text)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[RejectedRow]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return f"<Rejected: {len(self):,}>"

    def to_table(self) -> pa.Table:
        """Return the columns source, row, id, field, reason; each source's rows in their order."""
        places = {source: at for at, source in enumerate(dict.fromkeys(row.source for row in self._rows))}
        rows = sorted(self._rows, key=lambda row: (places[row.source], row.row))
        columns = zip(*rows, strict=True) if rows else [[] for _ in _SCHEMA]
        return pa.table([pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)], _SCHEMA)


def storable(text: str) -> str:
    """Return the text with halves of characters, which no file can hold, replaced."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def one_line(error: InvalidInput) -> str:
    """Return the message of an error on one line: of a query without the drawing, but with the position."""
    if isinstance(error, InvalidQuery) and error.line is not None:
        where = f"line {error.line}, column {error.column}" if error.line > 1 else f"column {error.column}"
        return f"{where}: {error.reason}"
    return error.reason if isinstance(error, InvalidQuery) else str(error)


class Faults:
    """The first fault of each row of a table, collected while its columns are checked one after the other."""

    def __init__(self, n: int):
        self.is_bad: Mask = np.zeros(n, np.bool_)
        self._found: dict[int, tuple[str, str]] = {}

    def __len__(self) -> int:
        return len(self._found)

    def add(self, row: int, field: str, reason: str) -> None:
        """Note a fault, unless the row has one already."""
        if not self.is_bad[row]:
            self.is_bad[row] = True
            self._found[row] = (field, reason)

    def add_where(self, bad: Mask, field: str, reason: str | Callable[[int], str]) -> None:
        """Note the same fault in all rows where `bad`; a function is asked for the reason of each row."""
        for row in np.flatnonzero(bad & ~self.is_bad).tolist():
            self.add(row, field, reason if isinstance(reason, str) else reason(row))

    def add_part(self, part: "Faults", which: Rows) -> None:
        """Note the faults that were found in some rows alone; row i of `part` is row `which[i]` here."""
        for row, fault in part._found.items():
            self.add(int(which[row]), *fault)

    def good_rows(self) -> Rows | None:
        """Return the rows without fault, ascending; None if that is all of them."""
        return np.flatnonzero(~self.is_bad) if self._found else None

    def report(self, rejected: Rejected, source: str, numbers: Rows, ids: pa.Array) -> None:
        """Add the faults to `rejected` in the order of rows; `numbers` are the rows' numbers in their source."""
        for row in sorted(self._found):
            rejected.add(source, int(numbers[row]), ids[row].as_py(), *self._found[row])
