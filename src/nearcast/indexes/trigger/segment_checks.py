"""Maps the arrays of a saved segment and checks what search kernels follow: trees, hash tables, lists, rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.indexes.shared.saved_checks import check_boxes, check_codes, check_points
from nearcast.indexes.trigger.discs import Discs
from nearcast.indexes.trigger.places import LEAF, Places, empty_stack
from nearcast.indexes.trigger.rows import (
    FUNCTION,
    MAX_DISTANCE,
    N_WORDS,
    SCORE_COLUMNS,
    SCORED,
    TEXT_WEIGHT,
    WORDS,
    TriggerRows,
    X,
    Y,
)
from nearcast.indexes.trigger.segment import BLOCK, TriggerSegment
from nearcast.indexes.trigger.tables import VACANT
from nearcast.similarity import COSINE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space
    from nearcast.saved_files.arrays import SavedArrays

#: Types of the arrays of each tuple, and the lengths of their rows.
_PLACES: tuple[tuple[Any, ...], ...] = (
    (np.uint8,),
    (np.float64,),
    (np.int32,),
    (np.float64, 2),
    (np.float64, 2),
)
_ROWS: tuple[tuple[Any, ...], ...] = (
    (np.int32,),
    (np.int64,),
    (np.int32,),
    (np.float64, 4),
    (np.int32,),
    (np.uint16,),
    (np.uint8,),
    (np.float64, 3),
    (np.float64, SCORE_COLUMNS),
)
_DISCS: tuple[tuple[Any, ...], ...] = (
    (np.float64,),
    (np.int64,),
    (np.int32, 3),
    (np.float32, 4),
    (np.int32,),
    (np.int64,),
    (np.float64, 6),
    (np.float64,),
    (np.uint8,),
)
_FLAT: dict[str, tuple[Any, ...]] = {
    "table_start": (np.int64,),
    "table": (np.int32, 3),
    "rectangle": (np.uint64,),
    "signature": (np.uint64,),
    "row": (np.int32,),
    "block": (np.uint64,),
    "by_slot": (np.int32,),
    "earth": (np.uint8,),
}
#: Fields of a frame, as `reach.frame_around` makes it.
_FRAME_FIELDS = 4
_MOST = float(np.finfo(np.float64).max)


def map_segment(arrays: SavedArrays) -> TriggerSegment:
    """Map the arrays of a segment, each of its type."""

    def group(prefix: str, names: tuple[str, ...], types: tuple[tuple[Any, ...], ...]) -> list[NDArray[Any]]:
        named = arrays.named(prefix)
        return [named.mapped(name, *kind) for name, kind in zip(names, types, strict=True)]

    return TriggerSegment(
        places=Places(*group("places.", Places._fields, _PLACES)),
        rows=TriggerRows(*group("rows.", TriggerRows._fields, _ROWS)),
        discs=Discs(*group("discs.", Discs._fields, _DISCS)),
        **{name: arrays.mapped(name, *kind) for name, kind in _FLAT.items()},
    )


def check_segment(
    arrays: SavedArrays, segment: TriggerSegment, n_polygons: int, n_slots: int, n_terms: int, space: Space
) -> None:
    """Raise `IncompatibleStore` if anything in a segment leads to where nothing is."""
    _check_places(arrays.named("places."), segment.places)
    n_scored = _check_rows(arrays.named("rows."), segment.rows, n_polygons, n_slots, n_terms, space)
    n_rows, n_entries = len(segment.rows.slot), len(segment.row)
    _check_tables(arrays, segment.table_start, segment.table, len(segment.places.origin), n_entries)
    arrays.length("rectangle", segment.rectangle, n_entries)
    arrays.length("signature", segment.signature, n_entries)
    arrays.numbers("row", segment.row, n_rows - n_scored)
    arrays.length("block", segment.block, -(-n_entries // BLOCK))
    arrays.numbers("by_slot", segment.by_slot, n_rows)
    arrays.check("earth", segment.earth.tolist() == [int(space.is_earth)], "it is not of this space")
    _check_discs(arrays.named("discs."), segment.discs, n_rows, n_scored)


def _check_places(arrays: SavedArrays, places: Places) -> None:
    """Check that the nodes are one tree, not deeper than the stacks of kernels, with the cells as its leaves."""
    n, n_cells = len(places.axis), len(places.origin)
    arrays.check("axis", n >= 1, "there is no tree")
    arrays.within("axis", places.axis, 0, LEAF)
    arrays.length("cut", places.cut, n)
    arrays.length("child", places.child, n)
    arrays.length("scale", places.scale, n_cells)
    arrays.within("origin", places.origin, -_MOST, _MOST)
    arrays.within("scale", places.scale, 0.0, _MOST)
    is_leaf = places.axis == LEAF
    cells = np.sort(places.child[is_leaf])
    arrays.check("child", np.array_equal(cells, np.arange(1, n_cells)), "its leaves are not the cells")
    inner = np.flatnonzero(~is_leaf)
    below = places.child[inner].astype(np.int64)
    arrays.check("child", ((below > inner) & (below + 1 < n)).all(), "a node lies outside of the tree")
    parents = np.bincount(np.concatenate([below, below + 1]), minlength=n)
    arrays.check("child", (parents[1:] == 1).all(), "a node has not one parent")
    level, depth, deepest = np.zeros(1, np.int64), 0, len(empty_stack()) // 2
    while len(level := level[~is_leaf[level]]):
        depth += 1
        arrays.check("child", depth <= deepest, "the tree is too deep")
        level = np.concatenate([places.child[level], places.child[level] + 1]).astype(np.int64)


def _check_rows(
    arrays: SavedArrays, rows: TriggerRows, n_polygons: int, n_slots: int, n_terms: int, space: Space
) -> int:
    """Check the rows of a segment; return how many of them, the last ones, are scored."""
    n, n_scored = len(rows.slot), len(rows.score)
    for name in ("part", "shape", "clause", "side"):
        arrays.length(name, getattr(rows, name), n)
    # A dead row that was renumbered has the slot -1: the spare last place of the owners.
    arrays.numbers("slot", rows.slot, n_slots, least=-1)
    arrays.starts("code_start", rows.code_start, n, len(rows.code))
    check_codes(arrays, rows.code_start, rows.code, n_terms)
    check_boxes(arrays, "part", rows.part, space)
    arrays.within("circle", rows.circle, -_MOST, _MOST)
    arrays.check("score", n_scored <= n, "it has more rows than there are")
    boolean, scored = rows.shape[: n - n_scored], rows.shape[n - n_scored :]
    arrays.check("shape", np.array_equal(scored, SCORED - np.arange(n_scored)), "scored rows are not in order")
    arrays.within("shape", boolean, -1, np.iinfo(np.int32).max)
    number, is_polygon = boolean // 2, boolean % 2 == 1
    arrays.numbers("shape", number[(boolean >= 0) & is_polygon], n_polygons)
    arrays.numbers("shape", number[(boolean >= 0) & ~is_polygon], len(rows.circle))
    _check_scores(arrays, rows, n_terms, space)
    return n_scored


def _check_scores(arrays: SavedArrays, rows: TriggerRows, n_terms: int, space: Space) -> None:
    """Check the records of scored rows, whose words stand in their code as well."""
    score, first = rows.score, rows.code_start[len(rows.slot) - len(rows.score) : -1]
    n_words = np.diff(rows.code_start)[len(rows.slot) - len(rows.score) :]
    check_points(arrays, "score", score[:, [X, Y]], space)
    arrays.check("score", not np.isnan(score).any(), "it holds values that are no numbers")
    arrays.within("score", score[:, TEXT_WEIGHT], 0.0, 1.0)
    arrays.within("score", score[:, MAX_DISTANCE], np.nextafter(0.0, 1.0), _MOST)
    arrays.check("score", np.isin(score[:, FUNCTION], np.arange(COSINE + 1)).all(), "a text function does not exist")
    arrays.check("score", np.array_equal(score[:, N_WORDS], n_words), "it does not agree with code_start.npy")
    for column in range(WORDS, SCORE_COLUMNS):
        has = n_words > column - WORDS
        same = score[has, column] == rows.code[first[has] + column - WORDS]
        arrays.check("score", same.all(), "it does not agree with code.npy")
    scored = rows.code[first[0] :] if len(first) else rows.code[:0]
    arrays.numbers("code", scored, n_terms)


def _check_tables(
    arrays: SavedArrays, table_start: NDArray[np.int64], table: NDArray[np.int32], n_cells: int, n_entries: int
) -> None:
    """Check the hash tables of cells or groups: a vacant place in each, which ends a search, and lists in bounds."""
    arrays.starts("table_start", table_start, n_cells, len(table))
    is_vacant = table[:, 0] == VACANT
    vacant = np.append(0, np.cumsum(is_vacant))
    arrays.check("table", (vacant[table_start[1:]] > vacant[table_start[:-1]]).all(), "a hash table is full")
    first, last = table[~is_vacant, 1], table[~is_vacant, 2]
    arrays.check("table", (first <= last).all(), "a list ends before it begins")
    arrays.within("table", table[~is_vacant, 1:], 0, n_entries)


def _check_discs(arrays: SavedArrays, discs: Discs, n_rows: int, n_scored: int) -> None:
    n_groups = len(discs.group_reach)
    arrays.length("frame", discs.frame, _FRAME_FIELDS)
    arrays.check("group_reach", n_groups >= 1, "it is empty")
    arrays.length("box", discs.box, n_groups)
    _check_tables(arrays, discs.table_start, discs.table, n_groups, len(discs.scored))
    arrays.length("disc", discs.disc, len(discs.scored))
    arrays.numbers("scored", discs.scored, n_scored)
    first = n_rows - n_scored
    arrays.check("first_row", discs.first_row.tolist() == [first], f"it is not {first}")
