"""The invariant walk of the trigger index, in plain Python and apart from its kernels."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.indexes.trigger.components import DeltaComponent, SegmentComponent
from nearcast.indexes.trigger.mobile.component import MobileComponent
from nearcast.testing.discs import check_discs, check_notes, check_scored_rows, check_terms, is_scored_row
from nearcast.testing.thresholds import check_moving

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.indexes.trigger import TriggerIndex
    from nearcast.indexes.trigger.components import Component
    from nearcast.indexes.trigger.delta import Chains, TriggerDelta
    from nearcast.indexes.trigger.places import Places
    from nearcast.indexes.trigger.rows import TriggerRows
    from nearcast.indexes.trigger.segment import TriggerSegment

_NOBODY, _MOVING, _MOBILE, _LEAF, _EVERYWHERE, _WILDCARD, _VACANT = 255, 254, 253, 2, 0, -2, -1
_STEPS, _BLOCK = 32767, 16


def check_trigger(index: TriggerIndex) -> None:
    """Raise AssertionError where an array of the index breaks its promise."""
    with index._lock:
        components = list(index._components)
        owner = index._owner
        _check_owners(index, components, owner)
        _check_counts(index, components)
        for component in components:
            if isinstance(component, MobileComponent):
                _check_mobile(component, index._n_terms, owner[: index._next_slot])
                continue
            rows = component.taken(np.arange(component.n_rows))
            _check_rows(rows, len(component.geometry), index._n_terms)
            check_scored_rows(rows, index._weights)
            _check_slots_are_whole(component, owner)
            if isinstance(component, SegmentComponent):
                check_segment(component.segment, index._weights, is_earth=index.space.is_earth)
                _check_segment_sieve(component)
                check_notes(component.segment, component.notes, is_earth=index.space.is_earth)
            else:
                _check_delta(component.delta, index._weights, is_earth=index.space.is_earth)
                _check_delta_owns(component, owner)


def _check_owners(index: TriggerIndex, components: list[Component], owner: NDArray[np.uint8]) -> None:
    """Every live slot belongs to exactly one component."""
    numbers = [component.number for component in components]
    assert len(set(numbers)) == len(numbers), "two components share a number"
    standing = [number for number in numbers if number != _MOBILE]
    both = sorted(standing + index._free_numbers)
    assert both == list(range(_MOBILE)), "a number is neither free nor in use, or both"
    used = owner[: index._next_slot]
    assert (owner[index._next_slot :] == _NOBODY).all(), "a slot never handed out has an owner"
    assert int((used != _NOBODY).sum()) == index._n_live, "the number of live slots is wrong"
    assert set(used[used < _MOVING].tolist()) <= set(numbers), "a slot belongs to a component that is not there"
    if index._moving is None:
        assert (used != _MOVING).all(), "a slot belongs to a moving part that is not there"
    else:
        check_moving(index._moving, np.flatnonzero(used == _MOVING))
    assert index._delta is None or index._delta in components, "the growing delta is not among the components"
    assert len(index._popularity) >= index._n_terms, "there are terms without a count"


def _check_counts(index: TriggerIndex, components: list[Component]) -> None:
    stats = index.stats()
    segments = [c.segment for c in components if isinstance(c, SegmentComponent)]
    deltas = [c.delta for c in components if isinstance(c, DeltaComponent)]
    counted = {
        "subscriptions": len(index),
        "slots": index._next_slot,
        "segments": len(segments),
        "segment_rows": sum(len(segment.rows.slot) for segment in segments),
        "delta_rows": sum(delta.n_rows for delta in deltas),
        "mobile_rows": sum(c.n_rows for c in components if isinstance(c, MobileComponent)),
        "entries": sum(len(segment.rectangle) + len(segment.discs.disc) for segment in segments),
        "cells": sum(int((segment.places.axis == _LEAF).sum()) + 1 for segment in segments),
    }
    assert counted == {name: stats[name] for name in counted}, "stats() counts wrong"
    assert stats["dead"] >= 0
    assert stats["bytes"] > 0


def _check_rows(rows: TriggerRows, n_polygons: int, n_terms: int) -> None:
    n = len(rows.slot)
    assert rows.code_start[0] == 0, "the first clause does not begin at 0"
    assert rows.code_start[-1] == len(rows.code), "clauses end before or behind the code"
    assert (np.diff(rows.code_start) >= 0).all(), "clauses overlap"
    assert n == len(rows.part) == len(rows.shape) == len(rows.clause) == len(rows.side), "columns differ in length"
    assert rows.code.max(initial=-1) < n_terms, "a term is beyond those counted"
    for row in range(n):
        assert (rows.part[row, :2] <= rows.part[row, 2:]).all(), "a rectangle is turned inside out"
        if is_scored_row(rows, row):
            continue
        required = required_terms(rows, row)
        assert required == sorted(set(required)), "the required terms of a clause are not ascending"
        code = int(rows.shape[row])
        room = len(rows.circle) if code % 2 == 0 else n_polygons
        assert code == -1 or 0 <= code // 2 < room, "a row has a shape that is not there"


def _check_slots_are_whole(component: SegmentComponent | DeltaComponent, owner: NDArray[np.uint8]) -> None:
    """A slot's rows are every clause with every rectangle, each once, and found by `rows_of_slots`."""
    rows = component.rows
    pairs: dict[int, list[tuple[int, int]]] = {}
    for row in component.live_rows(owner).tolist():
        pairs.setdefault(int(rows.slot[row]), []).append((int(rows.clause[row]), int(rows.side[row])))
    for slot, found in pairs.items():
        clauses, sides = max(clause for clause, _ in found) + 1, max(side for _, side in found) + 1
        whole = [(clause, side) for clause in range(clauses) for side in range(sides)]
        assert sorted(found) == whole, f"slot {slot} lacks a row or has one twice"
        by_search = component.rows_of_slots(np.array([slot], np.int32))
        assert len(by_search) == len(whole), f"rows_of_slots finds other rows of slot {slot}"
        assert (rows.slot[by_search] == slot).all(), f"rows_of_slots finds rows of others for slot {slot}"


