"""Copies of stored files in a folder of this host, named by content, for readers that map them."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Seconds after which a copy that nobody asked for again may go.
_KEPT_S = 3600.0


class HostCache:
    """A folder of copies, one for each version of a file or folder, that all processes of the host share.

    Whoever has mapped a copy keeps it: a local file that is deleted lives on until it is unmapped.
    """

    def __init__(self, folder: str | None):
        self._folder = Path(folder or Path(tempfile.gettempdir()) / f"nearcast-store-{os.getuid()}")

    def copy_of(self, url: str, version: bytes, fill: Callable[[Path], object]) -> Path:
        """Return the copy of a file or folder in this version, which `fill` writes to a path if there is none."""
        key = hashlib.sha256(f"{url}\n".encode() + version).hexdigest()[:32]
        path = self._folder / key / url.rpartition("/")[2]
        if not _is_there_in_use(path):
            self._forget_unused()
            self._make(path, fill)
        return path

    def folder_for(self, name: str) -> Path:
        """Return a folder that all processes of the host share under this name, and note that it is in use."""
        key = hashlib.sha256(name.encode()).hexdigest()[:32]
        path = self._folder / key
        try:
            os.utime(path)
        except FileNotFoundError:
            self._forget_unused()
            path.mkdir(mode=0o700, exist_ok=True)
        return path

    def let_go(self, path: Path) -> None:
        """Forget the copy at a path."""
        shutil.rmtree(path.parent, ignore_errors=True)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give an empty folder on the same disk, removed afterwards."""
        self._folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".", dir=self._folder))
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _make(self, path: Path, fill: Callable[[Path], object]) -> None:
        """Write a copy beside its place and put it there in one step; whoever comes second takes what is there."""
        with self.scratch() as scratch:
            fill(scratch / path.name)
            try:
                scratch.rename(path.parent)
            except OSError:
                if not path.exists():
                    raise

    def _forget_unused(self) -> None:
        """Take old copies away, each in one step, so that nobody finds half of one; other processes do the same."""
        oldest = time.time() - _KEPT_S
        with self.scratch() as scratch:
            for each in self._folder.iterdir():
                with suppress(FileNotFoundError):
                    if each.stat().st_mtime < oldest:
                        each.rename(scratch / each.name)


def _is_there_in_use(path: Path) -> bool:
    """Tell whether a copy is there, and note that it is in use."""
    try:
        os.utime(path.parent)
    except FileNotFoundError:
        return False
    return path.exists()
