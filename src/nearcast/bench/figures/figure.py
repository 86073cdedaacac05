"""What a figure is: series × points, what is measured of each pair, and what is drawn of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nearcast.bench.workloads import Recipe

if TYPE_CHECKING:
    from nearcast.bench.figures.measuring import Data
    from nearcast.bench.timing import Say

#: A series at a point: `x`, `series`, `index`, the sizes, and what the measuring function found; keys are columns.
Row = dict[str, Any]
Measure = Callable[["Figure", "Data", "Say"], Iterator[Row]]


@dataclass(frozen=True)
class Series:
    """An index, with options, under the name it has in the picture."""

    label: str
    spec: str


@dataclass(frozen=True)
class Point:
    """A place on the axis, and what is special there: the recipe of the data, its size, options of the indexes.

    Words on the axis stand apart and are drawn as bars; None stands for the number of subscriptions. `options` go to
    the indexes that have them.
    """

    x: float | str | None
    recipe: Recipe = field(default_factory=Recipe)
    share: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Panel:
    """One diagram of a picture: a column of the rows over x. What is `common` to all series is drawn once."""

    column: str
    label: str
    is_log: bool = False
    is_common: bool = False


@dataclass(frozen=True)
class Figure:
    """An experiment; the sizes are those at scale 1."""

    name: str
    paper: str
    title: str
    x_label: str
    points: Sequence[Point]
    series: Sequence[Series]
    panels: Sequence[Panel]
    measure: Measure
    is_x_log: bool = False
    subscriptions: int = 100_000
    messages: int = 200

    def sized(self, subscriptions: int | None, messages: int | None, scale: float) -> Figure:
        """Return the same with other sizes; `scale` multiplies the subscriptions."""
        n = max(1, round((subscriptions or self.subscriptions) * scale))
        return replace(self, subscriptions=n, messages=messages or self.messages)

    def with_indexes(self, specs: Sequence[str]) -> Figure:
        """Return the same with other series."""
        return replace(self, series=[Series(spec, spec) for spec in specs])
