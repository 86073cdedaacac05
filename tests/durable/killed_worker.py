"""A process that changes a durable hub, writes what was answered into a ledger, and is killed in between."""

import os
import subprocess
import sys

from support.waiting import run, wait_until


class KilledWorker:
    """A worker's script in a folder, with its ledger beside it; `count` is how much each of its threads does.

    Its kernels are interpreted: it starts often, and does little.
    """

    _ENVIRONMENT = os.environ | {"NUMBA_DISABLE_JIT": "1"}

    def __init__(self, folder, script, count):
        self.folder, self.ledger = folder / "hub", folder / "ledger"
        self._script, self._count = script, count

    def _command(self, snapshot_bytes):
        parts = (self._script, self.folder, self.ledger, snapshot_bytes, self._count)
        return [sys.executable, *map(str, parts)]

    def run_to_its_end(self, snapshot_bytes):
        """Do what is left."""
        ended = run(self._command(snapshot_bytes), env=self._ENVIRONMENT)
        assert 0 == ended.returncode, ended.stderr

    def n_answered(self):
        """Return how many lines the ledger has; one that a kill cut off is none."""
        return self.ledger.read_bytes().count(b"\n") if self.ledger.exists() else 0

    def kill_after(self, n_more, snapshot_bytes, *, may_end=False):
        """Run it, and kill it when there is this much more in the ledger; with `may_end` it may be through before."""
        wanted = self.n_answered() + n_more
        piped = {"stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(self._command(snapshot_bytes), env=self._ENVIRONMENT, **piped) as process:
            try:
                wait_until(
                    lambda: self.n_answered() >= wanted or (may_end and process.poll() == 0),
                    is_alive=lambda: process.poll() is None,
                    about=process.stderr.read,
                )
            finally:
                process.kill()
