"""Processes of a stream that run apart from the tests: started in a session of their own, and killed all at once."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from support.waiting import PATIENCE_S, wait_until

_PROGRAM = Path(__file__).with_name("run_stream.py")
_TESTS = Path(__file__).parents[1]


def session_of(pid):
    """Return the session a process belongs to and its parent, or None where it has gone."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, parent, _, session = after_name[:4]
    return None if state == "Z" else (int(session), int(parent))


def pids():
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


class StreamProcess:
    """`nearcast stream` as a process: the driver, its Java and its Python workers are one session."""

    def __init__(self, log, arguments, master="local[2,4]", **environment):
        path = os.pathsep.join(filter(None, (str(_TESTS), os.environ.get("PYTHONPATH"))))
        self.log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, str(_PROGRAM), *map(str, arguments), "--master", master],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": path, **environment},
            )

    def members(self):
        """Return the processes that are alive."""
        own = self.process.pid
        return [pid for pid in pids() if (session_of(pid) or (None,))[0] == own]

    def kill(self):
        """Kill the driver, Java and all workers with -9; return whether there was a driver to be killed."""
        was_running = self.process.poll() is None
        wait_until(self._is_killed, about=lambda: f"these cannot be killed: {self.members()}")
        self.process.wait(PATIENCE_S)
        return was_running

    def _is_killed(self):
        """Kill what is alive; tell whether there was nothing."""
        members = self.members()
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not members

    def wait(self):
        """Wait for the end and return the exit status; what is left of it then is killed."""
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            self.kill()

    def said(self):
        return self.log.read_text(errors="replace")

    def wait_for(self, happened):
        """Wait until something has happened, or the process has ended; tell whether it happened."""
        wait_until(lambda: happened() or self.process.poll() is not None, about=lambda: self.said()[-2000:])
        return happened()

    def executors(self):
        """Return the executors of `local-cluster`, which are processes of their own."""
        return [pid for pid in self.members() if "CoarseGrainedExecutorBackend" in command_of(pid)]
