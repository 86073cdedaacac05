"""Rows of a batch → lines of JSON. A row that cannot be sent is rejected here and stops no other.

The server counts the lines that it gets, so its row numbers are led back to those of the rows that were given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nearcast.client.bodies import given_values, json_bytes
from nearcast.errors import InvalidInput
from nearcast.geo import Space
from nearcast.tables.cells import is_id, without_nulls
from nearcast.tables.geometries import with_places
from nearcast.tables.inputs import table_or_values
from nearcast.tables.names import GEOMETRY_COLUMN, ROW_COLUMN
from nearcast.tables.rejected_rows import Rejected, RejectedRow


@dataclass(frozen=True)
class RowLines:
    """A body of lines, the number of the row of each line, and the rows that are none."""

    body: bytes
    numbers: list[int]
    rejected: Rejected

    def all_rejected(self, by_server: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the rows that were rejected here and those that the server rejected, by the numbers of rows."""
        found = [
            {"row": each.row, "id": each.id, "field": each.field, "pointer": _pointer(each), "reason": each.reason}
            for each in self.rejected
        ]
        found += [self._led_back(row) for row in by_server]
        return sorted(found, key=lambda row: row["row"])

    def _led_back(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row that the server rejected by its number among those given, to which its pointer leads."""
        number = self.numbers[row["row"]]
        within = row.get("pointer", "").removeprefix(f"/{row['row']}")  # older servers send none
        return {**row, "row": number, "pointer": f"/{number}{within}"}


def _pointer(row: RejectedRow) -> str:
    """Return the JSON pointer (RFC 6901) to a row of a list, or to a field of it."""
    field = "" if row.field is None else "/" + row.field.replace("~", "~0").replace("/", "~1")
    return f"/{row.row}{field}"


def lines_of(given: Any, space: Space, encode: Callable[[Any], dict[str, Any]]) -> RowLines:
    """Return the rows of a table, or values, as lines of JSON; `encode` makes an object of each."""
    values = table_or_values(given, space)
    if not isinstance(values, pa.Table):
        return _lines(enumerate(values), encode, Rejected())
    rejected = Rejected()
    return _lines(_table_rows(values, space, rejected), lambda row: encode(_with_one_region(row)), rejected)


def _lines(rows: Iterable[tuple[int, Any]], encode: Callable[[Any], dict[str, Any]], rejected: Rejected) -> RowLines:
    lines, numbers = list[bytes](), list[int]()
    for number, value in rows:
        try:
            lines.append(json_bytes(encode(value)) + b"\n")
            numbers.append(number)
        except InvalidInput as error:
            rejected.add("rows", number, _id_of(value), error.field, str(error))
    return RowLines(b"".join(lines), numbers, rejected)


def _table_rows(table: pa.Table, space: Space, rejected: Rejected) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a table without what is null, each with its number; geometries in binary are decoded."""
    table = with_places(table, space, source="rows", rejected=rejected)
    for at, row in enumerate(table.to_pylist()):
        yield row.pop(ROW_COLUMN, at), given_values(**row)


def _with_one_region(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a table with its geometry as `region`, which is the name that single subscriptions have."""
    names = [name for name in (GEOMETRY_COLUMN, "geometry", "region") if name in row]
    if len(names) > 1:
        raise InvalidInput("two regions are given: the geometry and region; keep one", field="region")
    return {"region" if name in names else name: without_nulls(value) for name, value in row.items()}


def _id_of(value: Any) -> str | int | None:
    id_ = value.get("id") if isinstance(value, dict) else getattr(value, "id", None)
    return id_ if is_id(id_) else None
