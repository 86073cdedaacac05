"""What settings may be: the range of each number, and texts that are more than names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from limits import RateLimitItem, parse

from nearcast.errors import InvalidInput
from nearcast.geo.shapes import shorten
from nearcast.query import MAX_DEPTH, MAX_QUERY_CHARS, MAX_QUERY_TERMS

#: More bytes, items or seconds (a year) nobody means, and sums of them stay numbers of 64 bits.
_MUCH, _LONG = 1 << 62, 366 * 86_400
#: Corners of a region that are matched in reasonable time.
_MOST_VERTICES = 100_000
#: The least and the most that each number may be.
_RANGES: dict[str, tuple[float, float]] = {
    "server.port": (0, 65535),
    "server.grace_seconds": (0, _LONG),
    "hub.max_distance": (1e-9, _MUCH),
    "hub.snapshot_bytes": (1, _MUCH),
    "hub.retention_bytes": (1, _MUCH),
    "hub.beat_seconds": (0, _LONG),
    "limits.body_bytes": (1, _MUCH),
    "limits.batch": (1, _MUCH),
    "limits.text_chars": (1, _MUCH),
    "limits.query_chars": (1, MAX_QUERY_CHARS),
    "limits.query_words": (1, MAX_QUERY_TERMS),
    "limits.query_depth": (1, MAX_DEPTH),
    "limits.vertices": (1, _MOST_VERTICES),
    "limits.subscriptions": (0, _MUCH),
    "limits.waiting_messages": (1, _MUCH),
    "limits.waiting_bytes": (1, _MUCH),
    "limits.free_bytes": (0, _MUCH),
    "limits.page": (1, _MUCH),
    "limits.wait_seconds": (0, _LONG),
    "limits.keep_alive_seconds": (1e-3, _LONG),
    "limits.stall_seconds": (1e-3, _LONG),
    "limits.streams": (0, _MUCH),
    "limits.key_hours": (0, _LONG),
    "webhooks.timeout_seconds": (1e-3, _LONG),
}


def check_range(name: str, value: Any, given: Any, origin: str) -> None:
    """Raise if a setting is out of its range; `given` is how it was written."""
    if name in _RANGES and value is not None:
        least, most = _RANGES[name]
        if not least <= value <= most:
            raise InvalidInput(f"{origin}: {name} is {shorten(given)}; expected {least:,} to {most:,}")
    check = _TEXTS.get(name)
    expected = None if check is None else check(value)
    if expected is not None:
        raise InvalidInput(f"{origin}: {name} is {shorten(given)}; expected {expected}")


def rate_of(text: str) -> RateLimitItem | None:
    """Return a rate as `limits` reads it, None for an empty text: no limit; raise ValueError if it is none."""
    if not text:
        return None
    rate = parse(text)
    if rate.amount < 1:
        raise ValueError(text)
    return rate


def _rate_fault(text: str) -> str | None:
    try:
        rate_of(text)
    except ValueError:
        return "a number above 0 and a time, like '1000/second' or '5 per minute', or nothing for no limit"
    return None


def _space_fault(text: str) -> str | None:
    return None if text in ("earth", "plane") else "earth or plane"


def _name_fault(text: str) -> str | None:
    return "a name without zero bytes" if not text or "\0" in text else None


#: What is expected instead of a text that cannot be used, None of one that can.
_TEXTS: dict[str, Callable[[str], str | None]] = {
    "limits.rate": _rate_fault,
    "hub.space": _space_fault,
    "server.host": _name_fault,
    "server.data": _name_fault,
}
