"""Messages of a request: a Feature, a collection, lines of JSON or an Arrow stream, and the rows that are none.

What is wrong with one item rejects that item; what is wrong with the whole, not JSON or over a limit, is a problem.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.nesting import is_deep_json
from nearcast.server.bodies import decoded_items, decoded_lines, lines_in
from nearcast.server.decoded_size import decoded_bytes
from nearcast.server.feature_columns import plain_point, table_of_features
from nearcast.server.json_faults import may_have_faults
from nearcast.server.message_pointers import field_of, names_in_feature, names_of
from nearcast.server.packed_buffers import unpacked_bytes
from nearcast.server.problems import Problem, at, names_of_pointer, pointer_to
from nearcast.server.settings import LimitSettings
from nearcast.server.zero_bytes import is_text, zero_byte_rows
from nearcast.tables.rejected_rows import RejectedRow
from nearcast.tables.takeable import with_takeable_columns

OBJECTS = ("application/json", "application/geo+json")
LINES = ("application/x-ndjson", "application/jsonl", "application/geo+json-seq", "application/json-seq")
ARROW = ("application/vnd.apache.arrow.stream",)
#: How many times the bytes of a body its decoded values may have.
_MOST_TIMES = 16


@dataclass(frozen=True)
class RejectedItem:
    """An item of a request that cannot be used, and the names on the way to what is wrong within it."""

    row: int
    id: str | None
    field: str | None
    reason: str
    names: tuple[str, ...] = ()


@dataclass
class GivenMessages:
    """The messages of a request: `rows` says which item of the request each one is, None: all of them, in order.

    `n_bytes` are those of the body, or of its values where these are more: it may be packed. `holder` has the names on
    the way to the list of items, `is_features` tells of a table that its rows came as Features.
    """

    messages: list[Any] | pa.Table
    n_items: int
    n_bytes: int = 0
    is_single: bool = False
    rows: list[int] | None = None
    rejected: list[RejectedItem] = field(default_factory=list)
    holder: tuple[str, ...] = ()
    is_features: bool = False

    def row_of(self, at_: int) -> int:
        """Return the number in the request of a message."""
        return at_ if self.rows is None else self.rows[at_]

    def refused(self, row: RejectedRow, *, is_earth: bool) -> RejectedItem:
        """Return the item of a message that the hub refused."""
        if not isinstance(self.messages, pa.Table):
            names = names_of(self.messages[row.row], row.field, is_earth=is_earth)
        elif row.field is None:
            names = ()
        else:
            names = names_in_feature({"geometry"}, (), row.field) if self.is_features else (row.field,)
        return RejectedItem(self.row_of(row.row), row.id, row.field, row.reason, names)

    def pointer_to(self, item: RejectedItem) -> str:
        """Return the JSON pointer to what is wrong with an item; into the list of items where these came as lines."""
        names: tuple[str | int, ...] = (*self.holder, item.row, *item.names)
        return pointer_to(*(item.names if self.is_single else names))


def messages_of(body: bytes, content_type: str, limits: LimitSettings, *, is_earth: bool) -> GivenMessages:
    """Return the messages of a body."""
    found = _of_arrow(body, limits) if content_type in ARROW else _of_text(body, content_type, limits, is_earth)
    found.n_bytes = max(len(body), found.n_bytes)
    return found


def _of_text(body: bytes, content_type: str, limits: LimitSettings, is_earth: bool) -> GivenMessages:
    """Return the messages of a body of JSON; in one pass where nothing in it needs a closer look."""
    is_lines = content_type in LINES
    if not may_have_faults(body):
        if is_earth and not is_lines and (point := plain_point(body, limits.text_chars)) is not None:
            return GivenMessages([point], 1, is_single=True)
        table = None if is_deep_json(body) else table_of_features(body, is_lines=is_lines, is_earth=is_earth)
        if table is not None:
            _check_batch(len(table), limits)
            holder = () if is_lines else ("features",)
            return replace(_of_table(table, limits, is_features=True), holder=holder)
    if is_lines:
        lines = lines_in(body)
        _check_batch(len(lines), limits)
        found = _of_items(decoded_lines(lines))
    else:
        found = _of_json(body, limits)
    return _without_long(found, limits, is_earth=is_earth)


def _of_json(body: bytes, limits: LimitSettings) -> GivenMessages:
    given = decoded_items(body)
    holder: tuple[str, ...] = ()
    if isinstance(given, dict) and given.get("type") == "FeatureCollection":
        items, holder = given.get("features"), ("features",)
        if not isinstance(items, list):
            raise Problem(422, "invalid-content", "features is not a list", [at("/features", "expected a list")])
    elif isinstance(given, list):
        items = given
    elif isinstance(given, dict):
        return GivenMessages([given], 1, is_single=True)
    else:
        raise Problem(422, "invalid-content", "the body is no Feature", [at("", "expected a Feature or a collection")])
    _check_batch(len(items), limits)
    return replace(_of_items(items), holder=holder)


def _of_items(items: list[Any]) -> GivenMessages:
    """Return the messages among items, some of which may be problems."""
    found = GivenMessages(items, len(items))
    for row, each in enumerate(items):
        if isinstance(each, Problem):
            names = names_of_pointer(each.errors[0]["pointer"])
            found.rejected.append(RejectedItem(row, None, field_of(names), each.detail, names))
    if found.rejected:
        found.rows = [row for row, each in enumerate(items) if not isinstance(each, Problem)]
        found.messages = [items[row] for row in found.rows]
    return found


def _of_arrow(body: bytes, limits: LimitSettings) -> GivenMessages:
    most = _MOST_TIMES * limits.body_bytes
    try:
        _check_decoded(unpacked_bytes(body), most)
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            table = reader.read_all()
        table.validate(full=True)  # offsets that lead out of a buffer
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        raise Problem(400, "invalid-arrow", f"the body is no Arrow stream: {' '.join(str(error).split())}") from None
    _check_batch(len(table), limits)
    n_bytes = sum(decoded_bytes(column, most) for column in table.columns)
    _check_decoded(n_bytes, most)
    if any("\0" in name for name in table.column_names):
        raise Problem(
            422, "zero-byte", "the name of a column holds a zero byte (U+0000); remove it", [at("", "rename")]
        )
    return replace(_of_table(with_takeable_columns(table), limits), n_bytes=int(n_bytes))


def _check_decoded(n_bytes: float, most: int) -> None:
    """Raise if values are far larger than a body may be: packed, or views and runs that share one."""
    if n_bytes > most:
        raise Problem(413, "too-large", f"the values have more than {most:,} bytes when decoded; send less at a time")


def _of_table(table: pa.Table, limits: LimitSettings, *, is_features: bool = False) -> GivenMessages:
    """Return the messages of a table, without those whose text is too long, or which hold a zero byte."""
    found = GivenMessages(table, len(table), is_features=is_features)
    names = names_in_feature({"geometry"}, (), "text") if is_features else ("text",)
    found.rejected = [_long_item(row, limits.text_chars, names) for row in _long_rows(table, limits)]
    if not is_features:  # of which JSON was looked through
        known = {item.row for item in found.rejected}
        zeros = {row: name for row, name in zero_byte_rows(table).items() if row not in known}
        reason = "holds a zero byte (U+0000); remove it"
        found.rejected += [RejectedItem(row, None, name, f"{name} {reason}", (name,)) for row, name in zeros.items()]
    if found.rejected:
        keep = np.setdiff1d(np.arange(len(table)), [item.row for item in found.rejected])
        found.messages, found.rows = table.take(pa.array(keep)), keep.tolist()
    return found


def _long_rows(table: pa.Table, limits: LimitSettings) -> list[int]:
    """Return the rows of a table whose text is too long."""
    if "text" not in table.column_names or not is_text(table["text"].type):
        return []
    is_long = pc.fill_null(pc.greater(pc.utf8_length(table["text"]), limits.text_chars), False)
    rows: list[int] = np.flatnonzero(is_long.to_numpy(zero_copy_only=False)).tolist()
    return rows


def _check_batch(n: int, limits: LimitSettings) -> None:
    if n > limits.batch:
        raise Problem(413, "too-many-items", f"{n:,} messages in one request; send at most {limits.batch:,}")


def _without_long(found: GivenMessages, limits: LimitSettings, *, is_earth: bool) -> GivenMessages:
    """Reject messages whose text is longer than the limit."""
    most = limits.text_chars
    long = [at_ for at_, each in enumerate(found.messages) if len(_text_of(each)) > most]
    if not long:
        return found
    for at_ in long:
        names = names_of(found.messages[at_], "text", is_earth=is_earth)
        found.rejected.append(_long_item(found.row_of(at_), most, names))
    left = set(long)
    rows = [found.row_of(at_) for at_ in range(len(found.messages)) if at_ not in left]
    found.messages = [each for at_, each in enumerate(found.messages) if at_ not in left]
    found.rows = rows
    return found


def _text_of(value: Any) -> str:
    if not isinstance(value, dict):
        return ""
    held = value.get("properties") if value.get("type") == "Feature" else value
    text = held.get("text") if isinstance(held, dict) else None
    return text if isinstance(text, str) else ""


def _long_item(row: int, most: int, names: tuple[str, ...]) -> RejectedItem:
    return RejectedItem(row, None, "text", f"text is longer than {most:,} characters; shorten it", names)
