"""Where files live when it is no folder of this host: whatever Arrow or fsspec can open, with a cache of our own."""

from __future__ import annotations

import errno
import hashlib
import importlib
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from nearcast.errors import NotSupported
from nearcast.pipeline.store.local_place import (
    CONTENTS,
    Entry,
    LocalPlace,
    StoreError,
    Write,
    name_with_sum,
    note_contents,
    one_line,
    read_contents,
)

#: Seconds after which a downloaded file that nobody asked for again may go.
_CACHE_S = 3600.0
#: Object stores show a file when it is complete, and have no cheap way to rename one.
_OBJECT_STORES = ("s3", "gcs", "abfs")


class RemotePlace:
    """A folder of a file system that Arrow opens; what is to be mapped is downloaded once."""

    def __init__(self, root: str, files: fs.FileSystem, path: str, cache: str | None):
        self.root = root
        self._files, self._path = files, path.rstrip("/")
        self._cache = Path(cache or Path(tempfile.gettempdir()) / f"nearcast-store-{os.getuid()}")
        self._shows_only_whole_files = files.type_name in _OBJECT_STORES

    def url(self, name: str) -> str:
        """Return what Spark calls a file or folder."""
        return f"{self.root.rstrip('/')}/{name}"

    def put(self, name: str, write: Write, *, with_sum: bool = False) -> Entry:
        """Write a file here, then upload it, its checksum in its name if asked for; return its name and size."""
        with self._scratch() as scratch:
            path = scratch / name.rpartition("/")[2]
            write(path)
            if with_sum:
                name = name_with_sum(name, path)
            return Entry(name, self._upload(path, self._at(name)))

    def put_folder(self, name: str, write: Write) -> int:
        """Write a folder here, then upload its files, the list of its contents last; return their size."""
        with self._scratch() as scratch:
            write(scratch)
            size = note_contents(scratch)
            files = [path for path in scratch.rglob("*") if path.is_file()]
            for path in sorted(files, key=lambda path: (path == scratch / CONTENTS, path)):
                self._upload(path, f"{self._at(name)}/{path.relative_to(scratch).as_posix()}")
            return size

    def create(self, name: str, data: bytes) -> bool:
        """Put a file there unless there is one; tell whether it was put. Two writers at one moment both think so."""
        if self._info(name).type != fs.FileType.NotFound:
            return False
        if self._shows_only_whole_files:
            self._write(self._at(name), data)
            return True
        folder, _, last = self._at(name).rpartition("/")
        temporary = f"{folder}/.{secrets.token_hex(4)}.{last}"
        self._write(temporary, data)
        self._files.move(temporary, self._at(name))
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
        is_folder = info.type == fs.FileType.Directory
        version = self.read(f"{name}/{CONTENTS}") if is_folder else f"{info.size} {info.mtime_ns}".encode()
        key = hashlib.sha256(f"{self.url(name)}\n".encode() + version).hexdigest()[:32]
        path = self._cache / key / name.rpartition("/")[2]
        if not path.exists():
            files = list(read_contents(version, f"{self.url(name)}/{CONTENTS}")) if is_folder else None
            self._download(name, path, files)
        os.utime(path.parent)
        return path

    def let_go(self, path: Path) -> bool:
        """Forget what `local` downloaded to a path; tell that it can be fetched again."""
        shutil.rmtree(path.parent, ignore_errors=True)
        return True

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with self._files.open_input_stream(self._at(name)) as file:
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

    def _opened(self, target: str) -> Any:
        try:
            return self._files.open_output_stream(target)
        except FileNotFoundError:  # object stores need no folders, others do
            self._files.create_dir(target.rpartition("/")[0], recursive=True)
            return self._files.open_output_stream(target)

    def _download(self, name: str, path: Path, files: list[str] | None) -> None:
        """Bring a file, or these files of a folder, to `path`; whoever comes second takes what is there."""
        self._forget_unused()
        with self._scratch() as scratch:
            whole = scratch / path.name
            for file in [""] if files is None else [*files, CONTENTS]:
                target = whole / file if file else whole
                target.parent.mkdir(parents=True, exist_ok=True)
                source = self._at(f"{name}/{file}" if file else name)
                with self._files.open_input_stream(source) as stream, target.open("wb") as out:
                    while piece := stream.read(1 << 22):
                        out.write(piece)
            try:
                scratch.rename(path.parent)
            except OSError:
                if not path.exists():
                    raise

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        self._cache.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".", dir=self._cache))
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _forget_unused(self) -> None:
        oldest = time.time() - _CACHE_S
        for each in self._cache.iterdir() if self._cache.exists() else ():
            if each.stat().st_mtime < oldest:
                shutil.rmtree(each, ignore_errors=True)


Place = LocalPlace | RemotePlace


def is_uri(root: str) -> bool:
    """Tell a URI from a path."""
    return re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:/", root) is not None


def open_place(root: str, cache: str | None = None) -> Place:
    """Return the place a path or URI names."""
    if not is_uri(root):
        return LocalPlace(root)
    try:
        # Hadoop, and so Spark, calls s3a what Arrow calls s3.
        files, path = fs.FileSystem.from_uri(re.sub("^s3a:", "s3:", root))
    except pa.ArrowInvalid:
        files, path = _through_fsspec(root)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{root} cannot be opened: {one_line(error)}") from None
    return LocalPlace(path) if isinstance(files, fs.LocalFileSystem) else RemotePlace(root, files, path, cache)


def _through_fsspec(root: str) -> tuple[fs.FileSystem, str]:
    try:
        fsspec = importlib.import_module("fsspec")
    except ImportError:
        raise NotSupported(f"{root}: Arrow does not know this kind of place; install fsspec, or use a path") from None
    try:
        files, path = fsspec.url_to_fs(root)
    except (ValueError, ImportError, OSError) as error:
        raise NotSupported(f"{root}: fsspec cannot open this place ({one_line(error)})") from None
    return fs.PyFileSystem(fs.FSSpecHandler(files)), path
