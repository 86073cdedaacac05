"""Events as they are sent: CloudEvents in JSON, written from columns, and what events share is encoded once.

The JSON is that of `cloud_events.cloud_event`, byte for byte.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from nearcast.durable import Cursor, EventColumns
from nearcast.json_forms import message_feature, rfc_3339
from nearcast.server.cloud_events import gap_event, short_type

_encode = msgspec.json.Encoder(enc_hook=str).encode
_EPOCH = datetime.fromtimestamp(0, UTC)
#: Bytes of messages in JSON that are held in all, those of one, and what holding one takes beside them.
_MOST_HELD, _LONGEST_HELD, _EACH = 32 << 20, 64 << 10, 200


class EncodedEvent(NamedTuple):
    """An event as it is sent: its cursor, the subscription that it is of, its short type and its JSON."""

    cursor: Cursor
    subscription_id: Any
    kind: str
    data: bytes

    def sse(self) -> bytes:
        """Return the event in the form of a stream of server-sent events."""
        step, row = self.cursor
        return b"id: %d-%d\nevent: %b\ndata: %b\n\n" % (step, row, self.kind.encode(), self.data)


class EventEncoder:
    """Makes columns into events as they are sent.

    The JSON of the messages that were read last is held, by arrival: a message goes to many subscribers, to each at
    another time, and need not be read and encoded for each.
    """

    def __init__(self) -> None:
        self._features: OrderedDict[int, str] = OrderedDict()
        self._bytes_held = 0
        self._lock = threading.Lock()

    def events_of(self, columns: EventColumns) -> list[EncodedEvent]:
        """Return the events of columns."""
        written = _written(columns, self._features_of(columns))
        cursors = map(Cursor, columns.steps, columns.rows)
        return [
            EncodedEvent(*row) for row in zip(cursors, columns.subscription_ids, columns.kinds, written, strict=True)
        ]

    def _features_of(self, columns: EventColumns) -> dict[int, str]:
        """Return messages as GeoJSON Features by arrival, without those that are not kept any more."""
        wanted = {arrival for arrival in columns.arrivals if arrival >= columns.kept_from}
        with self._lock:
            found = {arrival: self._features[arrival] for arrival in wanted if arrival in self._features}
        if len(found) < len(wanted):
            read = columns.read_messages(wanted - found.keys())
            made = {arrival: _json(message_feature(message)) for arrival, message in read.items()}
            self._hold(made)
            found |= made
        return found

    def _hold(self, made: dict[int, str]) -> None:
        with self._lock:
            for arrival, feature in made.items():
                if _bytes_of(feature) <= _LONGEST_HELD and arrival not in self._features:
                    self._features[arrival] = feature
                    self._bytes_held += _bytes_of(feature)
            while self._bytes_held > _MOST_HELD:
                self._bytes_held -= _bytes_of(self._features.popitem(last=False)[1])


def _bytes_of(feature: str) -> int:
    """Return what holding a text takes; a single character beyond Latin-1 doubles or quadruples it."""
    return sys.getsizeof(feature) + _EACH


def _written(columns: EventColumns, features: dict[int, str]) -> Iterator[bytes]:
    """Yield the JSON of events; texts of a message, of a step and of a score are made once."""
    messages: dict[int, tuple[str, str, str]] = {}
    steps: dict[int, str] = {}
    scores: dict[float, str] = {}
    for step, row, arrival, kind, change, subscription, message_id, cause, score, rank, time in zip(
        columns.steps,
        columns.rows,
        columns.arrivals,
        columns.kinds,
        columns.changes,
        columns.subscription_ids,
        columns.message_ids,
        columns.cause_ids,
        columns.scores,
        columns.ranks,
        columns.times,
        strict=True,
    ):
        if arrival not in messages:
            messages[arrival] = (_json(str(message_id)), _json(message_id), features.get(arrival, "null"))
        if step not in steps:
            steps[step] = _json(rfc_3339(time or _EPOCH))
        if score not in scores:
            scores[score] = _json(score)
        subject, id_, feature = messages[arrival]
        own = _json(subscription)
        plain, mark = (own[1:-1], ":") if isinstance(subscription, str) else (own, "")
        yield (
            f'{{"specversion":"1.0","id":"{step}:{arrival}:{change}{mark}{plain}","type":"nearcast.{kind}.v1",'
            f'"source":"/v1/subscriptions/{plain}","subject":{subject},"time":{steps[step]},'
            f'"datacontenttype":"application/json","sequence":"{step}-{row}","data":{{"subscription_id":{own},'
            f'"message_id":{id_},"change":"{change}","score":{scores[score]},"rank":{_json(rank)},'
            f'"cause_id":{id_ if cause == message_id else _json(cause)},"message":{feature}}}}}'
        ).encode()


def _json(value: Any) -> str:
    return _encode(value).decode()


def encoded_gap(subscriber: str, after: str, dropped: int) -> EncodedEvent:
    """Return the event that stands for those that were dropped after a cursor."""
    event = gap_event(subscriber, after, dropped)
    return EncodedEvent(Cursor.parse(after), None, short_type(event), _encode(event))
