"""`nearcast warm`: compile kernels before they are needed."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from nearcast.cli._console import StepProgress, UsageMistake


def warm(
    indexes: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Indexes, or all: minutes instead of one. The default index unless given."),
    ] = None,
) -> int:
    """Compile the kernels of hubs and streams for this machine, into the cache; what is there is not compiled again.

    Kernels are compiled when they are first called, which makes a new installation slow at first. Run this where an
    image is made, with NEARCAST_CACHE_DIR pointing into the image. Interrupted, it goes on from there the next time.
    """
    from nearcast import _jit
    from nearcast.compile_notice import listening
    from nearcast.warmup import rehearsals

    if not _jit.compiles():
        raise UsageMistake("nothing is kept: NEARCAST_CACHE=0 or NUMBA_DISABLE_JIT=1 is set; unset it and try again")
    chosen, began, compiled = _chosen(indexes), time.monotonic(), 0

    with StepProgress() as steps:

        def tell(name: str | None, _: float) -> None:
            nonlocal compiled
            compiled += name is not None
            steps.advance(int(name is not None))

        with listening(tell):
            for rehearsal in rehearsals(chosen):
                steps.begin(f"compiling: {rehearsal.title}")
                rehearsal.run()
    if compiled:
        typer.echo(f"compiled {compiled} kernels in {time.monotonic() - began:.0f} s into {_jit.cache_root()}")
    else:
        typer.echo(f"all kernels are there already, in {_jit.cache_root()}")
    return 0


def _chosen(indexes: str | None) -> list[str] | None:
    """Return the names of the indexes that were asked for."""
    if indexes is None:
        return None
    from nearcast.indexes import available

    names = [info.name for info in available()]
    if indexes == "all":
        return names
    wanted = [name.strip() for name in indexes.split(",")]
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise UsageMistake(f"there is no index {unknown[0]!r}; choose among all, {', '.join(names)}")
    return wanted
