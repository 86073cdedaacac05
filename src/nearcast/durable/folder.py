"""The folder of a durable hub: its head with the options, the log, snapshots, and a lock against other processes.

durable.json        the head: format and options; written last when the folder is made
log.db, log.db-wal  the inputs, `input_log`
outbox/             deliveries that wait for their subscribers, `outbox/`
snapshots/00…42/    the hub after input 42, as `Hub.save` writes it
vocabulary.parquet  the vocabulary that the hub began with
lock                locked while the hub is open; holds the number of the process
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nearcast._saved import replace_file, sync
from nearcast.durable.input_log import InputLog
from nearcast.engine.lifetime import Lifetime
from nearcast.errors import IncompatibleStore, InvalidInput, StoreUnavailable
from nearcast.hub import DURABLE_HEAD
from nearcast.saved_files.contents import files_within, read_signed, signed
from nearcast.saved_files.folder import make_folder
from nearcast.tables.time_limits import MaxAhead
from nearcast.text import Vocabulary
from nearcast.window import Window

_FORMAT = 1
_LOG, _LOCK, _SNAPSHOTS, _VOCABULARY = "log.db", "lock", "snapshots", "vocabulary.parquet"
_OUTBOX = "outbox"
#: What a folder may hold that was not finished.
_OWN = {_LOG, f"{_LOG}-journal", f"{_LOG}-wal", f"{_LOG}-shm", _LOCK, _SNAPSHOTS, _VOCABULARY, _OUTBOX}
#: The log is kept from the older one on: should the newest be damaged, that one will do.
_KEPT_SNAPSHOTS = 2
_WRITTEN: dict[str, Callable[[Any], object]] = {
    "window": lambda value: Window(*value),
    "lifetime": lambda value: Lifetime(*value),
    "max_ahead": MaxAhead,
}


class DurableFolder:
    """A folder that this process has locked; made if there is none."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        if (self.path / "hub.json").exists():
            raise IncompatibleStore(f"{path} holds a saved hub; open it with Hub.open, or give another folder")
        if self.path.is_dir():
            _ = self.is_new  # a folder of something else is refused before there is a lock in it
        make_folder(self.path)
        self._lock = _locked(self.path / _LOCK)

    @classmethod
    def existing(cls, path: str | Path) -> DurableFolder:
        """Return a folder that holds a durable hub; `IncompatibleStore` if there is none."""
        if not Path(path).is_dir():
            raise IncompatibleStore(f"there is no folder {path}; make a durable hub with DurableHub")
        if not any((Path(path) / name).exists() for name in (DURABLE_HEAD, "hub.json")):  # no lock is left there
            raise IncompatibleStore(f"{path} holds no durable hub; make one with DurableHub")
        held = cls(path)
        try:
            if held.is_new:
                raise IncompatibleStore(f"{path} holds no durable hub; make one with DurableHub")
        except BaseException:
            held.release()
            raise
        return held

    @property
    def is_new(self) -> bool:
        """Tell whether the folder holds no hub yet; `FileExistsError` if it holds anything else."""
        if (self.path / DURABLE_HEAD).exists():
            return False
        others = {each.name for each in self.path.iterdir() if not _is_unfinished(each.name)} - _OWN
        if others:
            raise FileExistsError(f"{self.path} holds {min(others)} and no durable hub; give a new or empty folder")
        return True

    def create(self, options: Mapping[str, Any], vocabulary: Vocabulary) -> None:
        """Make an empty log and then the head."""
        for path in list(self.path.iterdir()):
            if path.name in _OWN - {_LOCK, _SNAPSHOTS, _OUTBOX} or _is_unfinished(path.name):
                path.unlink()
        for name in (_SNAPSHOTS, _OUTBOX):
            shutil.rmtree(self.path / name, ignore_errors=True)
        (self.path / _SNAPSHOTS).mkdir()
        vocabulary.to_parquet(self.path / _VOCABULARY)
        InputLog.create(self.path / _LOG)
        head = signed({"format": _FORMAT, "options": dict(options)})
        replace_file(self.path / DURABLE_HEAD, lambda temporary: temporary.write_bytes(head))
        sync(self.path.parent)

    def options(self) -> dict[str, Any]:
        """Return the options that the hub was made with."""
        path = self.path / DURABLE_HEAD
        head = read_signed(path.read_bytes(), str(path))
        if head["format"] != _FORMAT:
            raise IncompatibleStore(f"{self.path} has format {head['format']!r}, this version reads {_FORMAT}")
        return dict(head["options"])

    def check_options(self, given: Mapping[str, Any]) -> None:
        """Refuse, by its name, an option that is not what the hub was made with."""
        for name, made in self.options().items():
            if given[name] != made:
                raise InvalidInput(
                    f"{name} is {_shown(name, given[name])}, but {self.path} was made with {_shown(name, made)}; give "
                    "that, or use DurableHub.open, which takes the options of the folder",
                    field=name,
                )

    def vocabulary(self) -> Vocabulary:
        """Return the vocabulary that the hub was made with."""
        return Vocabulary.from_parquet(self.path / _VOCABULARY)

    def log(self, durability: str, *, repairs: bool = True) -> InputLog:
        """Open the log; unless it `repairs`, nothing is written."""
        path = self.path / _LOG
        if not path.exists():
            raise IncompatibleStore(f"{path} is missing; bring it back from a copy")
        return InputLog(path, durability, repairs=repairs)

    @property
    def outbox(self) -> Path:
        """Return where the deliveries lie that wait."""
        return self.path / _OUTBOX

    # Files

    def files(self, *, changing: bool = False) -> Iterator[Path]:
        """Yield the files that make up the hub, but for the head; with `changing` those that come and go by themselves.

        These are all but the log, the snapshots and the vocabulary.
        """
        for _, path in list(files_within(self.path)):
            top = path.relative_to(self.path).parts[0]
            if top in (DURABLE_HEAD, _LOCK) or path.name.startswith(".") or self.unfinished_snapshot in path.parents:
                continue
            if not changing or top not in (_LOG, f"{_LOG}-wal", f"{_LOG}-shm", _SNAPSHOTS, _VOCABULARY):
                yield path

    def is_vocabulary(self, path: Path) -> bool:
        """Tell the file of the vocabulary."""
        return path == self.path / _VOCABULARY

    def clear(self) -> None:
        """Remove everything but the lock."""
        for path in list(self.path.iterdir()):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != _LOCK:
                path.unlink(missing_ok=True)

    # Snapshots

    def snapshot_path(self, number: int) -> Path:
        """Return where the snapshot after an input lies."""
        return self.path / _SNAPSHOTS / f"{number:020d}"

    @property
    def unfinished_snapshot(self) -> Path:
        """Return where a snapshot lies until it is whole."""
        return self.path / _SNAPSHOTS / "unfinished"

    def snapshots(self) -> list[int]:
        """Return the numbers of the inputs after which snapshots were taken, the newest first."""
        folder = self.path / _SNAPSHOTS
        found = [int(each.name) for each in folder.iterdir() if each.name.isdigit()] if folder.is_dir() else []
        return sorted(found, reverse=True)

    def drop_snapshots(self, sound: Iterable[int]) -> list[int]:
        """Remove all snapshots but the newest of those that are sound; return these, the newest first."""
        kept = sorted(sound, reverse=True)[:_KEPT_SNAPSHOTS]
        for number in self.snapshots():
            if number not in kept:
                shutil.rmtree(self.snapshot_path(number), ignore_errors=True)
        return kept

    # The lock

    def release(self) -> None:
        """Let other processes open the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _is_unfinished(name: str) -> bool:
    """Tell the names of files that a crash left before they were put in place."""
    return name.startswith((f".{DURABLE_HEAD}.", f".{_VOCABULARY}."))


def _shown(name: str, value: Any) -> str:
    """Return an option of a head as people write it."""
    if value is not None and name in _WRITTEN:
        return str(_WRITTEN[name](value))
    return repr(value)


def _locked(path: Path) -> int:
    """Lock a file for as long as its descriptor, which is returned, is open; a kill lets go of it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode().strip() or "another"
        os.close(descriptor)
        raise StoreUnavailable(f"{path.parent} is in use by process {holder}; close the hub there first") from None
    with suppress(OSError):  # it is for people, and the disk may be full
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    return descriptor
