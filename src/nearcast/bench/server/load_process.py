"""The load generator as a process of its own: a job is a line to it, and its answer a line back."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec

from nearcast.bench.server.server_process import ServerProcess
from nearcast.bench.server.workload import ServerSizes
from nearcast.errors import NearcastError

#: Each job has numbers of messages of its own, from a multiple of this on.
_NUMBERS = 10_000_000


class LoadProcess:
    """Runs jobs against a server, one after the other."""

    def __init__(self, sizes: ServerSizes, seed: int):
        self._sizes, self._seed, self._n_jobs = sizes, seed, 0
        command = [sys.executable, "-m", "nearcast.bench.server.load"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, kind: str, server: ServerProcess) -> dict[str, Any]:
        """Run a job; return its answer, with the number of its first message as `first`."""
        self._n_jobs += 1
        first = self._n_jobs * _NUMBERS
        about = {"port": server.port, "pid": server.pid, "seed": self._seed, "first": first}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode({"kind": kind, "sizes": self._sizes, **about}) + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer: dict[str, Any] = msgspec.json.decode(line) if line else {"error": "it ended"}
        if "error" in answer:
            raise NearcastError(f"the load generator could not do {kind}: {answer['error']}")
        return {"first": first, **answer}

    def end(self) -> None:
        """Let the process end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
