"""The index `stamp`: the paper's prefixes in the regions of an R-tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.errors import UnknownIndex
from nearcast.indexes import Matches, register
from nearcast.indexes.papers.stamp.candidates import ALWAYS, MODEL, NEVER, NOT_AT_ALL
from nearcast.indexes.papers.stamp.construction import Filters, build, extend
from nearcast.indexes.papers.stamp.lists import size_of as size_of_lists
from nearcast.indexes.papers.stamp.members import size_of
from nearcast.indexes.papers.stamp.search import search_messages
from nearcast.indexes.papers.stamp.search_state import StampScratch, new_scratch
from nearcast.indexes.shared.one_by_one import LOOKED_AT, VERIFIED
from nearcast.indexes.shared.scores import totals_for
from nearcast.indexes.shared.search_arrays import FoundSlots, MessageColumns
from nearcast.indexes.shared.stored_index import StoredIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.geo import Space
    from nearcast.indexes.papers.stamp.search_state import StampArrays

FILTERS = ("sp", "sp+hi", "sp+rp+hi", "sp+st+hi", "sp+rp+st+hi")
_STRATEGIES = {"model": MODEL, "always": ALWAYS, "never": NEVER}
#: Changes that are taken in without building anew, beside a quarter of what was built.
_SPARE_CHANGES = 64
#: Answers there is room for at least, before they are copied out.
_ROOM = 1 << 16


@register(
    "stamp",
    kinds=("similar",),
    paper="Hu et al., ICDE 2015 (STAMP)",
    options={"filters": "sp+rp+st+hi", "fan_out": 5000, "cost": "model"},
)
class StampIndex(StoredIndex):
    """Prefixes with spatial bounds, in lists by region and word; the package's docstring tells the parts.

    `filters`: which of the paper's filters are used, one of sp, sp+hi, sp+rp+hi, sp+st+hi, sp+rp+st+hi. `fan_out`: how
    many subscriptions or regions one region holds. `cost`: with st, whether candidates are filtered further as the
    cost `model` says, `always` or `never`.

    >>> from nearcast.geo import Space
    >>> len(StampIndex(Space.plane(), filters="sp+hi"))
    0
    """

    def __init__(self, space: Space, *, filters: str = "sp+rp+st+hi", fan_out: int = 5000, cost: str = "model"):
        super().__init__(space, filters=filters, fan_out=fan_out, cost=cost)
        for name, value, known in (("filters", filters, FILTERS), ("cost", cost, tuple(_STRATEGIES))):
            if value not in known:
                raise UnknownIndex(f"option {name} of the index 'stamp' is one of {', '.join(known)}, not {value!r}")
        if fan_out < 2:
            raise UnknownIndex(f"option fan_out of the index 'stamp' is at least 2, not {fan_out}")
        parts = filters.split("+")
        self._filters = Filters(
            fan_out=fan_out, by_region="hi" in parts, by_side="rp" in parts, deeper="st" in parts
        )  # fmt: skip
        self._strategy = _STRATEGIES[cost] if "st" in parts else NOT_AT_ALL
        self._held: StampArrays | None = None
        self._scratch: StampScratch | None = None
        #: Rows there were when the lists were built, rows that are in them by now, rows dropped since the building.
        self._n_built = self._n_seen = self._n_dropped = 0

    # What happens to the table

    def _rows_dropped(self, rows: NDArray[np.int64]) -> None:
        self._n_dropped += len(rows)

    def _rows_renumbered(self) -> None:
        self._held = None

    def _ready(self) -> StampArrays:
        """Return the lists with everything in them that the table holds."""
        n_rows, held = len(self._slot_of), self._held
        n_changes = n_rows - self._n_built + self._n_dropped
        n_members = 0 if held is None else held.members.n
        if held is not None and n_members and 4 * (n_changes - _SPARE_CHANGES) <= n_members:
            if self._n_seen == n_rows:
                return held
            rows = self._n_seen + np.flatnonzero(self._slot_of[self._n_seen :] >= 0)
            self._held = None  # until all is in: whoever is cut short builds anew
            held = extend(held, self._table(), rows, self._weights, self._filters, self.space)
        else:
            rows = np.flatnonzero(self._slot_of >= 0)
            held = build(self._table(), rows, self._weights, self._filters, self.space)
            self._held = None
            self._n_built, self._n_dropped = n_rows, 0
        self._n_seen = n_rows
        self._held = held  # the last of all
        return held

    # Matching

    def match(self, messages: Messages, *, threads: int = 1) -> Matches:
        """Return the matching slots of every message; one core whatever `threads` says."""
        messages = messages.for_kernels()
        with self._lock:
            self._undo.roll_back()
            held = self._ready()
            totals = totals_for(messages, needed=self._needs_totals)
            batch = MessageColumns(messages.term_start, messages.terms, messages.box, totals)
            return self._search(held, batch)

    def _search(self, held: StampArrays, batch: MessageColumns) -> Matches:
        counts = np.zeros(len(batch.box), np.int64)
        if not held.members.n:
            return Matches(np.zeros(len(counts) + 1, np.int64), np.empty(0, np.int32), np.empty(0))
        longest = int(np.diff(batch.term_start).max(initial=0))
        scratch = self._scratch_for(held, longest)
        scratch.tally[:] = 0
        room = max(held.members.n + 1, _ROOM)
        found = FoundSlots(np.empty(room, np.int32), np.empty(room), self._slot_of)
        slots, scores, message = [np.empty(0, np.int32)], [np.empty(0)], 0
        while message < len(counts):
            first, n_bits = message, len(self._row_of).bit_length()
            message = search_messages(
                held, batch, scratch, found, self.space.is_earth, self._strategy, n_bits, first, counts
            )
            n = int(counts[first:message].sum())
            slots.append(found.slots[:n].copy())
            scores.append(found.scores[:n].copy())
        start = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=start[1:])
        looked_at, verified = int(scratch.tally[LOOKED_AT]), int(scratch.tally[VERIFIED])
        return Matches(start, np.concatenate(slots), np.concatenate(scores), looked_at, verified)

    def _scratch_for(self, held: StampArrays, longest: int) -> StampScratch:
        """Return scratch arrays that are large enough, the last ones if they are."""
        n_terms, n_members = len(held.members.scored.weight), held.members.n
        n_levels, n_leaves = len(held.tree.level_start), int(held.tree.level_start[1])
        n_late = n_members - int(held.tree.last[n_leaves - 1])
        most_in_leaf = n_late + int((held.tree.last - held.tree.first)[:n_leaves].max())
        old = self._scratch
        if (
            old is not None
            and len(old.has) == n_terms
            and len(old.spare_slots) >= n_members
            and len(old.candidate) >= most_in_leaf
            and old.alive.shape[0] == n_levels
            and old.alive.shape[1] > longest
        ):
            return old
        self._scratch = new_scratch(n_terms, n_members, most_in_leaf, n_levels, longest + 1)
        return self._scratch

    # What is held

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes.

        `prefix_tokens` and `region_aware_tokens` are how many tokens, the dummy `*` included, the two prefixes of a
        subscription have on average; `listed_tokens` counts those of the spatio-textual prefixes too.
        """
        with self._lock:
            self._undo.roll_back()
            held = self._ready()
            found = super().stats()
            n = max(held.members.n, 1)
            per_level = held.level_total.sum(axis=0, dtype=np.int64)
            n_late = int(held.lists.used[1])
            return {
                **found,
                "leaves": int(held.tree.level_start[1]),
                "regions": len(held.tree.box),
                "lists": int(held.lists.used[0]),
                "entries": len(held.entries.member) + n_late,
                "late_entries": n_late,
                "prefix_tokens": float(per_level[0, 0] / n),
                "region_aware_tokens": float(per_level[1, 0] / n),
                "listed_tokens": float(per_level[0].sum() / n),
            }

    def _structure_bytes(self) -> int:
        weight = self._weights.nbytes
        if self._held is None:
            return weight
        held = self._held
        arrays = (*held.tree, *held.entries, *held.late, held.level_total)
        return weight + sum(array.nbytes for array in arrays) + size_of_lists(held.lists) + size_of(held.members)

    def explain(self, messages: Messages, row: int, slot: int, word: Callable[[int], str] = str) -> list[str]:
        """Return lines that tell which bound dropped the slot for this message, or that none did."""
        from nearcast.indexes.papers.stamp.explain import stamp_lines

        with self._lock:
            self._undo.roll_back()
            self._alive(np.array([slot], np.int32))
            held = self._ready()
            member = int(np.flatnonzero(held.members.row == self._row_of[slot])[-1])
            return stamp_lines(held, member, messages, row, self._filters, self.space, word)
