"""Who calls, and whether they may: from a bearer token, or from loopback, to a tenant and scopes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from nearcast.errors import NearcastError
from nearcast.server.hosts import check_host
from nearcast.server.problems import Problem
from nearcast.server.rates import TokenRates
from nearcast.server.settings import Settings
from nearcast.server.tenants import Tenant, Tenants
from nearcast.server.tokens import SCOPES, Token, TokenStore

#: Headers that proxies add: behind one on the same machine, whoever reaches it would be an admin without a token.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
_ANYBODY = Token(id="loopback", tenant="default", scopes=SCOPES, name="without a token, on loopback")


@dataclass(frozen=True)
class Caller:
    """A token and the tenant whose world it opens."""

    token: Token
    tenant: Tenant

    @property
    def is_admin(self) -> bool:
        """Tell whether the whole tenant is theirs."""
        return "admin" in self.token.scopes

    def check_scope(self, *scopes: str) -> None:
        """Raise unless the token has one of these scopes; `admin` has them all."""
        if not self.is_admin and not set(scopes) & set(self.token.scopes):
            raise Problem(403, "scope", f"the token lacks the scope {' or '.join(scopes)}")

    def check_subscriber(self, subscriber: str | None) -> None:
        """Raise unless the token may act for a subscriber; one that is bound may for its own alone."""
        bound = self.token.subscriber
        if bound is not None and subscriber != bound:
            raise Problem(403, "other-subscriber", "the token is bound to another subscriber")

    def check_unbound(self) -> None:
        """Raise if the token is bound to a subscriber: what it asks for would tell of others."""
        if self.token.subscriber is not None:
            raise Problem(403, "bound-token", "a token that is bound to a subscriber sees its own things only")


class TokenEnded(NearcastError):
    """The token of a stream has expired, or was revoked, since the stream was opened."""


class TokenWatch:
    """Looks now and then whether the token of a stream is still valid."""

    def __init__(self, tokens: TokenStore, token: Token, every_s: float):
        self._tokens, self._token, self._every_s = tokens, token, every_s
        self._next = time.monotonic() + every_s

    def check(self) -> None:
        """Raise if the token has ended; quick where it was looked at a moment ago."""
        now = time.monotonic()
        if now < self._next or self._token is _ANYBODY:
            return
        self._next = now + self._every_s
        if not self._tokens.is_valid(self._token.id):
            raise TokenEnded("the token has expired or was revoked")


class Access:
    """Finds the caller of a request."""

    def __init__(self, settings: Settings, tokens: TokenStore, tenants: Tenants):
        self._settings, self.tokens, self._tenants = settings, tokens, tenants
        self._rates = TokenRates(settings.limits.rate)

    async def caller(self, connection: HTTPConnection, *scopes: str) -> Caller:
        """Return who calls; raise if they may not, or call too often."""
        if self._settings.is_loopback:
            check_host(connection.headers, self._settings.server.allowed_hosts)
        token = self._token(connection)
        self.take(token)
        found = Caller(token, await self._tenants.get(token.tenant))
        state = connection.scope.setdefault("state", {})
        state["metrics"], state["watch"] = found.tenant.metrics, self._watch(token)
        if scopes:
            found.check_scope(*scopes)
        return found

    def _watch(self, token: Token) -> TokenWatch:
        """Return what looks after the token, should the request become a stream."""
        return TokenWatch(self.tokens, token, self._settings.limits.keep_alive_seconds)

    def check_again(self, token: Token) -> None:
        """Raise if the token of a request that has waited ended meanwhile."""
        if token is not _ANYBODY and not self.tokens.is_valid(token.id):
            raise _unauthorized("the token has expired or was revoked")

    def take(self, token: Token) -> None:
        """Count a request, or what a client sends over a socket; raise if the token makes too many."""
        self._rates.take(token.id)

    def _token(self, connection: HTTPConnection) -> Token:
        given = connection.headers.get("authorization")
        if given is None:
            if self._settings.needs_tokens:
                raise _unauthorized("send Authorization: Bearer nc_…; make a token with: nearcast token create")
            if self._settings.server.require_tokens is None and any(name in connection.headers for name in _FORWARDED):
                raise _unauthorized(
                    "the request came through a proxy, and not from this machine: send Authorization: Bearer nc_…, "
                    "or let server.require_tokens be false"
                )
            return _ANYBODY
        kind, _, secret = given.partition(" ")
        token = self.tokens.find(secret.strip()) if kind.lower() == "bearer" else None
        if token is None:
            raise _unauthorized("the token is unknown, has expired or was revoked")
        return token


def _unauthorized(detail: str) -> Problem:
    return Problem(401, "unauthorized", detail, headers={"WWW-Authenticate": 'Bearer realm="nearcast"'})
