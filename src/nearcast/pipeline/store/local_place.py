"""Where files live: a folder of this host, or one that all hosts share; `remote_place` has other places."""

from __future__ import annotations

import errno
import filecmp
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from nearcast._saved import sync, sync_folder
from nearcast.errors import NearcastError, StoreUnavailable
from nearcast.saved_files.contents import Contents, contents_from, contents_of, damaged, read_signed, signed, sum_of

Write = Callable[[Path], object]

#: Written into a folder after everything else: the sizes and checksums of its files, by name.
CONTENTS = "_contents.json"
_CONTENTS_FORMAT = 2
#: The checksum of a file in its name, before the extension.
_SUM = re.compile(r"-crc([0-9a-f]{8})(\.[a-z0-9]+)?$")
_OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
#: What file systems say that have no links, besides that they are not permitted.
_WITHOUT_LINKS = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class StoreError(NearcastError):
    """A file of a store cannot be written or read: no space, no permission, no connection."""

    may_pass = True


class StoreConflict(StoreError):
    """Another writer has put something else in the same place."""

    may_pass = False


class Entry(NamedTuple):
    """A file, or a folder that was put as one, with its size in bytes; a folder's is that of its files."""

    name: str
    size: int


class LocalPlace:
    """A folder of this host, or one that all hosts reach by the same path."""

    #: Whether `settle` makes names durable that another process has put.
    _settles_for_all = True

    def __init__(self, root: str):
        self.root = Path(root)

    def url(self, name: str) -> str:
        """Return what Spark calls a file or folder: it takes a URI as it stands, and unescapes nothing."""
        return f"file://{(self.root / name).absolute()}"

    def put(self, name: str, write: Write, *, with_sum: bool = False, settled: bool = True) -> Entry:
        """Write a file beside its place, then put it there in one step; return its name and size.

        Its checksum becomes part of its name where that is asked for. With `settled` off the content survives a power
        cut, and the name does so after `settle`.
        """
        path = self._made_room(name)
        with _removed_if_left(hidden(path)) as temporary:
            write(temporary)
            sync(temporary)
            size = temporary.stat().st_size
            if with_sum:
                name = name_with_sum(name, temporary)
            os.replace(temporary, self.root / name)
        self._settle_unless(path, later=not settled)
        return Entry(name, size)

    def put_folder(self, name: str, write: Write, *, like: str | None = None, settled: bool = True) -> int:
        """Write a folder beside its place, then put it there in one step; return the size of its files.

        Files that the folder `like` has, too, become links to those there: they are on disk already.
        """
        path = self._made_room(name)
        with _removed_if_left(hidden(path)) as temporary:
            temporary.mkdir()
            write(temporary)
            if like is not None:
                _link_same(temporary, self.root / like)
            size = note_contents(temporary)
            sync_folder(temporary)
            temporary.rename(path)
        self._settle_unless(path, later=not settled)
        return size

    def _settle_unless(self, path: Path, *, later: bool) -> None:
        if not later or not self._settles_for_all:
            sync(path.parent)

    def create(self, name: str, data: bytes) -> bool:
        """Put a file there in one step unless there is one; tell whether it was put."""
        path = self._made_room(name)
        with _removed_if_left(hidden(path)) as temporary:
            temporary.write_bytes(data)
            sync(temporary)
            created = _linked(temporary, path)
        sync(path.parent)
        return created

    def check_commits(self) -> None:
        """Do nothing: a link, or an exclusive open, is for the first."""

    def copy_to(self, name: str, target: Path) -> None:
        """Copy a file to a path of this host."""
        shutil.copyfile(self.root / name, target)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name; what had it before is gone."""
        os.replace(self.root / old, self._made_room(new))

    def settle(self, names: Iterable[str]) -> None:
        """Have the new names of files survive a power cut."""
        for folder in {(self.root / name).parent for name in names}:
            sync(folder)

    def local(self, name: str) -> Path:
        """Return where the file or folder is."""
        path = self.root / name
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return path

    def let_go(self, path: Path) -> bool:
        """Tell that what `local` returned is the file itself: there is nothing to fetch again."""
        return False

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return (self.root / name).read_bytes()

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Return all files and complete folders whose names begin so, with what is hidden."""
        parent = self.root / prefix.rpartition("/")[0]
        return (entry for entry in self._entries_below(parent) if entry.name.startswith(prefix))

    def _entries_below(self, parent: Path) -> Iterator[Entry]:
        for folder, folders, files in os.walk(parent):
            here = Path(folder).relative_to(self.root)
            if CONTENTS in files:
                folders.clear()
                yield Entry(here.as_posix(), _size_of(Path(folder)))
                continue
            for unfinished in [each for each in folders if each.startswith(".")]:
                folders.remove(unfinished)
                yield Entry((here / unfinished).as_posix(), _size_of(Path(folder, unfinished)))
            for file in files:
                yield Entry((here / file).as_posix(), _size_or_none(Path(folder, file)) or 0)

    def sizes_within(self, name: str) -> dict[str, int] | None:
        """Return the sizes of the files of a folder, or {"": size} of a file; None if there is neither."""
        path = self.root / name
        if not path.is_dir():
            size = _size_or_none(path)
            return None if size is None else {"": size}
        sizes = {file.relative_to(path).as_posix(): _size_or_none(file) for file in path.rglob("*") if file.is_file()}
        return {file: size for file, size in sizes.items() if size is not None}

    def sizes_of(self, names: Iterable[str]) -> Iterator[Entry]:
        """Yield those files and complete folders that are there, with their sizes."""
        for name in names:
            path = self.root / name
            if path.is_dir():
                if (path / CONTENTS).exists():
                    yield Entry(name, _size_of(path))
            elif (size := _size_or_none(path)) is not None:
                yield Entry(name, size)

    def delete(self, name: str) -> None:
        """Remove a file or folder; it is fine if there is none."""
        path = self.root / name
        if path.is_dir():
            # Renamed first: a reader finds the whole folder or none. Two drivers may sweep the same.
            gone = hidden(path)
            with suppress(FileNotFoundError):
                path.rename(gone)
                _remove_folder(gone)
        else:
            path.unlink(missing_ok=True)

    def _made_room(self, name: str) -> Path:
        path = self.root / name
        if not path.parent.exists():
            _make_folders(path.parent)
        return path


