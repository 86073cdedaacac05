"""Copies of a server's data folder: the hub, `server.db` and `webhooks.db` of each tenant, and the tokens.

A tenant of a running server is copied by the server itself (`/v1/backup`); a folder that no server has open, by
`backup_data`. Each database is copied as it is between two transactions. A copy has the mark `unfinished` until all of
it is on disk: one that was cut short is neither restored, nor copied, nor served.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from nearcast import durable
from nearcast._saved import sync
from nearcast.durable import DurableHub
from nearcast.errors import IncompatibleStore
from nearcast.saved_files.folder import make_folder

SERVER_DB = "server.db"
DATABASES = (SERVER_DB, "webhooks.db")
_UNFINISHED = "unfinished"


def backup_data(source: Path, target: Path) -> None:
    """Copy a data folder that no server has open into a new or empty folder."""
    check_finished(source)
    with _marked_until_whole(target, "tenants", "tokens.db"):
        for tenant in _tenants_in(source):
            backup_tenant(tenant / "hub", tenant, target / "tenants" / tenant.name)
        copy_database(source / "tokens.db", target / "tokens.db")


def backup_tenant(hub: DurableHub | Path, folder: Path, target: Path) -> None:
    """Copy a tenant: its databases first, so that what the copy of the hub has beyond them is only more."""
    if target.exists():
        raise FileExistsError(f"{target} exists; give a new folder")
    with _marked_until_whole(target, *DATABASES, "hub"):
        for name in DATABASES:
            copy_database(folder / name, target / name)
        durable.backup(hub, target / "hub")
        if isinstance(hub, DurableHub):
            _note_changes(folder / SERVER_DB, target / SERVER_DB)


@contextmanager
def _marked_until_whole(folder: Path, *parts: str) -> Iterator[None]:
    """Have a folder filled with some parts; it is marked meanwhile, since a kill may come at any moment.

    Should that fail, half a copy is taken away, so that its place can be given again.
    """
    mark, is_new = folder / _UNFINISHED, not folder.exists()
    try:
        make_folder(folder)
        mark.write_text("a copy is being made here, or was cut short\n")
        sync(mark)
        sync(folder)
        yield
        sync(folder)
    except BaseException:
        _remove(*(folder / each for each in parts), mark)
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    mark.unlink()
    sync(folder)


def _remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _tenants_in(folder: Path) -> list[Path]:
    return sorted(each for each in (folder / "tenants").glob("*") if each.is_dir())


def _marks_in(folder: Path) -> list[str]:
    """Return what the marks of copies that were cut short say, in a data folder and its tenants."""
    marked = [each for each in (folder, *_tenants_in(folder)) if (each / _UNFINISHED).exists()]
    return [f"{each} is half a copy, which was cut short (it has the mark {_UNFINISHED!r})" for each in marked]


def check_finished(folder: Path) -> None:
    """Raise if a folder holds a copy that was cut short."""
    for mark in _marks_in(folder):
        raise IncompatibleStore(f"{mark}; delete it and make the copy again")


def _note_changes(source: Path, target: Path) -> None:
    """Note in a copy, as intents, which subscriptions were changed while the hub was copied: it may have them or not.

    The hub is opened with those that were there when the copy began, as they were after it; without others.
    """
    later = target.with_name("later.db")
    copy_database(source, later)
    connection = apsw.Connection(str(target))
    try:
        connection.execute("ATTACH ? AS later", (str(later),))
        with connection:
            connection.execute(_NOTE_CHANGES)
    finally:
        connection.close()
        later.unlink()
    sync(target)
    sync(target.parent)


#: Of what was made meanwhile and of what was deleted the hub may hold something, and then lets it go.
_NOTE_CHANGES = """
    UPDATE subscriptions SET intent = 'forget', before = NULL
    WHERE number NOT IN (SELECT number FROM later.subscriptions);
    UPDATE subscriptions SET subscriber = new.subscriber, labels = new.labels, max_events = new.max_events,
        is_paused = new.is_paused, body = new.body, version = new.version, before = NULL,
        intent = coalesce(new.intent, CASE WHEN new.is_paused THEN 'release' ELSE 'hold' END)
    FROM later.subscriptions AS new WHERE new.number = subscriptions.number AND new.version <> subscriptions.version;
    INSERT INTO subscriptions (id, subscriber, labels, max_events, is_paused, body, version, intent)
    SELECT id, subscriber, labels, max_events, is_paused, body, version, 'forget' FROM later.subscriptions
    WHERE id NOT IN (SELECT id FROM main.subscriptions);
"""


def copy_database(source: Path, target: Path) -> None:
    """Copy an SQLite database into a new file, also while others write to it."""
    if not source.exists():
        return
    if target.exists():
        raise FileExistsError(f"{target} exists; give a new folder")
    read = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        read.set_busy_timeout(10_000)
        read.execute("VACUUM INTO ?", (str(target),))
    finally:
        read.close()
    sync(target)
    sync(target.parent)


def check_data(folder: Path) -> list[str]:
    """Return what is wrong with a data folder that no server has open, or with a durable hub."""
    marks = _marks_in(folder)
    if marks or not (folder / "tenants").is_dir():
        return marks or durable.check(folder).problems
    problems = []
    for tenant in _tenants_in(folder):
        problems += durable.check(tenant / "hub").problems
        for name in DATABASES:
            problems += _faults_of_database(tenant / name)
    return problems


def _faults_of_database(path: Path) -> list[str]:
    if not path.exists():
        return [f"{path} is missing"]
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
        finally:
            connection.close()
    except apsw.Error as error:
        found = [str(error)]
    return [f"{path}: {each}" for each in found if each != "ok"]


def restore_data(source: Path, target: Path) -> None:
    """Copy a backup of a data folder back, if nothing is wrong with it."""
    problems = check_data(source)
    if problems:
        raise IncompatibleStore(f"{source} is damaged: {problems[0]}; take another backup")
    backup_data(source, target)