def required_terms(rows: TriggerRows, row: int) -> list[int]:
    """Return the terms a row's clause requires: those before the first mark."""
    code: list[int] = rows.code[rows.code_start[row] : rows.code_start[row + 1]].tolist()
    return code[: next((i for i, op in enumerate(code) if op < 0), len(code))]


def _bit(term: int) -> int:
    return 1 << (((term * 2654435769) >> 26) & 63)


def _check_trigger(rows: TriggerRows, row: int, trigger: int, signature: int, *, marks_rest: bool) -> None:
    """The trigger is required (or nothing is), and the signature has a bit for each other required term, no more.

    Where rows that need more than words and a rectangle are marked, they have the bit of the trigger, too.
    """
    required = required_terms(rows, row)
    assert trigger in required if required else trigger == _WILDCARD, f"row {row} waits for a term it does not require"
    bits = 0
    for term in required:
        bits |= _bit(term) if term != trigger else 0
    has_rest = len(required) < rows.code_start[row + 1] - rows.code_start[row] or rows.shape[row] != -1
    if marks_rest and has_rest and required:
        bits |= _bit(trigger)
    assert bits == signature, f"the signature of row {row} is not that of its other terms"


# Segments


def check_segment(segment: TriggerSegment, weight: NDArray[np.float64], *, is_earth: bool) -> None:
    """Raise AssertionError where a segment breaks its promise."""
    assert segment.earth.tolist() == [is_earth], "the segment is of another space"
    n_cells = _check_tree(segment.places)
    lists = _lists(segment.table_start, segment.table, n_cells, len(segment.row))
    assert len(segment.row) == len(segment.signature) == len(segment.rectangle), "an entry is not whole"
    cells_of_row: dict[int, list[int]] = {}
    for (cell, term), (first, last) in lists.items():
        entries = segment.row[first:last].tolist()
        assert entries == sorted(set(entries)), f"the list of term {term} in cell {cell} is not ascending"
        for entry in range(first, last):
            row = int(segment.row[entry])
            cells_of_row.setdefault(row, []).append(cell)
            _check_trigger(segment.rows, row, term, int(segment.signature[entry]), marks_rest=True)
            word = _rectangle_word(segment.places, cell, segment.rows.part[row].tolist())
            assert word == int(segment.rectangle[entry]), f"entry {entry} has the rectangle of something else"
    _check_reachable(segment, cells_of_row)
    _check_blocks(segment)
    by_slot = segment.by_slot
    assert len(set(by_slot.tolist())) == len(by_slot), "by_slot names a row twice"
    assert (np.diff(segment.rows.slot[by_slot]) >= 0).all(), "by_slot does not order by slot"
    discs = segment.discs
    check_discs(
        segment,
        _lists(discs.table_start, discs.table, len(discs.group_reach), len(discs.disc)),
        weight,
        is_earth=is_earth,
    )


