"""Compacts copies of a folder, each in a process that is killed with -9 at another line of the compaction.

Run as a script: folder of copies, the folder to copy, lines between two kills. Writes for each copy how it ended.
What was killed is copied once more, under the same name and -again, and there a further compaction runs to its end.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

from nearcast.pipeline.sinks import compaction

FINISHED, KILLED = 0, -signal.SIGKILL


def main(copies, source, step):
    """Kill later and later, until one finishes."""
    line = 1
    while True:
        copy = copies / f"{line:05d}"
        shutil.copytree(source, copy)
        status = compacted(copy, line)
        sys.stdout.write(f"{copy.name} {status}\n")
        if status == FINISHED:
            return
        if status != KILLED:
            sys.exit(f"{copy.name} ended with {status}")
        again = copies / f"{copy.name}-again"
        shutil.copytree(copy, again)
        assert compacted(again, None) == FINISHED, copy
        line += step


def compacted(folder, line):
    """Compact in a process of its own, which is killed at a line; return how it ended."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        if line is not None:
            sys.settrace(killer(line))  # of this thread only
        compaction.compact(folder, now=folder.stat().st_mtime + 1e6, keep_s=0.0)
        sys.settrace(None)
        os._exit(FINISHED)
    except BaseException as error:  # noqa: BLE001 - told by the status
        sys.stderr.write(f"{error!r}\n")
        sys.stderr.flush()
    os._exit(1)


def killer(line):
    """Return a trace function that kills this process when so many lines of the compaction have begun."""
    left = [line]

    def trace(frame, event, _):
        if frame.f_code.co_filename != compaction.__file__:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
