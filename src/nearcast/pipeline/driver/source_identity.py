"""What tells the sources of a batch from others: written into the manifest, compared when a batch comes again.

Spark numbers batches, and after its half of a checkpoint was restored from a copy the same numbers hold other files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import pyarrow as pa

from nearcast.errors import IncompatibleStore, NearcastError
from nearcast.pipeline.store.manifest_entries import SourcesEntry
from nearcast.pipeline.store.store import Store

if TYPE_CHECKING:
    from nearcast.pipeline.driver.batch_source import BatchSource
    from nearcast.pipeline.store.manifest import Manifest

#: Batches whose sources are remembered. Spark runs only the last one again by itself.
KEPT_SOURCES = 32

#: Of a file that was listed, and was gone when it was to be read.
GONE = "gone"


class SourceKey(NamedTuple):
    """What a source is remembered under: its kind, whether it is a file, and its path, or the name of its rows.

    Only a file can have been taken away when a batch comes again: rows that are not there were not read.
    """

    kind: str
    form: Literal["file", "rows"]
    name: str

    @classmethod
    def of(cls, source: BatchSource) -> SourceKey:
        """Return the key of a source."""
        return cls(source.kind, "rows", source.source) if source.path is None else cls(source.kind, "file", source.path)

    @classmethod
    def parsed(cls, text: str) -> SourceKey:
        """Return the key that a manifest holds as text."""
        kind, _, rest = text.partition(" ")
        form, _, name = rest.partition(" ")
        return cls(kind, "file" if form == "file" else "rows", name)

    def __str__(self) -> str:
        return f"{self.kind} {self.form} {self.name}"

    def is_taken_away(self) -> bool:
        """Tell whether this is a file, and its folder can be looked at and does not hold it."""
        folder, slash, name = self.name.rpartition("/")
        if self.form != "file" or not slash:
            return False
        try:
            return not Store(folder).exists(name)
        except NearcastError:
            return False


def identities_of(given: Sequence[BatchSource]) -> dict[str, str]:
    """Return what tells the content of each source from another's, under the text of its key."""
    return {str(SourceKey.of(each)): _identity(each) for each in given}


def _identity(source: BatchSource) -> str:
    """Return size and time of a file that is there, or the span of positions, the number and a digest of rows."""
    if source.is_gone:
        return GONE
    if source.content is not None:
        return f"{source.span or ''} {source.content}".strip()
    if source.rows is not None:
        return f"{source.span or ''} {source.rows.num_rows} {_digest_of_rows(source)}".strip()
    if source.modified is None and source.path is not None and Path(source.path).is_file():
        about = Path(source.path).stat()
        return f"{about.st_size} {about.st_mtime_ns // 1000}"
    return f"{source.n_bytes} {source.modified}"


def _digest_of_rows(source: BatchSource) -> str:
    """Return a digest of rows as they stand, or in any order if they are lines that keep no positions."""
    rows, found = source.rows, hashlib.blake2b(digest_size=8)
    assert rows is not None
    if source.span is None and "line" in rows.column_names:  # Spark need not repeat their order
        for line in sorted(str(each) for each in rows.column("line").to_pylist()):
            found.update(f"{len(line)} {line}".encode(errors="surrogatepass"))
    else:
        with pa.BufferOutputStream() as stream, pa.ipc.new_stream(stream, rows.schema) as writer:
            writer.write_table(rows)
        found.update(stream.getvalue())
    return found.hexdigest()


def sources_after(manifest: Manifest, batch: int, identities: Mapping[str, str]) -> tuple[SourcesEntry, ...]:
    """Return what the next manifest remembers of the last batches, with one more."""
    entry = SourcesEntry(batch, len(identities), _digest(identities))
    return (*manifest.sources, entry)[-KEPT_SOURCES:]


def _digest(identities: Mapping[str, str]) -> str:
    return hashlib.blake2b(json.dumps(identities, sort_keys=True).encode(), digest_size=16).hexdigest()


def check_again(manifest: Manifest, batch: int, given: Sequence[BatchSource], called: str) -> None:
    """Refuse a batch that was committed before and comes again with other sources, or is older than is remembered."""
    then = next((entry for entry in manifest.sources if entry.batch == batch), None)
    if then is None:
        raise _refused(f"batch {batch} comes again, and {called} has long gone on to batch {manifest.batch}")
    now = identities_of(given)
    if then.digest == _digest(now):
        return
    before = manifest.last_sources if batch == manifest.batch else None
    difference = _unknown_difference(now) if before is None else _difference(before, now)
    if difference is not None:
        raise _refused(f"batch {batch} was committed to {called} with {then.n} sources, and {difference}")


def _refused(what: str) -> IncompatibleStore:
    return IncompatibleStore(
        f"{what}: the states of Spark and of nearcast are of two moments; bring back both halves of the checkpoint from"
        " one copy, or begin anew with another checkpoint"
    )


def _unknown_difference(now: Mapping[str, str]) -> str:
    shown = f", such as {SourceKey.parsed(min(now)).name}" if now else ""
    return f"comes again with {len(now)} that are not the same{shown}"


def _difference(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """Return the first difference that is no file taken away since; one that was gone then may be anything now."""
    for key in (*sorted(now), *sorted(before.keys() - now.keys())):
        then, here = before.get(key), now.get(key)
        source = SourceKey.parsed(key)
        if then is None:
            return f"comes again with {source.name}, which was not among them"
        if here is not None and then in (GONE, here):
            continue
        if here not in (None, GONE):
            return f"{source.name} was another one then ({then}, now {here})"
        if not source.is_taken_away():
            return f"comes again without {source.name}"
    return None
