"""Columns in the form in which they are pickled: integers that follow a rule as that rule, moves to points as points.

Most columns of a batch of moves count up by one or repeat one number, and a move to a point has no region of its own:
written out, that is two thirds of the bytes that a move sends from process to process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.geo import Regions
from nearcast.tables.moves import Moves

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The types of columns that are looked at: those of numbers, times and flags.
_PACKED_KINDS = (np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.uint8), np.dtype(np.bool_))


class SteadyColumn(NamedTuple):
    """A column of n integers that grows by the same step from row to row."""

    first: int
    step: int
    n: int
    kind: str

    def unpacked(self) -> NDArray[Any]:
        """Return the column."""
        if not self.step:
            return np.full(self.n, self.first, self.kind)
        column: NDArray[Any] = np.arange(self.n, dtype=self.kind)
        column *= self.step
        column += self.first
        return column


class PointMoves(NamedTuple):
    """Moves that all give a point and no region; they have no ids, times and numbers of their own."""

    point: NDArray[np.float64]

    def unpacked(self) -> Moves:
        """Return the moves."""
        n = len(self.point)
        return Moves(pa.nulls(n), np.ones(n, np.bool_), self.point, Regions.anywhere(n))


class PackedState:
    """Base of dataclasses that are pickled with their columns packed, and have them whole again when they are read."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: _packed(value) for name, value in vars(self).items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({name: _unpacked(value) for name, value in state.items()})


def _packed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _packed_column(value)
    if isinstance(value, Moves) and _are_bare_points(value):
        return PointMoves(value.point)
    return value


def _unpacked(value: Any) -> Any:
    return value.unpacked() if isinstance(value, SteadyColumn | PointMoves) else value


def _packed_column(column: NDArray[Any]) -> NDArray[Any] | SteadyColumn:
    """Return a column as its rule, if it follows one."""
    if column.ndim != 1 or len(column) < 2 or column.dtype not in _PACKED_KINDS:
        return column
    if column.dtype == np.bool_:
        is_steady, step = bool((column == column[0]).all()), 0
    else:
        # What wraps around on the way wraps back when it is unpacked.
        grown = column[1:] - column[:-1]
        is_steady, step = bool((grown == grown[0]).all()), int(grown[0])
    return SteadyColumn(int(column[0]), step, len(column), column.dtype.str) if is_steady else column


def _are_bare_points(moves: Moves) -> bool:
    has_more = moves.time is not None or moves.number is not None or moves.written or moves.ids.null_count < len(moves)
    return not has_more and bool(moves.is_point.all())
