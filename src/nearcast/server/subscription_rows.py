"""What the server keeps of subscriptions beside the hub, and how a change of both survives a crash.

A change is written to `server.db` first, as an *intent* with the row as it was before; then the hub makes its own
change, which it logs; then the intent is taken away. After a crash between the two, the intent says what the hub should
hold, and it is made again, which changes nothing where the hub has it already. A change that the hub refuses brings
back the row as it was, and the count of its `max_events`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from nearcast.errors import NearcastError
from nearcast.server.server_db import ServerDb
from nearcast.tables.names import EARTH_BOX, EARTH_CIRCLE, PLANE_BOX, PLANE_CIRCLE

#: The hub holds the subscription; it does not, for it is paused; it does not, and the row goes, too.
Intent = Literal["hold", "release", "forget"]

_COLUMNS = "id, subscriber, labels, max_events, is_paused, body, version, number, intent IS NULL"


@dataclass(frozen=True)
class SubscriptionRow:
    """A subscription as the server knows it: `body` has its interchange columns as they were given."""

    id: str
    subscriber: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    max_events: int | None = None
    is_paused: bool = False
    body: dict[str, Any] = field(default_factory=dict)
    version: int = 1
    number: int = 0
    #: Whether no change of it was under way when it was read.
    is_settled: bool = True

    @classmethod
    def of(cls, values: tuple[Any, ...]) -> SubscriptionRow:
        """Return the row of these columns."""
        id_, subscriber, labels, max_events, is_paused, body, version, number, is_settled = values
        return cls(
            id=id_,
            subscriber=subscriber,
            labels=msgspec.json.decode(labels),
            max_events=max_events,
            is_paused=bool(is_paused),
            body=msgspec.json.decode(body),
            version=version,
            number=number,
            is_settled=bool(is_settled),
        )

    def values(self) -> tuple[Any, ...]:
        """Return the columns, without the number."""
        labels, body = _text(self.labels), _text(self.body)
        return (self.id, self.subscriber, labels, self.max_events, int(self.is_paused), body, self.version)

    def has_made(self, held: dict[str, Any], subscriber: str | None, before: SubscriptionRow | None) -> bool:
        """Tell whether what the hub holds, of a subscriber, was made by this row, wherever it is now.

        Where the row before differs in nothing but the place it cannot be told, unless the place is that of this row.
        """
        if subscriber != self.subscriber or _placeless(held) != _placeless(self.body):
            return False
        if before is None or before.is_paused or held == self.body:
            return True
        return before.subscriber != self.subscriber or _placeless(before.body) != _placeless(self.body)


class SubscriptionRows:
    """The rows of one tenant."""

    def __init__(self, db: ServerDb):
        self._db = db

    def get(self, subscription_id: str) -> SubscriptionRow | None:
        """Return a row, None if there is none."""
        found = self._db.read(f"SELECT {_COLUMNS} FROM subscriptions WHERE id = ?", (subscription_id,))
        return SubscriptionRow.of(found[0]) if found else None

    def page(
        self, after: int, limit: int, subscriber: str | None = None, label: tuple[str, str] | None = None
    ) -> list[SubscriptionRow]:
        """Return rows in order of registration, those of one subscriber or label where given."""
        where, values = ["number > ?"], [after]
        if subscriber is not None:
            where.append("subscriber = ?")
            values.append(subscriber)  # type: ignore[arg-type]
        if label is not None:
            where.append("EXISTS (SELECT 1 FROM json_each(labels) WHERE key = ? AND value = ?)")
            values.extend(label)  # type: ignore[arg-type]
        statement = f"SELECT {_COLUMNS} FROM subscriptions WHERE {' AND '.join(where)} ORDER BY number LIMIT ?"
        return [SubscriptionRow.of(row) for row in self._db.scan(statement, (*values, limit))]

    def count(self) -> int:
        """Return how many there are."""
        return int(self._db.read("SELECT count(*) FROM subscriptions")[0][0])

    def intend(
        self, row: SubscriptionRow, intent: Intent, before: SubscriptionRow | None, **beside: Any
    ) -> Callable[[Any], None]:
        """Return the writing of a row, with what the hub should hold of it; `beside` is kept with the row before."""
        earlier = {"row": None if before is None else before.values(), **beside}
        values = (*row.values(), intent, _text(earlier))
        return lambda connection: connection.execute(_UPSERT, values) and None

    def settle(self, row: SubscriptionRow, intent: Intent) -> Callable[[Any], None]:
        """Return the writing that takes an intent away: the hub has made it."""
        if intent == "forget":
            return lambda connection: connection.execute("DELETE FROM subscriptions WHERE id = ?", (row.id,)) and None
        return lambda connection: connection.execute(_SETTLE, (row.id, row.version)) and None

    def bring_back(self, row: SubscriptionRow, before: SubscriptionRow | None) -> Callable[[Any], None]:
        """Return the writing of a row as it was before a change that the hub refused."""
        if before is None:
            return self.settle(row, "forget")
        values = (*before.values(), None, None)
        return lambda connection: connection.execute(_UPSERT, values) and None

    def forget(self, row: SubscriptionRow) -> Callable[[Any], None]:
        """Return the writing that takes away a row that the hub holds no more, unless it has changed since."""
        statement = "DELETE FROM subscriptions WHERE number = ? AND version = ? AND intent IS NULL"
        return lambda connection: connection.execute(statement, (row.number, row.version)) and None

    def make_again(
        self, hold: Callable[[SubscriptionRow, SubscriptionRow | None], Any], release: Callable[[str], Any]
    ) -> int:
        """Let the hub make what a crash cut off; return how many changes that were.

        `hold` is called with a row and the row before it.
        """
        found = self._db.read(f"SELECT {_COLUMNS}, intent, before FROM subscriptions WHERE intent IS NOT NULL")
        for *values, intent, before in found:
            row, kept = SubscriptionRow.of(tuple(values)), _kept(before)
            earlier = None if kept["row"] is None else SubscriptionRow.of((*kept["row"], 0, 1))
            try:
                if intent == "hold":
                    hold(row, earlier)
                else:
                    release(row.id)
                writing = self.settle(row, intent)
            except NearcastError:  # nobody was told that it was made
                writing = self._undoing(row, earlier, kept)
            self._db.write(writing).result()
        return len(found)

    def _undoing(
        self, row: SubscriptionRow, earlier: SubscriptionRow | None, kept: dict[str, Any]
    ) -> Callable[[Any], None]:
        """Return the writing of all that an intent keeps of what was before it."""

        def write(connection: Any) -> None:
            self.bring_back(row, earlier)(connection)
            if "limit" in kept:
                put_limit(connection, row.id, kept["limit"])

        return write


def _kept(before: str | None) -> dict[str, Any]:
    """Return what an intent keeps of what was before it."""
    found = {"row": None} if before is None else msgspec.json.decode(before)
    return {"row": found} if isinstance(found, list) else found  # as written by earlier versions


def put_limit(connection: Any, subscription_id: str, values: Iterable[Any] | None) -> None:
    """Write the row of a subscription's `max_events`, None for none."""
    if values is None:
        connection.execute("DELETE FROM event_limits WHERE id = ?", (subscription_id,))
    else:
        connection.execute("INSERT OR REPLACE INTO event_limits VALUES (?, ?, ?, ?, ?, ?, ?, ?)", tuple(values))


_PLACE = {*EARTH_BOX, *EARTH_CIRCLE[:2], *PLANE_BOX, *PLANE_CIRCLE[:2], "region"}


def _placeless(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in columns.items() if name not in _PLACE}


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def with_next_version(row: SubscriptionRow, before: SubscriptionRow | None, **changes: Any) -> SubscriptionRow:
    """Return a row as the successor of the one before it."""
    return replace(row, version=1 if before is None else before.version + 1, **changes)


_UPSERT = """
    INSERT INTO subscriptions (id, subscriber, labels, max_events, is_paused, body, version, intent, before)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET subscriber = excluded.subscriber, labels = excluded.labels,
        max_events = excluded.max_events, is_paused = excluded.is_paused, body = excluded.body,
        version = excluded.version, intent = excluded.intent, before = excluded.before
"""
_SETTLE = "UPDATE subscriptions SET intent = NULL, before = NULL WHERE id = ? AND version = ?"
