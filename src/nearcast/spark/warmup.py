"""Every kernel on the way of a message, called once: compiled, or loaded from the cache of compiled kernels."""

from __future__ import annotations

import tempfile
from pathlib import Path

_SUBSCRIPTIONS = (
    {"id": "a", "query": "tea AND NOT coffee", "x": 1.0, "y": 1.0, "radius": 2.0},
    {"id": "b", "query": "tea OR milk", "x_min": 0.0, "y_min": 0.0, "x_max": 2.0, "y_max": 2.0},
    {"id": "c", "query": '"green tea"'},
    {"id": "d", "kind": "similar", "query": "tea milk", "x": 1.0, "y": 1.0, "threshold": 0.3, "max_distance": 5.0},
)
_MESSAGES = (
    {"id": 1, "text": "green tea", "x": 1.0, "y": 1.0},
    {"id": 2, "text": "milk", "x": 0.5, "y": 0.5, "x_max": 1.5, "y_max": 1.5},
)


def warm_kernels() -> None:
    """Match messages of each form against subscriptions of each kind, as new ones and as saved ones are held."""
    from nearcast.hub import Hub

    hub = Hub("plane", max_distance=5.0)
    hub.subscribe_many(_SUBSCRIPTIONS)
    hub.publish_many(_MESSAGES).to_table()
    with tempfile.TemporaryDirectory(prefix="nearcast-warm-") as folder:
        hub.save(Path(folder) / "hub")
        Hub.open(Path(folder) / "hub").publish_many(_MESSAGES).to_table()
