"""What is remembered of webhooks: attempts, events to be tried again, dead letters, the state of each endpoint.

Reads and writes tables of an SQLite database by `apsw`, in WAL mode with `synchronous=FULL`: an event that is among the
retries or the dead letters may be acknowledged to the outbox.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import apsw

from nearcast.server.transactions import transaction

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS attempts (
        number INTEGER PRIMARY KEY, subscriber TEXT NOT NULL, event_id TEXT NOT NULL, message_id TEXT,
        cursor TEXT NOT NULL, at REAL NOT NULL, status INTEGER NOT NULL, reason TEXT NOT NULL);
    CREATE INDEX IF NOT EXISTS attempts_by_message ON attempts (message_id);
    CREATE INDEX IF NOT EXISTS attempts_by_subscriber ON attempts (subscriber, number);
    CREATE INDEX IF NOT EXISTS attempts_by_event ON attempts (event_id);
    CREATE INDEX IF NOT EXISTS attempts_by_time ON attempts (at);
    CREATE TABLE IF NOT EXISTS retries (
        subscriber TEXT NOT NULL, event_id TEXT NOT NULL, message_id TEXT, cursor TEXT NOT NULL, body BLOB NOT NULL,
        first REAL NOT NULL, n_tries INTEGER NOT NULL, due REAL NOT NULL, PRIMARY KEY (subscriber, event_id));
    CREATE TABLE IF NOT EXISTS dead_letters (
        number INTEGER PRIMARY KEY, subscriber TEXT NOT NULL, event_id TEXT NOT NULL, message_id TEXT,
        cursor TEXT NOT NULL, body BLOB NOT NULL, at REAL NOT NULL, reason TEXT NOT NULL);
    CREATE INDEX IF NOT EXISTS dead_letters_by_subscriber ON dead_letters (subscriber, number);
    CREATE TABLE IF NOT EXISTS endpoints (
        subscriber TEXT PRIMARY KEY, disabled TEXT NOT NULL, failing_since REAL, n_failures INTEGER NOT NULL);
"""


@dataclass(frozen=True)
class Attempt:
    """A request that was made: status 0 where no answer came, and then `reason` says why."""

    subscriber: str
    event_id: str
    message_id: str | None
    cursor: str
    at: float
    status: int
    reason: str


@dataclass(frozen=True)
class Retry:
    """An event that will be tried again: its body, when it was first tried, how often since, when it is due."""

    subscriber: str
    event_id: str
    message_id: str | None
    cursor: str
    body: bytes
    first: float
    n_tries: int
    due: float


@dataclass(frozen=True)
class DeadLetter:
    """An event that was given up, with the last reason; `number` is 0 until it is stored."""

    number: int
    subscriber: str
    event_id: str
    message_id: str | None
    cursor: str
    body: bytes
    at: float
    reason: str


@dataclass(frozen=True)
class EndpointState:
    """Whether an endpoint is disabled, and why; since when it fails, and how often in a row."""

    subscriber: str
    disabled: str = ""
    failing_since: float | None = None
    n_failures: int = 0


@dataclass(frozen=True)
class AttemptOutcome:
    """What one attempt changes: the attempt itself, the endpoint, and the event if it waits or is given up."""

    attempt: Attempt
    endpoint: EndpointState
    retry: Retry | None = None
    dead_letter: DeadLetter | None = None


Row = TypeVar("Row", Attempt, Retry, DeadLetter, EndpointState)


