"""The way past an input that stops a durable hub whenever it is applied: it is marked in the log, and skipped."""

from __future__ import annotations

from pathlib import Path

from nearcast.durable.folder import DurableFolder
from nearcast.errors import InvalidInput


def leave_out(folder: str | Path, number: int, reason: str = "left out by hand") -> None:
    """Mark an input of a durable hub that nobody has open, so that replay skips it like one that raised an error.

    The hub then is as if that call had never been made. Errors that name such an input come from opening the folder.
    """
    held = DurableFolder.existing(folder)
    try:
        log = held.log(held.options()["durability"])
        try:
            newest = max(held.snapshots(), default=0)
            if not max(log.first, newest + 1) <= number <= log.last:
                raise InvalidInput(
                    f"number is {number}; expected {max(log.first, newest + 1)} to {log.last}: the inputs that are "
                    f"applied when {folder} is opened",
                    field="number",
                )
            log.mark(number, reason)
            log.write_marks()
        finally:
            log.close()
    finally:
        held.release()
