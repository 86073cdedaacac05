"""Events as a client sees them, and the parser of the text/event-stream that carries them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """A CloudEvent of a subscriber. `id` is the same when it comes again; `cursor` is what to acknowledge.

    `type` is match, enter, exit, expired, topk.added, topk.removed, digest or gap.
    """

    cursor: str
    type: str
    id: str
    data: dict[str, Any]
    cloud_event: dict[str, Any] = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Event:
        """Return the event of a CloudEvent."""
        short = given["type"].removeprefix("nearcast.").removesuffix(".v1")
        return cls(given["sequence"], short, given["id"], given.get("data") or {}, given)


@dataclass(frozen=True)
class EventPage:
    """Some events, in order. `cursor` is where to go on; `gap` counts events before these that the retention took."""

    events: list[Event]
    cursor: str
    gap: int

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> EventPage:
        """Return the page of an answer."""
        return cls([Event.from_json(each) for each in given["events"]], given["cursor"], given.get("gap") or 0)


class EventStreamParser:
    """Takes the lines of a text/event-stream (HTML Standard, 9.2.6); gives the events whose data is a CloudEvent."""

    def __init__(self) -> None:
        self._data: list[str] = []
        self._type = ""
        self.retry_s: float | None = None
        #: Why the server ended the stream, if it said so.
        self.closed = ""

    def feed(self, line: str) -> Iterator[Event]:
        """Take a line without its end; yield an event when the line is the blank one after it."""
        if not line:
            yield from self._event()
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._type = value
        elif name == "retry" and value.isdigit():
            self.retry_s = int(value) / 1000

    def _event(self) -> Iterator[Event]:
        data, kind = "\n".join(self._data), self._type
        self._data, self._type = [], ""
        if not data:
            return
        found = json.loads(data)
        if kind == "closed":
            self.closed = str(found.get("reason", ""))
        elif isinstance(found, dict) and "specversion" in found:
            yield Event.from_json(found)
