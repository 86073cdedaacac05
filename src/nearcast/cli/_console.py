"""What the commands share: complaints, progress and the consoles they go to."""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType, TracebackType

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

#: A step that is over sooner says nothing where there is no terminal, and a longer one no more often than this.
_EVERY_S = 5.0
_PIPE_WIDTH = 200


class UsageMistake(Exception):
    """The command line cannot be carried out as it stands; the message says why, in one line."""


#: Signals that told this command to stop.
_told_to_stop: list[int] = []


def listen_for_signals() -> None:
    """Let a command leave by an exception when it is told to stop, so that what is half-written is removed."""
    _told_to_stop.clear()
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)
    show = sys.unraisablehook
    sys.unraisablehook = lambda error: None if _told_to_stop else show(error)


def _stop(number: int, _: FrameType | None) -> None:
    _told_to_stop.append(number)
    leave_if_told()


def leave_if_told() -> None:
    """Raise for a signal that has come; the exception it raised may be lost, in a callback of the compiler, say."""
    for number in _told_to_stop:
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


def complain(message: str) -> None:
    """Print one line to stderr."""
    typer.echo(f"nearcast: {' '.join(message.split())}", err=True)


def stderr() -> Console:
    """Return a console on stderr, as it is now."""
    return Console(file=sys.stderr)


def stdout() -> Console:
    """Return a console on stdout, as it is now; what goes into a pipe or a file is not cut to 80 columns."""
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console


class StepProgress:
    """Progress on stderr: a bar on a terminal, else a line now and then; use it in a `with` statement."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._title, self._done, self._last = "", 0, time.monotonic()
        self._total: int | None = None
        if self._console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=self._console, transient=True)

    def __enter__(self) -> StepProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, title: str, total: int | None = None) -> None:
        """Start a step; `total` is how far `advance` will come, if that is known."""
        leave_if_told()
        self._title, self._total, self._done = title, total, 0
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(title, total=total)
        else:
            self._line()

    def advance(self, count: int) -> None:
        """Count what was done."""
        leave_if_told()
        self._done += count
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, count)
        else:
            self._line()

    def tell(self, line: str) -> None:
        """Print a line that stays, above the bar where there is one."""
        if self._bar is not None:
            self._bar.console.print(line, highlight=False, markup=False, soft_wrap=True)
        else:
            complain(line)

    def _line(self) -> None:
        now = time.monotonic()
        if now - self._last < _EVERY_S:
            return
        self._last = now
        of = f" of {self._total:,}" if self._total else ""
        complain(f"{self._title}, {self._done:,}{of}" if self._done else self._title)
