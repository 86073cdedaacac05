"""nearcast itself: a hub with the index `trigger` in this process, from tables and values to ids."""

from __future__ import annotations

import importlib.metadata
import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nearcast.bench.peers.contract import Pairs, Peer, PeerSettings, TimedPairs, timed
from nearcast.bench.peers.workload import PointMessages

if TYPE_CHECKING:
    from nearcast.bench.peers.workload import BoxSubscriptions
    from nearcast.hub import Hub
    from nearcast.model import Message

#: So few rows go through a hub of their own first, so that compilation is not timed.
_TRIAL = 300


class NearcastPeer(Peer):
    """A hub: `publish_many` with a table, or `publish` with one message after the other."""

    name = "nearcast"
    about = "a hub with the index trigger, in this process"

    def __init__(self, settings: PeerSettings) -> None:
        super().__init__(settings)
        self._hub: Hub | None = None

    def why_missing(self) -> str | None:
        """Return None: it is always there."""
        return None

    def version(self) -> str:
        """Return the version of this package."""
        return f"nearcast {importlib.metadata.version('nearcast')}"

    def load(self, subscriptions: BoxSubscriptions) -> float:
        """Subscribe the table; queries are parsed."""
        _rehearse(subscriptions.first(_TRIAL))
        began = time.perf_counter()
        self._hub = _hub_of(subscriptions)
        return time.perf_counter() - began

    def match(self, messages: PointMessages, *, singly: bool) -> TimedPairs:
        """Publish a table and read a table, or publish values that were made before and read values."""
        hub = self._hub
        assert hub is not None
        return _singly(hub, messages) if singly else timed(lambda: _at_once(hub, messages.table))

    def close(self) -> None:
        """Let go of the hub."""
        if self._hub is not None:
            self._hub.close()
            self._hub = None


def _hub_of(subscriptions: BoxSubscriptions) -> Hub:
    from nearcast.hub import Hub

    hub = Hub("earth" if subscriptions.is_on_earth else "plane", index="trigger")
    hub.subscribe_many(subscriptions.table)
    return hub


def _at_once(hub: Hub, messages: pa.Table) -> Pairs:
    found = hub.publish_many(messages).to_table()
    if not found.num_rows:
        return Pairs.none()
    return Pairs(found["message_id"].to_numpy(), found["subscription_id"].to_numpy())


def _singly(hub: Hub, messages: PointMessages) -> TimedPairs:
    seconds, pieces = np.empty(len(messages)), []
    for row, message in enumerate(_values(messages)):
        began = time.perf_counter()
        found = [each.subscription_id for each in hub.publish(message)]
        seconds[row] = time.perf_counter() - began
        pieces.append(Pairs(np.full(len(found), row), np.array(found, np.int64)))
    return TimedPairs(Pairs.joined(pieces), seconds)


def _rehearse(few: BoxSubscriptions) -> None:
    """Send each of a few subscriptions the message that it asks for, through a hub of their own."""
    names = ("lon", "lat") if few.is_on_earth else ("x", "y")
    place = few.box[:, :2]
    columns = {"id": few.table["id"], "terms": few.words} | dict(zip(names, place.T.copy(), strict=True))
    messages = PointMessages(few.words, place, pa.table(columns))
    with _hub_of(few) as hub:
        _at_once(hub, messages.table)
        _singly(hub, messages)


def _values(messages: PointMessages) -> list[Message]:
    from nearcast.model import Message

    places, words = messages.place.tolist(), messages.words.to_pylist()
    return [
        Message(row, place=tuple(place), terms=tuple(said))
        for row, (place, said) in enumerate(zip(places, words, strict=True))
    ]
