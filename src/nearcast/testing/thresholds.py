"""The invariant walk of the part of the trigger index that holds top-k subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.indexes.trigger.thresholds.bounds import (
    AFTER_LEVELS,
    BLOCK,
    BUNDLE,
    CORNERS,
    NEAR_LEVELS,
    U_LEVELS,
)
from nearcast.indexes.trigger.thresholds.components import ThresholdSegment
from nearcast.indexes.trigger.thresholds.rows import FIRST, LAST, THRESHOLD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.trigger.thresholds import ThresholdPart
    from nearcast.indexes.trigger.thresholds.layout import ThresholdLists
    from nearcast.indexes.trigger.thresholds.rows import ThresholdRows

_UNITS = 32768.0
_MOST = 65535.0 / _UNITS


def check_moving(moving: ThresholdPart, owned: NDArray[np.int64]) -> None:
    """Raise AssertionError where an array breaks its promise; `owned` are the slots the index says are held here."""
    held = np.flatnonzero(moving._where >= 0)
    assert held.tolist() == owned.tolist(), "the index and its moving part disagree on what is held there"
    n_live = 0
    for number, component in moving._components.items():
        assert component.number == number, "a component is kept under another number"
        live = component.live_rows()
        n_live += len(live)
        assert component.n_dead == component.n_rows - len(live), "the dead are counted wrong"
        where = moving._where[component.rows.slot[live]]
        assert (where == (number << 32) + live).all(), "a slot is not where its row is"
        dead = np.setdiff1d(np.arange(component.n_rows), live)
        assert np.isinf(component.rows.record[dead, THRESHOLD]).all(), "a dead row has a threshold"
        if isinstance(component, ThresholdSegment):
            check_lists(component.rows, component.lists)
    assert n_live == len(held), "a slot is held nowhere"


def check_lists(rows: ThresholdRows, lists: ThresholdLists) -> None:
    """Every word has a trigger in the list of its term, with the threshold of its row, under a table that bounds it."""
    entries = lists.entries
    row_of = np.repeat(np.arange(len(rows.slot)), (rows.record[:, LAST] - rows.record[:, FIRST]).astype(int))
    assert sorted(lists.trigger.tolist()) == list(range(len(rows.term))), "a word has no trigger of its own"
    assert (entries.row[lists.trigger] == row_of).all(), "a trigger belongs to another row"
    expected = np.floor(np.clip(rows.record[row_of, THRESHOLD], 0.0, _MOST) * _UNITS)
    assert (entries.threshold[lists.trigger] == expected).all(), "a trigger has another threshold than its row"
    number_of = {int(k): int(n) for k, n in zip(lists.key, lists.number, strict=True) if k >= 0}
    numbers = np.array([number_of[term] for term in rows.term.tolist()], int)
    inside = (lists.start[numbers] <= lists.trigger) & (lists.trigger < lists.start[numbers + 1])
    assert inside.all(), "a trigger is in the list of another word"
    for number in range(len(lists.start) - 1):
        n, n_blocks = lists.start[number + 1] - lists.start[number], np.diff(lists.first_block)[number]
        assert n_blocks == (-(-n // BLOCK) if n > BLOCK else 0), "a list has the wrong number of blocks"
        for nth in range(n_blocks):
            first = int(lists.start[number]) + BLOCK * nth
            last = min(first + BLOCK, int(lists.start[number + 1]))
            _check_block(lists, int(lists.first_block[number]) + nth, first, last)
        _check_bundles(lists, number, n_blocks)


def _check_block(lists: ThresholdLists, block: int, first: int, last: int) -> None:
    entries, blocks, n = lists.entries, lists.blocks, len(lists.blocks.steep)
    assert (blocks.steep[block] <= entries.steep[first:last]).all(), "a block is steeper than one of its triggers"
    text, rest, place, threshold = (
        column[first:last] / _UNITS for column in (entries.text, entries.rest, entries.place, entries.threshold)
    )
    corners = [(u, after, near) for u in U_LEVELS for after in AFTER_LEVELS for near in NEAR_LEVELS]
    for corner, (u, after, near) in enumerate(corners):
        asked = text * u + rest * after + place * near - threshold
        held = blocks.table[corner * n + block]
        assert held >= asked.max() - 1e-6, "a table is below what a trigger of its block asks"
        assert blocks.stale[block] or held <= asked.max() + 1e-6, "a table that is not stale is too high"
    assert len(corners) == CORNERS, "the grid has other corners"


def _check_bundles(lists: ThresholdLists, number: int, n_blocks: int) -> None:
    """Every bundle of a list bounds its blocks: their boxes, their steepness and their tables."""
    blocks, bundles = lists.blocks, lists.bundles
    first_bundle, first_block = int(lists.first_bundle[number]), int(lists.first_block[number])
    n_bundles = int(lists.first_bundle[number + 1]) - first_bundle
    assert n_bundles == (-(-n_blocks // BUNDLE) if n_blocks > BUNDLE else 0), "a list has the wrong number of bundles"
    table, box = blocks.table.reshape(CORNERS, -1), blocks.box.reshape(6, -1)
    for nth in range(n_bundles):
        mine = slice(first_block + BUNDLE * nth, first_block + min(BUNDLE * (nth + 1), n_blocks))
        bundle = first_bundle + nth
        around = bundles.box.reshape(6, -1)[:, bundle]
        inside = (around[::2, None] <= box[::2, mine]).all() and (around[1::2, None] >= box[1::2, mine]).all()
        assert inside, "a block lies outside the box of its bundle"
        assert (bundles.steep[bundle] <= blocks.steep[mine]).all(), "a bundle is steeper than one of its blocks"
        held, most = bundles.table.reshape(CORNERS, -1)[:, bundle], table[:, mine].max(axis=1)
        assert (held >= most).all(), "the table of a bundle is below that of one of its blocks"
        assert bundles.stale[bundle] or (held <= most).all(), "the table of a bundle that is not stale is too high"
