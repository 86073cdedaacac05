"""Starts servers by forking a process that has imported all they need: a kill costs a start, and a start costs little.

python server_nursery.py reads lines of JSON, `{"data", "log", "settings"}`, and answers each with the id of a process
that runs `nearcast serve` there. When its input ends, so do the servers.
"""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx2

from nearcast.server.run import bound_socket, make_server
from nearcast.server.settings import load_settings
from support.waiting import PATIENCE_S, wait_until


class ServerNursery:
    """The process that starts servers; their kernels are interpreted, so that nothing waits for a compiler."""

    def __init__(self):
        env = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([sys.executable, __file__], env=env, **pipes)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        self._process.stdout.close()

    def start(self, data, **settings):
        """Return a server over a data folder that was started and may not answer yet."""
        log = Path(data) / f"server-{time.monotonic_ns()}.log"
        self._process.stdin.write(json.dumps({"data": str(data), "log": str(log), "settings": settings}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the nursery ended"
        return ForkedServer(int(answer), log)


class ForkedServer:
    """`nearcast serve` in a process of its own, on a port that the system chose."""

    def __init__(self, pid, log):
        self.pid, self._log = pid, log

    def is_alive(self):
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def said(self):
        return self._log.read_text() if self._log.exists() else ""

    def url(self):
        """Wait until it answers, and return where."""
        wait_until(lambda: "listens on" in self.said(), is_alive=self.is_alive, about=self.said)
        (line,) = [line for line in self.said().splitlines() if "listens on" in line]
        return line.split()[-1]

    def client(self):
        return httpx2.Client(base_url=self.url(), timeout=PATIENCE_S, trust_env=False)

    def kill(self):
        """Kill it, and wait until it is gone."""
        if self.is_alive():
            os.kill(self.pid, signal.SIGKILL)
        wait_until(lambda: not self.is_alive())


def main():
    """Start servers until there is nothing more to read, then kill them all."""
    from nearcast.cli import main as command

    _import_all()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those that end are gone at once
    started = []
    for line in sys.stdin:
        wanted = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become_server(command, wanted)
        started.append(pid)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
    for pid in started:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _import_all():
    """Import what a server imports in its first moments, as one tells that is started for that and ends at once."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        with tempfile.TemporaryDirectory() as data:
            settings = load_settings(environment={}, given={"server": {"port": 0, "data": data}})
            server = make_server(settings)
            server.on_ready = lambda: setattr(server, "should_exit", True)
            with bound_socket("127.0.0.1", 0) as listening:
                server.run([listening])
        os.write(writing, "\n".join(sys.modules).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as names:
        for name in names.read().split("\n"):
            with contextlib.suppress(ImportError):  # names that modules gave themselves
                importlib.import_module(name)
    os.wait()


def _become_server(command, wanted):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(wanted["log"], os.O_WRONLY | os.O_CREAT)
    for number in (1, 2):
        os.dup2(log, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    settings = [f"--set={name}={value}" for name, value in wanted["settings"].items()]
    command(["serve", "--port", "0", "--data", wanted["data"], *settings])
    os._exit(0)


if __name__ == "__main__":
    main()
