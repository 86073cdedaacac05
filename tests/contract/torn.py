"""Cutting calls short: an interrupt at the n-th line of nearcast that a call runs through.

Lines of kernels are not counted, since a compiled kernel cannot be interrupted. A line that runs often in one call is
counted twice. The line of a `with` statement is counted when it is entered; a tracer may raise where it is left before
the lock is released, which no signal can.
"""

import ast
import functools
import linecache
import sys
from pathlib import Path

import nearcast

_SOURCES = str(Path(nearcast.__file__).parent)
_KERNELS = {"kernel", "hot_kernel", "step"}


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


def interrupted(call, n):
    """Run a call and raise at its n-th line; return the text of that line, or nothing if the call ended before."""
    left, visits, entered, where = n, {}, set(), ""

    def on_line(frame, event, _):
        nonlocal left, where
        line = (frame.f_code, frame.f_lineno)
        if event == "line" and (id(frame), line) not in entered:
            if frame.f_lineno in _module(frame.f_code.co_filename)[1]:
                entered.add((id(frame), line))
            visits[line] = visits.get(line, 0) + 1
            left -= visits[line] <= 2
            if left == 0:
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