def _check_tree(places: Places) -> int:
    """Check the k-d tree and return the number of cells, the one that is everywhere included."""
    axis, child = places.axis.tolist(), places.child.tolist()
    inner = [node for node in range(len(axis)) if axis[node] != _LEAF]
    leaves = [node for node in range(len(axis)) if axis[node] == _LEAF]
    assert set(axis) <= {0, 1, _LEAF}, "a node is cut along no axis"
    children = [child[node] + side for node in inner for side in (0, 1)]
    assert sorted(children) == list(range(1, len(axis))), "a node is the child of none or of two"
    assert all(child[node] > node for node in inner), "a node stands before its parent"
    assert sorted(child[node] for node in leaves) == list(range(1, len(leaves) + 1)), "a cell is missing or there twice"
    assert len(places.origin) == len(places.scale) == len(leaves) + 1, "a cell has no grid"
    assert np.isfinite(places.scale).all(), "a grid has no scale"
    assert (places.scale >= 0).all(), "a grid runs backwards"
    return len(leaves) + 1


def _lists(
    table_start: NDArray[np.int64], tables: NDArray[np.int32], n_cells: int, n_entries: int
) -> dict[tuple[int, int], tuple[int, int]]:
    """Return (cell, term) -> (first, last) as a search by probing finds them; check that they tile the entries."""
    start = table_start.tolist()
    assert len(start) == n_cells + 1, "a cell has no table"
    assert [start[0], start[-1]] == [0, len(tables)], "tables end before or behind the places there are"
    found = {}
    for cell in range(n_cells):
        table = tables[start[cell] : start[cell + 1]].tolist()
        assert any(term == _VACANT for term, _, _ in table), f"the table of cell {cell} is full: a search may not end"
        for term, first, last in table:
            if term != _VACANT:
                assert table[_probe(table, term)] == [term, first, last], f"term {term} of cell {cell} is not found"
                assert (cell, term) not in found, f"term {term} of cell {cell} has two lists"
                found[cell, term] = (first, last)
    at = 0
    for key in sorted(found):
        first, last = found[key]
        assert first == at < last, f"the list of (cell, term) {key} is empty, overlaps another, or leaves a gap"
        at = last
    assert at == n_entries, "an entry is in no list"
    return found


def _probe(table: list[list[int]], term: int) -> int:
    at = ((((term + 2) * 2654435769) & 0xFFFFFFFF) * len(table)) >> 32
    while table[at][0] not in (term, _VACANT):
        at = (at + 1) % len(table)
    return at


