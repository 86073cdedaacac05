"""The registry of stores of live messages, by name.

`scan` tries every message and is the definition; `cells` is ours and the default. What they promise is said in
`contract`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from nearcast.errors import UnknownIndex

if TYPE_CHECKING:
    from pathlib import Path

    from nearcast.geo import Space
    from nearcast.live.contract import LiveStore
    from nearcast.text.words import WordTable

#: The module and the class of each store; imported when its name is first used.
_CLASSES = {
    "cells": ("nearcast.live.cells.store", "CellLiveStore"),
    "scan": ("nearcast.live.scan", "ScanLiveStore"),
}
LIVE_STORES = tuple(_CLASSES)
DEFAULT_LIVE_STORE = LIVE_STORES[0]


def live_store(name: str, space: Space, terms: WordTable) -> LiveStore:
    """Make an empty store; `terms` are the words of the subscriptions."""
    return class_of(name)(space, terms)


def open_live_store(name: str, folder: str | Path, space: Space, terms: WordTable) -> LiveStore:
    """Read what a store of any name saved; it is `IncompatibleStore` if that is damaged."""
    return class_of(name).open(folder, space, terms)


def class_of(name: str) -> type[LiveStore]:
    """Return the store of this name; `UnknownIndex` if there is none."""
    if name not in _CLASSES:
        raise UnknownIndex(f"there is no live store {name!r}; choose one of {', '.join(LIVE_STORES)}")
    module, attribute = _CLASSES[name]
    found: type[LiveStore] = getattr(importlib.import_module(module), attribute)
    return found
