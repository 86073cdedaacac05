"""The newest messages of a stream, as they were given: a sample for questions that come later."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.model import Message
from nearcast.tables.messages import MESSAGE_FIELDS
from nearcast.tables.names import EARTH_PLACE, PLANE_PLACE

#: Messages that are kept.
MOST = 10_000
_KEPT = {*MESSAGE_FIELDS, *EARTH_PLACE, *PLANE_PLACE}
#: Buffers may be this many times as large as the rows in them, before these are copied out.
_SPARE = 2


class Recent:
    """At least the last `MOST` messages, if there were so many, and not many more.

    Attributes are not kept. A table is kept as it is unless it would hold much larger buffers in memory.
    """

    def __init__(self) -> None:
        self._pieces: deque[Message | pa.Table] = deque()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, message: Message) -> None:
        """Keep a message, without its attributes."""
        self._pieces.append(replace(message, attributes={}) if message.attributes else message)
        self._count += 1
        if self._count > MOST:
            self._forget()

    def add_table(self, table: pa.Table) -> None:
        """Keep the last rows of a table."""
        kept = table.select([name for name in table.column_names if name in _KEPT])
        first = max(0, kept.num_rows - MOST)
        if first or kept.get_total_buffer_size() > _SPARE * kept.nbytes + (1 << 16):
            kept = kept.take(_arrow.numbers(np.arange(first, kept.num_rows)))
        if kept.num_rows:
            self._pieces.append(kept)
            self._count += kept.num_rows
            self._forget()

    def _forget(self) -> None:
        while self._count - _rows_in(self._pieces[0]) >= MOST:
            self._count -= _rows_in(self._pieces.popleft())

    def samples(self) -> Iterator[pa.Table | list[Message]]:
        """Yield what is kept in order, tables and lists of messages."""
        messages: list[Message] = []
        for piece in self._pieces:
            if isinstance(piece, Message):
                messages.append(piece)
                continue
            if messages:
                yield messages
                messages = []
            yield piece
        if messages:
            yield messages


def _rows_in(piece: Message | pa.Table) -> int:
    return 1 if isinstance(piece, Message) else int(piece.num_rows)
