"""A process that changes a durable hub, writes what was answered into a ledger, and is killed in between."""

import subprocess
import sys

from support.waiting import wait_until


class KilledWorker:
    """A worker's script in a folder, with its ledger beside it; `count` is how much each of its threads does."""

    def __init__(self, folder, script, count):
        self.folder, self.ledger = folder / "hub", folder / "ledger"
        self._script, self._count = script, count

    def command(self, snapshot_bytes):
        """Return the command that runs it, or goes on with what is left."""
        parts = (self._script, self.folder, self.ledger, snapshot_bytes, self._count)
        return [sys.executable, *map(str, parts)]

    def answered(self):
        """Return what the ledger says was answered."""
        raise NotImplementedError

    def kill_after(self, n_more, snapshot_bytes, *, may_end=False):
        """Run it, and kill it when there is this much more in the ledger; with `may_end` it may be through before."""
        wanted = len(self.answered()) + n_more
        with subprocess.Popen(self.command(snapshot_bytes), stderr=subprocess.PIPE, text=True) as process:
            try:
                wait_until(
                    lambda: len(self.answered()) >= wanted or (may_end and process.poll() == 0),
                    is_alive=lambda: process.poll() is None,
                    about=process.stderr.read,
                )
            finally:
                process.kill()
