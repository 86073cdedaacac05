"""The two input files of a command: renamed columns, the space and the words they have, their rows in batches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nearcast.cli._console import StepProgress, UsageMistake, complain
from nearcast.errors import InvalidColumns

if TYPE_CHECKING:
    import pyarrow as pa

    from nearcast.engine.lifetime import Lifetime
    from nearcast.geo import Space
    from nearcast.tables import Rejected
    from nearcast.text import Vocabulary
    from nearcast.window import Window


class InputFile:
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
        from nearcast.tables import rename_known

        return rename_known(table, self._renames)

    def batches(self, rejected: Rejected) -> Iterator[pa.Table]:
        """Yield the rows in order; lines that are no rows go to `rejected`."""
        from nearcast.files import read_batches

        return map(self._renamed, read_batches(self.path, rejected=rejected, source=self.name))

    def table(self, rejected: Rejected) -> pa.Table:
        """Return all rows; lines that are no rows go to `rejected`."""
        from nearcast.files import read_table

        return self._renamed(read_table(self.path, rejected=rejected, source=self.name))

    def row_of(self, wanted: str) -> pa.Table:
        """Return the first row with that id, compared as text, and complain if there are more."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from nearcast.tables import Rejected
        from nearcast.tables.cells import TableRows

        found, count = None, 0
        for batch in self.batches(Rejected()):
            ids = TableRows(batch, self.name, 0).ids().cast(pa.string())
            rows = batch.filter(pc.equal(ids, wanted))
            count += rows.num_rows
            if found is None and rows.num_rows:
                found = rows.slice(0, 1)
        if found is None:
            raise InvalidColumns(f"{self.path} has no row with the id {wanted!r}; ids are compared as text", field="id")
        if count > 1:
            complain(f"{self.path} has {count:,} rows with the id {wanted!r}; the first counts")
        return found

    def total(self) -> int | None:
        """Return the number of rows where the file says it."""
        from nearcast.files import total_rows

        return total_rows(self.path)


def open_inputs(
    subscriptions: Path, messages: Path, maps: list[str], changes: InputFile | None = None
) -> tuple[InputFile, InputFile]:
    """Return both files with the renames that apply to each; a column that neither has, nor changes, is an error."""
    renames = renames_from(maps)
    both = InputFile(subscriptions, "subscriptions", renames), InputFile(messages, "messages", renames)
    for new, old in renames.items():
        if not any(old in source.given_columns for source in filter(None, (*both, changes))):
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


def space_of_inputs(inputs: tuple[InputFile, InputFile], given: str | None) -> Space:
    """Return the space that the columns of both files tell, or the one given."""
    from nearcast.tables import space_of

    return space_of([name for source in inputs for name in source.columns], given)


def check_max_distance(given: float | None) -> None:
    """Refuse a distance that no subscription could use."""
    if given is not None and not 0 < given < math.inf:
        raise UsageMistake(f"--max-distance is {given:g}; expected a finite number above 0")


def window_of(given: str | None) -> Window | None:
    """Return the window of an option; a usage mistake if it is none."""
    from nearcast.errors import InvalidInput
    from nearcast.window import Window

    try:
        return None if given is None else Window.of(given)
    except InvalidInput as error:
        raise UsageMistake(f"--{error}") from None


def lifetime_of(given: str | None) -> Lifetime | None:
    """Return the lifetime of an option; a usage mistake if it is none."""
    from nearcast.engine.lifetime import Lifetime
    from nearcast.errors import InvalidInput

    try:
        return None if given is None else Lifetime.of(given)
    except InvalidInput as error:
        raise UsageMistake(f"--{error}") from None


def need_window(subscriptions: pa.Table, window: Window | None) -> None:
    """Refuse top-k subscriptions where there is no window for them."""
    from nearcast.tables import first_topk

    if window is None and first_topk(subscriptions) is not None:
        raise UsageMistake("there are subscriptions of kind topk; give their window, --window 100000 or --window 2h")


def vocabulary_of(path: Path | None, messages: InputFile, space: Space, steps: StepProgress) -> Vocabulary:
    """Return the vocabulary of a file, or else that of all messages, from a pass over them."""
    from nearcast.tables import Rejected, read_messages
    from nearcast.text import Analyzer, Vocabulary

    if path is not None:
        return Vocabulary.from_parquet(path)
    steps.begin("learning words", messages.total())
    vocabulary, analyzer = Vocabulary(), Analyzer()
    noted_later = Rejected()
    for batch in messages.batches(noted_later):
        found = read_messages(batch, space, vocabulary.table, analyzer, add_words=True, rejected=noted_later)
        vocabulary.learn(found.term_start, found.terms)
        steps.advance(batch.num_rows)
    return vocabulary
