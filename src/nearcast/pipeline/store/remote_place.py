"""Where files live when it is no folder of this host: what Arrow or fsspec can open; `object_place` has buckets."""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pyarrow import fs

from nearcast.errors import NotSupported
from nearcast.pipeline.store.host_cache import HostCache
from nearcast.pipeline.store.local_place import CONTENTS, Entry, Write, name_with_sum, note_contents, read_contents


class RemotePlace:
    """A folder of a file system that Arrow opens; what is to be mapped is downloaded once."""

    def __init__(self, root: str, files: Any, path: str, cache: str | None):
        self.root = root
        self._files, self._path = files, path.rstrip("/")
        self._cache = HostCache(cache)

    def url(self, name: str) -> str:
        """Return what Spark calls a file or folder."""
        return f"{self.root.rstrip('/')}/{name}"

    def put(self, name: str, write: Write, *, with_sum: bool = False, settled: bool = True) -> Entry:
        """Write a file here, then upload it, its checksum in its name if asked for; return its name and size."""
        with self._cache.scratch() as scratch:
            path = scratch / name.rpartition("/")[2]
            write(path)
            if with_sum:
                name = name_with_sum(name, path)
            return Entry(name, self._upload(path, self._at(name)))

    def put_folder(self, name: str, write: Write, *, like: str | None = None, settled: bool = True) -> int:
        """Write a folder here, then upload its files, the list of its contents last; return their size.

        There are no links elsewhere, so `like` saves nothing.
        """
        with self._cache.scratch() as scratch:
            write(scratch)
            size = note_contents(scratch)
            files = [path for path in scratch.rglob("*") if path.is_file()]
            for path in sorted(files, key=lambda path: (path == scratch / CONTENTS, path)):
                self._upload(path, f"{self._at(name)}/{path.relative_to(scratch).as_posix()}")
            return size

    def create(self, name: str, data: bytes) -> bool:
        """Put a file there unless there is one; tell whether it was put.

        HDFS moves no file onto another, so of two writers at one moment one fails.
        """
        if self._info(name).type != fs.FileType.NotFound:
            return False
        folder, _, last = self._at(name).rpartition("/")
        temporary = f"{folder}/.{secrets.token_hex(4)}.{last}"
        self._write(temporary, data)
        try:
            self._files.move(temporary, self._at(name))
        except OSError:
            self._files.delete_file(temporary)
            if self._info(name).type == fs.FileType.NotFound:
                raise
            return False  # another writer was faster
        return True

    def rename(self, old: str, new: str) -> None:
        """Give a file another name; what had it before is gone."""
        if self._info(old).type == fs.FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.url(old))
        self._files.move(self._at(old), self._at(new))

    def settle(self, names: Iterable[str]) -> None:
        """Do nothing: such places keep what they have answered for."""

    def local(self, name: str) -> Path:
        """Return where the file or folder was downloaded to, now or before."""
        info = self._info(name)
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.url(name))
        if info.type != fs.FileType.Directory:
            version = f"{info.size} {info.mtime_ns}".encode()
            return self._cache.copy_of(self.url(name), version, lambda target: self.copy_to(name, target))
        version = self.read(f"{name}/{CONTENTS}")
        files = [*read_contents(version, f"{self.url(name)}/{CONTENTS}"), CONTENTS]
        return self._cache.copy_of(self.url(name), version, lambda target: self._copy_files(name, target, files))

    def let_go(self, path: Path) -> bool:
        """Forget what `local` downloaded to a path; tell that it can be fetched again."""
        self._cache.let_go(path)
        return True

    def check_commits(self) -> None:
        """Refuse a place where a name that is taken can be taken again: two drivers could both commit a batch."""
        name = f".probe-{secrets.token_hex(8)}"
        try:
            is_exclusive = self.create(name, b"first") and not self.create(name, b"second")
        finally:
            self.delete(name)
        if not is_exclusive:
            raise NotSupported(
                f"{self.root} cannot be a checkpoint: it puts a file where there is one already, though told not to;"
                " use a store that has conditional writes, or a path that all hosts share"
            )

    def copy_to(self, name: str, target: Path) -> None:
        """Download a file to a path of this host."""
        with self._opened_to_read(name) as stream, target.open("wb") as out:
            while piece := stream.read(1 << 22):
                out.write(piece)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with self._opened_to_read(name) as file:
            return bytes(file.read())

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Yield all files and complete folders whose names begin so, with what is hidden."""
        files = self._all_files(prefix.rpartition("/")[0])
        folders = {name.removesuffix(f"/{CONTENTS}"): 0 for name in files if name.endswith(f"/{CONTENTS}")}
        for name, size in files.items():
            parents = [name[: at.start()] for at in re.finditer("/", name)]
            owner = next((parent for parent in parents if parent in folders), None)
            if owner is not None:
                folders[owner] += 0 if name == f"{owner}/{CONTENTS}" else size
            elif name.startswith(prefix):
                yield Entry(name, size)
        yield from (Entry(*folder) for folder in folders.items() if folder[0].startswith(prefix))

    def sizes_within(self, name: str) -> dict[str, int] | None:
        """Return the sizes of the files of a folder, or {"": size} of a file; None if there is neither."""
        info = self._info(name)
        if info.type == fs.FileType.NotFound:
            return None
        if info.type == fs.FileType.File:
            return {"": int(info.size)}
        return {file[len(name) + 1 :]: size for file, size in self._all_files(name).items()}

    def sizes_of(self, names: Iterable[str]) -> Iterator[Entry]:
        """Yield those files and complete folders that are there, with their sizes, by a listing of each parent."""
        wanted = set(names)
        for prefix in sorted({f"{name.rpartition('/')[0]}/" for name in wanted}):
            yield from (entry for entry in self.entries(prefix) if entry.name in wanted)

    def delete(self, name: str) -> None:
        """Remove a file or folder; it is fine if there is none."""
        kind = self._info(name).type
        if kind == fs.FileType.Directory:
            self._files.delete_dir(self._at(name))
        elif kind == fs.FileType.File:
            self._files.delete_file(self._at(name))

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}" if name else self._path

    def _info(self, name: str) -> Any:
        return self._files.get_file_info(self._at(name))

    def _all_files(self, folder: str) -> dict[str, int]:
        selector = fs.FileSelector(self._at(folder), allow_not_found=True, recursive=True)
        found = [info for info in self._files.get_file_info(selector) if info.type == fs.FileType.File]
        cut = len(self._path.lstrip("/")) + 1
        return {info.path.lstrip("/")[cut:]: int(info.size) for info in found}

    def _upload(self, source: Path, target: str) -> int:
        size = 0
        with self._opened(target) as stream, source.open("rb") as file:
            while piece := file.read(1 << 22):
                stream.write(piece)
                size += len(piece)
        return size

    def _write(self, target: str, data: bytes) -> None:
        with self._opened(target) as stream:
            stream.write(data)

    def _opened_to_read(self, name: str) -> Any:
        return self._files.open_input_stream(self._at(name))

    def _opened(self, target: str) -> Any:
        try:
            return self._files.open_output_stream(target)
        except FileNotFoundError:  # object stores need no folders, others do
            self._files.create_dir(target.rpartition("/")[0], recursive=True)
            return self._files.open_output_stream(target)

    def _copy_files(self, folder: str, target: Path, files: list[str]) -> None:
        for file in files:
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            self.copy_to(f"{folder}/{file}", target / file)


class FsspecPlace(RemotePlace):
    """A folder of a file system that fsspec opens; a commit is its exclusive write."""

    def __init__(self, root: str, files: Any, path: str, cache: str | None):
        super().__init__(root, fs.PyFileSystem(fs.FSSpecHandler(files)), path, cache)
        self._fsspec = files

    def create(self, name: str, data: bytes) -> bool:
        """Put a file there unless there is one; tell whether it was put."""
        try:
            self._fsspec.pipe_file(self._at(name), data, mode="create")
        except FileExistsError:
            return False
        except (NotImplementedError, TypeError):
            raise NotSupported(f"{self.root} has no exclusive write, which a commit needs") from None
        return True

    def _opened_to_read(self, name: str) -> Any:
        # Arrow's adapter takes every failure to look at a file for a file that is not there.
        return self._fsspec.open(self._at(name), "rb")
