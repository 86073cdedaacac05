"""Hashes of message ids, 64 bits each: a polynomial over the bytes of an id, computed for whole columns.

They only say where to look: whoever finds a hash compares the id. An integer has the hash of its digits.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nearcast._ids import Id
from nearcast.durable.outbox.runs import spans_of
from nearcast.tables.cells import plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PLAIN = (pa.string(), pa.int64())
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no byte is lost


def hashes_of(ids: Iterable[pa.ChunkedArray]) -> NDArray[np.int64]:
    """Return the hashes of columns of ids, text or integers, end to end."""
    chunks = (chunk for column in ids for chunk in (column if column.type in _PLAIN else plain(column)).chunks)
    alike = (pa.concat_arrays(list(each)) for _, each in groupby(chunks, lambda chunk: chunk.type))
    texts = [each.cast(pa.large_string()) for each in alike]
    start, content = spans_of(pa.concat_arrays(texts) if texts else pa.array([], pa.large_string()))
    lengths = np.diff(start)
    powers = np.cumprod(np.full(int(lengths.max(initial=0)), _FACTOR))
    places = np.arange(len(content)) - np.repeat(start[:-1], lengths)
    sums = np.zeros(len(content) + 1, np.uint64)
    np.cumsum((content.astype(np.uint64) + np.uint64(1)) * powers[places], out=sums[1:])
    return (sums[start[1:]] - sums[start[:-1]]).view(np.int64)


def hash_of(message_id: Id) -> int:
    """Return the hash of one id."""
    return int(hashes_of([pa.chunked_array([pa.array([str(message_id)])])])[0])
