"""Events as a client sees them, and the parser of the text/event-stream that carries them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RemoteEvent:
    """A CloudEvent of a subscriber. `id` is the same when it comes again; `cursor` is what to acknowledge.

    `type` is match, enter, exit, expired, topk.added, topk.removed, digest or gap.
    """

    cursor: str
    type: str
    id: str
    data: dict[str, Any]
    cloud_event: dict[str, Any] = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> RemoteEvent:
        """Return the event of a CloudEvent."""
        short = given["type"].removeprefix("nearcast.").removesuffix(".v1")
        return cls(given["sequence"], short, given["id"], given.get("data") or {}, given)


@dataclass(frozen=True)
class RemotePage:
    """Some events, in order. `cursor` is where to go on; `gap` counts events before these that the retention took."""

    events: list[RemoteEvent]
    cursor: str
    gap: int

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> RemotePage:
        """Return the page of an answer."""
        return cls([RemoteEvent.from_json(each) for each in given["events"]], given["cursor"], given.get("gap") or 0)


class EventStreamParser:
    """Takes the bytes of a text/event-stream (HTML Standard, 9.2.6); gives the events whose data is a CloudEvent.

    Lines end with CR, LF or both, and with nothing else: texts may hold the other line separators of Unicode.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        #: Why the server ends the stream, where it said so.
        self.close_reason = ""
        #: Whether the stream has stood for a while: an event came, or a comment that keeps it open.
        self.has_lasted = False

    def feed(self, chunk: bytes) -> Iterator[RemoteEvent]:
        """Take some bytes; yield the events that they complete."""
        *lines, self._rest = _LINE_END.split(self._rest + chunk)
        for line in lines:
            event = self._take(line)
            if event is not None:
                yield event

    def _take(self, line: bytes) -> RemoteEvent | None:
        """Take a line without its end; return an event when the line is the blank one after it."""
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            self.has_lasted = self.has_lasted or not name
            return None
        data, self._data = b"\n".join(self._data), []
        found = json.loads(data) if data else None
        if isinstance(found, dict) and "specversion" in found:
            self.has_lasted = True
            return RemoteEvent.from_json(found)
        if isinstance(found, dict) and "reason" in found:
            self.close_reason = str(found["reason"])
        return None


#: A CR at the very end may be the first half of one.
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
