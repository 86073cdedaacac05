"""Listens to Numba while it compiles our kernels, and says so where a person waits for it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from numba.core import event

#: Seconds of compiling that pass without a word.
PATIENCE_S = 1.0
_EVENT = "numba:compile"
_ONCE = "this happens once; `nearcast warm` does it ahead"
_EACH_TIME = "NEARCAST_CACHE=0 makes every process do it again"


class CompilationListener(event.Listener):  # type: ignore[misc]
    """Calls `tell(name, seconds)` whenever a kernel of ours begins or ends being compiled.

    `seconds` is the time spent compiling so far, in this process; `name` is the kernel that was finished, or None
    where one begins. Kernels that are compiled on behalf of another one are told of, but their time is not counted
    twice. Numba's lock keeps the calls of several threads apart.
    """

    def __init__(self, tell: Callable[[str | None, float], None]):
        self._tell = tell
        self._depth, self._spent, self._began = 0, 0.0, 0.0

    def on_start(self, happened: event.Event) -> None:
        """Note the beginning of a kernel that Python called; those inside it are part of it."""
        if _is_ours(happened):
            if self._depth == 0:
                self._began = time.monotonic()
            self._depth += 1
            self._tell(None, self._seconds())

    def on_end(self, happened: event.Event) -> None:
        """Note the end of a kernel."""
        if _is_ours(happened):
            self._tell(happened.data["dispatcher"].py_func.__name__, self._seconds())
            self._depth -= 1
            if self._depth == 0:
                self._spent = self._seconds()

    def _seconds(self) -> float:
        return self._spent + time.monotonic() - self._began


def _is_ours(happened: event.Event) -> bool:
    return str(happened.data["dispatcher"].py_func.__module__).startswith("nearcast.")


@contextlib.contextmanager
def listening(tell: Callable[[str | None, float], None]) -> Iterator[None]:
    """Call `tell` of every compilation inside the `with` statement, as `CompilationListener` does."""
    listener = CompilationListener(tell)
    event.register(_EVENT, listener)
    try:
        yield
    finally:
        event.unregister(_EVENT, listener)


class _Notice:
    """Writes one line to stderr, once, when compiling has taken longer than a person waits without wondering."""

    def __init__(self, *, is_kept: bool):
        self._line = f"nearcast: compiling kernels for this machine, some seconds: {_ONCE if is_kept else _EACH_TIME}\n"
        self.is_given = False

    def __call__(self, name: str | None, seconds: float) -> None:
        if self.is_given or seconds < PATIENCE_S:
            return
        self.is_given = True
        if somebody_watches():
            # Whoever has closed stderr has lost a line; matching goes on.
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(self._line)
                sys.stderr.flush()


def somebody_watches() -> bool:
    """Tell whether stderr is a terminal or the output of a notebook's cell."""
    try:
        is_terminal = sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False
    return is_terminal or _in_notebook()


def _in_notebook() -> bool:
    """Tell whether this process is the kernel of a notebook: the one shell of IPython that has a `kernel`."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def give_notice(*, is_kept: bool) -> None:
    """Write a line to stderr, once in this process, when kernels take long to compile; `is_kept`: they are cached."""
    event.register(_EVENT, CompilationListener(_Notice(is_kept=is_kept)))
