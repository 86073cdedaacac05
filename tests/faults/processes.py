"""Processes of a stream that run apart from the tests: started in a session of their own, and killed all at once."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

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
        deadline = time.monotonic() + 20
        while members := self.members():
            for pid in members:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert time.monotonic() < deadline, "some processes cannot be killed"
        self.process.wait(20)
        return was_running

    def wait(self, seconds=180):
        """Wait for the end and return the exit status; what is left of it then is killed."""
        try:
            return self.process.wait(seconds)
        finally:
            self.kill()

    def said(self):
        return self.log.read_text(errors="replace")

    def wait_for(self, happened, seconds=120):
        """Wait until something has happened, or the process has ended; tell whether it happened."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            if happened():
                return True
            assert time.monotonic() < deadline, f"it did not happen in {seconds} s:\n{self.said()[-2000:]}"
            time.sleep(0.002)
        return happened()

    def executors(self):
        """Return the executors of `local-cluster`, which are processes of their own."""
        return [pid for pid in self.members() if "CoarseGrainedExecutorBackend" in command_of(pid)]
