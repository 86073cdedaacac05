"""One input of a hub as bytes and back: an Arrow IPC stream in interchange columns behind a CRC-32.

Reads and writes rows of the write-ahead log. An input is logged as it was given, in the columns that `tables/` reads,
and not as an item of the engine: words have numbers there, which another version may give otherwise.

    NCI1 | CRC-32 of the rest, 4 bytes, least significant first | Arrow IPC stream

The metadata of the stream's schema has the name of the call, whether it was strict, and how many values were refused.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from nearcast.errors import IncompatibleStore
from nearcast.saved_files.contents import damaged
from nearcast.tables.takeable import with_takeable_columns

_FORM = b"NCI1"
_HEAD_BYTES = len(_FORM) + 4
_CALL, _STRICT, _REFUSED = b"nearcast.call", b"nearcast.strict", b"nearcast.refused"

#: The methods of a hub that change it. Those of one row raise where the others reject it.
CALLS = (
    "advance",
    "beat",
    "erase",
    "move",
    "move_many",
    "move_subscriber",
    "publish",
    "publish_many",
    "subscribe",
    "subscribe_many",
    "unsubscribe",
    "unsubscribe_many",
    "use_vocabulary",
)


@dataclass(frozen=True, eq=False)
class Input:
    """A call that changes a hub: the name of the method, and what it was given as a table.

    `n_refused` values could not become rows of the table, and count as rejected. `arguments` and `threads` only save
    work, and are not logged: the arguments of the method as values, which else are read from the table, and how many
    cores one call may use.
    """

    call: str
    table: pa.Table
    is_strict: bool = False
    n_refused: int = 0
    arguments: tuple[Any, ...] | None = field(default=None, repr=False)
    threads: int | None = field(default=None, repr=False)

    def with_threads(self, threads: int | None) -> Input:
        """Return the input for this many cores, None for the default of its method."""
        return replace(self, threads=threads)


def encoded(given: Input) -> bytes:
    """Return an input as bytes."""
    metadata = {**(given.table.schema.metadata or {}), _CALL: given.call.encode()}
    metadata |= {_STRICT: b"%d" % given.is_strict, _REFUSED: b"%d" % given.n_refused}
    table = given.table.replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content = sink.getvalue()
    return b"".join((_FORM, zlib.crc32(content).to_bytes(4, "little"), content))


def decoded(data: bytes | memoryview, called: str) -> Input:
    """Return the input that `encoded` wrote; `IncompatibleStore` if a byte differs. `called` names it in errors."""
    if data[: len(_FORM)] != _FORM:
        raise damaged(called, f"it begins with {data[: len(_FORM)]!r}, not {_FORM!r}")
    content = memoryview(data)[_HEAD_BYTES:]
    if zlib.crc32(content).to_bytes(4, "little") != data[len(_FORM) : _HEAD_BYTES]:
        raise damaged(called, "its content is not what was written (CRC-32)")
    with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
        table = with_takeable_columns(reader.read_all())  # earlier versions logged any
    metadata = dict(table.schema.metadata)
    call, is_strict, n_refused = metadata.pop(_CALL).decode(), int(metadata.pop(_STRICT)), int(metadata.pop(_REFUSED))
    if call not in CALLS:
        raise IncompatibleStore(f"{called} is a call {call!r}, which this version does not know; use a newer one")
    return Input(call, table.replace_schema_metadata(metadata or None), bool(is_strict), n_refused)
