"""Events as a client sees them, and the parser of the text/event-stream that carries them."""

from __future__ import annotations

import json
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
    """Takes the lines of a text/event-stream (HTML Standard, 9.2.6); gives the events whose data is a CloudEvent."""

    def __init__(self) -> None:
        self._data: list[str] = []

    def feed(self, line: str) -> Iterator[RemoteEvent]:
        """Take a line without its end; yield an event when the line is the blank one after it."""
        if line:
            name, _, value = line.partition(":")
            if name == "data":
                self._data.append(value.removeprefix(" "))
            return
        data, self._data = "\n".join(self._data), []
        found = json.loads(data) if data else None
        if isinstance(found, dict) and "specversion" in found:  # the other events say why the server ends the stream
            yield RemoteEvent.from_json(found)
