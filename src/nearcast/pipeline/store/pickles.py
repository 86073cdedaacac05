"""Files of our own that hold one pickled Python value each, after a line with the format number.

Unpickling runs what a file says. So nothing damaged must get there: paths come from `Store.local`, which compares a
file with the checksum in its name, or in the list of its folder. And nothing of another version: the number is read
first, and `IncompatibleStore` names the file, what was found and what was expected.
"""

from __future__ import annotations

import pickle
import re
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from nearcast.errors import IncompatibleStore
from nearcast.pipeline.store.local_place import explained
from nearcast.pipeline.store.state_format import STATE_FORMAT, check_format

if TYPE_CHECKING:
    from nearcast.pipeline.store.store import Store

_HEAD = re.compile(rb"nearcast (\d{1,9})\n")
_LONGEST_HEAD = 32


def write(path: Path, value: object) -> None:
    """Write one value."""
    with path.open("wb") as file:
        file.write(b"nearcast %d\n" % STATE_FORMAT)
        pickle.dump(value, file, protocol=pickle.HIGHEST_PROTOCOL)


def read(path: Path) -> object:
    """Return the value in one of our own files; `IncompatibleStore` if it is damaged or of another format."""
    with explained(str(path), "read"), path.open("rb") as file:
        return _loaded(file, path)


def _loaded(file: BinaryIO, path: Path) -> object:
    try:
        return _load(file, str(path))
    except OSError:
        raise  # the disk is to blame, not the content
    except (EOFError, pickle.UnpicklingError, ImportError, AttributeError, ValueError, IndexError) as error:
        reason = f"{path} is damaged ({error}); restore the checkpoint from a copy"
        raise IncompatibleStore(reason) from None


def loads(data: bytes, called: str) -> Any:
    """Return the value in the content of such a file, which was checked."""
    return _load(BytesIO(data), called)


def _load(file: BinaryIO, called: str) -> Any:
    head = _HEAD.fullmatch(file.readline(_LONGEST_HEAD))
    check_format(None if head is None else int(head[1]), called)
    return pickle.load(file)


def put(store: Store, kind: str, batch: int, number: int | None, value: object) -> str:
    """Put a value into a new file of a store, for a partition or, without a number, for all; return its name."""
    return store.put_summed(store.unique(kind, batch, number, ".pickle"), lambda path: write(path, value)).name
