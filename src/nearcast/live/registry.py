"""The registry of stores of live messages, by name.

`scan` tries every message and is the definition; `cells` is ours and the default. An index of a paper that keeps
messages in its own structure has a store of its own name, which serves with that index alone. What stores promise is
said in `contract`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from nearcast.errors import UnknownIndex

if TYPE_CHECKING:
    from pathlib import Path

    from nearcast.geo import Space
    from nearcast.indexes import Index
    from nearcast.live.contract import LiveStore
    from nearcast.text.words import WordTable

#: The module and the class of each store; imported when its name is first used.
_CLASSES = {
    "cells": ("nearcast.live.cells.store", "CellLiveStore"),
    "scan": ("nearcast.live.scan", "ScanLiveStore"),
}
LIVE_STORES = tuple(_CLASSES)
#: The same for the stores that are part of an index, whose name they have.
_OWN_CLASSES: dict[str, tuple[str, str]] = {
    "ap+-tree": ("nearcast.live.papers.ap_plus_tree", "APPlusTreeLiveStore"),
    "ap+k-tree": ("nearcast.live.papers.ap_plus_variants", "APPlusKTreeLiveStore"),
    "ap+s-tree": ("nearcast.live.papers.ap_plus_variants", "APPlusSTreeLiveStore"),
    "iq+-tree": ("nearcast.live.papers.quad", "IqPlusLiveStore"),
    "kk-index": ("nearcast.live.papers.grid", "KkLiveStore"),
    "rq+-tree": ("nearcast.live.papers.quad", "RqPlusLiveStore"),
    "ss-index": ("nearcast.live.papers.grid", "SsLiveStore"),
}


def live_store(name: str, space: Space, terms: WordTable) -> LiveStore:
    """Make an empty store; `terms` are the words of the subscriptions."""
    return class_of(name)(space, terms)


def store_name(name: str, index: Index) -> str:
    """Return the name of the store that goes with an index, which its option `live` says where none is given.

    It is `UnknownIndex` if that is no store, or belongs to another index.
    """
    name = name or index.live_option
    if name not in _OWN_CLASSES or name != index.info.name:
        class_of(name, _CLASSES)
    return name


def open_live_store(name: str, folder: str | Path, space: Space, terms: WordTable) -> LiveStore:
    """Read what a store of any name saved; it is `IncompatibleStore` if that is damaged."""
    return class_of(name).open(folder, space, terms)


def class_of(name: str, classes: dict[str, tuple[str, str]] | None = None) -> type[LiveStore]:
    """Return the store of this name; `UnknownIndex` if there is none."""
    known = {**_CLASSES, **_OWN_CLASSES} if classes is None else classes
    if name not in known:
        raise UnknownIndex(f"there is no live store {name!r}; choose one of {', '.join(known)}")
    module, attribute = known[name]
    found: type[LiveStore] = getattr(importlib.import_module(module), attribute)
    return found