def _check_reachable(segment: TriggerSegment, cells_of_row: dict[int, list[int]]) -> None:
    """Every boolean row is listed once in cell 0, or once in each cell its rectangle touches; no other is."""
    n_boolean = int(segment.discs.first_row[0])
    assert max(cells_of_row, default=-1) < n_boolean, "a scored row is listed by its rectangle"
    for row in range(n_boolean):
        cells = sorted(cells_of_row.get(row, []))
        touched = sorted(_touched(segment.places, segment.rows.part[row].tolist()))
        assert cells in ([_EVERYWHERE], touched), f"row {row} is listed in cells {cells} and touches {touched}"


def _touched(places: Places, part: list[float], node: int = 0) -> list[int]:
    axis, cut, child = int(places.axis[node]), float(places.cut[node]), int(places.child[node])
    if axis == _LEAF:
        return [child]
    below = _touched(places, part, child) if part[axis] < cut else []
    return below + (_touched(places, part, child + 1) if part[axis + 2] >= cut else [])


def _grid_step(value: float, origin: float, scale: float) -> int:
    if scale == 0 or value <= origin:
        return 0
    return int(min((value / 2 - origin / 2) * scale, _STEPS))


def _rectangle_word(places: Places | Chains, cell: int, part: list[float]) -> int:
    (ox, oy), (sx, sy) = places.origin[cell].tolist(), places.scale[cell].tolist()
    x_min, y_min = _grid_step(part[0], ox, sx), _grid_step(part[1], oy, sy)
    x_max, y_max = _grid_step(part[2], ox, sx), _grid_step(part[3], oy, sy)
    return x_min | y_min << 16 | (_STEPS - x_max) << 32 | (_STEPS - y_max) << 48


