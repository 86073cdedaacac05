"""A folder that holds one save, replaced in one step by the next: a signed head that names a subfolder of data.

    hub.json            the head: which subfolder counts, and size and CRC-32 of every file in it
    files-1f2e3d4c/     the data

A save writes a new subfolder, makes all of it durable, and then renames a new head over the old one; only then the old
subfolder goes. A non-empty folder cannot be renamed over, and exchanging two folders (renameat2 with RENAME_EXCHANGE)
is known to some file systems of Linux alone. To rename a file over a file is atomic on every file system we may meet,
so a kill, a power cut or a full disk at any moment leaves the old save or the new one, whole. What a save cut short
left behind is removed by the next one. Whoever has mapped the old files keeps them: they are unlinked, not written to.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from nearcast._saved import replace_file, sync, sync_folder
from nearcast.errors import IncompatibleStore
from nearcast.saved_files.contents import (
    Contents,
    check_contents,
    contents_from,
    contents_of,
    damaged,
    is_signed,
    read_signed,
    signed,
)

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

Opened = TypeVar("Opened")
_DATA = re.compile(r"files-[0-9a-f]{8}")
#: How often a head is read again because another process has replaced the save meanwhile.
_TRIES = 5


class HeadForm(NamedTuple):
    """The name and format version of a head.

    `old_format` is a version that is only replaced, never read: it had no checksums, and `old_files` beside the head.
    """

    name: str
    format: int
    old_format: int
    old_files: Collection[str]


def save_folder(folder: str | Path, form: HeadForm, write: Callable[[Path], dict[str, Any]]) -> None:
    """Let `write` fill a new subfolder, and make it what the folder holds in one step.

    `write` returns what the head says of it. A folder that holds anything but a save is refused.
    """
    folder = Path(folder)
    make_folder(folder)
    with _held(folder):  # a save removes what others have not named yet
        old = _checked_for_save(folder, form)
        if old is not None or not (folder / form.name).exists():
            _remove_leftovers(folder, form, keep=old)  # first, for they may be what fills the disk
        data = folder / f"files-{secrets.token_hex(4)}"
        try:
            data.mkdir()
            about = write(data)
            files = {name: list(each) for name, each in contents_of(data).items()}
            sync_folder(data)
            sync(folder)  # the subfolder's name, before any head names it
            head = signed({"format": form.format, "folder": data.name, "files": files, **about})
            replace_file(folder / form.name, lambda path: path.write_bytes(head))
        except BaseException:
            if _data_of(folder, form) != data.name:
                shutil.rmtree(data, ignore_errors=True)
            raise
        _remove_leftovers(folder, form, keep=data.name)
        _remove_old_files(folder, form, old)


def open_folder(
    folder: str | Path, form: HeadForm, read: Callable[[Path, dict[str, Any]], Opened], *, verify: bool | None = None
) -> Opened:
    """Check the head and the files it lists, and return what `read` makes of the subfolder and the head.

    `IncompatibleStore` names a file that is missing, or of another size, or, with `verify`, of another content.
    """
    folder = Path(folder)
    for attempt in range(_TRIES):
        data = _head_bytes(folder, form)
        try:
            return _open(folder, form, data, read, verify)
        except (IncompatibleStore, OSError):
            # Another process may have replaced the save, and removed what this head named.
            if attempt + 1 == _TRIES or _head_bytes(folder, form) == data:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


def _open(
    folder: Path, form: HeadForm, head_bytes: bytes, read: Callable[[Path, dict[str, Any]], Opened], verify: bool | None
) -> Opened:
    head = _read_head(folder, form, head_bytes)
    files: Contents = contents_from(head["files"], f"{folder / form.name}")
    data = folder / head["folder"]
    if not data.is_dir():
        raise IncompatibleStore(f"{data} is missing; bring it back from a copy, or save again")
    with _held(data, is_shared=True):  # a save that replaces this one meanwhile leaves its removal to the next
        check_contents(data, files, verify)
        return read(data, head)


def _head_bytes(folder: Path, form: HeadForm) -> bytes:
    try:
        return (folder / form.name).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise IncompatibleStore(f"{folder} holds no saved hub ({form.name} is missing)") from None


def _read_head(folder: Path, form: HeadForm, data: bytes) -> dict[str, Any]:
    """Return the head; one of the old format has no digest."""
    called = f"{folder / form.name}"
    version = _format_of(data)
    content = {} if version == form.old_format and not is_signed(data) else read_signed(data, called)
    if version != form.format:
        raise IncompatibleStore(f"{folder} has format {version!r}, this version reads {form.format}; save it again")
    if not _DATA.fullmatch(str(content.get("folder"))):
        raise damaged(called, "it names no folder of data")
    return content


def _format_of(data: bytes) -> Any:
    """Return the format that a head claims to have, None if it is no JSON object."""
    try:
        head = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return head.get("format") if isinstance(head, dict) else None


# Around a save


def make_folder(folder: Path) -> None:
    """Make a folder with its parents, all of which survive a power cut."""
    missing = [each for each in [folder, *folder.parents] if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        sync(each.parent)


@contextmanager
def _held(folder: Path, *, is_shared: bool = False, waits: bool = True) -> Iterator[bool]:
    """Lock a folder, alone or with others, against other processes and threads; tell whether it could be had.

    Where a file system knows no locks, whoever saves into one folder from two places must take turns.
    """
    if fcntl is None:
        yield True
        return
    descriptor = os.open(folder, os.O_RDONLY)
    how = (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | (0 if waits else fcntl.LOCK_NB)
    is_had = True
    try:
        try:
            fcntl.flock(descriptor, how)
        except BlockingIOError:
            is_had = False
        except OSError:
            is_had = True
        yield is_had
    finally:
        os.close(descriptor)


def _checked_for_save(folder: Path, form: HeadForm) -> str | None:
    """Return the subfolder that counts at present, None if there is none; refuse a folder that holds other things."""
    names = {path.name for path in folder.iterdir()}
    ours = {name for name in names if _is_ours(name, form)}
    if form.name in names:
        version = _format_of((folder / form.name).read_bytes())
        is_damaged_save = bool(ours) and names == ours | {form.name}
        if version in (form.format, form.old_format) or is_damaged_save:
            return _data_of(folder, form)
    elif names == ours:
        return None
    raise FileExistsError(
        f"{folder} is not empty and holds no saved hub; save into a new folder, or onto an older save"
    )


def _is_ours(name: str, form: HeadForm) -> bool:
    """Tell the names of data, and of heads that were not finished."""
    return _DATA.fullmatch(name) is not None or name.startswith(f".{form.name}.")


def _data_of(folder: Path, form: HeadForm) -> str | None:
    """Return the subfolder that the head names; None without a head, or with a damaged one."""
    try:
        return str(read_signed((folder / form.name).read_bytes(), "")["folder"])
    except (OSError, IncompatibleStore, KeyError):
        return None


def _remove_leftovers(folder: Path, form: HeadForm, *, keep: str | None) -> None:
    """Remove what no head names: data of older saves, and of saves that were cut short."""
    for path in list(folder.iterdir()):
        if path.name != keep and _is_ours(path.name, form):
            _remove(path)


def _remove_old_files(folder: Path, form: HeadForm, old: str | None) -> None:
    """Remove the files of a save in the old format, which lie beside the head."""
    if old is None:
        for path in list(folder.iterdir()):
            if any(re.fullmatch(each, path.name) for each in form.old_files):
                _remove(path)


def _remove(path: Path) -> None:
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    with _held(path, waits=False) as is_free:  # somebody may be opening it just now: then the next save removes it
        if is_free:
            shutil.rmtree(path, ignore_errors=True)
