"""Columns that look like a mistake: names that are nearly a known one, and values that a row's kind does not use.

They are no fault of a row, so they are warnings in `Rejected.warnings`; `strict` refuses the table, or the row.
"""

from collections.abc import Callable, Iterable

import numpy as np

from nearcast.columns import KIND_NAMES
from nearcast.errors import InvalidColumns
from nearcast.geo.space import Space
from nearcast.model.dicts import KINDS_OF
from nearcast.model.spelling import one_edit_away, other_spelling
from nearcast.tables.cells import TableRows, as_mask
from nearcast.tables.names import EARTH_NAMES, EARTH_PLACE, PLANE_NAMES, PLANE_PLACE
from nearcast.tables.rejected_rows import Mask, Rejected

#: Columns of messages and of subscriptions that belong to both spaces.
MESSAGE_NAMES = ("id", "text", "terms", "time", "expires", "geometry")
SUBSCRIPTION_NAMES = (
    *("id", "kind", "query", "region", "geometry", "terms", "text_weight", "threshold", "similarity", "k", "expires"),
    *("op", "time"),
)


def check_message_names(
    columns: Iterable[str], space: Space, source: str, rejected: Rejected, *, strict: bool, given: Iterable[str] = ()
) -> None:
    """Warn of attributes that look like a column which is not there; `given` are further columns that are."""
    columns = list(columns)
    known = {*MESSAGE_NAMES, *(EARTH_PLACE if space.is_earth else PLANE_PLACE)}
    _warn(columns, known - {*columns, *given}, known, source, rejected, strict=strict, becomes="is an attribute")


def check_subscription_names(
    columns: Iterable[str], space: Space, source: str, rejected: Rejected, *, strict: bool
) -> None:
    """Warn of columns that look like one of a subscription's."""
    known = {*SUBSCRIPTION_NAMES, *(EARTH_NAMES if space.is_earth else PLANE_NAMES)}
    _warn(list(columns), known, known, source, rejected, strict=strict, becomes="is not used")


def _warn(
    columns: list[str],
    wanted: set[str],
    known: set[str],
    source: str,
    rejected: Rejected,
    *,
    strict: bool,
    becomes: str,
) -> None:
    missing = wanted - set(columns)
    if not {"region", "geometry", "west"}.isdisjoint(columns):
        missing -= {"lon", "lat"}  # the place is told by others
    for name in columns:
        meant = None
        if name not in known and not name.startswith("nearcast."):
            meant = one_edit_away(name, sorted(wanted)) or other_spelling(name, missing)
        if meant is not None:
            if strict:
                raise InvalidColumns(
                    f"{source}: column {name} is not known; did you mean {meant}? Rename it, or leave strict out",
                    field=name,
                )
            rejected.warn(f"{source}: column {name} {becomes}; did you mean {meant}?")


def check_kinds(rows: TableRows, kind: np.ndarray, rejected: Rejected, *, strict: bool) -> None:
    """Warn of values in rows whose kind does not use them; with `strict` these rows are at fault."""
    for name, kinds in KINDS_OF.items():
        if not rows.has(name):
            continue
        # A kind that nobody knows is a fault of its own.
        is_other = ~np.isin(kind, [KIND_NAMES.index(each) for each in kinds]) & (kind < len(KIND_NAMES))
        if is_other.any():
            _check_kind(rows, name, kind, as_mask(rows.column(name).is_valid()) & is_other, rejected, strict=strict)


def _check_kind(
    rows: TableRows, name: str, kind: np.ndarray, unused: Mask, rejected: Rejected, *, strict: bool
) -> None:
    where = np.flatnonzero(unused)
    if not len(where):
        return
    if strict:
        rows.faults.add_where(unused, name, _why(name, kind))
        return
    of = KIND_NAMES[kind[where[0]]]
    rejected.warn(
        f"{rows.source}: column {name} is given in {len(where):,} rows of kind {of}, first in row"
        f" {rows.numbers[where[0]]}, and not used there; {_advice(name)}"
    )


def _why(name: str, kind: np.ndarray) -> Callable[[int], str]:
    return lambda row: f"{name} is given, which kind {KIND_NAMES[kind[row]]} does not use; {_advice(name)}"


def _advice(name: str) -> str:
    """Return what to do about a value that belongs to another kind."""
    return f"give kind {' or '.join(KINDS_OF[name])}, or leave it out"
