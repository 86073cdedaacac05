"""Data folders of a server that hold all subscriptions: one with a snapshot, and one that has the log alone."""

from __future__ import annotations

import shutil
from pathlib import Path

from nearcast.bench.server.workload import ServerSizes, subscription_tables


def make_folder(folder: Path, sizes: ServerSizes, seed: int) -> Path:
    """Make a data folder whose hub holds the subscriptions, logged in batches of 10,000, and has a snapshot."""
    from nearcast.server.settings import load_settings
    from nearcast.server.tenants import opened_hub

    place = _hub(folder)
    place.parent.mkdir(parents=True)
    hub = opened_hub(place, load_settings(environment={}))
    try:
        for table in subscription_tables(sizes, seed):
            hub.subscribe_many(table)
        hub.snapshot()
    finally:
        hub.close()
    return folder


def without_snapshot(folder: Path, other: Path) -> Path:
    """Copy a data folder but for its snapshots: a server on the copy must read the whole log."""
    _hub(other).parent.mkdir(parents=True)
    shutil.copytree(_hub(folder), _hub(other), ignore=shutil.ignore_patterns("snapshot*"))
    return other


def _hub(folder: Path) -> Path:
    return folder / "tenants" / "default" / "hub"
