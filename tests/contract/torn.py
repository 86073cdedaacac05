"""Cutting calls short: an interrupt at a line of nearcast that a call runs through.

Lines of kernels do not count, since a compiled kernel cannot be interrupted. The line of a `with` statement counts when
it is entered; where it is left, a tracer may raise before the lock is released, which no signal can.
"""

import ast
import functools
import linecache
import sys
from pathlib import Path

import nearcast

_SOURCES = str(Path(nearcast.__file__).parent)
_KERNELS = {"kernel", "hot_kernel", "inlined"}


class Interrupt(KeyboardInterrupt):
    """What Ctrl-C raises, told apart from somebody's real one."""


@functools.cache
def _module(path):
    """Return the first lines of kernels in a file, and the lines of its `with` statements."""
    nodes = list(ast.walk(ast.parse(Path(path).read_text())))
    kernels = {
        node.decorator_list[0].lineno
        for node in nodes
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(each, ast.Name) and each.id in _KERNELS for each in node.decorator_list)
    }
    return kernels, {node.lineno for node in nodes if isinstance(node, ast.With)}


@functools.cache
def _is_counted(code):
    path = code.co_filename
    if not path.startswith(_SOURCES) or path.startswith(f"{_SOURCES}/testing"):
        return False
    return code.co_firstlineno not in _module(path)[0]


class Interrupter:
    """Interrupts calls, each time at a line where none was interrupted before.

    `every` says at how many of these lines: 1 is at each of them, 5 at every fifth.
    """

    def __init__(self, every=1):
        self.every = every
        self._done, self._n_lines, self._what = set(), 0, ""

    def begin(self, what):
        """Tell calls apart: a line counts as another one in other calls."""
        self._what = what

    def interrupted(self, call):
        """Run a call and raise at its next line; return the text of that line, or nothing if the call ended before."""
        return interrupted(call, self._is_next)

    def _is_next(self, line):
        if (self._what, line) in self._done:
            return False
        self._done.add((self._what, line))
        self._n_lines += 1
        return self._n_lines % self.every == 0


def nth(n):
    """Return what makes `interrupted` raise at the n-th line."""
    lines = iter(range(1, n + 1))
    return lambda _: next(lines, 0) == n


def interrupted(call, is_next):
    """Run a call and raise at a line; return the text of that line, or nothing if the call ended before."""
    entered, where = set(), ""

    def on_line(frame, event, _):
        nonlocal where
        line = (frame.f_code, frame.f_lineno)
        if event == "line" and (id(frame), line) not in entered:
            if frame.f_lineno in _module(frame.f_code.co_filename)[1]:
                entered.add((id(frame), line))
            if is_next(line):
                where = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
                raise Interrupt
        return on_line

    def on_call(frame, _, __):
        return on_line if _is_counted(frame.f_code) else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        call()
    except Interrupt:
        return where
    finally:
        sys.settrace(before)
    return ""
