"""What went wrong in a Spark job, in one line: Spark wraps an error of Python in a stack of its own."""

from __future__ import annotations

import contextlib
import importlib
import re

import nearcast
from nearcast.errors import NearcastError

_TRACEBACK = "Traceback (most recent call last):"
#: The line that ends a traceback: the class of the error, and what it says.
_LAST_LINE = re.compile(r"(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<says>.*))?")
_WORKER_DIED = re.compile(r"Python worker exited unexpectedly|Python worker process terminated|EOFException")
_EXECUTOR_LOST = re.compile(r"ExecutorLostFailure|Lost executor")


class WorkerTraceback(Exception):
    """The traceback of a worker as text: the cause of the error that is raised for it here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def in_one_line(error: BaseException, doing: str) -> BaseException:
    """Return the error to raise for one that a Spark job ended with, its cause the traceback of the worker.

    An error of nearcast comes back as what it was; another one says what was being done.
    """
    text = str(error)
    trace = _worker_traceback(text)
    if trace is None:
        return _with_cause(NearcastError(f"{doing}: {_what_spark_says(text)}"), error)
    kind, says = _last_line(trace)
    cause = WorkerTraceback(trace)
    known = _error_class(kind)
    if known is not None:
        with contextlib.suppress(TypeError):  # one that is not made of a message alone
            return _with_cause(known(says), cause)
    return _with_cause(NearcastError(f"{doing} failed in a worker of Spark: {kind.rpartition('.')[2]}: {says}"), cause)


def _error_class(kind: str) -> type[NearcastError] | None:
    """Return the error of nearcast with this full name, None if there is none."""
    module, _, name = kind.rpartition(".")
    if module.partition(".")[0] != nearcast.__name__:
        return None
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return None
    return found if isinstance(found, type) and issubclass(found, NearcastError) else None


def _with_cause(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def _worker_traceback(text: str) -> str | None:
    """Return the part of an error of Spark that is the traceback of Python, None if there is none."""
    at = text.find(_TRACEBACK)
    if at < 0:
        return None
    lines = text[at:].splitlines()
    end = next((i for i, line in enumerate(lines) if line.startswith(("\tat ", "Driver stacktrace"))), len(lines))
    return "\n".join(lines[:end]).rstrip()


def _last_line(trace: str) -> tuple[str, str]:
    """Return the class and the message of the error a traceback ends with."""
    after = trace[trace.rindex(_TRACEBACK) + len(_TRACEBACK) :].splitlines()
    for line in after:
        found = None if line.startswith(" ") else _LAST_LINE.fullmatch(line)
        if found is not None:
            return found["kind"], found["says"] or ""
    return "error", after[-1].strip() if after else ""


def _what_spark_says(text: str) -> str:
    """Return the cause of a failure that was not an error of Python."""
    if _WORKER_DIED.search(text):
        return "a Python worker of Spark died at every attempt; it may have run out of memory"
    if _EXECUTOR_LOST.search(text):
        return "Spark lost an executor at every attempt; it may have run out of memory"
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    shown = next((line for line in lines if "Exception" in line or "Error" in line), lines[0] if lines else "no reason")
    return f"Spark failed: {shown[:300]}"
