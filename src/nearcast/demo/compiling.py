"""One line that says what is going on while kernels compile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console

from nearcast.compile_notice import PATIENCE_S, listening, somebody_watches

_LINE = "  compiling kernels for this machine: a minute or two, the first time only"


@contextlib.contextmanager
def told_of_compiling(console: Console) -> Iterator[None]:
    """Print one line when kernels take long to compile; on a terminal the notice of the package does."""
    told: list[float] = []

    def tell(_: str | None, spent_s: float) -> None:
        if not told and spent_s >= PATIENCE_S and not somebody_watches():
            told.append(spent_s)
            console.print(_LINE, highlight=False, soft_wrap=True)

    with listening(tell):
        yield
