"""Where Spark's Python workers fork from: a process that has nearcast and its kernels in memory already.

Spark starts it instead of `pyspark.daemon` (setting `spark.python.daemon.module`). What is loaded here is shared by all
workers of a host and loaded once, not once in each. `gc.freeze` keeps the collection that follows every task from
looking at all of it, 66 to 73 ms a task. Nothing in `nearcast.spark` imports this module: it runs as a program.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import socket
import sys

from nearcast.allocator import use_one_allocator
from nearcast.spark.gc_freeze import freeze_once

__all__ = ["freeze_once", "leave_quietly", "prepare"]

#: Beside the kernels: what a worker would import at its first task. None of them starts a thread that a fork would
#: lose, but for one of jemalloc, which looks after itself.
_AHEAD = ("pandas", "pyarrow.compute", "pyspark.sql.pandas.serializers", "pyspark.sql.conversion", "pyspark.worker")


def prepare() -> None:
    """Import what workers need; an error here is left to the task that needs it, which reports it better."""
    with contextlib.suppress(Exception):
        use_one_allocator()
    # Spark reads the number of its port from this process' standard output.
    with contextlib.redirect_stdout(io.StringIO()):
        for name in _AHEAD:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        with contextlib.suppress(Exception):
            from nearcast.spark.warmup import warm_kernels

            warm_kernels()
    gc.collect()
    gc.freeze()


def leave_quietly() -> None:
    """Let a worker that Spark has let go, as it does after a minute without work, end without a traceback."""
    from pyspark import daemon

    work = daemon.worker

    def worker(sock: socket.socket, authenticated: bool) -> int:
        try:
            return work(sock, authenticated)
        except BrokenPipeError:
            return 1

    daemon.worker = worker


if __name__ == "__main__":
    from pyspark.daemon import manager

    prepare()
    leave_quietly()
    sys.stdout.flush()
    manager()
