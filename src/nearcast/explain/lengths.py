"""Writes distances with units, as people read them."""

from __future__ import annotations

from nearcast.geo import Space


def length_text(value: float, space: Space) -> str:
    """Return a length as people read it, with its unit on the earth."""
    if not space.is_earth:
        return f"{value:g}"
    return f"{value / 1000:,.1f} km" if value >= 10_000 else f"{value:,.0f} m" if value >= 10 else f"{value:.2g} m"
