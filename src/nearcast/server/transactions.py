"""Transactions of the server's databases. A full disk takes back all of one, by SQLite itself or here, and passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from nearcast.errors import FileUnavailable


@contextmanager
def transaction(connection: Any, path: str | Path) -> Iterator[None]:
    """Run a transaction; `FileUnavailable` if the disk is full. apsw's own cannot: it takes back what is taken back."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    except BaseException as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if isinstance(error, apsw.FullError):
            message = f"the disk of {path} is full; nothing was stored; make room and try again"
            raise FileUnavailable(message) from None
        raise


def empty_wal(path: Path) -> None:
    """Copy the write-ahead log of a database into it and cut it off: rows that were deleted still stand there.

    Raises if somebody reads or writes meanwhile: writers would wait as long as this does.
    """
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(100)
        connection.execute("SELECT count(*) FROM sqlite_schema")  # until it reads, it knows of no write-ahead log
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        connection.close()
