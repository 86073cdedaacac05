"""Copies of durable folders: backups, also of a hub that is running, and folders brought back from them.

The head of a copy is written last, after all else is on disk: a copy that was cut short is no durable hub.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from nearcast._saved import replace_file, sync_folder
from nearcast.durable.folder import DurableFolder
from nearcast.durable.folder_check import check
from nearcast.errors import IncompatibleStore
from nearcast.hub import DURABLE_HEAD

if TYPE_CHECKING:
    from nearcast.durable.input_log import InputLog
    from nearcast.durable.snapshots import SnapshotTaker


class OpenHub(Protocol):
    """A durable hub that is open, as far as a backup concerns it."""

    def backup(self, target: str | Path) -> None:
        """Copy it into a new or empty folder."""


def backup(source: OpenHub | str | Path, target: str | Path) -> None:
    """Copy a durable hub into a new or empty folder, which `DurableHub.open` opens.

    A hub that is open is given itself, not its folder: it goes on meanwhile, and what was answered before the call is
    in the copy. A folder must not be open anywhere.
    """
    if not isinstance(source, str | Path):
        source.backup(target)
        return
    held = DurableFolder.existing(source)
    try:
        with new_copy(target, held) as copy:
            for path in held.files():
                _copy(path, copy.path / path.relative_to(held.path))
    finally:
        held.release()


def restore(source: str | Path, folder: str | Path) -> None:
    """Copy a backup into a new or empty folder, if `check` finds nothing wrong with it."""
    report = check(source)
    if not report.is_sound:
        raise IncompatibleStore(f"{source} is damaged: {report.problems[0]}; take another backup")
    backup(source, folder)


def copy_running(held: DurableFolder, copy: DurableFolder, log: InputLog, snapshots: SnapshotTaker) -> None:
    """Copy the folder of a hub that goes on: a snapshot, and the log page by page between transactions.

    Files that come and go are opened together with the last pages, and copied afterwards.
    """
    with snapshots.turn(), ExitStack() as opened:
        newest = held.snapshot_path(snapshots.sound[0]) if snapshots.sound else None
        for path in held.files():
            if held.is_vocabulary(path) or (newest is not None and newest in path.parents):
                _copy(path, copy.path / path.relative_to(held.path))
        pages, others = log.copied(copy.path / log.path.name), dict[Path, IO[bytes]]()

        def copy_some() -> bool:
            if next(pages, None) is not None:
                return True
            others.update(opened.enter_context(_all_open(held)))
            return False

        while snapshots.run_alone(copy_some):
            pass
        for path, file in others.items():
            _write(file, copy.path / path.relative_to(held.path))


@contextmanager
def _all_open(held: DurableFolder) -> Iterator[Mapping[Path, IO[bytes]]]:
    """Open the files that come and go; a file that went meanwhile has another in its place: then all are looked up."""
    with ExitStack() as opened:
        while True:
            try:
                found = {path: opened.enter_context(path.open("rb")) for path in held.files(changing=True)}
                break
            except FileNotFoundError:
                opened.close()
        yield found


@contextmanager
def new_copy(target: str | Path, source: DurableFolder) -> Iterator[DurableFolder]:
    """Have a new folder filled with all but the head, and then give it the head; emptied again if that fails."""
    copy = DurableFolder(target)
    try:
        if not copy.is_new:
            raise FileExistsError(f"{target} holds a durable hub; give a new or empty folder")
        with _emptied_on_failure(copy):
            yield copy
            sync_folder(copy.path)
            head = (source.path / DURABLE_HEAD).read_bytes()
            replace_file(copy.path / DURABLE_HEAD, lambda path: path.write_bytes(head))
    finally:
        copy.release()


@contextmanager
def _emptied_on_failure(copy: DurableFolder) -> Iterator[None]:
    try:
        yield
    except BaseException:
        copy.clear()
        raise


def _copy(path: Path, place: Path) -> None:
    with path.open("rb") as file:
        _write(file, place)


def _write(file: IO[bytes], place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("wb") as written:
        shutil.copyfileobj(file, written, 1 << 20)
