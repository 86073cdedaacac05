"""Every error nearcast raises on purpose.

    NearcastError
    ├── InvalidInput (ValueError)      something given by the caller cannot be used
    │   ├── InvalidQuery               a query cannot be parsed or is over a limit
    │   ├── InvalidRegion              a region is impossible: latitude 91, a ring that crosses itself
    │   ├── InvalidMessage             a message lacks a place, has NaN coordinates, ...
    │   ├── InvalidSubscription        a subscription cannot be stored as it is
    │   ├── FutureCursor               a cursor lies after the end of the log: it is that of another hub
    │   └── InvalidColumns             a whole table or file cannot be read: a column is missing or has the wrong type
    ├── UnknownSubscription (KeyError) no subscription with that id
    ├── UnknownIndex (ValueError)      no index with that name, or an option it does not have
    ├── FileUnavailable                a file cannot be read or written for now: the disk or the network failed
    │   └── FileMissing                there is no such file, or it cannot be seen yet
    ├── HubStopped                     a durable hub was closed, or stopped after a failed fsync: open it again
    ├── NotSupported                   defined, but this index or version does not match it yet
    └── IncompatibleStore              saved files are damaged or of another format version
        └── StoreUnavailable           saved files are missing, or cannot be read for now

A message says what was given, what was expected and what to do, on one line
(only `InvalidQuery` adds the query with a caret below it). It speaks of values and columns. Which option of a command,
or which method of a DataFrame, does what it advises is added by whoever shows it: `Remedy`, `with_remedy`.
"""

from collections.abc import Mapping
from enum import Enum


class NearcastError(Exception):
    """Root of the tree: catch this to catch everything nearcast raises on purpose."""

    #: Whether the same call may succeed when it is tried again: a disk or network failed, the input is not to blame.
    may_pass = False


class InvalidInput(NearcastError, ValueError):
    """Something given by the caller cannot be used. `field` names the column or attribute, if one is to blame."""

    def __init__(self, message: str, *, field: str | None = None):
        super().__init__(message)
        self.field = field


#: Characters of an offending line that are shown.
_SHOWN = 80


class InvalidQuery(InvalidInput):
    """A query cannot be parsed or is over a limit.

    `reason` is the one-line message; `line` and `column` count from 1 and are None where the
    whole query is to blame. `str(error)` adds the offending line with a caret below it.
    """

    def __init__(self, reason: str, *, query: str = "", line: int | None = None, column: int | None = None):
        self.reason, self.query, self.line, self.column = reason, query, line, column
        super().__init__(self._described(), field="query")

    def _described(self) -> str:
        if self.line is None or self.column is None:
            return self.reason
        lines = self.query.splitlines() or [""]
        whole = lines[min(self.line, len(lines)) - 1]
        first = max(0, self.column - 1 - _SHOWN // 2) if len(whole) > _SHOWN else 0
        shown = whole[first : first + _SHOWN]
        caret = " " * (self.column - 1 - first) + "^"
        return f"line {self.line}, column {self.column}: {self.reason}\n  {shown}\n  {caret}"


class InvalidRegion(InvalidInput):
    """A region is impossible: a latitude over 90, a negative radius, a ring that crosses itself."""


class InvalidMessage(InvalidInput):
    """A message cannot be published as it is."""


class InvalidSubscription(InvalidInput):
    """A subscription cannot be stored as it is."""


class FutureCursor(InvalidInput):
    """A cursor lies after the end of the log: it is that of another hub, or of one that lost its last calls."""


class Remedy(Enum):
    """What would make a table readable; the `field` of the error is the column."""

    NAME_COLUMN = "the column is missing: give another column its name"
    RENAME_COLUMN = "the column is in the way: give it another name"
    GIVE_SPACE = "the columns do not tell the space: give it"


class InvalidColumns(InvalidInput):
    """A table or file cannot be read as a whole. `remedy` is what would help, where that is known."""

    def __init__(self, message: str, *, field: str | None = None, remedy: Remedy | None = None):
        super().__init__(message, field=field)
        self.remedy = remedy


def with_remedy(error: Exception, ways: Mapping[Remedy, str]) -> str:
    """Return the message of an error, followed by the way in which a surface does what would help, if it has one.

    `{field}` in a way stands for the column.
    """
    if not isinstance(error, InvalidColumns) or error.remedy is None:
        return str(error)
    return str(error) + ways.get(error.remedy, "").format(field=error.field)


class UnknownSubscription(NearcastError, KeyError):
    """No subscription has that id."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0]) if self.args else ""


class UnknownIndex(NearcastError, ValueError):
    """No index has that name, or it lacks that option."""


class FileUnavailable(NearcastError):
    """A file cannot be read or written for now; what it holds is not to blame."""

    may_pass = True


class FileMissing(FileUnavailable):
    """There is no such file; on a shared disk it may only not be visible yet."""


class HubStopped(NearcastError):
    """A durable hub takes no more calls: it was closed, or something failed after which only its log is to be trusted.

    Whether the calls that were under way were stored is known when it is opened again.
    """


class NotSupported(NearcastError):
    """Defined by the data model, but not matched by this index or this version."""


class IncompatibleStore(NearcastError):
    """Saved files are damaged, incomplete, or of another format version."""


class StoreUnavailable(IncompatibleStore):
    """Saved files are missing, or the disk or network failed; on a shared disk they may only not be visible yet."""

    may_pass = True


def unreadable_store(message: str, error: BaseException) -> IncompatibleStore:
    """Return the error to raise where reading saved files failed: the file system numbers its own failures."""
    return (StoreUnavailable if getattr(error, "errno", None) is not None else IncompatibleStore)(message)
