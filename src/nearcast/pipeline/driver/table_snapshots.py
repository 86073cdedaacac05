"""Snapshots of the driver's tables, directory and routes, made by a worker: the last ones, and what came since.

Only from files that a manifest names: the driver writes nothing of it in a batch, and its own tables go on meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from nearcast.pipeline.batch.changes import BatchChanges
from nearcast.pipeline.batch.router import PlanRef, Router
from nearcast.pipeline.driver.directory import Directory
from nearcast.pipeline.store import pickles
from nearcast.pipeline.store.manifest_entries import BatchFiles
from nearcast.pipeline.store.store import Store


@dataclass(frozen=True)
class DirectoryRef:
    """Names the files of a directory: a folder, and the files of the batches since; event time is `now` after them."""

    store: Store
    folder: str
    since: tuple[BatchFiles, ...]
    now: int

    def opened(self) -> Directory:
        """Open the folder, and replay the changes since it was saved."""
        directory = Directory.open(self.store.local(self.folder))
        for files in self.since:
            if files.changes is not None:
                changes = pickles.read(self.store.local(files.changes))
                assert isinstance(changes, BatchChanges)
                directory.follow(changes)
            directory.forget_expired(files.now)
        directory.forget_expired(self.now)  # by batches that have no files
        return directory


@dataclass(frozen=True)
class TablesTask:
    """Task: write directory and routes, as they are by these files, into folders of these names."""

    directory: DirectoryRef
    plan: PlanRef
    directory_name: str
    plan_name: str


def write_tables(task: TablesTask) -> None:
    """Write both folders. Nothing is taken from what this process keeps: that may be newer."""
    store = task.directory.store
    store.put_folder(task.directory_name, task.directory.opened().save)
    router = Router.open(store.local(task.plan.folder))
    router.follow(task.plan)
    store.put_folder(task.plan_name, router.save)
