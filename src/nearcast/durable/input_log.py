"""A write-ahead log of inputs: rows of an SQLite database in WAL mode, appended in transactions that end with an fsync.

Reads and writes `log.db`. One connection writes, of one thread, in `locking_mode=EXCLUSIVE`. SQLite comes with `apsw`:
the copy in most Pythons is older than 3.51.3, which mended a rare loss of commits when a WAL is reset.
"""

from __future__ import annotations

import bisect
import ctypes
import hashlib
import itertools
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

try:
    import apsw
except ImportError:
    raise ImportError("durable hubs need apsw; install it with: pip install 'nearcast[durable]'") from None

from nearcast.durable.outbox.acks import ACKS_SCHEMA, AckEntry, AckRemoval
from nearcast.durable.receipt_clock import ReceiptClock
from nearcast.durable.wal_frames import WalFrames
from nearcast.errors import FileUnavailable, IncompatibleStore, InvalidInput, NearcastError, StoreUnavailable
from nearcast.saved_files.contents import damaged

#: Whether each transaction is synced to disk, or only what a snapshot or a checkpoint of the WAL stands on.
DURABILITIES = ("full", "relaxed")
#: Keys are remembered for this many inputs.
REMEMBERED_KEYS = 1_000_000
#: Frames of the WAL after which its pages are copied into the database: about 16 MB.
_CHECKPOINT_FRAMES = 4000
#: Pages that are copied at a time: a megabyte.
_COPIED_AT_ONCE = 256
#: Bytes of inputs that are trimmed in one transaction.
_TRIMMED_AT_ONCE = 8 << 20
_SCHEMA = """
    CREATE TABLE inputs (number INTEGER PRIMARY KEY, data BLOB NOT NULL, error TEXT, received INTEGER);
    CREATE TABLE keys (key TEXT PRIMARY KEY, number INTEGER NOT NULL, digest BLOB NOT NULL) WITHOUT ROWID;
    CREATE INDEX keys_by_number ON keys (number);
"""
_SCHEMA += f"{ACKS_SCHEMA} CREATE TABLE erasures (number INTEGER PRIMARY KEY);"


@dataclass(eq=False)
class LogEntry:
    """An input on its way into the log; `number` is 0 until it is there, and stays 0 for a repeat."""

    data: bytes
    key: str | None = None
    #: What the key stands for, where that is not `data`.
    identity: bytes | None = None
    number: int = 0
    #: The time of receipt in microseconds since 1970, where the log has a clock.
    received: int | None = None
    #: Why it was not logged: its key was used for another input.
    refused: InvalidInput | None = None
    #: Whether nothing of the inputs before it may be left on disk when it is trimmed.
    is_erasure: bool = False
    #: The entry of the same transaction that this one repeats, and the error that an input raised when it was made.
    repeats: LogEntry | None = None
    error: NearcastError | None = None


class LogRow(NamedTuple):
    """An input of the log, with the message of the error that it raised, if it did, and the time of its receipt."""

    number: int
    data: bytes
    error: str | None
    received: int | None


