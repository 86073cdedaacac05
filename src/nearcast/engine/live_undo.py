"""Undo record of a store of live messages."""

from __future__ import annotations

from typing import Any, NamedTuple


class LiveUndo(NamedTuple):
    """What a store of live messages held (its `mark`) before the step of this number."""

    step: int
    mark: Any
