"""Cells: a store of live messages with posting lists by word and place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast._jit import direct
from nearcast.geo import POLYGON, Regions, polygons_touch
from nearcast.live.answers import RelevanceChanges, RelevantMessages, changes_between
from nearcast.live.cells.found import AFTER, BEFORE, FoundMessages
from nearcast.live.cells.frame import fill_keys, frame_of
from nearcast.live.cells.queries import LiveQueries, QueryPlaces, nowhere, places_of, queries_of
from nearcast.live.cells.safe_search import SafeScratch, search_safe
from nearcast.live.cells.search import SearchScratch, search_rows
from nearcast.live.cells.segments import SegmentBuilder
from nearcast.live.safe import NOTHING_NEAR, is_carried
from nearcast.live.stored import StoredLife

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Subscriptions
    from nearcast.geo import Space
    from nearcast.text.words import WordTable

#: A store makes all columns that the search takes: their types are always the same.
_search_rows = direct(search_rows)
_LEAST_ROOM = 1 << 10
#: From so many rows on it pays to take them in the order of a curve.
_WORTH_ORDERING = 64
#: A batch gets so much more room for each row than a row of the last one needed, up to so many messages.
_SPARE_ROOM, _MOST_GUESSED = 1.25, 128.0
#: Words of a scored row for which there is scratch from the beginning.
_USUAL_WORDS = 32
#: The order of one row, which is only read.
_ONE_ROW = np.zeros(1, np.int64)


class CellLiveStore(StoredLife):
    """Keeps posting lists by word, in segments, each in the order of cells; see `segments` and `walk`."""

    name = "cells"
    #: Rows that are in no segment are tried one by one, up to so many, and so many times in one call.
    unfiled_rows, unfiled_trials = 512, 1 << 14
    _builder: SegmentBuilder

    def __init__(self, space: Space, terms: WordTable):
        super().__init__(space, terms)
        self._rows_renumbered()
        self._scratch, self._safe_scratch = SearchScratch.new(_USUAL_WORDS), SafeScratch.new()
        self._room = FoundMessages.room_for(_LEAST_ROOM)
        #: How many messages a row of the last batch found, and some more: how much room the next one gets.
        self._usual_finds = 0.0

    def _rows_renumbered(self) -> None:
        self._builder = SegmentBuilder()

    def _structure_bytes(self) -> int:
        return self._builder.nbytes

    def relevant(
        self, subscriptions: Subscriptions, weights: NDArray[np.float64], now: NDArray[np.int64]
    ) -> RelevantMessages:
        """Return the live messages that match each subscription."""
        found = self._changes(subscriptions, None, subscriptions.regions, weights, now)
        return RelevantMessages(found.start, found.arrival, found.score)

    def difference(
        self, before: Subscriptions, after: Subscriptions, weights: NDArray[np.float64], now: NDArray[np.int64]
    ) -> RelevanceChanges:
        """Return by row what matches only `before` and what matches only `after`."""
        if _have_same_words(before, after):
            return self._changes(after, before.regions, after.regions, weights, now)
        return changes_between(self.relevant(before, weights, now), self.relevant(after, weights, now))

    def safe_distance(
        self, subscriptions: Subscriptions, weights: NDArray[np.float64], now: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return how far the centre of each region may go before what is relevant can change."""
        queries = queries_of(subscriptions, self._state.words, weights, now)
        self._file_rows(len(subscriptions))
        safe = np.where(is_carried(subscriptions), NOTHING_NEAR, 0.0)
        search_safe(
            self._state.table,
            self._builder.segments,
            np.array([self._builder.n_rows, self._state.n]),
            queries,
            places_of(subscriptions.regions),
            self._state.now,
            self.space.is_earth,
            self._safe_scratch,
            safe,
        )
        return safe

    def _changes(
        self,
        subscriptions: Subscriptions,
        before: Regions | None,
        after: Regions,
        weights: NDArray[np.float64],
        now: NDArray[np.int64],
    ) -> RelevanceChanges:
        """Return what changes if subscriptions go from some places, or from nowhere, to others."""
        queries = queries_of(subscriptions, self._state.words, weights, now)
        old = nowhere(len(subscriptions)) if before is None else places_of(before)
        found = self._found(queries, old, places_of(after))
        if len(after.geometry) or (before is not None and len(before.geometry)):
            found = self._without_missed(found, before, after)
        return found.changes(len(subscriptions), self._state.table.arrival)

    def _file_rows(self, n_queries: int) -> None:
        """Put new rows into a segment, unless they are few and tried in no time."""
        n_new = self._state.n - self._builder.n_rows
        if n_new > self.unfiled_rows or n_new * n_queries > self.unfiled_trials:
            self._builder.add_rows(self._state.table, self._state.n, len(self.word_table), self._state.now)

    def _found(self, queries: LiveQueries, before: QueryPlaces, after: QueryPlaces) -> FoundMessages:
        """Run the search, with more room whenever it has found more than there was room for.

        What it returns may lie in memory that the next call uses again.
        """
        self._file_rows(len(queries.kind))
        if len(queries.word) and queries.most_words >= len(self._scratch.order):
            self._scratch = SearchScratch.new(2 * queries.most_words)
        tail = np.array([self._builder.n_rows, self._state.n])
        room = max(_LEAST_ROOM, int((2.0 + self._usual_finds) * len(queries.kind)))
        order = _search_order(after)
        next_row, pieces = 0, list[FoundMessages]()
        while next_row < len(order) or not pieces:
            found = FoundMessages.room_for(room) if pieces or room > _LEAST_ROOM else self._room
            next_row, n = _search_rows(
                self._state.table,
                self._builder.segments,
                tail,
                queries,
                before,
                after,
                self._state.now,
                self.space.is_earth,
                order,
                next_row,
                self._scratch,
                found,
            )
            pieces.append(found.first(n))
            room = 4 * room
        if len(order) >= _WORTH_ORDERING:
            n_found = sum(len(each.row) for each in pieces)
            self._usual_finds = min(_SPARE_ROOM * n_found / len(order), _MOST_GUESSED)
        return pieces[0] if len(pieces) == 1 else FoundMessages(*map(np.concatenate, zip(*pieces, strict=True)))

    def _without_missed(self, found: FoundMessages, before: Regions | None, after: Regions) -> FoundMessages:
        """Test polygons by their edges, and leave out what is at neither place, or at both."""
        where = found.where.copy()
        for regions, bit in ((before, BEFORE), (after, AFTER)):
            if regions is None:
                continue
            which = np.flatnonzero(((where & bit) != 0) & (regions.kind[found.query] == POLYGON))
            geometry = regions.geometry[regions.shape[found.query[which]]]
            touches = polygons_touch(geometry, self._state.table.box[found.row[which]], self.space)
            where[which[~touches]] &= ~np.uint8(bit)
        kept = np.flatnonzero((where == BEFORE) | (where == AFTER))
        return FoundMessages(found.query[kept], found.row[kept], where[kept], found.score[kept])


def _search_order(places: QueryPlaces) -> NDArray[np.int64]:
    """Return the rows in the order of a curve through their places: neighbours look at the same messages."""
    n = len(places.kind)
    if n == 1:
        return _ONE_ROW
    if n < _WORTH_ORDERING or not len(places.part):
        return np.arange(n)
    point = places.part[np.minimum(places.part_start[:-1], len(places.part) - 1)]
    point[:, 2:] = point[:, :2]
    point[~np.isfinite(point)] = 0.0  # who listens anywhere
    key, kind = np.empty(n, np.int64), np.empty(n, np.int64)
    fill_keys(point, frame_of(point), key, kind)
    return np.argsort(key, kind="stable")


def _have_same_words(one: Subscriptions, other: Subscriptions) -> bool:
    """Tell whether subscriptions differ by their places alone; those that were moved share the other columns."""
    return one.code is other.code and one.kind is other.kind and one.scoring is other.scoring
