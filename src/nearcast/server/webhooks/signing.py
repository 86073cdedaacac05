"""Signatures of webhooks as Standard Webhooks 1.0 defines them: HMAC-SHA256 over the id, the time and the body."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Iterable

from nearcast.errors import InvalidInput

_PREFIX = "whsec_"
_LEAST_BYTES, _MOST_BYTES = 24, 64


def new_secret() -> str:
    """Return a random secret."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def check_secret(secret: str) -> str:
    """Return a secret; `InvalidInput`, which does not repeat it, if it is none."""
    _key(secret)
    return secret


def signed_headers(keys: Iterable[str], event_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a request. While secrets rotate, there is a signature by each of them."""
    content = b"%s.%d.%s" % (event_id.encode(), timestamp, body)
    signatures = [base64.b64encode(hmac.digest(_key(key), content, hashlib.sha256)).decode() for key in keys]
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (AttributeError, binascii.Error, ValueError):
        key = b""
    if not _LEAST_BYTES <= len(key) <= _MOST_BYTES:
        raise InvalidInput(
            f"a secret of a webhook is {_PREFIX} and {_LEAST_BYTES} to {_MOST_BYTES} bytes in base64; leave it out, "
            "and one is made",
            field="secrets",
        )
    return key
