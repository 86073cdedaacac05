"""The sink of a subscriber: the URL that its events are sent to, and the secrets that sign them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from nearcast.errors import InvalidInput
from nearcast.server.webhooks.addresses import AddressPolicy
from nearcast.server.webhooks.signing import check_secret, new_secret

#: Secrets that sign at the same time while they rotate.
_MOST_SECRETS = 3
_FIELDS = {"url", "secrets"}


@dataclass(frozen=True)
class HookSink:
    """A URL with its secrets, the newest first."""

    url: str
    secrets: tuple[str, ...]

    @classmethod
    def from_json(cls, given: Any, policy: AddressPolicy) -> HookSink:
        """Return the sink of a JSON object `{"url", "secrets"?}`; without secrets one is made."""
        if not isinstance(given, dict) or not isinstance(given.get("url"), str):
            raise InvalidInput('sink must be an object like {"url": "https://…"}, or null', field="sink")
        unknown = set(given) - _FIELDS
        if unknown:
            raise InvalidInput(f"sink has an unknown field {min(unknown)!r}; expected url and secrets", field="sink")
        policy.check_url(given["url"])
        return cls(given["url"], _checked_secrets(given.get("secrets")))

    def to_json(self) -> dict[str, Any]:
        """Return the sink as an object; secrets are shown once, when they are made, and not here."""
        return {"url": self.url, "n_secrets": len(self.secrets)}

    def rotated(self) -> HookSink:
        """Return the sink with a new secret before the others; the oldest is dropped when there are too many."""
        return replace(self, secrets=(new_secret(), *self.secrets)[:_MOST_SECRETS])


def _checked_secrets(given: Any) -> tuple[str, ...]:
    if given is None:
        return (new_secret(),)
    if not isinstance(given, list) or not 0 < len(given) <= _MOST_SECRETS:
        raise InvalidInput(f"secrets must be a list of 1 to {_MOST_SECRETS} secrets", field="secrets")
    return tuple(check_secret(each) for each in given)
