"""Ids of the API where none is given: UUIDs of version 7, and of version 8 made of a key (RFC 9562)."""

from __future__ import annotations

import hashlib
import secrets
import time
import uuid


def new_id() -> str:
    """Return a UUID whose first 48 bits are the time in milliseconds."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds << 80) | (0x7 << 76) | (secrets.randbits(12) << 64) | (0b10 << 62) | secrets.randbits(62)
    return str(uuid.UUID(int=value))


def id_under(key: str, body: bytes, row: int = 0) -> str:
    """Return the id of an item of a request under an `Idempotency-Key`: when the request is made again, the same."""
    given = b"\0".join((key.encode(), str(row).encode(), body))
    value = int.from_bytes(hashlib.sha256(given).digest()[:16], "big")
    value = value & ~(0xF << 76) & ~(0b11 << 62) | (0x8 << 76) | (0b10 << 62)
    return str(uuid.UUID(int=value))
