"""What happens in a tenant now: the newest messages, and samples of messages, deliveries and moves for who watches.

Everything is counted; of what happens only so much is kept, and samples only while somebody watches.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

import pyarrow as pa

from nearcast.deliveries import Deliveries
from nearcast.errors import NearcastError
from nearcast.geo import Space
from nearcast.json_forms import message_feature
from nearcast.model import Delivery, message_from

_NEWEST, _SAMPLES, _PER_CALL = 1000, 200, 5


class TenantActivity:
    """Counts since the start, the newest messages, and numbered samples; written in threads, read in the loop."""

    def __init__(self, space: Space):
        self._space = space
        self.counts = {"messages": 0, "deliveries": 0, "moves": 0}
        #: Messages of the newest calls, with the rows of them that were rejected.
        self._newest: deque[tuple[list[Any] | pa.Table, set[int]]] = deque()
        self._n_newest = 0
        self._samples: deque[tuple[int, str, dict[str, Any]]] = deque(maxlen=_SAMPLES)
        self._numbers = itertools.count(1)
        #: Streams that want samples.
        self.n_watchers = 0

    def published(self, messages: list[Any] | pa.Table, found: Deliveries) -> None:
        """Take note of a call that published messages."""
        self.counts["messages"] += len(messages) - len(found.rejected)
        self.counts["deliveries"] += len(found)
        lost = {row.row for row in found.rejected}
        self._newest.append((messages, lost))
        self._n_newest += len(messages)
        while self._n_newest - len(self._newest[0][0]) >= _NEWEST:
            self._n_newest -= len(self._newest.popleft()[0])
        if self.n_watchers:
            for feature in self.newest(min(_PER_CALL, len(messages) - len(lost))):
                self._add("message", feature)
            self._add_deliveries(found)

    def moved(self, moves: list[dict[str, Any]], found: Deliveries) -> None:
        """Take note of a call that moved subscribers or subscriptions."""
        self.counts["moves"] += len(moves)
        self.counts["deliveries"] += len(found)
        if self.n_watchers:
            for each in moves[:_PER_CALL]:
                self._add("move", each)
            self._add_deliveries(found)

    def _add_deliveries(self, found: Deliveries) -> None:
        names = ("subscription_id", "message_id", "change", "score", "rank")
        for delivery in found[:_PER_CALL]:
            self._add("delivery", {"type": _type_of(delivery), **{name: getattr(delivery, name) for name in names}})

    def _add(self, kind: str, data: dict[str, Any]) -> None:
        self._samples.append((next(self._numbers), kind, data))

    def newest(self, n: int) -> list[dict[str, Any]]:
        """Return the newest messages as Features, the newest first."""
        features: list[dict[str, Any]] = []
        for messages, lost in list(self._newest)[::-1]:
            for value in _last_values(messages, lost, n - len(features)):
                try:
                    features.append(message_feature(message_from(value, self._space)))
                except NearcastError:  # a table's row in another form, a geometry in WKB
                    continue
        return features

    def samples_after(self, number: int) -> list[tuple[int, str, dict[str, Any]]]:
        """Return the samples that came after one of them."""
        return [each for each in list(self._samples) if each[0] > number]


def _type_of(delivery: Delivery) -> str:
    """Return the short type of a delivery's event."""
    if delivery.rank is not None:
        return "topk.added" if delivery.change == "+" else "topk.removed"
    if delivery.cause_id is not None:
        return "match"
    return "enter" if delivery.change == "+" else "exit"


def _last_values(messages: list[Any] | pa.Table, lost: set[int], n: int) -> list[Any]:
    """Return the last messages of a call as values, the newest first."""
    rows = [row for row in range(len(messages) - 1, -1, -1) if row not in lost][:n]
    return messages.take(rows).to_pylist() if isinstance(messages, pa.Table) else [messages[row] for row in rows]
