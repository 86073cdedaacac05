"""Saved files: put in place in one step, and read or mapped again."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
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


def save_array(path: Path, array: np.ndarray) -> None:
    """Write one .npy file in one step."""

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.save(file, array)

    replace_file(path, write)


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file beside `path` and put it in its place in one step: a reader sees the old one or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load_array(path: Path, dtype: type) -> np.ndarray:
    """Return a one-dimensional .npy file of that type; IncompatibleStore if it is anything else."""
    try:
        array: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise IncompatibleStore(f"{path.name} cannot be read as a saved array ({error}); build it anew") from error
    if array.ndim != 1 or array.dtype != dtype:
        raise IncompatibleStore(f"{path.name} holds {array.ndim}-d {array.dtype}, expected 1-d {np.dtype(dtype)}")
    return array
