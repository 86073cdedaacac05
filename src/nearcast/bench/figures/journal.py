"""Keeps the rows of a figure on disk while it is measured, so that a run that was stopped can go on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearcast.bench.figures.figure import Figure, Row
    from nearcast.bench.timing import Say


class RowJournal:
    """A file of rows, one a line, below a line that tells of which run they are.

    Rows of another run, command or version, are never gone on from; nor is a line that a kill has torn.
    """

    def __init__(self, path: Path, run: str):
        self.path, self._run = path, run

    def open(self) -> list[tuple[Row, dict[str, Any]]]:
        """Return the rows that are there, each with what was told of its data."""
        try:
            head, *lines = self.path.read_text().splitlines()
        except (OSError, ValueError):
            return []
        found = []
        if head == json.dumps(self._run):
            for line in lines:
                try:
                    row, about = json.loads(line)
                except ValueError:
                    break
                found.append((row, about))
        return found

    def begin(self, kept: list[tuple[Row, dict[str, Any]]]) -> None:
        """Start the file anew with these rows."""
        lines = [json.dumps(self._run), *map(_line, kept)]
        self.path.write_text("".join(f"{line}\n" for line in lines))

    def add(self, row: Row, about: dict[str, Any]) -> None:
        """Append a row."""
        with self.path.open("a") as file:
            file.write(f"{_line((row, about))}\n")

    def close(self) -> None:
        """Remove the file: the figure is drawn."""
        self.path.unlink(missing_ok=True)


def _line(pair: tuple[Row, dict[str, Any]]) -> str:
    return json.dumps(pair, default=lambda value: value.item() if hasattr(value, "item") else str(value))


def measured(figure: Figure, data: Any, say: Say, journal: RowJournal | None) -> list[Row]:
    """Measure all points of a figure that its journal lacks; return the rows of all.

    A point of which a series is missing is measured again as a whole: series are only compared within one run.
    """
    if journal is None:
        return list(figure.measure(figure, data, say))
    n_series = len(figure.series)
    known = journal.open() if figure.is_by_point else []
    known = known[: len(known) // n_series * n_series]
    journal.begin(known)
    done = len(known) // n_series
    if done:
        say(f"going on after {done} of {len(figure.points)} points")
        data.about = known[-1][1]
    rows = [row for row, _ in known]
    if done < len(figure.points):
        for row in figure.measure(replace(figure, points=figure.points[done:]), data, say):
            journal.add(row, data.about)
            rows.append(row)
    return rows
