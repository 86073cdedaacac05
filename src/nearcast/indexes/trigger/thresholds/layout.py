"""Lays out the triggers of top-k rows in lists by word, cut into blocks of triggers that are alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.indexes.shared.word_order import comes_before
from nearcast.indexes.trigger.thresholds.bounds import (
    BLOCK,
    BUNDLE,
    CORNERS,
    ThresholdBlocks,
    ThresholdEntries,
    fill_blocks,
    fill_bundles,
    new_blocks,
    new_entries,
    rounded_up,
    stepped,
    threshold_as_entry,
)
from nearcast.indexes.trigger.thresholds.frame import HALF, frame_around, set_place, steepness
from nearcast.indexes.trigger.thresholds.rows import (
    FIRST,
    LAST,
    MAX_DISTANCE,
    OWN,
    TEXT_WEIGHT,
    THRESHOLD,
    ThresholdRows,
    X,
    Y,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

VACANT = -1
#: Features by which triggers are alike: how easily they fire close by, how easily far away, and where they are.
_FEATURES = 5
#: How much more a difference in place counts than one in ease: a block is bounded by its box, whatever is inside.
_PLACE_COUNTS = 16.0


class _LooseTriggers(NamedTuple):
    """The trigger of each word before they are laid out, as `ThresholdEntries` but not rounded."""

    text: NDArray[np.float32]
    rest: NDArray[np.float32]
    place: NDArray[np.float32]
    threshold: NDArray[np.float64]
    x: NDArray[np.float32]
    y: NDArray[np.float32]
    z: NDArray[np.float32]
    steep: NDArray[np.float32]
    signature: NDArray[np.uint32]
    row: NDArray[np.int32]


_LOOSE_TYPES = (*["f4"] * 3, "f8", *["f4"] * 4, "u4", "i4")


class ThresholdLists(NamedTuple):
    """Triggers by word: list l has the triggers `start[l]:start[l + 1]`, the blocks from `first_block[l]` on, and the
    bundles of these from `first_bundle[l]` on.

    `key` is an open-addressing table of words with their lists in `number`. `trigger[i]` is the trigger of word i of
    `ThresholdRows.term`. A list that fits one block has none, nor are blocks that fit one bundle in one.
    """

    entries: ThresholdEntries
    blocks: ThresholdBlocks
    bundles: ThresholdBlocks
    key: NDArray[np.int32]
    number: NDArray[np.int32]
    start: NDArray[np.int64]
    first_block: NDArray[np.int64]
    first_bundle: NDArray[np.int64]
    trigger: NDArray[np.int32]
    frame: NDArray[np.float64]


def build_lists(rows: ThresholdRows, weight: NDArray[np.float64], *, is_earth: bool) -> ThresholdLists:
    """Lay out the triggers of rows."""
    n_words = len(rows.term)
    count = np.zeros(int(rows.term.max(initial=-1)) + 1, np.int64)
    _count_terms(rows.term, count)
    terms = np.flatnonzero(count)
    key, number = _numbered(terms)
    start = np.append(0, np.cumsum(count[terms]))
    first_block = _first_parts(count[terms], BLOCK)
    frame = frame_around(is_earth, rows.record, 0.0)
    loose = _LooseTriggers(*(np.empty(n_words, kind) for kind in _LOOSE_TYPES))
    _fill_loose(rows, weight, frame, is_earth, loose)
    order = np.empty(n_words, np.int64)
    _by_list(rows.term, terms, start, order)
    _order_in_blocks(loose, weight, terms, start, order, np.empty((n_words, _FEATURES), np.float32))
    trigger = np.empty(n_words, np.int32)
    trigger[order] = np.arange(n_words, dtype=np.int32)
    entries, blocks = new_entries(n_words), new_blocks(int(first_block[-1]))
    _lay_out(loose, order, start, first_block, frame, entries, blocks)
    fill_blocks(entries, blocks, start, first_block, np.empty(CORNERS, np.float32))
    bundles, first_bundle = bundles_of(blocks, first_block)
    return ThresholdLists(
        entries=entries,
        blocks=blocks,
        bundles=bundles,
        key=key,
        number=number,
        start=start,
        first_block=first_block,
        first_bundle=first_bundle,
        trigger=trigger,
        frame=frame,
    )


def bundles_of(blocks: ThresholdBlocks, first_block: NDArray[np.int64]) -> tuple[ThresholdBlocks, NDArray[np.int64]]:
    """Return the bundles of blocks, and where those of each list begin."""
    first_bundle = _first_parts(np.diff(first_block), BUNDLE)
    bundles = new_blocks(int(first_bundle[-1]))
    fill_bundles(blocks, bundles, first_block, first_bundle)
    return bundles, first_bundle


def _first_parts(count: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return where the parts of each list begin, which are so long: what fits one is in none."""
    return np.append(0, np.cumsum(np.where(count > size, -(-count // size), 0)))


@kernel
def _count_terms(term, count):
    for i in range(term.size):
        count[term[i]] += 1


def _numbered(terms: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the table that finds the number of a term's list."""
    places = 1 << (2 * len(terms) + 1).bit_length()
    key, number = np.full(places, VACANT, np.int32), np.zeros(places, np.int32)
    _enter_terms(terms, key, number)
    return key, number


@inlined
def _place_of(key, term):
    """Return the place in the table where a term is, or may be put."""
    at = (np.int64(term) * 2654435769) & (key.size - 1)
    while key[at] != VACANT and key[at] != term:
        at = (at + 1) & (key.size - 1)
    return at


@kernel
def _enter_terms(terms, key, number):
    for i in range(terms.size):
        at = _place_of(key, terms[i])
        key[at], number[at] = terms[i], i


@inlined
def list_of(lists, term):
    """Return the number of a term's list, -1 where there is none."""
    at = _place_of(lists.key, term)
    return np.int64(lists.number[at]) if lists.key[at] == term else np.int64(-1)


@inlined
def signature_bit(term):
    """Return the bit of a word in signatures."""
    return np.uint32(1 << (((np.int64(term) * 2654435769) >> 27) & 31))


@kernel
def _fill_loose(rows, weight, frame, is_earth, entries):
    """Write the trigger of every word at the word's place."""
    record, point = rows.record, np.empty(3)
    for row in range(rows.slot.size):
        set_place(is_earth, frame, record[row, X], record[row, Y], point)
        steep = np.float32(steepness(frame, record[row, MAX_DISTANCE]))
        w, own = record[row, TEXT_WEIGHT], record[row, OWN]
        first, last = int(record[row, FIRST]), int(record[row, LAST])
        for i in range(first, last):
            later, bits = 0.0, np.uint32(0)
            for j in range(first, last):
                if comes_before(weight, rows.term[i], rows.term[j]):
                    later += weight[rows.term[j]] ** 2
                    bits |= signature_bit(rows.term[j])
            entries.text[i] = w * weight[rows.term[i]] / np.sqrt(own) if own > 0.0 else 0.0
            entries.rest[i] = w * np.sqrt(later / own) if own > 0.0 else 0.0
            entries.place[i] = 1.0 - w
            entries.threshold[i] = min(max(record[row, THRESHOLD], 0.0), 2.0)
            entries.x[i], entries.y[i], entries.z[i] = point[0], point[1], point[2]
            entries.steep[i] = steep
            entries.signature[i] = bits
            entries.row[i] = row


@kernel
def _by_list(term, terms, start, order):
    """Write the words list by list to `order`."""
    filled = np.zeros(terms[-1] + 1 if terms.size else 0, np.int64)
    for number in range(terms.size):
        filled[terms[number]] = start[number]
    for i in range(term.size):
        order[filled[term[i]]] = i
        filled[term[i]] += 1


@kernel
def _order_in_blocks(entries, weight, terms, start, order, feature):
    """Order every long list so that each block has triggers that are alike."""
    typical = 0.0
    for number in range(terms.size):
        typical += (start[number + 1] - start[number]) * weight[terms[number]] ** 2
    typical = 2.5 * np.sqrt(typical / max(1, entries.row.size))
    first_of, last_of = np.empty(128, np.int64), np.empty(128, np.int64)
    for number in range(terms.size):
        if start[number + 1] - start[number] <= BLOCK:
            continue
        u = min(1.0, weight[terms[number]] / typical) if typical > 0.0 else 0.0
        _fill_features(entries, order, start[number], start[number + 1], u, 0.7 * np.sqrt(1.0 - u * u), feature)
        first_of[0], last_of[0] = start[number], start[number + 1]
        n_open = 1
        while n_open > 0:
            n_open -= 1
            first, last = first_of[n_open], last_of[n_open]
            n_blocks = (last - first + BLOCK - 1) // BLOCK
            if n_blocks > 1:
                # Bundles are to be alike as well: a cut goes through none of them.
                n_bundles = (n_blocks + BUNDLE - 1) // BUNDLE
                n_before = (n_bundles // 2) * BUNDLE if n_bundles > 1 else n_blocks // 2
                cut = first + n_before * BLOCK
                _select(order, feature, first, last, cut, _widest(entries, order, feature, first, last))
                first_of[n_open], last_of[n_open] = first, cut
                first_of[n_open + 1], last_of[n_open + 1] = cut, last
                n_open += 2


@inlined
def _fill_features(entries, order, first, last, u, after, feature):
    for position in range(first, last):
        at = order[position]
        text = entries.text[at] * u + entries.rest[at] * after - entries.threshold[at]
        feature[at, 0] = text + entries.place[at]
        feature[at, 1] = text + entries.place[at] * 0.5
        feature[at, 2], feature[at, 3], feature[at, 4] = entries.x[at], entries.y[at], entries.z[at]


@inlined
def _widest(entries, order, feature, first, last):
    """Return the feature in which these triggers differ most, as it counts for their score."""
    n = last - first
    fall = 0.0
    for position in range(first, last):
        at = order[position]
        fall += float(entries.place[at]) * min(float(entries.steep[at]), 1e6)
    fall /= n
    best, widest = 0, -1.0
    for f in range(_FEATURES):
        total = squares = 0.0
        for position in range(first, last):
            value = float(feature[order[position], f])
            total += value
            squares += value * value
        spread = max(0.0, squares / n - (total / n) ** 2) * (1.0 if f < 2 else _PLACE_COUNTS * fall * fall)
        if spread > widest:
            best, widest = f, spread
    return best


@inlined
def _select(order, feature, first, last, cut, f):
    """Order so that none before `cut` has more of a feature than any behind."""
    low, high = first, last - 1
    while low < high:
        pivot = feature[order[(low + high) // 2], f]
        i, j = low, high
        while i <= j:
            while feature[order[i], f] < pivot:
                i += 1
            while feature[order[j], f] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if cut <= j:
            high = j
        elif cut >= i:
            low = i
        else:
            return


@inlined
def _sides(along, order, first, last):
    low = high = along[order[first]]
    for position in range(first, last):
        value = along[order[position]]
        low, high = min(low, value), max(high, value)
    return low, high


@inlined
def _set_entry(loose, at, entries, to, box):
    """Round a trigger outward into its place."""
    entries.text[to], entries.rest[to] = rounded_up(loose.text[at]), rounded_up(loose.rest[at])
    entries.place[to], entries.threshold[to] = rounded_up(loose.place[at]), threshold_as_entry(loose.threshold[at])
    entries.x[to] = stepped(loose.x[at], box[0], box[1])
    entries.y[to] = stepped(loose.y[at], box[2], box[3])
    entries.z[to] = stepped(loose.z[at], box[4], box[5])
    entries.steep[to], entries.signature[to], entries.row[to] = loose.steep[at], loose.signature[at], loose.row[at]


@kernel
def _lay_out(loose, order, start, first_block, frame, entries, blocks):
    """Write the triggers in order, and the boxes of blocks with their least steepness."""
    n, box, around = blocks.steep.size, np.empty(6, np.float32), np.empty(6, np.float32)
    for axis in range(3):
        around[2 * axis], around[2 * axis + 1] = -frame[HALF + axis], frame[HALF + axis]
    for number in range(start.size - 1):
        if first_block[number] == first_block[number + 1]:
            for to in range(start[number], start[number + 1]):
                _set_entry(loose, order[to], entries, to, around)
        for block in range(first_block[number], first_block[number + 1]):
            first = start[number] + BLOCK * (block - first_block[number])
            last = min(first + BLOCK, start[number + 1])
            box[0], box[1] = _sides(loose.x, order, first, last)
            box[2], box[3] = _sides(loose.y, order, first, last)
            box[4], box[5] = _sides(loose.z, order, first, last)
            for side in range(6):
                blocks.box[side * n + block] = box[side]
            blocks.steep[block], _ = _sides(loose.steep, order, first, last)
            for to in range(first, last):
                _set_entry(loose, order[to], entries, to, box)
