"""What happens in a tenant now: the newest messages, and samples of messages, deliveries and moves for who watches.

Everything is counted; of what happens only so much is kept, and samples only while somebody watches.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nearcast.deliveries import Deliveries
from nearcast.engine.lifetime import Lifetime
from nearcast.geo import Space
from nearcast.model import Delivery
from nearcast.server.newest_messages import Call, NewestMessages, feature_of
from nearcast.server.publisher import given_id

#: Samples that are kept, and of one call.
_SAMPLES, SAMPLED = 200, 5


class TenantActivity:
    """Counts since the start, the newest messages, and numbered samples; written in threads, read in the loop."""

    def __init__(self, space: Space, lifetime: Lifetime | None = None):
        self._space = space
        self.counts = {"messages": 0, "deliveries": 0, "moves": 0}
        self.newest = NewestMessages(space, lifetime)
        self._samples: deque[tuple[int, str, dict[str, Any]]] = deque(maxlen=_SAMPLES)
        self._numbers = itertools.count(1)
        #: Streams that want samples.
        self.n_watchers = 0

    def published(self, messages: Call, found: Deliveries) -> None:
        """Take note of a call that published messages."""
        self.counts["messages"] += len(messages) - len(found.rejected)
        self.counts["deliveries"] += len(found)
        lost = {row.row for row in found.rejected}
        self.newest.add(messages, lost)
        if self.n_watchers:
            for row in _sampled_rows(messages, lost, found[:SAMPLED]):
                feature = feature_of(_given(messages, row), self._space)
                if feature is not None:
                    self._add("message", feature)
            self._add_deliveries(found)

    def moved(self, n: int, sample: Callable[[], list[dict[str, Any]]], found: Deliveries) -> None:
        """Take note of a call that moved subscribers or subscriptions; `sample` gives the first of `n` moves."""
        self.counts["moves"] += n
        self.counts["deliveries"] += len(found)
        if self.n_watchers:
            for each in sample():
                self._add("move", each)
            self._add_deliveries(found)

    def _add_deliveries(self, found: Deliveries) -> None:
        names = ("subscription_id", "message_id", "change", "score", "rank")
        for delivery in found[:SAMPLED]:
            self._add("delivery", {"type": _type_of(delivery), **{name: getattr(delivery, name) for name in names}})

    def _add(self, kind: str, data: dict[str, Any]) -> None:
        self._samples.append((next(self._numbers), kind, data))

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


def _given(messages: Call, row: int) -> Any:
    return (messages, row) if isinstance(messages, pa.Table) else messages[row]


def _sampled_rows(messages: Call, lost: set[int], deliveries: list[Delivery]) -> list[int]:
    """Return rows of a few messages: those that the sampled deliveries are about, then the newest."""
    wanted = {each.message_id for each in deliveries}
    last = (row for row in range(len(messages) - 1, -1, -1) if row not in lost)
    rows = dict.fromkeys([*_rows_of(messages, lost, wanted), *itertools.islice(last, SAMPLED)])
    return list(rows)[:SAMPLED]


def _rows_of(messages: Call, lost: set[int], wanted: set[Any]) -> list[int]:
    """Return the rows of the messages with these ids."""
    if isinstance(messages, pa.Table):
        found = pc.index_in(pa.array(list(wanted), messages["id"].type), messages["id"]) if wanted else pa.array([])
        return [row for row in found.to_pylist() if row is not None and row not in lost]
    return [row for row, each in enumerate(messages) if row not in lost and given_id(each) in wanted]
