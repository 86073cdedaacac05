"""Undo points of a window and its top-k buffers: what it takes to undo steps that were interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nearcast.topk.window.registry import WindowBatch
    from nearcast.topk.window.sliding import RowNames, WindowMark


class DroppedRows(NamedTuple):
    """Consecutive rows that left the window after an undo point, with their messages as far as these are held here."""

    names: RowNames
    batch: WindowBatch


class UndoPoint(NamedTuple):
    """The window as it was, the number of the first step to undo, and the rows dropped since then, in order."""

    window: WindowMark
    number: int
    dropped: list[DroppedRows]
