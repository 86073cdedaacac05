"""The one place that names Numba options. Numba, half a second to import, is imported by the first kernel that runs."""

import contextlib
import functools
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

_SOURCES = Path(__file__).parent
#: What stands above the indexes in the order of imports holds no kernel and nothing a kernel uses.
WITHOUT_KERNELS = (
    "bench",
    "cli",
    "client",
    "deliveries.py",
    "demo",
    "durable",
    "engine",
    "estimate",
    "explain",
    "files",
    "fork_locks.py",
    "guards.py",
    "hub.py",
    "model",
    "pipeline",
    "server",
    "spark",
    "testing",
    "warmup.py",
)
#: A room inside one of these that has kernels all the same.
KERNELS_INSIDE = "bench/moving/protocols/structures"
#: `NEARCAST_CACHE=0` turns the compilation cache off, for the day a cluster misbehaves.
_CACHE_ON = os.environ.get("NEARCAST_CACHE", "1") != "0"
#: Numba's own switch, for tests: kernels are run as the Python they are written in.
_INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
#: Numba's folder is a global setting; dispatchers are made in any thread.
_naming_the_cache = threading.Lock()


def cache_root() -> Path:
    """Return the folder of compiled kernels: NEARCAST_CACHE_DIR, else Numba's own setting, else the user's cache."""
    named = os.environ.get("NEARCAST_CACHE_DIR") or os.environ.get("NUMBA_CACHE_DIR")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nearcast"


def compiles() -> bool:
    """Tell whether kernels are compiled and kept for other processes."""
    return _CACHE_ON and not _INTERPRETED


@functools.cache
def _numba() -> Any:
    """Import Numba, and listen to it from then on.

    Intel's vector library, which Numba uses where it is installed, may have other last bits in a loop than in a single
    call: scores would differ between an index and `scan`.
    """
    os.environ.setdefault("NUMBA_DISABLE_INTEL_SVML", "1")
    import numba

    from nearcast.compile_notice import give_notice

    give_notice(is_kept=_CACHE_ON)
    _teach_prefetch()
    _teach_bit_count()
    return numba


@functools.cache
def _source_key() -> str:
    """Return a hash of all sources that kernels may use and of the settings that change generated code.

    Numba's own key misses an edit in a helper or constant of *another* file and would serve stale code.
    """
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(_SOURCES.rglob("*.py")):
        name = path.relative_to(_SOURCES)
        if is_without_kernels(name):
            continue
        digest.update(name.as_posix().encode())
        digest.update(path.read_bytes())
    config = _numba().config
    digest.update(f"{_numba().__version__} {config.BOUNDSCHECK} {config.USING_SVML}".encode())
    return digest.hexdigest()


def is_without_kernels(name: PurePath) -> bool:
    """Tell whether a source, named from the package on, holds no kernel and nothing that one uses."""
    return name.parts[0] in WITHOUT_KERNELS and not name.is_relative_to(KERNELS_INSIDE)


def kernel(function: F) -> F:
    """Compile `function` without the interpreter and off its lock, cached under a key of all our sources."""
    return function if _INTERPRETED else _Kernel(function)  # type: ignore[return-value]


def hot_kernel(function: F) -> F:
    """Compile a kernel on the way of every message: like `kernel`, but it must not allocate.

    Without allocation there is nothing to count references for, and counting them for every array of a
    NamedTuple at every use took three times as long as the matching itself.
    """
    return function if _INTERPRETED else _Kernel(function, _nrt=False)  # type: ignore[return-value]


def direct(kernel: F) -> F:
    """Return a kernel for calls from Python whose arguments always have the same types, as the caller vouches.

    Numba looks at the type of every array of every NamedTuple at every call. Over all arrays of an index that takes
    some 10 µs, more than a single change takes inside the kernel. Arrays must be contiguous and of one dtype each;
    Numba still refuses those whose items have another size. With `NEARCAST_CHECK_CALLS=1`, as in tests, every call is
    compared with the first.
    """
    return _DirectKernel(kernel)  # type: ignore[return-value]


def inlined(function: F) -> F:
    """Compile a part of hot kernels, always inlined into its callers.

    Numba passes a NamedTuple of arrays by value, some hundred words at every call that is not inlined.
    """
    return function if _INTERPRETED else _InlinedKernel(function, _nrt=False)  # type: ignore[return-value]


def prefetch(array: Any, index: Any) -> None:
    """Ask for an item of an array before it is needed: a kernel that has other work to do does not wait for it.

    `index` counts items from the first one on, also where there are two axes. Run as Python it does nothing.
    """


def bit_count(word: Any) -> int:
    """Return how many bits of a uint64 are set: an instruction of the processor, for which Numba has no name."""
    return int(word).bit_count()


