"""Saved arrays: where they go and how they come back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.errors import IncompatibleStore

if TYPE_CHECKING:
    from numpy.typing import NDArray


def new_folder(folder: str | Path) -> Path:
    """Make a folder to save into; one with files in it is refused."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty; save the index into a new folder")
    return folder


def mapped(path: Path) -> NDArray[Any]:
    """Map a saved array copy-on-write: a read-only one would be another type to Numba and compile all kernels again."""
    try:
        array = np.load(path, mmap_mode="c") if _has_elements(path) else np.load(path)
    except (OSError, ValueError, EOFError) as error:
        raise IncompatibleStore(f"{path} is missing or damaged ({error}); save the index again") from None
    return np.asarray(array)


def _has_elements(path: Path) -> bool:
    """Tell whether there is anything to map: an array without elements cannot be."""
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, _ = read(file)
        return bool(np.prod(shape))
