"""`server.db` of a tenant: rows beside its hub, in SQLite; whatever waits is one transaction (group commit)."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import apsw

from nearcast.errors import FileUnavailable, HubStopped, IncompatibleStore
from nearcast.server.transactions import transaction

T = TypeVar("T")
#: What a write does to the connection, inside a transaction.
Writing = Callable[[Any], Any]

_FORMAT = 1
_SCHEMA = """
    CREATE TABLE subscriptions (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, subscriber TEXT, labels TEXT NOT NULL,
        max_events INTEGER, is_paused INTEGER NOT NULL, body TEXT NOT NULL, version INTEGER NOT NULL,
        intent TEXT, before TEXT
    );
    CREATE INDEX subscriptions_of ON subscriptions (subscriber, number);
    CREATE INDEX subscriptions_intent ON subscriptions (intent) WHERE intent IS NOT NULL;
    CREATE TABLE event_limits (
        id TEXT PRIMARY KEY, subscriber TEXT NOT NULL, most INTEGER NOT NULL, since TEXT NOT NULL,
        counted INTEGER NOT NULL, counted_to TEXT NOT NULL, last TEXT, at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE subscribers (id TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE answers (
        key TEXT PRIMARY KEY, digest BLOB NOT NULL, status INTEGER NOT NULL, headers TEXT NOT NULL, body BLOB NOT NULL,
        at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX answers_by_age ON answers (at);
"""


class ServerDb:
    """One connection that writes, in a thread of its own, one that reads rows, and one that reads many.

    The loop reads single rows, by their keys: it must never wait for somebody who looks through a whole table.
    """

    def __init__(self, path: Path):
        self.path = path
        self._writer, self._reader, self._scanner = (self._connection() for _ in range(3))
        self._reading, self._scanning = threading.Lock(), threading.Lock()
        self._make_tables()
        self._queue: queue.SimpleQueue[tuple[Writing, Future[Any]] | None] = queue.SimpleQueue()
        self._stopped = ""
        #: Held for a moment: nothing is queued after the mark of the end, where nobody would answer it.
        self._queueing, self._is_closed = threading.Lock(), False
        self._thread = threading.Thread(target=self._work, name="nearcast-server-db", daemon=True)
        self._thread.start()

    def _connection(self) -> Any:
        connection = apsw.Connection(str(self.path))
        connection.set_busy_timeout(10_000)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # of what is erased nothing stays in free pages
        return connection

    def _make_tables(self) -> None:
        ((found,),) = self._writer.execute("PRAGMA user_version")
        if found == _FORMAT:
            return
        if found:
            raise IncompatibleStore(f"{self.path} is of format {found}, this version knows {_FORMAT}; use a newer one")
        with self._writer:
            self._writer.execute(_SCHEMA)
            self._writer.execute(f"PRAGMA user_version = {_FORMAT}")

    def read(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._reading:
            return list(self._reader.execute(statement, values))

    def scan(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query that may look at many; in a thread."""
        with self._scanning:
            return list(self._scanner.execute(statement, values))

    def write(self, function: Callable[[Any], T]) -> Future[T]:
        """Run a function on the writing connection; what is returned is done when it is on disk (fsync).

        After `close` it is done at once, with `HubStopped`.
        """
        answer: Future[T] = Future()
        with self._queueing:
            if not self._is_closed:
                self._queue.put((function, answer))
                return answer
        answer.set_exception(HubStopped(f"{self.path} was closed; start the server again"))
        return answer

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Future[Any]:
        """Write by one statement."""
        return self.write(lambda connection: connection.execute(statement, values) and None)

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            batch, is_over = [first], False
            while not self._queue.empty():
                waiting = self._queue.get()
                if waiting is None:
                    is_over = True
                    break
                batch.append(waiting)
            # Whoever was cancelled is told nothing; one that is running cannot be cancelled any more.
            self._write([each for each in batch if each[1].set_running_or_notify_cancel()])
            if is_over:
                return

    def _write(self, batch: list[tuple[Writing, Future[Any]]]) -> None:
        """Write in one transaction; a function that raises takes back its own rows alone."""
        found: list[tuple[Any, BaseException | None]] = []
        error: BaseException | None = HubStopped(self._stopped) if self._stopped else None
        if error is None:
            error = self._transaction(batch, found)
        for at, (_, answer) in enumerate(batch):
            result, own = (None, error) if error is not None else found[at]
            if own is None:
                answer.set_result(result)
            else:
                answer.set_exception(own)

    def _transaction(
        self, batch: list[tuple[Writing, Future[Any]]], found: list[tuple[Any, BaseException | None]]
    ) -> BaseException | None:
        """Return what failed for all of them: a full disk, or any other failure, after which nothing is written."""
        try:
            with transaction(self._writer, self.path):
                found.extend(self._one(function) for function, _ in batch)
        except FileUnavailable as error:
            return error
        except BaseException as error:  # noqa: BLE001  whatever it was, what is on disk is not known
            self._stopped = f"{self.path} cannot be written ({type(error).__name__}: {error}); start the server again"
            return HubStopped(self._stopped)
        return None

    def _one(self, function: Writing) -> tuple[Any, BaseException | None]:
        self._writer.execute("SAVEPOINT one")
        try:
            result = function(self._writer)
        except (apsw.FullError, apsw.IOError):
            raise
        except Exception as error:  # noqa: BLE001  told to whoever asked for it
            self._writer.execute("ROLLBACK TO one")
            return None, error
        finally:
            if self._writer.in_transaction:  # a full disk may have ended it
                self._writer.execute("RELEASE one")
        return result, None

    def close(self) -> None:
        """Write what waits, and close."""
        with self._queueing:
            self._is_closed = True
            self._queue.put(None)
        self._thread.join()
        with self._reading, suppress(apsw.Error):
            self._reader.close()
        with self._scanning, suppress(apsw.Error):
            self._scanner.close()
        with suppress(apsw.Error):
            self._writer.close()
