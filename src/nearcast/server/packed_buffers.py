"""How many bytes the packed buffers of an Arrow stream take once unpacked, read from the stream without unpacking them.

pyarrow shows a batch only when all of it is unpacked, and a kilobyte may unpack to a gigabyte. Each packed buffer
begins with its own length when unpacked, and where the buffers are is in the metadata of the batch: a FlatBuffers
table, whose fields are found by two hops (https://flatbuffers.dev/internals). pyarrow has verified it before.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

# Numbers of fields, as Message.fbs of Arrow orders them.
_HEADER, _DICTIONARY_DATA, _BUFFERS, _COMPRESSION = 2, 1, 2, 3
_LENGTH_BYTES = 8


def unpacked_bytes(body: bytes) -> int:
    """Return the bytes that the packed buffers of an Arrow stream say they have unpacked; 0 where nothing is packed."""
    messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(body))
    return sum(_of_batch(each) for each in messages if each.type in ("record batch", "dictionary"))


def _of_batch(message: pa.ipc.Message) -> int:
    metadata = message.metadata.to_pybytes()
    (root,) = struct.unpack_from("<I", metadata)
    batch = _inner(metadata, root, _HEADER)
    if message.type == "dictionary":
        batch = _inner(metadata, batch, _DICTIONARY_DATA)
    if not _field(metadata, batch, _COMPRESSION) or not _field(metadata, batch, _BUFFERS):
        return 0
    vector = _inner(metadata, batch, _BUFFERS)
    (n,) = struct.unpack_from("<I", metadata, vector)
    places = np.frombuffer(metadata, "<i8", 2 * n, vector + 4).reshape(n, 2)
    packed = places[places[:, 1] >= _LENGTH_BYTES, 0]
    lengths = [struct.unpack_from("<q", message.body, at)[0] for at in packed.tolist()]
    return sum(max(length, 0) for length in lengths)  # -1: this buffer was left as it is


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
