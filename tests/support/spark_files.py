"""The input and output files of streams on Spark: batches that arrive, deliveries that come out."""

import csv
import json
import os
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

from support.streams import COLUMNS, values_in

#: Files of messages, and of changes, in a batch: what `at_once` is set to, so that each batch is the one meant.
PER_BATCH = 2
#: Spark takes files in the order of their times, and on a tie in any: each file is a second newer than the last.
_FIRST_SECOND = 1_780_000_000


def write_table(path, rows, names):
    """Write rows in the format of the extension; a value that is not given is null, or an empty field."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        columns = {name: [row.get(name) for row in rows] for name in names}
        pq.write_table(pa.table({name: pa.array(values) for name, values in columns.items()}), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)


class Inbox:
    """The folders that a stream reads; every batch has the same number of files."""

    def __init__(self, folder, extension="jsonl"):
        self.messages, self.changes = folder / "messages", folder / "changes"
        self.messages.mkdir()
        self.changes.mkdir()
        self._extension, self._batches, self._files = extension, 0, 0

    def add(self, files, each=PER_BATCH):
        """Let a batch arrive, {name: rows} as `World.batch` makes it, in so many files of each kind."""
        for kind, folder in (("messages", self.messages), ("changes", self.changes)):
            rows = {name: given for name, given in files.items() if name.startswith(kind)}
            for at in range(each):
                name = f"{kind}-{'ab'[at]}"
                self._write(folder / f"{self._batches:04d}-{name}.{self._extension}", rows.get(name, []), kind)
        self._batches += 1

    def _write(self, path, rows, kind):
        names = dict.fromkeys(["op", "id"] if kind == "changes" else ["id", "text", "x", "y"])
        names |= dict.fromkeys(name for row in rows for name in row)
        # Put in place complete, as whoever feeds a stream must: it may look at any moment.
        draft = path.with_name(f".{path.name}").with_suffix(path.suffix)
        write_table(draft, rows, list(names))
        os.utime(draft, (_FIRST_SECOND + self._files,) * 2)
        draft.replace(path)
        self._files += 1


def as_rows(deliveries):
    return [tuple(_plain(getattr(each, name)) for name in COLUMNS) for each in deliveries]


def rows_of(table):
    """Return deliveries of a table, or of dicts, as `as_rows` does."""
    rows = table.to_pylist() if isinstance(table, pa.Table) else table
    return [tuple(map(_plain, values_in(row))) for row in rows]


def _plain(value):
    if not isinstance(value, datetime):
        return value
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parts_of(out, batch):
    """Return the rows of each part of a batch."""
    found = []
    for path in sorted(out.glob(f"part-{batch:08d}-*")):
        if path.suffix == ".parquet":
            found.append(rows_of(pq.read_table(path)))
        else:
            found.append(rows_of([json.loads(line) for line in path.read_text().splitlines()]))
    return found


def contents(out):
    """Return all that a reader of a folder of deliveries sees: names and bytes."""
    shown = (path for path in out.rglob("*") if path.is_file() and "_staging" not in path.parts)
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in shown}
