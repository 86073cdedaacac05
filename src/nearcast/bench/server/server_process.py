"""`nearcast serve` as a process of its own: started on a port that the system chose, stopped or killed, its memory."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from nearcast.errors import NearcastError

_ANNOUNCED = "listens on"


class ServerProcess:
    """A server over a data folder; `ready_s` is how long it took from the start to the first answer."""

    def __init__(self, data: Path, settings: Mapping[str, object] | None = None):
        _open_more_files()
        command = [sys.executable, "-m", "nearcast", "serve", "--port", "0", "--data", str(data)]
        began = time.perf_counter()
        self._log = (data / "server.log").open("w+")
        # Endpoints of webhooks are on loopback; all else that is not given is as it is by default.
        given = {"webhooks.allow": "127.0.0.1", **(settings or {})}
        command += [f"--set={name}={value}" for name, value in given.items()]
        self._process = subprocess.Popen(command, stderr=self._log)
        self.port = self._announced()
        self.ready_s = time.perf_counter() - began

    def _announced(self) -> int:
        """Return the port, once the server answers."""
        while True:
            over = self._process.poll() is not None  # before reading: what it said last is there then
            self._log.seek(0)
            said = self._log.read()
            for line in said.splitlines():
                if _ANNOUNCED in line:
                    return int(line.rsplit(":", 1)[1])
            if over:
                raise NearcastError(f"the server ended before it answered: {said.strip()[-500:]}")
            time.sleep(0.005)

    @property
    def pid(self) -> int:
        """Return the id of the process."""
        return self._process.pid

    def end(self, *, kills: bool = False) -> None:
        """Stop the process, or kill it."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL if kills else signal.SIGTERM)
        self._process.wait()
        self._log.close()


def memory_bytes(pid: int) -> int | None:
    """Return the resident memory of a process, None where the system does not tell."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS")), None)


def _open_more_files() -> None:
    """Allow as many open files as the system lets one have, here and in all processes that are started from here."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
