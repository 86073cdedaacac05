"""Snapshots of a durable hub beside its calls: what changes is copied between two inputs, and written afterwards.

The writing thread is held up for as long as copying takes, not for writing. A second process that replays the log was
the other way; it would need the memory of a second hub, and a log that two processes may read.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nearcast._saved import sync
from nearcast.engine.snapshot import save_state
from nearcast.errors import HubStopped

if TYPE_CHECKING:
    from nearcast._saved import Writes
    from nearcast.durable.folder import DurableFolder
    from nearcast.durable.input_log import InputLog
    from nearcast.durable.writer import GroupWriter


class StateAfter(NamedTuple):
    """A hub after an input: what the head of a snapshot says, and what is still to be written."""

    number: int
    about: dict[str, Any]
    writes: Writes


class SnapshotTaker:
    """Takes snapshots in order, one at a time, and trims the log to the older of those that are kept, if it `trims`.

    `prepare` is run before, so that less is left to do for `take`, which is run between two transactions: it puts the
    state of the hub into a folder, all that changes being copied.
    """

    def __init__(
        self,
        folder: DurableFolder,
        log: InputLog,
        writer: GroupWriter[Any],
        prepare: Callable[[], None],
        take: Callable[[Path], StateAfter],
        newest: int,
        *,
        trims: bool,
    ):
        self._folder, self._log, self._writer, self._trims = folder, log, writer, trims
        self._prepare, self._take = prepare, take
        #: The snapshots that are known to be sound, the newest first.
        self.sound = [newest] if newest else []
        #: Why the last one failed.
        self.error = ""
        self._turn, self._is_closed = threading.Lock(), False
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Take one in a thread of its own, unless one is being taken."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="nearcast-snapshot", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self.take()
        except Exception as error:  # noqa: BLE001  the log has it all, and `stats` says why
            self.error = f"{type(error).__name__}: {error}"

    def take(self) -> None:
        """Take one now, unless there is one after the last input; it is on disk when this returns."""
        with self.turn():
            if self._log.last not in self.sound:
                number = self._write()
                self.sound = self._folder.drop_snapshots([number, *self.sound])
            self.error = ""
            if self._trims and len(self.sound) > 1:
                while self.run_alone(partial(self._log.trim, self.sound[-1])):
                    pass

    def run_alone(self, function: Callable[[], Any]) -> Any:
        """Run a function between two transactions."""
        return self._writer.run_alone(function)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Keep snapshots and the log as they are, but for inputs that are added."""
        with self._turn:
            if self._is_closed:
                raise HubStopped(f"the hub of {self._folder.path} was closed; open it again with DurableHub.open")
            yield

    def _write(self) -> int:
        """Write a snapshot under a name that does not count, then give it that of its input; return this."""
        unfinished, numbers = self._folder.unfinished_snapshot, []

        def take(data: Path) -> tuple[dict[str, Any], Writes]:
            found: StateAfter = self.run_alone(partial(self._take, data))
            numbers.append(found.number)
            return found.about, found.writes

        shutil.rmtree(unfinished, ignore_errors=True)
        self._prepare()
        save_state(unfinished, take)
        place = self._folder.snapshot_path(numbers[0])
        shutil.rmtree(place, ignore_errors=True)  # one that is damaged
        unfinished.rename(place)
        sync(place.parent)
        return numbers[0]

    def close(self) -> None:
        """Wait for the one that is being taken, and for a copy: nobody writes into the folder afterwards."""
        if self._thread is not None:
            self._thread.join()
        with self._turn:
            self._is_closed = True
