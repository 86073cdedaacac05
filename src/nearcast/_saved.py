"""Saved files: put in place in one step, made durable, and read or mapped again with their form checked."""

from __future__ import annotations

import mmap
import os
import re
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from nearcast.errors import IncompatibleStore

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

_SYNCED_AT_ONCE = 16
#: The header that NumPy writes of a simple type; its own parser, which compiles the text as Python, takes ten times as
#: long.
_HEADER_BYTES = 128
_PLAIN_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00v\x00\{'descr': '([<|][a-z][0-9]{1,3})', 'fortran_order': (False|True), "
    rb"'shape': \(((?:[0-9]{1,18}, ?)*(?:[0-9]{1,18})?)\), \} *\n"
)


def new_folder(folder: str | Path) -> Path:
    """Make a folder to save into; one with files in it is refused."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty; save the index into a new folder")
    return folder


# Writing


def save_array(path: Path, array: np.ndarray, *, will_change: bool = True) -> None:
    """Write one .npy file in one step; whoever puts its folder in place makes it durable, with `sync_folder`.

    Where writing is put off, an array that `will_change` is copied now.
    """
    writes = _PUT_OFF.get()
    if writes is None:
        _write_array(path, array)
    else:
        writes.append(partial(_write_array, path, array.copy() if will_change else array))


def _write_array(path: Path, array: np.ndarray) -> None:
    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.save(file, array)

    _replace(path, write)


def save_text(path: Path, text: str) -> None:
    """Write one small file in one step; durable as `save_array` is."""
    _replace(path, lambda temporary: temporary.write_text(text))


# Writing later

Writes = list[Callable[[], Any]]
#: Where writes are put off to, None: they are done at once.
_PUT_OFF: ContextVar[Writes | None] = ContextVar("_PUT_OFF", default=None)


@contextmanager
def writing_later() -> Iterator[Writes]:
    """Have arrays taken now and written later, by whoever runs the functions that are listed, in order.

    So a lock is held for as long as copying takes, and not for writing. It is for the thread that enters it.
    """
    writes: Writes = []
    token = _PUT_OFF.set(writes)
    try:
        yield writes
    finally:
        _PUT_OFF.reset(token)


def write_all(writes: Writes) -> None:
    """Run writes that were put off; memory is given back one by one."""
    writes.reverse()
    while writes:
        writes.pop()()


def is_writing_later() -> bool:
    """Tell whether writes are put off."""
    return _PUT_OFF.get() is not None


def save_later(write: Callable[[], Any]) -> None:
    """Run a function that saves what nobody changes any more: now, or later where writing is put off."""
    writes = _PUT_OFF.get()
    if writes is None:
        write()
    else:
        writes.append(write)


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file beside `path` and put it in its place in one step: a reader sees the old one or the new one.

    When it returns the new one survives a power cut.
    """
    _replace(path, write, sync=sync)
    sync(path.parent)


def _replace(path: Path, write: Callable[[Path], Any], *, sync: Callable[[Path], None] | None = None) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        write(temporary)
        if sync is not None:
            sync(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Have the content of a file, or the names in a folder, survive a power cut (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Have a folder with all its files and subfolders survive a power cut; its own name is its parent's business.

    Files are synced side by side: a file system that keeps a journal then writes it once for many of them.
    """
    files, folders = [], []
    for parent, _, names in os.walk(folder):
        files += [Path(parent, name) for name in names]
        folders.append(Path(parent))
    with ThreadPoolExecutor(_SYNCED_AT_ONCE) as threads:
        list(threads.map(sync, files))
        list(threads.map(sync, folders[1:]))
    sync(folder)


# Reading


def mapped(path: Path, dtype: DTypeLike, *row: int) -> NDArray[Any]:
    """Map a saved array copy-on-write; its type, its row shape and the size of the file must be as expected.

    Copy-on-write because a read-only array would be another type to Numba and compile all kernels again.
    """
    dtype = np.dtype(dtype)
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - there are hundreds in a folder, and paths take longer than files
            n, offset = _checked_header(path, file, dtype, row)
            if n == 0 or 0 in row:
                return np.empty((n, *row), dtype)  # what has no bytes cannot be mapped
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except FileNotFoundError:
        raise IncompatibleStore(f"{path} is missing; bring it back from a copy, or save again") from None
    return np.ndarray((n, *row), dtype, content, offset)


def load_array(path: Path, dtype: DTypeLike) -> NDArray[Any]:
    """Return a one-dimensional .npy file of that type, copied into memory; IncompatibleStore if it is anything else."""
    return np.array(mapped(path, dtype))


def _checked_header(path: Path, file: BinaryIO, dtype: np.dtype[Any], row: tuple[int, ...]) -> tuple[int, int]:
    """Return the number of rows of a saved array and where its data begins, once all of its form is as expected."""
    try:
        shape, is_fortran, found, offset = _read_header(file)
        size = os.fstat(file.fileno()).st_size
    except Exception as error:  # noqa: BLE001 - NumPy's parser of headers raises whatever Python's tokenizer does
        raise IncompatibleStore(f"{path} is damaged: it cannot be read as an array ({error}); save again") from None
    if found != dtype or len(shape) != 1 + len(row) or shape[1:] != row or (is_fortran and row):
        expected = f"{len(row) + 1}-d {dtype}" + (f" with rows of {row}" if row else "")
        raise IncompatibleStore(f"{path} is damaged: it holds {len(shape)}-d {found}, expected {expected}; save again")
    wanted = shape[0] * dtype.itemsize * int(np.prod(row, dtype=np.int64))
    if size - offset != wanted:
        raise IncompatibleStore(
            f"{path} is damaged: {size - offset:,} bytes of data where {wanted:,} are expected; save again"
        )
    return int(shape[0]), offset


def _read_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return the shape of a saved array, whether its columns come first, its type, and where its data begins."""
    begin = file.read(_HEADER_BYTES)
    plain = _PLAIN_HEADER.fullmatch(begin)
    if plain is not None:
        descr, is_fortran, shape = plain.groups()
        lengths = tuple(int(each) for each in shape.split(b",") if each.strip())
        return lengths, is_fortran == b"True", np.dtype(descr.decode("ascii")), _HEADER_BYTES
    file.seek(0)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return (*read(file), file.tell())
