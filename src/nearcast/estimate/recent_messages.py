"""A queue of the newest messages as they were given: the sample that `Hub.estimate` uses by default."""

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
_KEPT = {*MESSAGE_FIELDS, "geometry", *EARTH_PLACE, *PLANE_PLACE}
#: Buffers may be this many times as large as the rows in them, before these are copied out.
_SPARE = 2


class RecentMessages:
    """A queue of at least the last `MOST` messages, if there were so many, and not many more.

    Attributes are not kept. A table is kept as it is unless it would hold much larger buffers in memory.
    """

    def __init__(self) -> None:
        #: Each with the number of rows that came before it: there is no second count to fall out of step.
        self._pieces: deque[tuple[int, Message | pa.Table]] = deque()

    def __len__(self) -> int:
        return self._end() - self._pieces[0][0] if self._pieces else 0

    def _end(self) -> int:
        """Return how many rows were ever added."""
        return self._pieces[-1][0] + _rows_in(self._pieces[-1][1]) if self._pieces else 0

    def add(self, message: Message) -> None:
        """Keep a message, without its attributes."""
        self._pieces.append((self._end(), replace(message, attributes={}) if message.attributes else message))
        self._forget()

    def add_table(self, table: pa.Table) -> None:
        """Keep the last rows of a table."""
        kept = table.select([name for name in table.column_names if name in _KEPT])
        first = max(0, kept.num_rows - MOST)
        if first or kept.get_total_buffer_size() > _SPARE * kept.nbytes + (1 << 16):
            kept = kept.take(_arrow.numbers(np.arange(first, kept.num_rows)))
        if kept.num_rows:
            self._pieces.append((self._end(), kept))
            self._forget()

    def _forget(self) -> None:
        while len(self._pieces) > 1 and self._end() - self._pieces[1][0] >= MOST:
            self._pieces.popleft()

    def samples(self) -> Iterator[pa.Table | list[Message]]:
        """Yield the messages kept as tables and lists, of which each has ids of one type, as a table must."""
        messages: list[Message] = []
        for _, piece in self._pieces:
            if isinstance(piece, Message):
                messages.append(piece)
                continue
            yield from _by_id_type(messages)
            messages = []
            yield piece
        yield from _by_id_type(messages)


def _by_id_type(messages: list[Message]) -> list[list[Message]]:
    """Return messages as those with a number and those with a text as id, in order, without an empty list."""
    numbered = [each for each in messages if isinstance(each.id, int)]
    named = [each for each in messages if not isinstance(each.id, int)]
    return [each for each in (numbered, named) if each]


def _rows_in(piece: Message | pa.Table) -> int:
    return 1 if isinstance(piece, Message) else int(piece.num_rows)
