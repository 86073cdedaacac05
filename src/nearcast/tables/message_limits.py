"""Checks of whole messages: how long they are, and that they do not expire before they happen.

Limits are those of the `Analyzer`, which hubs, files and streams share. One message that is out of all proportion
would hold up everybody else's.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast.columns import NO_TIME, datetime_of
from nearcast.errors import InvalidMessage
from nearcast.tables.cells import TableRows, Times
from nearcast.tables.rejected_rows import Mask
from nearcast.text import Analyzer


def too_many_bytes(size: int, analyzer: Analyzer) -> str:
    """Return why a message of `size` bytes is refused."""
    return f"the message has {size:,} bytes of text, at most {analyzer.max_bytes:,} are allowed: shorten or split it"


def too_many_words(count: int, analyzer: Analyzer) -> str:
    """Return why a message of `count` words is refused."""
    return f"the message has {count:,} words, at most {analyzer.max_words:,} are allowed: shorten or split it"


def expired_before(time: int, expires: int) -> str:
    """Return why a message that ends before it begins is refused."""
    return f"expires is {datetime_of(expires)}, not after time, which is {datetime_of(time)}; correct one of them"


def check_bytes(text: str | None, terms: tuple[str, ...] | None, analyzer: Analyzer) -> None:
    """Raise `InvalidMessage` if text and terms together have too many bytes in UTF-8."""
    parts = [text or "", *(terms or ())]
    if 4 * sum(map(len, parts)) > analyzer.max_bytes:  # no character has more
        size = sum(len(part.encode("utf-8", "replace")) for part in parts)
        if size > analyzer.max_bytes:
            raise InvalidMessage(too_many_bytes(size, analyzer), field="text" if text else "terms")


def check_words(count: int, text: str | None, analyzer: Analyzer) -> None:
    """Raise `InvalidMessage` if a message has too many words."""
    if count > analyzer.max_words:
        raise InvalidMessage(too_many_words(count, analyzer), field="text" if text else "terms")


def refuse_long(
    rows: TableRows, text: pa.ChunkedArray, start: Times, terms: pa.ChunkedArray, analyzer: Analyzer
) -> Mask:
    """Note and return the rows with too many bytes; those of row i are in text[i] and terms[start[i]:start[i + 1]]."""
    size = _bytes_of(text)
    if len(terms):
        ends = np.concatenate([[0], np.cumsum(_bytes_of(terms))])
        size = size + ends[start[1:]] - ends[start[:-1]]
    too_long = size > analyzer.max_bytes
    rows.faults.add_where(too_long, _blamed(rows), lambda row: too_many_bytes(int(size[row]), analyzer))
    return too_long


def refuse_wordy(rows: TableRows, count: Times, analyzer: Analyzer) -> None:
    """Note the rows with too many words."""
    rows.faults.add_where(
        count > analyzer.max_words, _blamed(rows), lambda row: too_many_words(int(count[row]), analyzer)
    )


def refuse_expired(rows: TableRows, time: Times, expires: Times) -> None:
    """Note the rows that expire at or before their own time."""
    is_over = (expires != NO_TIME) & (time != NO_TIME) & (expires <= time)
    rows.faults.add_where(is_over, "expires", lambda row: expired_before(int(time[row]), int(expires[row])))


def _blamed(rows: TableRows) -> str:
    return "text" if rows.has("text") else "terms"


def _bytes_of(texts: pa.ChunkedArray) -> Times:
    """Return the length of each text in bytes, 0 for null."""
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        texts = texts.cast(pa.large_string())  # Arrow cannot tell the lengths of other types
    return _arrow.array_of(pc.binary_length(texts), null=0).astype(np.int64, copy=False)
