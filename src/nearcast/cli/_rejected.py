"""Prints rejected rows and warnings on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearcast.cli._console import complain

if TYPE_CHECKING:
    from nearcast.tables import Rejected

EXIT_REJECTED = 3
#: Rejected rows shown on stderr when no file is named for them.
_SHOWN = 10
_DISTANCES = ("max_distance", "max_distance_m")


def show_rejected(rejected: Rejected, how_to_see_all: str) -> None:
    """Print the warnings, the first rejected rows, one line each, and how to get all of them."""
    show_warnings(rejected)
    for row in list(rejected)[:_SHOWN]:
        named = f" (id {row.id})" if row.id is not None else ""
        field = f", {row.field}" if row.field is not None else ""
        complain(f"rejected {row.source} row {row.row}{named}{field}: {row.reason}")
    if len(rejected) > _SHOWN:
        complain(f"and {len(rejected) - _SHOWN:,} more; {how_to_see_all}")


def hint_at_max_distance(rejected: Rejected, given: float | None) -> None:
    """Name the option that would have helped, where subscriptions were rejected for want of a distance."""
    if given is None and any(row.field in _DISTANCES for row in rejected):
        complain("--max-distance LENGTH is for subscriptions that give none")


def show_warnings(rejected: Rejected) -> None:
    """Print what looks like a mistake, though it rejected no row."""
    for text in rejected.warnings:
        complain(f"warning: {text}")
