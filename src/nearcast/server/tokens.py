"""Tokens: random secrets shown once and kept as SHA-256 in an SQLite database, each with a tenant and scopes."""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import apsw

from nearcast.errors import InvalidInput
from nearcast.geo.shapes import shorten
from nearcast.model import checked_time
from nearcast.saved_files.folder import make_folder
from nearcast.server.transactions import transaction

SCOPES = ("publish", "subscribe", "location", "admin")
PREFIX = "nc_"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
#: Seconds for which a token that expired is still listed.
_LISTED_S = 30 * 86_400
_SCHEMA = """
    CREATE TABLE IF NOT EXISTS tokens (
        digest BLOB PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, scopes TEXT NOT NULL, subscriber TEXT,
        name TEXT NOT NULL, created REAL NOT NULL, expires REAL
    ) WITHOUT ROWID;
"""
_COLUMNS = "id, tenant, scopes, subscriber, name, created, expires"


@dataclass(frozen=True)
class Token:
    """What is known of a token: never the secret."""

    id: str
    tenant: str
    scopes: tuple[str, ...]
    subscriber: str | None = None
    name: str = ""
    created: float = 0.0
    expires: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the token as the API shows it."""
        return {**vars(self), "scopes": list(self.scopes)}


def is_name(value: Any) -> TypeGuard[str]:
    """Tell whether a value can name a tenant, subscriber or subscription: not where it would lead out of its path."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None and set(value) != {"."}


def checked_name(value: Any, field: str) -> str:
    """Return a name of a tenant, subscriber or subscription: letters, digits, dot, dash and underscore."""
    if not is_name(value):
        raise InvalidInput(
            f"{field} is {shorten(value)}; expected 1 to 100 letters, digits, '.', '-' or '_'", field=field
        )
    return value


def checked_end(given: Any) -> float | None:
    """Return when a token shall end, in seconds since 1970, None for never; what is over already is refused."""
    moment = checked_time(given, "expires")
    if moment is None:
        return None
    if moment.timestamp() <= time.time():
        raise InvalidInput(f"expires is {shorten(given)}, which is in the past; give a later time", field="expires")
    return moment.timestamp()


class TokenStore:
    """The tokens of all tenants, in one file that the server and the command may open at the same time."""

    def __init__(self, path: Path):
        self._lock, self._finding, self.path = threading.Lock(), threading.Lock(), path
        make_folder(path.parent)
        self._connection = apsw.Connection(str(path))
        self._connection.set_busy_timeout(10_000)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA secure_delete = ON")  # of a token that was revoked nothing stays in free pages
        #: The loop finds tokens by it, and waits neither for who writes one nor for who lists all.
        self._finder = apsw.Connection(str(path))
        self._finder.set_busy_timeout(10_000)
        with self._connection:
            self._connection.execute(_SCHEMA)
        path.chmod(0o600)

    def create(
        self,
        tenant: str,
        scopes: Any,
        *,
        subscriber: str | None = None,
        name: str = "",
        expires: float | None = None,
    ) -> tuple[str, Token]:
        """Make a token; return its secret, which is shown this once, and what is kept of it."""
        if not isinstance(scopes, list | tuple) or not scopes or not set(map(str, scopes)) <= set(SCOPES):
            raise InvalidInput(f"scopes is {shorten(scopes)}; expected some of {', '.join(SCOPES)}", field="scopes")
        if subscriber is not None:
            checked_name(subscriber, "subscriber")
        if subscriber is not None and "admin" in scopes:
            raise InvalidInput("a token that is bound to a subscriber cannot be of scope admin", field="scopes")
        secret = PREFIX + secrets.token_urlsafe(32)
        kept = Token(
            id=secrets.token_hex(8),
            tenant=checked_name(tenant, "tenant"),
            scopes=tuple(scope for scope in SCOPES if scope in scopes),
            subscriber=subscriber,
            name=name,
            created=time.time(),
            expires=expires,
        )
        row = (_digest(secret), kept.id, kept.tenant, ",".join(kept.scopes), subscriber, name, kept.created, expires)
        with self._lock, transaction(self._connection, self.path):
            self._connection.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        return secret, kept

    def find(self, secret: str) -> Token | None:
        """Return the token of a secret, None if there is none or it has expired."""
        found = self._found("digest = ? AND (expires IS NULL OR expires > ?)", (_digest(secret), time.time()))
        return found[0] if found else None

    def is_valid(self, token_id: str) -> bool:
        """Tell whether there is a token of an id that has not expired."""
        return bool(self._found("id = ? AND (expires IS NULL OR expires > ?)", (token_id, time.time())))

    def of_tenant(self, tenant: str | None) -> list[Token]:
        """Return the tokens of a tenant, or of all of them, oldest first."""
        where, values = ("", ()) if tenant is None else ("WHERE tenant = ?", (tenant,))
        with self._lock:
            statement = f"SELECT {_COLUMNS} FROM tokens {where} ORDER BY created"
            return [_token(row) for row in self._connection.execute(statement, values)]

    def revoke(self, tenant: str | None, token_id: str) -> bool:
        """Forget a token by its id; tell whether there was one."""
        statement = "DELETE FROM tokens WHERE id = ? AND (? IS NULL OR tenant = ?)"
        with self._lock, transaction(self._connection, self.path):
            self._connection.execute(statement, (token_id, tenant, tenant))
            return bool(self._connection.changes())

    def revoke_bound(self, tenant: str, subscriber: str) -> int:
        """Forget the tokens that are bound to a subscriber; return how many there were."""
        with self._lock, transaction(self._connection, self.path):
            self._connection.execute("DELETE FROM tokens WHERE tenant = ? AND subscriber = ?", (tenant, subscriber))
            return int(self._connection.changes())

    def drop_expired(self, now: float) -> int:
        """Forget tokens that expired some weeks before now, in seconds since 1970; return how many there were."""
        with self._lock, transaction(self._connection, self.path):
            self._connection.execute("DELETE FROM tokens WHERE expires < ?", (now - _LISTED_S,))
            return int(self._connection.changes())

    def _found(self, where: str, values: tuple[Any, ...]) -> list[Token]:
        with self._finding:
            return [_token(row) for row in self._finder.execute(f"SELECT {_COLUMNS} FROM tokens WHERE {where}", values)]

    def close(self) -> None:
        """Close the file."""
        with self._finding, suppress(apsw.Error):
            self._finder.close()
        with self._lock, suppress(apsw.Error):
            self._connection.close()


def _token(row: tuple[Any, ...]) -> Token:
    return Token(row[0], row[1], tuple(row[2].split(",")), *row[3:])


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
