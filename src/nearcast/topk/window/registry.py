"""The registry of indexes over the messages of a window, by name.

A subscription of kind `topk` that is new, or lost too much of its buffer, searches one of them. `scan` looks at every
message and is the definition; `blocks` is ours and the default; `ir-tree` is what the Skype paper uses. All give the
same answers to the last bit. What they promise is said in `contract`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearcast.errors import UnknownIndex
from nearcast.indexes import topk_options
from nearcast.topk.window.blocks import BlockIndex
from nearcast.topk.window.contract import LiveRows, MessageIndex, WindowAnswers, WindowBatch, WindowQueries
from nearcast.topk.window.ir_tree import IrTreeWindowIndex
from nearcast.topk.window.scan import ScanWindowIndex

if TYPE_CHECKING:
    from pathlib import Path

    from nearcast.geo import Space

__all__ = [
    "DEFAULT_MESSAGE_INDEX",
    "MESSAGE_INDEXES",
    "LiveRows",
    "MessageIndex",
    "WindowAnswers",
    "WindowBatch",
    "WindowQueries",
    "message_index",
    "open_message_index",
]

MESSAGE_INDEXES: dict[str, type[MessageIndex]] = dict(
    zip(topk_options.MESSAGE_INDEXES, (BlockIndex, IrTreeWindowIndex, ScanWindowIndex), strict=True)
)
DEFAULT_MESSAGE_INDEX = topk_options.MESSAGE_INDEXES[0]


def message_index(name: str, space: Space, by_time: bool) -> MessageIndex:
    """Make an empty index; with `by_time`, of equal scores the message of the larger time comes first."""
    return _class_of(name)(space, by_time)


def open_message_index(name: str, folder: str | Path, space: Space) -> MessageIndex:
    """Read what an index of any name saved; it is `IncompatibleStore` if that is damaged."""
    return _class_of(name).open(folder, space)


def _class_of(name: str) -> type[MessageIndex]:
    if name not in MESSAGE_INDEXES:
        raise UnknownIndex(f"there is no message index {name!r}; choose one of {', '.join(MESSAGE_INDEXES)}")
    return MESSAGE_INDEXES[name]