class InputLog:
    """Inputs numbered from 1 on without gaps, the errors that they raised, and keys against repeats."""

    def __init__(self, path: Path, durability: str = "full", *, repairs: bool = True):
        self.path, self.is_relaxed = path, durability == "relaxed"
        #: What stamps inputs, None: nothing does.
        self.clock: ReceiptClock | None = None
        self.n_transactions = 0
        self._marks: dict[int, str] = {}
        self._removals: list[AckRemoval] = []
        with self._opening():
            frames = WalFrames.of(path)
            self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
            _configure(self._connection)
            if self.is_relaxed:
                self._connection.execute("PRAGMA synchronous = NORMAL")
            self._check(frames)
            if repairs:
                self._empty_wal()
            self.first, self.last = self._numbers()

    @staticmethod
    def create(path: Path) -> None:
        """Make an empty log; whoever calls makes the folder durable."""
        connection = apsw.Connection(str(path))
        _configure(connection)
        with connection:
            connection.execute(_SCHEMA)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.close()

    # Reading

    def _check(self, frames: WalFrames) -> None:
        """Refuse damage: of the database, and of commits in the WAL that others follow; a torn tail is cut."""
        for (found,) in self._connection.execute("PRAGMA quick_check"):
            if found != "ok":
                raise damaged(str(self.path), found)
        n_read = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0]
        frames.check(n_read, is_synced=not self.is_relaxed)

    def _numbers(self) -> tuple[int, int]:
        """Return the numbers of the first and the last input; of an empty log the next one and the one before it."""
        ((first, last, count),) = self._connection.execute("SELECT min(number), max(number), count(*) FROM inputs")
        if count and last - first + 1 != count:
            raise damaged(str(self.path), f"{last - first + 1 - count} of inputs {first} to {last} are missing")
        return (first, last) if count else (1, 0)

    def last_received(self) -> int | None:
        """Return the time of receipt of the last input."""
        with self._opening():
            return self._connection.execute("SELECT max(received) FROM inputs WHERE number = ?", (self.last,)).get  # type: ignore[no-any-return]

    def _empty_wal(self) -> None:
        """Begin another generation of the WAL: what is left of a torn tail would look like one of its commits."""
        with suppress(apsw.FullError):  # reading goes on
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def rows(self, after: int) -> Iterator[LogRow]:
        """Yield the inputs after a number, in order."""
        with self._opening():
            found = self._connection.execute(
                "SELECT number, data, error, received FROM inputs WHERE number > ? ORDER BY number", (after,)
            )
            yield from (LogRow(*row) for row in found)

    def acks(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield the rows of acknowledgements: subscriber, step, row, ordinal."""
        with self._opening():
            yield from self._connection.execute("SELECT subscriber, step, row, ordinal FROM acks")

    @contextmanager
    def _opening(self) -> Iterator[None]:
        try:
            yield
        except (apsw.CorruptError, apsw.NotADBError) as error:
            raise damaged(str(self.path), str(error)) from None
        except (apsw.CantOpenError, apsw.IOError, apsw.BusyError) as error:
            raise StoreUnavailable(f"{self.path} cannot be read ({error}); see to the disk, or try again") from None
        except apsw.SQLError as error:
            raise IncompatibleStore(f"{self.path} is no log of inputs ({error}); bring it back from a copy") from None

    # Writing

    def append(self, entries: Iterable[LogEntry | AckEntry]) -> None:
        """Log entries in one transaction, which is on disk when this returns (unless relaxed), and number them.

        One whose key was used is left out: a repeat keeps the number 0, another input under the key is `refused`.
        `FileUnavailable` if the disk is full: nothing was logged. Any other `apsw.Error` leaves open whether it was,
        and must never be tried again: after a failed fsync the next one may succeed without having written.
        """
        entries, by_key = list(entries), dict[str, LogEntry]()
        number, received = self.last, None if self.clock is None else self.clock.now()
        with self._transaction():
            for entry in entries:
                if isinstance(entry, AckEntry):
                    entry.write(self._connection)
                    continue
                if entry.key is not None and not self._take_key(entry, number + 1):
                    entry.repeats = by_key.get(entry.key)
                    continue
                number += 1
                if entry.key is not None:
                    by_key[entry.key] = entry
                self._connection.execute("INSERT INTO inputs VALUES (?, ?, NULL, ?)", (number, entry.data, received))
                if entry.is_erasure:
                    self._connection.execute("INSERT INTO erasures VALUES (?)", (number,))
                entry.number, entry.received = number, received
        self.last = number
        self._checkpoint()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Run a transaction that begins with the marks that wait."""
        marks, removals, connection = dict(self._marks), list(self._removals), self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for number, error in marks.items():
                connection.execute("UPDATE inputs SET error = ? WHERE number = ?", (error, number))
                connection.execute("DELETE FROM keys WHERE number = ?", (number,))
            for removal in removals:
                removal.write(connection)
            yield
            connection.execute("COMMIT")
        except apsw.FullError:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise self._full() from None
        self.n_transactions += 1
        for number in marks:
            del self._marks[number]
        del self._removals[: len(removals)]

    def _full(self) -> FileUnavailable:
        return FileUnavailable(f"the disk of {self.path} is full; nothing was stored; make room and try again")

    def _take_key(self, entry: LogEntry, number: int) -> bool:
        """Note the key of an entry; tell whether it is new."""
        digest = hashlib.blake2b(entry.identity or entry.data, digest_size=16).digest()
        for (known,) in self._connection.execute("SELECT digest FROM keys WHERE key = ?", (entry.key,)):
            if known != digest:
                entry.refused = InvalidInput(
                    f"key {entry.key!r} was used for other messages; give another", field="key"
                )
            return False
        self._connection.execute("INSERT INTO keys VALUES (?, ?, ?)", (entry.key, number, digest))
        return True

    def mark(self, number: int, error: str) -> None:
        """Note that an input raised an error; written with the next transaction, for replay would raise it again."""
        self._marks[number] = error

    def write_later(self, removal: AckRemoval) -> None:
        """Remove an acknowledgement with the next transaction; replay would remove it again."""
        self._removals.append(removal)

    def write_marks(self) -> None:
        """Write the marks and removals that wait, in a transaction of their own."""
        if self._marks or self._removals:
            with self._transaction():
                pass

    def trim(self, number: int) -> bool:
        """Forget inputs up to a number, some megabytes at a time, and at last keys that are long past.

        True while there are more of them: others need not wait for all. Of erasures among them no byte is left.
        """
        if self.first <= number:
            last = self._end_of_portion(number)
            with self._transaction():
                self._connection.execute("DELETE FROM inputs WHERE number <= ?", (last,))
                if last == number:
                    self._connection.execute("DELETE FROM keys WHERE number <= ?", (self.last - REMEMBERED_KEYS,))
            self.first = last + 1
        if self.first <= number:
            return True
        if self._connection.execute("SELECT count(*) FROM erasures WHERE number <= ?", (number,)).get:
            self._overwrite()
            with self._transaction():
                self._connection.execute("DELETE FROM erasures WHERE number <= ?", (number,))
        return False

    def oldest_erasure(self) -> int | None:
        """Return the time of receipt of the oldest erasure that is in the log, None if there is none."""
        statement = "SELECT min(received) FROM inputs WHERE number IN (SELECT number FROM erasures)"
        return self._connection.execute(statement).get  # type: ignore[no-any-return]

    def _end_of_portion(self, number: int) -> int:
        """Return the last input to be trimmed at once."""
        found: list[tuple[Any, ...]] = self._connection.execute(
            "SELECT number, length(data) FROM inputs WHERE number <= ? ORDER BY number LIMIT 10000", (number,)
        ).fetchall()
        n_fit = bisect.bisect_left(list(itertools.accumulate(length for _, length in found)), _TRIMMED_AT_ONCE)
        return int(found[min(n_fit, len(found) - 1)][0])

    def sync(self) -> None:
        """Have all transactions on disk; with full durability they are."""
        if not self.is_relaxed:
            return
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.FullError:
            raise self._full() from None

    def _overwrite(self) -> None:
        """Write the database anew without the pages that are free, where deleted rows still stand."""
        try:
            self._connection.execute("VACUUM")
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.FullError:
            raise FileUnavailable(f"the disk of {self.path} is full; what was erased is still in it") from None

    def _checkpoint(self) -> None:
        """Copy the pages of a long WAL into the database, so that it begins again; a full disk puts it off."""
        if self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0] < _CHECKPOINT_FRAMES:
            return
        with suppress(apsw.FullError):  # all is in the WAL, and the next transaction tries again
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def copied(self, path: Path) -> Iterator[int]:
        """Copy the log into a new database, a megabyte at a time; yields how many pages are left.

        To be iterated over in the thread that writes, between transactions: what they change is copied again.
        """
        try:
            target = apsw.Connection(str(path))
            try:
                with target.backup("main", self._connection, "main") as copy:
                    n_pages, left = _COPIED_AT_ONCE, sys.maxsize
                    while not copy.step(n_pages):
                        if copy.remaining >= left:  # as much is added as is copied
                            n_pages *= 2
                        left = copy.remaining
                        yield left
            finally:
                target.close()
        except apsw.Error as error:
            raise FileUnavailable(f"{self.path} could not be copied to {path} ({error}); make room there") from None

    def close(self, *, writes: bool = True) -> None:
        """Close the connection; with `writes`, first write the marks that wait and empty the WAL."""
        with suppress(apsw.Error, FileUnavailable):  # the WAL has it all
            if writes:
                self._finish()
        self._connection.close()

    def _finish(self) -> None:
        self.write_marks()
        self._empty_wal()

    def abandon(self) -> None:
        """Never touch the connection again, in a process that was forked: it belongs to the parent."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))


def _configure(connection: Any) -> None:
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")  # its failures would be silent
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
