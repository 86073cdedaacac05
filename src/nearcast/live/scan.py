"""The live store `scan`: tries every live message on every subscription. Slow, and the definition of all others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nearcast.columns import TOPK
from nearcast.geo import Regions
from nearcast.indexes.scan import ScanIndex
from nearcast.live.answers import RelevanceChanges, RelevantMessages, changes_between, starts_of
from nearcast.live.safe import NOTHING_NEAR, change_distances, is_carried
from nearcast.live.stored import StoredLife

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages, Subscriptions


class ScanLiveStore(StoredLife):
    """Matches all messages with an index `scan` of the subscriptions in question."""

    name = "scan"

    def relevant(
        self, subscriptions: Subscriptions, weights: NDArray[np.float64], now: NDArray[np.int64]
    ) -> RelevantMessages:
        """Return the live messages that match each subscription."""
        messages = self._live()
        rows, at, score = self._matched(messages, subscriptions, weights)
        counts = (messages.expires[at] > now[rows]) & (subscriptions.kind[rows] != TOPK)
        rows, at, score = rows[counts], at[counts], score[counts]
        return RelevantMessages(starts_of(rows, len(subscriptions)), self._arrivals()[at], score)

    def difference(
        self, before: Subscriptions, after: Subscriptions, weights: NDArray[np.float64], now: NDArray[np.int64]
    ) -> RelevanceChanges:
        """Return by row what matches only `before` and what matches only `after`."""
        return changes_between(self.relevant(before, weights, now), self.relevant(after, weights, now))

    def safe_distance(
        self, subscriptions: Subscriptions, weights: NDArray[np.float64], now: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return how far the centre of each region may go before what is relevant can change."""
        carried, messages = np.flatnonzero(is_carried(subscriptions)), self._live()
        safe = np.zeros(len(subscriptions))
        safe[carried] = NOTHING_NEAR
        anywhere = subscriptions.take(carried).with_regions(Regions.anywhere(len(carried)))
        matched, at, _ = self._matched(messages, anywhere, weights)
        rows = carried[matched]
        counts = messages.expires[at] > now[rows]
        rows, at = rows[counts], at[counts]
        np.minimum.at(safe, rows, change_distances(subscriptions.regions, rows, messages.box[at], self.space))
        return safe

    def _arrivals(self) -> NDArray[np.int64]:
        rows = self._rows()
        return rows.arrival[rows.expires > self._state.now]

    def _live(self) -> Messages:
        """Return all messages that are not dropped."""
        return self.messages(self._arrivals())

    def _matched(
        self, messages: Messages, subscriptions: Subscriptions, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return (row of the subscription, place of the message, score) of all matches, by row, then place."""
        index = ScanIndex(self.space)
        index.set_weights(weights)
        index.insert(replace(subscriptions, texts=None))
        found = index.match(messages)
        rows, at = found.slots.astype(np.int64), found.rows()
        order = np.lexsort((at, rows))
        return rows[order], at[order], found.score[order]
