"""Ids of the API: names that fit into a path, and UUIDs of version 7 (RFC 9562) where none is given."""

from __future__ import annotations

import secrets
import time
import uuid


def new_id() -> str:
    """Return a UUID whose first 48 bits are the time in milliseconds."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds << 80) | (0x7 << 76) | (secrets.randbits(12) << 64) | (0b10 << 62) | secrets.randbits(62)
    return str(uuid.UUID(int=value))
