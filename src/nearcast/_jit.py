"""The one place that names Numba options."""

import functools
import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

from nearcast._compiling import give_notice

F = TypeVar("F", bound=Callable[..., Any])

_SOURCES = Path(__file__).parent
#: What stands above the indexes in the order of imports holds no kernel and nothing a kernel uses.
WITHOUT_KERNELS = (
    "bench",
    "cli",
    "_forking.py",
    "demo",
    "engine.py",
    "estimate.py",
    "explain.py",
    "explain_topk.py",
    "files",
    "hub.py",
    "model",
    "moves.py",
    "recent.py",
    "recovery.py",
    "snapshot.py",
    "spark",
    "testing",
    "warming.py",
    "word_compaction.py",
)
#: `NEARCAST_CACHE=0` turns the compilation cache off, for the day a cluster misbehaves.
_CACHE_ON = os.environ.get("NEARCAST_CACHE", "1") != "0"
#: Numba's folder is a global setting; dispatchers of steps are made in any thread.
_naming_the_cache = threading.Lock()

give_notice(is_kept=_CACHE_ON)


def cache_root() -> Path:
    """Return the folder of compiled kernels: NEARCAST_CACHE_DIR, else Numba's own setting, else the user's cache."""
    named = os.environ.get("NEARCAST_CACHE_DIR") or os.environ.get("NUMBA_CACHE_DIR")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nearcast"


def compiles() -> bool:
    """Tell whether kernels are compiled and kept for other processes."""
    return _CACHE_ON and not numba.config.DISABLE_JIT


@functools.cache
def _source_key() -> str:
    """Return a hash of all sources that kernels may use and of the settings that change generated code.

    Numba's own key misses an edit in a helper or constant of *another* file and would serve stale code.
    """
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(_SOURCES.rglob("*.py")):
        name = path.relative_to(_SOURCES)
        if name.parts[0] in WITHOUT_KERNELS:
            continue
        digest.update(name.as_posix().encode())
        digest.update(path.read_bytes())
    digest.update(f"{numba.__version__} {numba.config.BOUNDSCHECK}".encode())
    return digest.hexdigest()


def kernel(function: F) -> F:
    """Compile `function` without the interpreter and off its lock, cached under a key of all our sources."""
    return _compiled(function)  # type: ignore[no-any-return]


def hot_kernel(function: F) -> F:
    """Compile a kernel on the way of every message: like `kernel`, but it must not allocate.

    Without allocation there is nothing to count references for, and counting them for every array of a
    NamedTuple at every use took three times as long as the matching itself.
    """
    return _compiled(function, _nrt=False)  # type: ignore[no-any-return]


def step(function: F) -> F:
    """Compile a step of a hot kernel, always inlined into its callers.

    Numba passes a NamedTuple of arrays by value, some hundred words at every call that is not inlined.
    """
    return function if numba.config.DISABLE_JIT else _Step(function)  # type: ignore[return-value]


class _Step:
    """A function that kernels inline, compiled without the entry from Python; a call from Python compiles a twin.

    Every entry from Python unpacks all arrays of all NamedTuples. To generate, optimise and store one for each step,
    which nobody ever enters, took as long again as compiling the kernels themselves. Both dispatchers are made when
    first needed: a program that finds its kernels in the cache makes none.
    """

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self.py_func = function

    def __call__(self, *args: Any) -> Any:
        return self._called(*args)

    @functools.cached_property
    def _called(self) -> Any:
        return _compiled(self.py_func, _nrt=False)

    @functools.cached_property
    def _inlined(self) -> Any:
        # A folder of its own: Numba's key does not tell two dispatchers of one function apart.
        wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        return _compiled(self.py_func, "steps", _nrt=False, forceinline=True, **wrappers)

    @property
    def _numba_type_(self) -> Any:
        """Return what Numba takes this step for where a kernel names it."""
        return self._inlined._numba_type_


def _compiled(function: Any, folder: str = "", **options: Any) -> Any:
    with _naming_the_cache:
        saved, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(cache_root() / _source_key() / folder)
        try:
            compiled = numba.njit(cache=_CACHE_ON, nogil=True, **options)(function)
        finally:
            numba.config.CACHE_DIR = saved
    if not numba.config.DISABLE_JIT:
        _take_constants_as_values(compiled)
    return compiled


def _take_constants_as_values(dispatcher: Any) -> None:
    """Compile a kernel that other kernels call once for all integers and booleans, not once for each constant.

    Numba would compile `f(x, 0)`, `f(x, 1)` and `f(x, n)` apart. What is inlined knows its constants anyway.
    """
    resolved = dispatcher.get_call_template

    def resolve(args: Any, kws: Any) -> Any:
        return resolved(tuple(map(numba.types.unliteral, args)), kws)

    dispatcher.get_call_template = resolve
