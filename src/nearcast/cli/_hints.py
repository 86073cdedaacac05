"""Which option of a command does what an error advises."""

from __future__ import annotations

from collections.abc import Set

from nearcast.errors import NearcastError, Remedy, with_remedy

_WAYS = {
    Remedy.NAME_COLUMN: ", --map {field}=NAME",
    Remedy.RENAME_COLUMN: ", --map NAME={field}",
    Remedy.GIVE_SPACE: ", with --space",
}


def with_hint(error: NearcastError, options: Set[str]) -> str:
    """Return the message of an error, followed by what does as it advises, if that is one of the command's options."""
    return with_remedy(error, {remedy: way for remedy, way in _WAYS.items() if not options.isdisjoint(way.split())})
