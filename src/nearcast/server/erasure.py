"""Erasure of a subscriber in the hub, in `webhooks.db`, `tokens.db` and `server.db`.

It is noted first, so that a crash in between leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nearcast.server.server_db import ServerDb

_NOTE = '{"is_erased":true}'
#: Answers to the keys of requests that made subscriptions have the subscriber in them, those to batches may have ids
#: of its subscriptions in rejected rows.
_FORGET_ANSWERS = """
    DELETE FROM answers WHERE json_valid(CAST(body AS TEXT)) AND (
        json_extract(CAST(body AS TEXT), '$.subscriber') = ?1 OR EXISTS (
            SELECT 1 FROM json_each(CAST(body AS TEXT), '$.rejected') AS rejected
            WHERE rejected.type = 'object' AND json_extract(rejected.value, '$.id') IN (
                SELECT id FROM subscriptions WHERE subscriber = ?1
            )
        )
    )
"""


def begin_erasure(subscriber: str) -> Callable[[Any], None]:
    """Return the writing that notes an erasure."""
    statement = "INSERT OR REPLACE INTO subscribers VALUES (?, ?)"
    return lambda connection: connection.execute(statement, (subscriber, _NOTE)) and None


def end_erasure(subscriber: str) -> Callable[[Any], None]:
    """Return the writing that takes away all rows of a subscriber, and the note."""

    def write(connection: Any) -> None:
        connection.execute(_FORGET_ANSWERS, (subscriber,))  # first: it looks at the subscriptions
        connection.execute("DELETE FROM subscriptions WHERE subscriber = ?", (subscriber,))
        connection.execute("DELETE FROM event_limits WHERE subscriber = ?", (subscriber,))
        connection.execute("DELETE FROM subscribers WHERE id = ?", (subscriber,))

    return write


def make_erasures_again(db: ServerDb, *erasers: Callable[[str], Any]) -> None:
    """Make the erasures that a crash cut off, in the hub and wherever else something is kept."""
    for (subscriber,) in db.read("SELECT id FROM subscribers WHERE body = ?", (_NOTE,)):
        for erase in erasers:
            erase(subscriber)
        db.write(end_erasure(subscriber)).result()
