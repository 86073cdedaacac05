"""Another host, as far as files go: processes in a mount namespace of their own, where a folder is empty."""

import pickle
import subprocess
import sys

import pytest

_WORKER = """
import pickle, sys
task, payload = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps(task(payload)))
"""


class OtherHostRunner:
    """Runs each task in a process that does not see what this one has in a folder."""

    def __init__(self, hidden):
        self._hidden = str(hidden)
        if subprocess.run([*self._command("true")], capture_output=True, check=False).returncode:
            pytest.skip("this system lets nobody mount a file system in a namespace")

    def _command(self, *command):
        mount = 'mount -t tmpfs none "$0" && exec "$@"'
        return ["unshare", "--mount", "--map-root-user", "sh", "-c", mount, self._hidden, *command]

    def map(self, task, payloads, *, claims=None, prefer=None):
        command = self._command(sys.executable, "-c", _WORKER)
        sent = [pickle.dumps((task, payload)) for payload in payloads]
        return [
            pickle.loads(subprocess.run(command, input=each, capture_output=True, check=True).stdout) for each in sent
        ]