def _check_blocks(segment: TriggerSegment) -> None:
    words = segment.rectangle.tolist()
    assert len(segment.block) == -(-len(words) // _BLOCK), "there are too few or too many blocks"
    for b, bound in enumerate(segment.block.tolist()):
        inside = words[b * _BLOCK : (b + 1) * _BLOCK]
        least = [min((word >> shift) & _STEPS for word in inside) for shift in (0, 16, 32, 48)]
        assert least == [(bound >> shift) & _STEPS for shift in (0, 16, 32, 48)], (
            f"block {b} does not bound its entries"
        )


def _check_segment_sieve(component: SegmentComponent) -> None:
    segment = component.segment
    if not len(component.sieve):
        return
    lists = _lists(segment.table_start, segment.table, len(segment.places.origin), len(segment.row))
    for (_, term), (first, last) in lists.items():
        for row in segment.row[first:last].tolist():
            part = segment.rows.part[row].tolist()
            _check_lets_through(component.sieve, term, _rectangle_word(segment.places, _EVERYWHERE, part))


def _check_lets_through(sieve: NDArray[np.uint64], term: int, word: int) -> None:
    """A sieve has a term in each square of a rectangle, or as wide."""
    steps = [(word >> shift) & _STEPS for shift in (0, 16, 32, 48)]
    left, bottom, right, top = steps[0] >> 10, steps[1] >> 10, (_STEPS - steps[2]) >> 10, (_STEPS - steps[3]) >> 10
    squares = [32 * y + x for y in range(bottom, top + 1) for x in range(left, right + 1)]
    bits = [(((term + 2) * 2654435769) >> 9) ^ ((square * 2246822519) >> 5) for square in [*squares, 32 * 32]]
    is_set = [bool(int(sieve[(bit >> 6) % len(sieve)]) >> (bit & 63) & 1) for bit in bits]
    assert is_set[-1] if len(squares) > 16 else all(is_set[:-1]), f"the sieve rules out term {term} where a row is"


# Deltas


def _check_delta(delta: TriggerDelta, weight: NDArray[np.float64], *, is_earth: bool) -> None:
    """Every trigger hangs in the chain of its term, once; a boolean row has one, a scored row those of its prefix."""
    assert delta.n_rows <= delta.capacity, "a delta holds more than it may"
    assert delta.n_triggers <= len(delta.chains.row), "a delta has more triggers than it may"
    assert delta.chains.earth.tolist() == [is_earth], "the delta is of another space"
    triggers_of: dict[int, list[tuple[int, int]]] = {row: [] for row in range(delta.n_rows)}
    for term, trigger in _chained(delta):
        row = int(delta.chains.row[trigger])
        assert row in triggers_of, "a trigger leads out of the delta"
        triggers_of[row].append((term, trigger))
        word = _rectangle_word(delta.chains, 0, delta.rows.part[row].tolist())
        assert word == int(delta.chains.rectangle[trigger]), "a trigger has the rectangle of another row"
    for row, triggers in triggers_of.items():
        if is_scored_row(delta.rows, row):
            check_terms(delta.rows, row, [term for term, _ in triggers], weight)
        else:
            assert len(triggers) == 1, "a row is in no chain or in two"
            term, trigger = triggers[0]
            _check_trigger(delta.rows, row, term, int(delta.chains.signature[trigger]), marks_rest=False)
            _check_lets_through(delta.sieve, term, int(delta.chains.rectangle[trigger]))


def _chained(delta: TriggerDelta) -> list[tuple[int, int]]:
    """Return (term, trigger) of every trigger, as a walk along the chains meets them."""
    key, head, older = delta.chains.key.tolist(), delta.chains.head.tolist(), delta.chains.older.tolist()
    assert _VACANT in key, "the table of a delta is full: a search may not end"
    taken = [term for term in key if term != _VACANT]
    assert len(taken) == len(set(taken)), "a term has two chains"
    met = []
    for at, term in enumerate(key):
        trigger = head[at] if term != _VACANT else _VACANT
        while trigger != _VACANT:
            assert 0 <= trigger < delta.n_triggers, "a chain leads out of the delta"
            met.append((term, trigger))
            assert older[trigger] < trigger, "a chain does not go from new to old"
            trigger = older[trigger]
        if term != _VACANT:
            assert at == _place_in(key, term), f"the chain of term {term} is not found"
    assert sorted(trigger for _, trigger in met) == list(range(delta.n_triggers)), "a trigger is in no chain or in two"
    return met


def _place_in(key: list[int], term: int) -> int:
    at = ((term + 2) * 2654435769) & (len(key) - 1)
    while key[at] not in (term, _VACANT):
        at = (at + 1) & (len(key) - 1)
    return at


def _check_delta_owns(component: DeltaComponent, owner: NDArray[np.uint8]) -> None:
    """Rows that count for this delta belong to one version of their slot: one set of (clause, side), none twice."""
    rows: Any = component.rows
    live = component.live_rows(owner).tolist()
    seen = Counter((int(rows.slot[row]), int(rows.clause[row]), int(rows.side[row])) for row in live)
    assert all(count == 1 for count in seen.values()), "two versions of a slot count in one delta"


# Mobile rows


def _check_mobile(component: MobileComponent, n_terms: int, owner: NDArray[np.uint8]) -> None:
    """The rows of mobile slots are whole, each on the lists of its cells; lists and slabs account for all memory."""
    held = component.held
    live = component.live_rows(owner)
    rows = component.taken(live)
    _check_rows(rows, 0, n_terms)
    assert len(live) == component.n_rows, "mobile rows are counted wrong"
    assert (owner[rows.slot] == _MOBILE).all(), "a mobile row is of a slot that is elsewhere"
    _check_mobile_slots(component, rows, owner)
    lists = _mobile_lists(component)
    cells_of_row: dict[int, list[int]] = {}
    for (term, cell), places in lists.items():
        for place in places:
            row, k = divmod(int(held.lists.link[place]), held.list_of.shape[1])
            assert k < held.n_cells[row], "an entry belongs to no link of its row"
            assert held.lists.at[held.lists.link[place]] == place, "a link points elsewhere"
            assert held.term[row] == term, "a row is on the list of another term"
            assert held.signature[row] == held.lists.signature[place], "an entry has another signature than its row"
            word = _rectangle_word(held.places, cell, held.part[row].tolist())
            assert word == int(held.lists.rectangle[place]), "an entry has the rectangle of something else"
            cells_of_row.setdefault(row, []).append(cell)
    assert sum(map(len, cells_of_row.values())) == component.n_entries, "entries are counted wrong"
    for i, row in enumerate(live.tolist()):
        _check_trigger(rows, i, int(held.term[row]), int(held.signature[row]), marks_rest=True)
        cells, touched = sorted(cells_of_row.pop(row, [])), sorted(_touched(held.places, held.part[row].tolist()))
        assert cells in ([_EVERYWHERE], touched), f"mobile row {row} is listed in cells {cells} and touches {touched}"
    assert not cells_of_row, "a row that is not there is on a list"


def _check_mobile_slots(component: MobileComponent, rows: TriggerRows, owner: NDArray[np.uint8]) -> None:
    """A slot's rows are every clause with every rectangle, each once, and found through its chain."""
    pairs: dict[int, list[tuple[int, int]]] = {}
    for slot, clause, side in zip(rows.slot.tolist(), rows.clause.tolist(), rows.side.tolist(), strict=True):
        pairs.setdefault(slot, []).append((clause, side))
    for slot in np.flatnonzero(owner == _MOBILE).tolist():
        mine, found = component.rows_of_slots(np.array([slot], np.int32)), pairs.pop(slot, [])
        assert len(mine) == len(found), f"the chain of slot {slot} has other rows than the slot"
        clauses, sides = ({pair[k] for pair in found} for k in (0, 1))
        whole = sorted((clause, side) for clause in range(len(clauses)) for side in range(len(sides)))
        assert sorted(found) == whole, f"slot {slot} lacks a row or has one twice"
        assert (component.held.sides[mine] == len(sides)).all(), f"the rectangles of slot {slot} are counted wrong"
    assert not pairs, "there are rows of slots that are not mobile"


def _check_everywhere(component: MobileComponent) -> None:
    """Triggers know how many rows have them, and the list that they have in the cell that is everywhere."""
    held, lists = component.held, component.held.lists
    terms = held.term[component.live_rows(np.empty(0, np.uint8))] + 2
    assert len(held.term_rows) <= len(lists.everywhere), "a trigger has no place for its list"
    assert np.bincount(terms, minlength=len(held.term_rows)).tolist() == held.term_rows.tolist(), "rows are miscounted"
    for term in np.flatnonzero(lists.everywhere != -1).tolist():
        head = lists.head[lists.everywhere[term]].tolist()
        assert head[:2] == [term - 2, _EVERYWHERE], "a trigger leads to the list of another"


def _mobile_lists(component: MobileComponent) -> dict[tuple[int, int], list[int]]:
    """Return (term, cell) -> the places of entries; check that slabs, free ones too, tile the memory that was used."""
    lists, found = component.held.lists, {}
    used: list[tuple[int, int]] = []
    _check_everywhere(component)
    for bucket in [*lists.bucket.tolist(), *lists.everywhere.tolist()]:
        while bucket != -1:
            term, cell, first, count, size_class, following = lists.head[bucket].tolist()
            assert (term, cell) not in found, "a term has two lists in a cell"
            assert 0 < count <= 1 << size_class, "a list is empty, or larger than its slab"
            found[term, cell] = list(range(first, first + count))
            used.append((first, 1 << size_class))
            bucket = following if cell != _EVERYWHERE else -1
    assert len(found) == component.n_lists, "lists are counted wrong"
    for size_class, first in enumerate(lists.free_slab.tolist()):
        while first != -1:
            used.append((first, 1 << size_class))
            first = int(lists.link[first])
    at = 0
    for first, size in sorted(used):
        assert first == at, "slabs overlap, or leave a gap"
        at = first + size
    assert at == lists.tally[2], "slabs are counted wrong"
    return found
