"""Columns that only grow, mapped by all processes of a host, and small states that say which parts of them count.

Nothing that a state names is ever written again. So whoever has a state reads on, whatever others append, and a writer
that is killed leaves only bytes that no state names. A *generation* is a set of columns; when too much of it is waste a
new one is begun, and the old one lives on in the mappings of those who still read it.

The files are memory, not truth: they are never synced, for after a power cut nobody asks for them again (`boot_id`).
"""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.topk.window.blocks.mapped import GROUPS

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The columns by group: those of segments, and the words as bytes with the end of each.
ALL_GROUPS: dict[str, dict[str, tuple[type, int]]] = {
    **GROUPS,
    "bytes": {"blob": (np.uint8, 0)},
    "word_ends": {"word_end": (np.int64, 0)},
}
_KINDS = {name: kind for group in ALL_GROUPS.values() for name, kind in group.items()}
ROW_BYTES = {
    group: sum(np.dtype(kind).itemsize * max(width, 1) for kind, width in columns.values())
    for group, columns in ALL_GROUPS.items()
}
_LEAST_BYTES = 1 << 16
#: States that are kept: those of the last batches, for whoever begins a batch anew.
_KEPT_STATES = 8


class ColumnFiles:
    """The columns of one generation in a file each, read through mappings and written past them.

    Writing through a mapping would end the process where a disk is full; `pwrite` raises OSError.
    """

    def __init__(self, name: str, files: dict[str, int]):
        self.name = name
        self._files = files
        self._mapped: dict[str, NDArray[Any]] = {}

    def __del__(self) -> None:
        for file in self._files.values():
            with suppress(OSError):
                os.close(file)

    def write(self, column: str, at: int, values: NDArray[Any]) -> None:
        """Write values at the positions from `at` on, which nobody reads yet."""
        kind, width = _KINDS[column]
        data = np.ascontiguousarray(values, kind).view(np.uint8).reshape(-1).data if len(values) else b""
        offset = at * np.dtype(kind).itemsize * max(width, 1)
        file, end = self._files[column], offset + len(data)
        if os.fstat(file).st_size < end:
            os.ftruncate(file, 1 << end.bit_length())
        done = 0
        while done < len(data):
            done += os.pwrite(file, data[done:], offset + done)

    def read(self, column: str, n: int) -> NDArray[Any]:
        """Return a column with n positions or more; what is written behind them appears there."""
        if column not in self._mapped or len(self._mapped[column]) < n:
            kind, width = _KINDS[column]
            file = self._files[column]
            size = os.fstat(file).st_size
            # Writable, though nobody writes: kernels would be compiled again for arrays that are not.
            array: NDArray[Any] = np.frombuffer(mmap.mmap(file, size), kind, size // np.dtype(kind).itemsize)
            if width:
                array = array[: len(array) // width * width].reshape(-1, width)
            if len(array) < n:
                raise OSError(f"{column} has {len(array)} positions, not {n}")
            self._mapped[column] = array
        return self._mapped[column]


class ArenaStorage(ABC):
    """Where generations of columns and their states are: in a folder of the host, or in the memory of this process."""

    @abstractmethod
    def locked(self) -> Any:
        """Give the right to write, to one process and thread at a time; it ends with the process that has it."""

    @abstractmethod
    def current(self) -> str | None:
        """Return the name of the generation in use."""

    @abstractmethod
    def opened(self, generation: str) -> ColumnFiles:
        """Return the columns of a generation; FileNotFoundError if it is gone."""

    @abstractmethod
    def created(self) -> ColumnFiles:
        """Return a new generation, which `use` puts in the place of the one before."""

    @abstractmethod
    def use(self, generation: str) -> None:
        """Let this generation be the current one, and take others away."""

    @abstractmethod
    def state(self, generation: str, digest: str) -> bytes | None:
        """Return the state of this name."""

    @abstractmethod
    def states(self, generation: str) -> list[bytes]:
        """Return all states that are kept."""

    @abstractmethod
    def put_state(self, generation: str, digest: str, state: bytes) -> None:
        """Put a state in place in one step, and forget the oldest."""


class FolderStorage(ArenaStorage):
    """Generations in subfolders of a folder that processes of one user share."""

    def __init__(self, folder: Path):
        self._folder = folder
        if folder.stat().st_uid != os.getuid():
            raise PermissionError(f"{folder} belongs to another user")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the folder."""
        file = self._lock()
        try:
            yield
        finally:
            os.close(file)

    def _lock(self) -> int:
        """Return the lock of the folder, opened and held; the folder may be taken away as unused, and is made again."""
        path = self._folder / "lock"
        while True:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with suppress(FileNotFoundError):
                file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    os.utime(self._folder)  # before the look whether it is still there: from now on it is in use
                    if os.fstat(file).st_ino == path.stat().st_ino:
                        held, file = file, -1
                        return held
                finally:
                    if file >= 0:
                        os.close(file)

    def current(self) -> str | None:
        """Return the name of the generation in use."""
        try:
            return (self._folder / "current").read_text()
        except FileNotFoundError:
            return None

    def opened(self, generation: str) -> ColumnFiles:
        """Return the columns of a generation; FileNotFoundError if it is gone."""
        return self._columns(generation, 0)

    def created(self) -> ColumnFiles:
        """Return a new generation."""
        name = f"g-{secrets.token_hex(8)}"
        (self._folder / name / "states").mkdir(parents=True, mode=0o700)
        return self._columns(name, os.O_CREAT)

    def _columns(self, name: str, flags: int) -> ColumnFiles:
        files: dict[str, int] = {}
        columns = ColumnFiles(name, files)  # which closes them, also where one cannot be opened
        for each in _KINDS:
            files[each] = os.open(self._folder / name / each, os.O_RDWR | flags, 0o600)
            if flags:
                os.ftruncate(files[each], _LEAST_BYTES)
        return columns

    def use(self, generation: str) -> None:
        """Let this generation be the current one, and take others away, also what a killed writer left."""
        self._put(self._folder / "current", generation.encode())
        for each in self._folder.glob("g-*"):
            if each.name != generation:
                shutil.rmtree(each, ignore_errors=True)

    def state(self, generation: str, digest: str) -> bytes | None:
        """Return the state of this name."""
        for name in self._kept(generation):
            if name.endswith(digest):
                with suppress(FileNotFoundError):
                    return (self._folder / generation / "states" / name).read_bytes()
        return None

    def states(self, generation: str) -> list[bytes]:
        """Return all states that are kept, in the order in which they were put."""
        return [(self._folder / generation / "states" / name).read_bytes() for name in self._kept(generation)]

    def _kept(self, generation: str) -> list[str]:
        try:
            names = [path.name for path in (self._folder / generation / "states").iterdir()]
        except FileNotFoundError:
            return []
        return sorted(name for name in names if not name.startswith("."))

    def put_state(self, generation: str, digest: str, state: bytes) -> None:
        """Put a state in place in one step, and forget the oldest."""
        names, folder = self._kept(generation), self._folder / generation / "states"
        number = int(names[-1].partition("-")[0]) + 1 if names else 0
        self._put(folder / f"{number:016d}-{digest}", state)
        for name in names[: 1 - _KEPT_STATES]:
            (folder / name).unlink()

    def _put(self, path: Path, data: bytes) -> None:
        draft = path.with_name(".draft")
        draft.write_bytes(data)
        draft.replace(path)


class MemoryStorage(ArenaStorage):
    """Generations in the memory of this process, for hosts without a folder to share, and for those who come late."""

    def __init__(self) -> None:
        self._current: ColumnFiles | None = None
        self._created: ColumnFiles | None = None
        self._states: dict[str, dict[str, bytes]] = {}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """There is nobody else."""
        yield

    def current(self) -> str | None:
        """Return the name of the generation in use."""
        return None if self._current is None else self._current.name

    def opened(self, generation: str) -> ColumnFiles:
        """Return the columns of the generation in use, which is the only one."""
        assert self._current is not None
        return self._current

    def created(self) -> ColumnFiles:
        """Return a new generation."""
        files = {}
        for each in _KINDS:
            files[each] = os.memfd_create(f"nearcast-{each}")
            os.ftruncate(files[each], _LEAST_BYTES)
        self._created = ColumnFiles(secrets.token_hex(8), files)
        self._states[self._created.name] = {}
        return self._created

    def use(self, generation: str) -> None:
        """Let this generation be the current one."""
        self._current = self._created
        self._states = {generation: self._states[generation]}

    def state(self, generation: str, digest: str) -> bytes | None:
        """Return the state of this name."""
        return self._states[generation].get(digest)

    def states(self, generation: str) -> list[bytes]:
        """Return all states that are kept."""
        return list(self._states[generation].values())

    def put_state(self, generation: str, digest: str, state: bytes) -> None:
        """Keep a state, and forget the oldest."""
        kept = self._states[generation]
        kept.pop(digest, None)
        kept[digest] = state
        while len(kept) > _KEPT_STATES:
            del kept[next(iter(kept))]
