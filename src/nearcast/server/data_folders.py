"""Copies of a server's data folder: the hub, `server.db` and `webhooks.db` of each tenant, and the tokens.

A tenant of a running server is copied by the server itself (`/v1/backup`); a folder that no server has open, by
`backup_data`. Each database is copied as it is between two transactions.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from nearcast import durable
from nearcast.durable import DurableHub
from nearcast.errors import IncompatibleStore

DATABASES = ("server.db", "webhooks.db")


def backup_data(source: Path, target: Path) -> None:
    """Copy a data folder that no server has open into a new folder."""
    tenants = sorted(each for each in (source / "tenants").iterdir() if each.is_dir())
    for tenant in tenants:
        backup_tenant(tenant / "hub", tenant, target / "tenants" / tenant.name)
    copy_database(source / "tokens.db", target / "tokens.db")


def backup_tenant(hub: DurableHub | Path, folder: Path, target: Path) -> None:
    """Copy a tenant: its databases first, so that what the copy of the hub has beyond them is only more."""
    target.mkdir(parents=True)
    for name in DATABASES:
        copy_database(folder / name, target / name)
    durable.backup(hub, target / "hub")


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


def check_data(folder: Path) -> list[str]:
    """Return what is wrong with a data folder that no server has open, or with a durable hub."""
    if not (folder / "tenants").is_dir():
        return durable.check(folder).problems
    problems = []
    for tenant in sorted(each for each in (folder / "tenants").iterdir() if each.is_dir()):
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
