"""Files of our own that hold one value of Python each; they are read by the version that wrote them.

Unpickling runs what a file says, so a damaged one must not get there: paths come from `Store.local`, which compares a
file with the checksum in its name, or in the list of its folder.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING

from nearcast.errors import IncompatibleStore

if TYPE_CHECKING:
    from nearcast.pipeline.store.store import Store


def write(path: Path, value: object) -> None:
    """Write one value."""
    path.write_bytes(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))


def read(path: Path) -> object:
    """Return what one of our own files holds; `IncompatibleStore` if it is damaged."""
    try:
        with path.open("rb") as file:
            return pickle.load(file)
    except (OSError, EOFError, pickle.UnpicklingError, ImportError, AttributeError, ValueError, IndexError) as error:
        reason = f"{path} is missing or damaged ({error}); restore the checkpoint from a copy"
        raise IncompatibleStore(reason) from None


def put(store: Store, kind: str, batch: int, number: int | None, value: object) -> str:
    """Put a value into a new file of a store, for a partition or, without a number, for all; return its name."""
    return store.put_summed(store.unique(kind, batch, number, ".pickle"), lambda path: write(path, value)).name
