"""Which option of a command does what an error advises."""

from __future__ import annotations

from nearcast.errors import InvalidColumns, NearcastError, Remedy


def with_hint(error: NearcastError) -> str:
    """Return the message of an error, followed by the option that does what it advises, if there is one."""
    option = _option(error) if isinstance(error, InvalidColumns) else None
    return str(error) if option is None else f"{error}, {option}"


def _option(error: InvalidColumns) -> str | None:
    match error.remedy:
        case Remedy.NAME_COLUMN:
            return f"--map {error.field}=NAME"
        case Remedy.RENAME_COLUMN:
            return f"--map NAME={error.field}"
        case Remedy.GIVE_SPACE:
            return "with --space"
    return None
