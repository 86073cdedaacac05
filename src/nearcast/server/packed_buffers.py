"""How many bytes the buffers of an Arrow stream take once unpacked, read from the stream without unpacking them.

pyarrow shows a batch only when all of it is unpacked, and a kilobyte may unpack to a gigabyte. Each packed buffer
begins with its own length when unpacked, and where the buffers are is in the metadata of the batch: a FlatBuffers
table, whose fields are found by two hops (https://flatbuffers.dev/internals). pyarrow has verified it before. Buffers
that are not packed count, too: many columns may share one.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

# Numbers of fields, as Message.fbs of Arrow orders them, and the version from which on packing is one of them.
_VERSION, _HEADER, _CUSTOM_METADATA, _DICTIONARY_DATA, _BUFFERS, _COMPRESSION = 0, 2, 4, 1, 2, 3
_V5 = 4
_LENGTH_BYTES = 8


def unpacked_bytes(body: bytes) -> int:
    """Return the bytes that the buffers of an Arrow stream have, or say that they have once unpacked.

    Raises ValueError for batches whose packing is told as it was before Arrow 1.0.
    """
    messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(body))
    return sum(_of_batch(each) for each in messages if each.type in ("record batch", "dictionary"))


def _of_batch(message: pa.ipc.Message) -> int:
    metadata = message.metadata.to_pybytes()
    (root,) = struct.unpack_from("<I", metadata)
    at = _field(metadata, root, _VERSION)
    if (struct.unpack_from("<h", metadata, at)[0] if at else 0) < _V5 and _field(metadata, root, _CUSTOM_METADATA):
        raise ValueError(
            "a batch of metadata version 4 or older with custom metadata; write it with Arrow 1.0 or newer"
        )
    batch = _inner(metadata, root, _HEADER)
    if message.type == "dictionary":
        batch = _inner(metadata, batch, _DICTIONARY_DATA)
    if not _field(metadata, batch, _BUFFERS):
        return 0
    vector = _inner(metadata, batch, _BUFFERS)
    (n,) = struct.unpack_from("<I", metadata, vector)
    places = np.frombuffer(metadata, "<i8", 2 * n, vector + 4).reshape(n, 2).tolist()
    if not _field(metadata, batch, _COMPRESSION):
        return sum(length for _, length in places)
    return sum(_unpacked(message.body, begin, length) for begin, length in places)


def _unpacked(body: pa.Buffer, begin: int, length: int) -> int:
    """Return how long a buffer is when unpacked; one that was left as it is says -1."""
    said = struct.unpack_from("<q", body, begin)[0] if length >= _LENGTH_BYTES else -1
    return int(said) if said >= 0 else length


def _field(metadata: bytes, table: int, number: int) -> int:
    """Return where a field of a table is, 0 if it is not there."""
    (back,) = struct.unpack_from("<i", metadata, table)
    (size,) = struct.unpack_from("<H", metadata, table - back)
    entry = 4 + 2 * number
    if entry >= size:
        return 0
    (offset,) = struct.unpack_from("<H", metadata, table - back + entry)
    return table + offset if offset else 0


def _inner(metadata: bytes, table: int, number: int) -> int:
    """Return where the table or vector is that a field of a table refers to."""
    at = _field(metadata, table, number)
    (offset,) = struct.unpack_from("<I", metadata, at)
    return at + int(offset)
