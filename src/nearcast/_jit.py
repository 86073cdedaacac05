"""The one place that names Numba options."""

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

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
    "snapshot.py",
    "spark",
    "testing",
)
#: `NEARCAST_CACHE=0` turns the compilation cache off, for the day a cluster misbehaves.
_CACHE_ON = os.environ.get("NEARCAST_CACHE", "1") != "0"


def _cache_root() -> Path:
    """Return the folder of compiled kernels: NEARCAST_CACHE_DIR, else Numba's own setting, else the user's cache."""
    named = os.environ.get("NEARCAST_CACHE_DIR") or os.environ.get("NUMBA_CACHE_DIR")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nearcast"


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
    return _compiled(function)


def hot_kernel(function: F) -> F:
    """Compile a kernel on the way of every message: like `kernel`, but it must not allocate.

    Without allocation there is nothing to count references for, and counting them for every array of a
    NamedTuple at every use took three times as long as the matching itself.
    """
    return _compiled(function, _nrt=False)


def step(function: F) -> F:
    """Compile a step of a hot kernel, always inlined into its callers.

    Numba passes a NamedTuple of arrays by value, some hundred words at every call that is not inlined.
    """
    return _compiled(function, _nrt=False, forceinline=True)


def _compiled(function: F, **options: Any) -> F:
    saved, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(_cache_root() / _source_key())
    try:
        return numba.njit(cache=_CACHE_ON, nogil=True, **options)(function)  # type: ignore[no-any-return]
    finally:
        numba.config.CACHE_DIR = saved
