"""A source of a batch: a file that was listed, or rows that came another way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from nearcast.pipeline.worker.source_reader import Kind, ReadResult


@dataclass(frozen=True)
class BatchSource:
    """A source of a batch: a file, or rows that came another way, whose `reads` tell what was read of them if it was.

    Of rows with the same time, those of the source whose name sorts first come first.
    """

    kind: Kind
    source: str
    path: str | None = None
    rows: pa.Table | None = None
    n_bytes: int = 0
    #: When the file was last written, in microseconds since 1970, and the first and last position of rows that keep
    #: theirs: what tells this source from another of its name.
    modified: int | None = None
    span: str | None = None
    #: What tells the content of rows that were read elsewhere from another: their number, and a digest.
    content: str | None = None
    reads: tuple[ReadResult, ...] = ()
    #: Whether the file was listed and had gone when it was looked at. Of a batch that was committed it may go.
    is_gone: bool = False
