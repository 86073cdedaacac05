"""What a worker has loaded, kept out of the collection of garbage that Spark runs after every task."""

from __future__ import annotations

import gc

_is_frozen = False


def freeze_once() -> None:
    """Leave all there is by now out of further collections; for the end of a worker's first task."""
    global _is_frozen
    if not _is_frozen:
        _is_frozen = True
        gc.collect()
        gc.freeze()