class AttemptStore:
    """The tables of webhooks in the database of a tenant; any thread may call it, one at a time gets in."""

    def __init__(self, path: str | Path):
        self._lock, self._listing, self._path = threading.Lock(), threading.Lock(), path
        self._connection = apsw.Connection(str(path))
        self._connection.set_busy_timeout(10_000)  # while `upkeep` empties the write-ahead log
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA secure_delete = ON")  # of what is erased nothing stays in free pages
        self._connection.execute(_SCHEMA)
        #: For lists, which may look through all there is: no webhook waits for who reads them.
        self._lister = apsw.Connection(str(path))
        self._lister.set_busy_timeout(10_000)

    def close(self) -> None:
        """Close the database."""
        with self._lock, self._listing:
            self._lister.close()
            self._connection.close()

    def record(self, outcomes: Iterable[AttemptOutcome]) -> None:
        """Store outcomes in one transaction, which is on disk when this returns."""
        with self._lock, transaction(self._connection, self._path):
            for outcome in outcomes:
                attempt = outcome.attempt
                self._insert("attempts", attempt, number=None)
                self._insert("endpoints", outcome.endpoint)
                if outcome.retry is None:
                    self._delete("retries", subscriber=attempt.subscriber, event_id=attempt.event_id)
                else:
                    self._insert("retries", outcome.retry)
                if outcome.dead_letter is not None:
                    self._insert("dead_letters", outcome.dead_letter, number=None)

    def set_endpoint(self, state: EndpointState) -> None:
        """Store the state of an endpoint."""
        with self._lock, transaction(self._connection, self._path):
            self._insert("endpoints", state)

    def endpoint(self, subscriber: str) -> EndpointState:
        """Return the state of an endpoint."""
        return self.known_endpoint(subscriber) or EndpointState(subscriber)

    def known_endpoint(self, subscriber: str) -> EndpointState | None:
        """Return the state of an endpoint that was sent something, else None."""
        with self._lock:
            return next(self._rows("endpoints", EndpointState, "WHERE subscriber = ?", subscriber), None)

    def retries(self, subscriber: str, limit: int = 1000) -> list[Retry]:
        """Return the events of a subscriber that will be tried again, those due first first."""
        with self._lock:
            return [*self._rows("retries", Retry, "WHERE subscriber = ? ORDER BY due LIMIT ?", subscriber, limit)]

    def attempts(
        self,
        *,
        subscriber: str | None = None,
        message_id: str | None = None,
        is_accepted: bool | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[tuple[int, Attempt]]:
        """Return numbered attempts, the newest first: of a subscriber, about a message, made before a number."""
        asked = {"subscriber = ?": subscriber, "message_id = ?": message_id, "number < ?": before}
        asked["(status BETWEEN 200 AND 299) = ?"] = is_accepted
        where, values = _where(asked)
        with self._listing:
            statement = f"SELECT * FROM attempts {where} ORDER BY number DESC LIMIT ?"
            return [(row[0], Attempt(*row[1:])) for row in self._lister.execute(statement, (*values, limit))]

    def cursor_of(self, subscriber: str, event_id: str) -> str | None:
        """Return the cursor of an event that was sent to a subscriber."""
        statement = "SELECT cursor FROM attempts WHERE subscriber = ? AND event_id = ? LIMIT 1"
        with self._lock:
            return next((cursor for (cursor,) in self._connection.execute(statement, (subscriber, event_id))), None)

    def dead_letters_numbered(self, numbers: Iterable[int], subscriber: str | None = None) -> list[DeadLetter]:
        """Return the dead letters of some numbers, those of a subscriber where given."""
        where = "WHERE number = ? AND (? IS NULL OR subscriber = ?)"
        with self._lock:
            found = (self._rows("dead_letters", DeadLetter, where, each, subscriber, subscriber) for each in numbers)
            return [letter for letters in found for letter in letters]

    def dead_letters(self, subscriber: str | None = None, *, after: int = 0, limit: int = 100) -> list[DeadLetter]:
        """Return dead letters after a number, in order."""
        where, values = _where({"subscriber = ?": subscriber, "number > ?": after})
        with self._lock:
            return [*self._rows("dead_letters", DeadLetter, f"{where} ORDER BY number LIMIT ?", *values, limit)]

    def revive(self, numbers: Iterable[int], now: float) -> int:
        """Make dead letters events to be tried now; return how many there were."""
        with self._lock, transaction(self._connection, self._path):
            n_revived = 0
            for number in numbers:
                for letter in [*self._rows("dead_letters", DeadLetter, "WHERE number = ?", number)]:
                    self._insert("retries", _revived(letter, now))
                    self._delete("dead_letters", number=number)
                    n_revived += 1
        return n_revived

    def put_back(self, retries: Iterable[Retry]) -> None:
        """Store events to be tried again, as somebody asked for it."""
        with self._lock, transaction(self._connection, self._path):
            for retry in retries:
                self._insert("retries", retry)

    def erase(self, subscriber: str) -> None:
        """Forget all about a subscriber."""
        with self._lock, transaction(self._connection, self._path):
            for table in ("attempts", "retries", "dead_letters", "endpoints"):
                self._delete(table, subscriber=subscriber)

    def drop_before(self, moment: float, sent_to: Collection[str] = ()) -> int:
        """Forget attempts and dead letters that are older, and events that were due before: return how many of these.

        Those of subscribers in `sent_to` stay, unless they are disabled: their turn comes, or they are given up.
        """
        with self._lock, transaction(self._connection, self._path):
            self._connection.execute("DELETE FROM attempts WHERE at < ?", (moment,))
            self._connection.execute("DELETE FROM dead_letters WHERE at < ?", (moment,))
            return sum(self._drop_overdue(subscriber, moment) for subscriber in self._overdue(moment, sent_to))

    def _overdue(self, moment: float, sent_to: Collection[str]) -> list[str]:
        """Return the subscribers to whom nothing is sent that have events which were due before a moment."""
        statement = """
            SELECT DISTINCT subscriber, subscriber IN (SELECT subscriber FROM endpoints WHERE disabled != '')
            FROM retries WHERE due < ?
        """
        found = self._connection.execute(statement, (moment,))
        return [subscriber for subscriber, is_disabled in found if is_disabled or subscriber not in sent_to]

    def _drop_overdue(self, subscriber: str, moment: float) -> int:
        self._connection.execute("DELETE FROM retries WHERE subscriber = ? AND due < ?", (subscriber, moment))
        return int(self._connection.changes())

    def _insert(self, table: str, row: Any, **more: Any) -> None:
        values = {each.name: getattr(row, each.name) for each in fields(row)} | more
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        self._connection.execute(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))

    def _delete(self, table: str, **equal: Any) -> None:
        where = " AND ".join(f"{name} = ?" for name in equal)
        self._connection.execute(f"DELETE FROM {table} WHERE {where}", tuple(equal.values()))

    def _rows(self, table: str, kind: type[Row], where: str, *values: Any) -> Iterator[Row]:
        names = ", ".join(each.name for each in fields(kind))
        for row in self._connection.execute(f"SELECT {names} FROM {table} {where}", values):
            yield kind(*row)


def _where(asked: dict[str, Any]) -> tuple[str, list[Any]]:
    """Return the condition of a query, of those that were asked for, and its values."""
    given = {condition: value for condition, value in asked.items() if value is not None}
    return ("WHERE " + " AND ".join(given) if given else "", list(given.values()))


def _revived(letter: DeadLetter, now: float) -> Retry:
    return Retry(
        subscriber=letter.subscriber,
        event_id=letter.event_id,
        message_id=letter.message_id,
        cursor=letter.cursor,
        body=letter.body,
        first=now,
        n_tries=0,
        due=now,
    )