def _teach_bit_count() -> None:
    """Let kernels call `bit_count`."""
    from numba.core import types
    from numba.extending import intrinsic, overload

    def called(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    counted = intrinsic(lambda _context, word: (types.int64(word), called))
    compiled = overload(bit_count, inline="always")
    compiled(lambda word: lambda word: counted(word))  # noqa: ARG005, PLW0108


def _teach_prefetch() -> None:
    """Let kernels call `prefetch`: an instruction of the processor, which may name any address without a fault."""
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic, overload

    def called(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        form = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        instruction = cgutils.get_or_insert_function(builder.module, form, "llvm.prefetch.p0i8")
        address = builder.bitcast(builder.gep(array.data, [arguments[1]]), byte)
        # To be read, into the nearest cache, as data.
        builder.call(instruction, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    asked = intrinsic(lambda _context, array, index: (types.void(array, index), called))
    # Two lambdas whose parameters are named alike: Numba compares them.
    compiled = overload(prefetch, inline="always")
    compiled(lambda array, index: lambda array, index: asked(array, index))  # noqa: ARG005, PLW0108


class _Kernel:
    """A function whose dispatcher is made when Python first calls it, or a kernel that names it is compiled.

    Numba asks for sources and folders whenever it makes one: a program pays for the kernels it runs, not for all that
    it imports.
    """

    def __init__(self, function: Callable[..., Any], **options: Any):
        functools.update_wrapper(self, function)
        self.py_func, self._options = function, options

    def __call__(self, *args: Any) -> Any:
        return self._called(*args)

    @functools.cached_property
    def _called(self) -> Any:
        return _compiled(self.py_func, **self._options)

    @property
    def signatures(self) -> list[Any]:
        """Return what it was compiled or loaded for, called from Python or by kernels."""
        return list(self._called.signatures)

    @property
    def only_entry(self) -> Any:
        """Return what calls the compiled form without a look at types, None if there is more than one form."""
        forms = list(self._called.overloads.values())
        return forms[0].entry_point if len(forms) == 1 else None

    @property
    def _numba_type_(self) -> Any:
        """Return what Numba takes this function for where a kernel names it."""
        return self._called._numba_type_


class _DirectKernel:
    """The one compiled form of a kernel, which the first call compiles or loads; with a second form Numba chooses."""

    def __init__(self, kernel: Any):
        self._kernel, self._entry = kernel, None

    def __call__(self, *args: Any) -> Any:
        entry = self._entry
        return self._found(args) if entry is None else entry(*args)

    def _found(self, args: tuple[Any, ...]) -> Any:
        returned = self._kernel(*args)
        entry = self._kernel if _INTERPRETED else self._kernel.only_entry
        if entry is not None and os.environ.get("NEARCAST_CHECK_CALLS", "0") not in ("", "0"):
            entry = _CheckedEntry(self._kernel, entry, args)
        self._entry = entry
        return returned


class _CheckedEntry:
    """The entry of a kernel, guarded: it raises `TypeError` for an argument of another form than in the first call."""

    def __init__(self, kernel: Any, entry: Callable[..., Any], first: tuple[Any, ...]):
        self._kernel, self._entry = kernel, entry
        self._names = getattr(kernel, "py_func", kernel).__code__.co_varnames
        self._forms = dict(self._forms_of(first))

    def __call__(self, *args: Any) -> Any:
        forms = dict(self._forms_of(args))
        for name in [*forms, *self._forms]:
            given, taken = forms.get(name, "missing"), self._forms.get(name, "none of that name")
            if given != taken:
                what = f"argument {name} of {self._kernel.__name__} is {given}"
                raise TypeError(f"{what}; its compiled form takes {taken}, as in the first call")
        return self._entry(*args)

    def _forms_of(self, args: tuple[Any, ...]) -> Iterator[tuple[str, str]]:
        for name, value in zip(self._names, args, strict=False):
            yield from _forms_of(name, value)


def _forms_of(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the name and the form of an argument and of all items of tuples: what Numba tells types apart by."""
    if isinstance(value, tuple):
        for of, item in zip(getattr(value, "_fields", range(len(value))), value, strict=True):
            yield from _forms_of(f"{name}.{of}", item)
    elif isinstance(value, np.ndarray):
        order = "contiguous" if value.flags.c_contiguous and value.flags.aligned else "strided"
        yield name, f"{'' if value.flags.writeable else 'read-only '}{order} {value.dtype.str} of {value.ndim} axes"
    else:
        yield name, np.asarray(value).dtype.str


class _InlinedKernel(_Kernel):
    """A function that kernels inline, compiled without the entry from Python; a call from Python compiles a twin.

    Every entry from Python unpacks all arrays of all NamedTuples. To generate, optimise and store one for each such
    function, which nobody ever enters, took as long again as compiling the kernels themselves.
    """

    @functools.cached_property
    def _inlined(self) -> Any:
        # A folder of its own: Numba's key does not tell two dispatchers of one function apart.
        wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        return _compiled(self.py_func, "inlined", forceinline=True, **self._options, **wrappers)

    @property
    def _numba_type_(self) -> Any:
        """Return what Numba takes this function for where a kernel names it."""
        return self._inlined._numba_type_


def _compiled(function: Any, folder: str = "", **options: Any) -> Any:
    numba, kept = _numba(), cache_root() / _source_key() / folder
    with _naming_the_cache, _cache_folder(numba.config, str(kept)):
        compiled = numba.njit(cache=_CACHE_ON, nogil=True, **options)(function)
    _take_constants_as_values(compiled, numba.types.unliteral)
    return compiled


@contextlib.contextmanager
def _cache_folder(config: Any, folder: str) -> Iterator[None]:
    """Let dispatchers that are made inside the `with` statement keep what they compile in this folder."""
    saved = config.CACHE_DIR
    try:
        config.CACHE_DIR = folder
        yield
    finally:
        config.CACHE_DIR = saved


def _take_constants_as_values(dispatcher: Any, unliteral: Callable[[Any], Any]) -> None:
    """Compile a kernel that other kernels call once for all integers and booleans, not once for each constant.

    Numba would compile `f(x, 0)`, `f(x, 1)` and `f(x, n)` apart. What is inlined knows its constants anyway.
    """
    resolved = dispatcher.get_call_template

    def resolve(args: Any, kws: Any) -> Any:
        return resolved(tuple(map(unliteral, args)), kws)

    dispatcher.get_call_template = resolve
