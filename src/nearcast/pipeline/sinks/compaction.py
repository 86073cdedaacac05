"""Compaction of a delivery folder: the part files of an hour that is over become few large ones, in one step.

Readers know nothing of nearcast: they list a folder and read what is in it. No order of writing and deleting files is
safe for them, but one step is: the folder of the hour and one that was written beside it exchange their names
(`renameat2` with RENAME_EXCHANGE). Whoever lists the hour finds all old parts or all new ones. The old ones stay for a
while under `_compaction`, which readers pass over, for those who are in the midst of a listing.

A stream writes into an hour until its event time, which never goes back, is in a later one: an hour is over when a part
of a later one can be seen. A driver that is paused, or that another one has replaced, publishes nothing there either:
what it staged was published before the later part.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from nearcast._saved import sync, sync_folder
from nearcast.errors import InvalidInput, NearcastError, NotSupported
from nearcast.files import DeliveryWriter
from nearcast.pipeline.sinks.hour_folders import HOUR, hour_of
from nearcast.pipeline.store.local_place import one_line
from nearcast.pipeline.store.places import local_root

#: Where new parts are written and replaced ones wait to be deleted; hidden from readers by its first character.
_WORK = "_compaction"
_LOCK = "lock"
_EXCHANGE, _HERE = 2, -100
#: What file systems and kernels say that cannot exchange two names.
_CANNOT_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EXDEV)
#: Bytes of the parts that become one file, unless given.
FILE_BYTES = 1 << 29


@dataclass(frozen=True)
class CompactedHour:
    """An hour whose parts were replaced: their number and bytes before and after."""

    folder: str
    parts: int
    files: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True)
class CompactionReport:
    """The hours that were compacted, those that were left alone with the reason, and how many are still written to."""

    compacted: tuple[CompactedHour, ...]
    skipped: tuple[tuple[str, str], ...]
    open_hours: int


class _Part(NamedTuple):
    """A part file as it was found; what is not the same later was replaced."""

    name: str
    size: int
    modified: int


def compact(folder: str | Path, *, now: float, keep_s: float, file_bytes: int = FILE_BYTES) -> CompactionReport:
    """Replace the parts of every hour that is over by as few as hold `file_bytes` each.

    Replaced parts are deleted by a call that comes `keep_s` or more later; `now` is the wall clock in seconds since
    1970. A second call at the same time is refused. After a crash at any moment the next call goes on.
    """
    root = _checked(folder)
    hours = _hours_in(root)
    if not hours:
        raise InvalidInput(
            f"{root} holds no folders {HOUR}…; start the stream with --part-folders hour (part_folders='hour') into a"
            " new folder: parts that all lie in one cannot be replaced under the eyes of readers"
        )
    with _locked(root):
        _sweep(root, now - keep_s)
        return _compact_all(root, hours, file_bytes)


def _checked(folder: str | Path) -> Path:
    here = local_root(str(folder))
    if here is None:
        raise NotSupported(f"{folder}: only a folder of this host can be compacted, where two names can be exchanged")
    if not Path(here).is_dir():
        raise InvalidInput(f"{folder} is no folder; give the one that a stream delivers to (--out)")
    return Path(here)


def _hours_in(root: Path) -> list[Path]:
    """Return the folders of hours, the oldest first."""
    found = [(hour, path) for path in root.iterdir() if (hour := hour_of(path.name)) is not None and path.is_dir()]
    return [path for _, path in sorted(found)]


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Hold the lock of the folder, which ends with this process whatever ends it."""
    work = root / _WORK
    work.mkdir(exist_ok=True)
    descriptor = os.open(work / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _take(descriptor, root)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, root: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise NearcastError(f"{root} is being compacted by another process; let it finish") from None


def _sweep(root: Path, before: float) -> None:
    """Delete what was replaced, or left by a crash, before that time."""
    for path in (root / _WORK).iterdir():
        if path.name != _LOCK and path.stat().st_ctime <= before:
            shutil.rmtree(path)


def _compact_all(root: Path, hours: Sequence[Path], file_bytes: int) -> CompactionReport:
    last = max((at for at, path in enumerate(hours) if any(map(_is_part, _visible(path)))), default=0)
    compacted: list[CompactedHour] = []
    skipped: list[tuple[str, str]] = []
    for path in hours[:last]:
        try:
            outcome = _compact_hour(root, path, file_bytes)
        except pa.ArrowInvalid as error:
            outcome = f"a part in it is damaged: {one_line(error)}"
        if isinstance(outcome, str):
            skipped.append((path.name, outcome))
        elif outcome is not None:
            compacted.append(outcome)
    return CompactionReport(tuple(compacted), tuple(skipped), len(hours) - last)


def _compact_hour(root: Path, hour: Path, file_bytes: int) -> CompactedHour | str | None:
    """Replace the parts of an hour; return what was done, why it cannot be, or None where nothing is to be gained."""
    strange = [name for name in _visible(hour) if not _is_part(name) or not (hour / name).is_file()]
    if strange:
        return f"{strange[0]} in it is no part of a stream"
    parts = _parts_in(hour)
    groups = list(_groups(hour, parts, file_bytes))
    return None if len(groups) == len(parts) else _replace(root, hour, parts, groups)


def _is_part(name: str) -> bool:
    return name.startswith("part-")


def _visible(folder: Path) -> list[str]:
    """Return the names in a folder that readers see."""
    return sorted(path.name for path in folder.iterdir() if path.name[0] not in "._")


def _parts_in(folder: Path) -> list[_Part]:
    found = []
    for name in _visible(folder):
        about = (folder / name).stat()
        found.append(_Part(name, about.st_size, about.st_mtime_ns))
    return found


def _groups(folder: Path, parts: Sequence[_Part], file_bytes: int) -> Iterator[list[_Part]]:
    """Yield the parts that become one file: neighbours of one format with the same columns, up to a size."""
    for _, alike in groupby(parts, key=lambda part: _form(folder / part.name)):
        group: list[_Part] = []
        for part in alike:
            if group and sum(each.size for each in group) + part.size > file_bytes:
                yield group
                group = []
            group.append(part)
        yield group


def _form(path: Path) -> str:
    return str(pq.read_schema(path).remove_metadata()) if path.suffix == ".parquet" else path.suffix


def _replace(root: Path, hour: Path, parts: list[_Part], groups: Sequence[Sequence[_Part]]) -> CompactedHour | str:
    """Write the groups beside the hour and exchange the two; return what was done, or why not."""
    draft = root / _WORK / f"{hour.name}-{secrets.token_hex(4)}"
    draft.mkdir()
    for group in groups:
        _write(hour, group, draft)
    sync_folder(draft)
    if _parts_in(hour) != parts:
        shutil.rmtree(draft)
        return "its parts changed meanwhile; whoever takes parts away needs no compaction"
    after = sum(each.size for each in _parts_in(draft))
    _exchange(hour, draft)
    os.utime(draft)  # the time from which on its parts are kept
    sync(root)
    sync(draft.parent)
    return CompactedHour(hour.name, len(parts), len(groups), sum(each.size for each in parts), after)


def _write(hour: Path, group: Sequence[_Part], draft: Path) -> None:
    """Write the rows of some parts, in their order, as one file; refuse a part that is cut off."""
    first, last = Path(group[0].name), Path(group[-1].name)
    of_last = "" if len(group) == 1 else f"-to-{last.stem.removeprefix('part-').rpartition('-to-')[2]}"
    path = draft / f"{first.stem.partition('-to-')[0]}{of_last}{first.suffix}"
    if first.suffix != ".parquet":
        with path.open("wb") as file:
            for part in group:
                with (hour / part.name).open("rb") as source:
                    shutil.copyfileobj(source, file)
        return
    with DeliveryWriter(path) as writer:
        for part in group:
            with pq.ParquetFile(hour / part.name) as source:
                for at in range(source.num_row_groups):
                    writer.write(source.read_row_group(at))


def _exchange(one: Path, other: Path) -> None:
    """Let two folders have each other's name, in one step."""
    libc = ctypes.CDLL(None, use_errno=True)
    rename = getattr(libc, "renameat2", None)
    number = errno.ENOSYS
    if rename is not None:
        if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
            return
        number = ctypes.get_errno()
    if number in _CANNOT_EXCHANGE:
        raise NotSupported(
            f"{one.parent}: this file system cannot exchange two folders in one step ({os.strerror(number)}), which"
            " compaction needs; use ext4, XFS or Btrfs on Linux"
        )
    raise OSError(number, os.strerror(number), str(one))
