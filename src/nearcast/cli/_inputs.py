"""The two input files of a command: renamed columns, the space they are in, their rows in batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nearcast.cli._console import UsageMistake
from nearcast.errors import InvalidColumns

if TYPE_CHECKING:
    import pyarrow as pa

    from nearcast.geo import Space
    from nearcast.tables import Rejected


class Source:
    """A file of subscriptions or messages; `name` is what rejected rows call it."""

    def __init__(self, path: Path, name: str, renames: dict[str, str]):
        self.path, self.name, self._renames = path, name, renames
        first = self._peek()
        self.given_columns = [name for name in first.column_names if not name.startswith("nearcast.")]
        self.columns = list(self._renamed(first).column_names)

    def _peek(self) -> pa.Table:
        """Return the first rows, to see which columns there are."""
        from nearcast.files import read_batches
        from nearcast.tables import Rejected

        return next(read_batches(self.path, rejected=Rejected()))

    def _renamed(self, table: pa.Table) -> pa.Table:
        """Rename the columns that this table has; of JSON lines some may come only later."""
        from nearcast.tables import rename

        return rename(table, {new: old for new, old in self._renames.items() if old in table.column_names})

    def batches(self, rejected: Rejected) -> Iterator[pa.Table]:
        """Yield the rows in order; lines that are no rows go to `rejected`."""
        from nearcast.files import read_batches

        return map(self._renamed, read_batches(self.path, rejected=rejected, source=self.name))

    def table(self, rejected: Rejected) -> pa.Table:
        """Return all rows; lines that are no rows go to `rejected`."""
        from nearcast.files import read_table

        return self._renamed(read_table(self.path, rejected=rejected, source=self.name))

    def total(self) -> int | None:
        """Return the number of rows where the file says it."""
        from nearcast.files import total_rows

        return total_rows(self.path)


def open_sources(subscriptions: Path, messages: Path, maps: list[str]) -> tuple[Source, Source]:
    """Return both files with the renames that apply to each; a column that neither has is an error."""
    renames = renames_from(maps)
    both = Source(subscriptions, "subscriptions", renames), Source(messages, "messages", renames)
    for new, old in renames.items():
        if not any(old in source.given_columns for source in both):
            there = ", ".join(dict.fromkeys(name for source in both for name in source.given_columns))
            raise InvalidColumns(f"--map {new}={old}: neither file has a column {old!r}; there are {there}", field=old)
    return both


def renames_from(maps: list[str]) -> dict[str, str]:
    """Return {new: old} of the given `new=old`."""
    renames: dict[str, str] = {}
    for each in maps:
        new, equals, old = each.partition("=")
        if not (new and equals and old):
            raise UsageMistake(f"--map takes new=old, such as time=ts, not {each!r}")
        if new in renames:
            raise UsageMistake(f"--map gives {new!r} twice; name each column once")
        renames[new] = old
    return renames


def space_of_sources(sources: tuple[Source, Source], given: str | None) -> Space:
    """Return the space that the columns of both files tell, or the one given."""
    from nearcast.tables import space_of

    return space_of([name for source in sources for name in source.columns], given)
