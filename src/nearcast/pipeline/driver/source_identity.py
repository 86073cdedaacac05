"""What tells the sources of a batch from others: written into the manifest, compared when a batch comes again.

Spark numbers batches, and after its half of a checkpoint was restored from a copy the same numbers hold other files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from nearcast.errors import IncompatibleStore, NearcastError
from nearcast.pipeline.store.manifest_entries import SourcesEntry
from nearcast.pipeline.store.store import Store

if TYPE_CHECKING:
    from nearcast.pipeline.driver.pipeline import BatchSource
    from nearcast.pipeline.store.manifest import Manifest

#: Batches whose sources are remembered. Spark runs only the last one again by itself.
KEPT_SOURCES = 32

#: Of a file that was listed, and was gone when it was to be read.
GONE = "gone"


def identities_of(given: Sequence[BatchSource]) -> dict[str, str]:
    """Return what tells the content of each source from another's, under its kind and path, or name if it has none."""
    return {f"{each.kind} {each.path or each.source}": _identity(each) for each in given}


def _identity(source: BatchSource) -> str:
    """Return size and time of a file that is there, or the span of positions, the number and a digest of rows."""
    if source.is_gone:
        return GONE
    if source.rows is not None:
        return f"{source.span or ''} {source.rows.num_rows} {_digest_of_rows(source.rows)}".strip()
    if source.modified is None and source.path is not None and Path(source.path).is_file():
        about = Path(source.path).stat()
        return f"{about.st_size} {about.st_mtime_ns // 1000}"
    return f"{source.n_bytes} {source.modified}"


def _digest_of_rows(rows: pa.Table) -> str:
    """Return a digest of rows: of lines in any order, which Spark need not repeat, of columns as they stand."""
    found = hashlib.blake2b(digest_size=8)
    if "line" in rows.column_names:
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
    if before is not None and _lacks_only_what_is_gone(before, now):
        return
    raise _refused(f"batch {batch} was committed to {called} with {then.n} sources, {_difference(before, now)}")


def _refused(what: str) -> IncompatibleStore:
    return IncompatibleStore(
        f"{what}: the states of Spark and of nearcast are of two moments; bring back both halves of the checkpoint from"
        " one copy, or begin anew with another checkpoint"
    )


def _lacks_only_what_is_gone(before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Tell whether all differences are files that somebody has taken away since: these have no size or time now."""
    there = {key: identity for key, identity in now.items() if identity != GONE}
    return there.items() <= before.items() and not any(_is_there(key) for key in before.keys() - there.keys())


def _is_there(key: str) -> bool:
    folder, slash, name = key.partition(" ")[2].rpartition("/")
    try:
        return not slash or Store(folder).exists(name)
    except NearcastError:
        return True


def _difference(before: Mapping[str, str] | None, now: Mapping[str, str]) -> str:
    if before is None:
        shown = f", such as {_called(min(now))}" if now else ""
        return f"and comes again with {len(now)} that are not the same{shown}"
    for key in sorted(now):
        if key not in before:
            return f"and comes again with {_called(key)}, which was not among them"
        if before[key] != now[key]:
            return f"and {_called(key)} was another one then ({before[key]}, now {now[key]})"
    return f"and comes again without {_called(min(before.keys() - now.keys()))}"


def _called(key: str) -> str:
    return key.partition(" ")[2]
