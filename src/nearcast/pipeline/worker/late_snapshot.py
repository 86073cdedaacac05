"""A snapshot of a large partition: taken at the end of a step, written beside the steps that follow.

Taking copies what changes, in memory; writing a gigabyte and syncing it takes seconds. A later step of the partition in
the same worker names what is finished. A worker that ends first leaves a draft, which the driver sweeps when it starts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nearcast._saved import Writes, write_all, writing_later
from nearcast.pipeline.store.local_place import one_line

if TYPE_CHECKING:
    from nearcast.pipeline.store.store import Store

#: Partitions with more subscriptions and messages of the window than this are written beside the next steps.
LARGE = 100_000


class WrittenSnapshot(NamedTuple):
    """A snapshot in the store: its name, the batch at whose end the state was so, and the seconds it took if large."""

    name: str
    batch: int
    seconds: float | None = None


class LateSnapshot:
    """A snapshot under a name in a store, which a thread writes; `like` is an older one with files in common.

    `take` is called with a folder before this returns, and saves a state into it as `writing_later` has it. What it
    raises is raised here, and then nothing is written.
    """

    def __init__(self, store: Store, name: str, batch: int, take: Callable[[Path], object], like: str):
        self.name, self.batch = name, batch
        self._store, self._like = store, like
        self._began = time.perf_counter()
        self._seconds = 0.0
        self._folder: Future[Path] = Future()
        self._writes: Future[Writes] = Future()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._write, name="nearcast snapshot", daemon=True)
        self._thread.start()
        try:
            folder = self._folder.result()
            with writing_later() as writes:
                take(folder)
        except BaseException as error:
            self._writes.set_exception(error)
            self._thread.join()
            raise
        self._writes.set_result(writes)

    def _write(self) -> None:
        try:
            self._store.put_folder(self.name, self._fill, like=self._like)
        except BaseException as error:  # noqa: BLE001 - a step tells it: a thread has nobody to tell
            self._error = error
            if not self._folder.done():
                self._folder.set_exception(error)
        self._seconds = time.perf_counter() - self._began

    def _fill(self, folder: Path) -> None:
        self._folder.set_result(folder)
        write_all(self._writes.result())

    @property
    def is_done(self) -> bool:
        """Tell whether nothing is being written any more."""
        return not self._thread.is_alive()

    def join(self) -> None:
        """Wait until nothing is being written any more."""
        self._thread.join()

    @property
    def problem(self) -> str | None:
        """Why it could not be written, in one line."""
        return None if self._error is None else one_line(self._error)

    @property
    def written(self) -> WrittenSnapshot | None:
        """What was written, where it still is: a driver sweeps what it has not heard of for a batch."""
        if self._error is not None or not self._store.sizes_of([self.name]):
            return None
        return WrittenSnapshot(self.name, self.batch, self._seconds)