@contextmanager
def explained(what: str, doing: str) -> Iterator[None]:
    """Turn what a file system complains about into one line: what, why, and what to do."""
    try:
        yield
    except FileNotFoundError as error:
        if doing == "written":
            raise StoreError(f"{what} cannot be written: {one_line(error)} ({error.filename})") from None
        raise StoreUnavailable(f"{what} is missing; bring it back, or begin anew with another checkpoint") from None
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{what} cannot be {doing}: {one_line(error)}{_advice(error)}") from None


def one_line(error: BaseException) -> str:
    """Return what an error says, on one line."""
    return " ".join(str(getattr(error, "strerror", None) or error).split())


def _advice(error: BaseException) -> str:
    number = getattr(error, "errno", None)
    if number in _OUT_OF_SPACE:
        return "; make room and start again, nothing that was committed is lost"
    return "; give this user the right to it and start again" if number in _FORBIDDEN else ""


def hidden(path: Path) -> Path:
    """Return a name of one's own beside `path`, hidden, with the same extension."""
    return path.with_name(f".{secrets.token_hex(4)}.{path.name}")


@contextmanager
def _removed_if_left(path: Path) -> Iterator[Path]:
    try:
        yield path
    finally:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _remove_folder(folder: Path) -> None:
    """Remove a folder that nobody reads any more; what another removes at the same time is fine."""
    while folder.exists():
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)


def _linked(temporary: Path, path: Path) -> bool:
    """Put a file in a place where there must be none; tell whether there was none."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if not isinstance(error, PermissionError) and error.errno not in _WITHOUT_LINKS:
            raise
        return _copied(temporary, path)
    return True


def _copied(temporary: Path, path: Path) -> bool:
    """Do the same for a file system that has no links: exclusive too, but a crash may leave the file cut off."""
    try:
        with path.open("xb") as file:
            file.write(temporary.read_bytes())
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        return False
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return True


def _make_folders(folder: Path) -> None:
    first = next(parent for parent in [folder, *folder.parents] if parent.parent.exists())
    folder.mkdir(parents=True, exist_ok=True)
    sync(first.parent)


def _link_same(folder: Path, older: Path) -> None:
    """Put links to files of an older folder in place of those of the same name that hold the same bytes."""
    for inner, _, files in os.walk(folder):
        for path in (Path(inner, file) for file in files):
            known = older / path.relative_to(folder)
            with suppress(OSError):  # one that is not there, has as many links as may be, or may have none
                if filecmp.cmp(known, path, shallow=False):
                    draft = path.with_name(f".{path.name}.link")
                    os.link(known, draft)
                    draft.replace(path)


def note_contents(folder: Path) -> int:
    """Write the list of a folder's files, with sizes and checksums, into it; return the size of all of them."""
    contents = contents_of(folder)
    files = {name: list(each) for name, each in contents.items()}
    (folder / CONTENTS).write_bytes(signed({"format": _CONTENTS_FORMAT, "files": files}))
    return sum(each.size for each in contents.values())


def read_contents(data: bytes, called: str) -> Contents:
    """Return what `note_contents` wrote; `IncompatibleStore` if a byte differs."""
    about = read_signed(data, called)
    if about.get("format") != _CONTENTS_FORMAT:
        raise damaged(called, f"it has format {about.get('format')!r}, expected {_CONTENTS_FORMAT}")
    return contents_from(about.get("files"), called)


def name_with_sum(name: str, path: Path) -> str:
    """Return a name that tells the checksum of its file, such as deltas/00000012-1f2e3d4c-crc89abcdef.pickle."""
    stem, dot, extension = name.rpartition(".") if "." in name.rpartition("/")[2] else (name, "", "")
    return f"{stem}-crc{sum_of(path).crc}{dot}{extension}"


def sum_in_name(name: str) -> str | None:
    """Return the checksum that a name tells, None if it tells none."""
    found = _SUM.search(name)
    return None if found is None else found[1]


def _size_of(folder: Path) -> int:
    """Return the bytes of the files of a folder, as far as nobody removes them meanwhile."""
    sizes = [_size_or_none(Path(inner, file)) or 0 for inner, _, files in os.walk(folder) for file in files]
    return max(0, sum(sizes) - (_size_or_none(folder / CONTENTS) or 0))


def _size_or_none(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
