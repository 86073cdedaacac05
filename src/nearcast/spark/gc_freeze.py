"""Freezes the objects of a worker (`gc.freeze`), since Spark runs a full garbage collection after every task."""

from __future__ import annotations

import gc

_is_frozen = False


def freeze_once() -> None:
    """Freeze all live objects, so that later collections skip them; call at the end of a worker's first task."""
    global _is_frozen
    if not _is_frozen:
        _is_frozen = True
        gc.collect()
        gc.freeze()
