"""What the project aims at: bounds on figures, and whether what a benchmark measured keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: Digits after the point of a figure in a report; the figure that is shown is the one that is judged.
_DIGITS = 3


@dataclass(frozen=True)
class Aim:
    """A bound that a figure should keep: at least `bound`, or with `is_most` at most; `where` says on what machine.

    >>> str(Aim.at_most(60, "on two cores")), Aim.at_least(2_000).is_met(2_100)
    ('<= 60 on two cores', True)
    """

    bound: float
    is_most: bool = False
    where: str = ""

    @classmethod
    def at_least(cls, bound: float, where: str = "") -> Aim:
        """Return a lower bound."""
        return cls(bound, where=where)

    @classmethod
    def at_most(cls, bound: float, where: str = "") -> Aim:
        """Return an upper bound."""
        return cls(bound, is_most=True, where=where)

    def __str__(self) -> str:
        return f"{'<=' if self.is_most else '>='} {self.bound:,} {self.where}".rstrip()

    def is_met(self, value: float | None) -> bool | None:
        """Tell whether a value keeps the bound; None where nothing was measured."""
        if value is None:
            return None
        return value <= self.bound if self.is_most else value >= self.bound


@dataclass(frozen=True)
class AimedFigure:
    """A measured figure beside its aim: `value` is None where nothing was measured, `aim` where there is none.

    `row` is the part of the benchmark that it belongs to. An aim may be `stated_for` a size, which the run may not
    have.
    """

    figure: str
    value: float | None
    unit: str
    aim: Aim | None = None
    row: str | None = None
    stated_for: str | None = None
    is_of_size: bool | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the figure as reports have it, without the fields that it lacks."""
        value = None if self.value is None else round(self.value, _DIGITS)
        found: dict[str, Any] = {} if self.row is None else {"row": self.row}
        found |= {"figure": self.figure, "value": value, "unit": self.unit}
        if self.aim is None:
            return found
        found |= {"aim": self.aim.bound, "aim_is": "at most" if self.aim.is_most else "at least"}
        if self.stated_for is not None:
            found |= {"stated_for": self.stated_for, "is_of_size": self.is_of_size}
        return {**found, "is_met": self.aim.is_met(value)}
