"""What a figure is: series × points, what is measured of each pair, and what is drawn of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nearcast.bench.data.workloads import Recipe

if TYPE_CHECKING:
    from nearcast.bench.timing import Say

#: A series at a point: `x`, `series`, `index`, the sizes, and what the measuring function found; keys are columns.
Row = dict[str, Any]
SOURCE, WINDOW = "source", "window"
#: The second argument is what the function measures on: `FigureData`, or the data of another kind of figure.
Measure = Callable[["Figure", Any, "Say"], Iterator[Row]]


@dataclass(frozen=True)
class Series:
    """An index, with options, under the name it has in the picture."""

    label: str
    spec: str


@dataclass(frozen=True)
class Point:
    """A place on the axis, and what is special there: the recipe of the data, its size, options of the indexes.

    Words on the axis stand apart and are drawn as bars; None stands for the number of subscriptions, and `SOURCE` and
    `WINDOW` for the name of the data and the length of the window. `options` go to the indexes that have them. `source`
    names other data than the figure's.
    """

    x: float | str | None
    recipe: Recipe = field(default_factory=Recipe)
    share: float = 1.0
    window_share: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None


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
    #: Messages of the past, not measured, for indexes that learn from them what others will be like.
    history: int = 0
    #: Of top-k subscriptions: the length of the window, and how many messages arrive before the measured ones.
    window: int | None = None
    warm_up: int | None = None
    #: Options that make several series of one index, such as its buffers.
    variants: Sequence[Mapping[str, Any]] = ({},)
    checked: str = "each index equals the first named on all messages and scan on a sample"
    #: What a series may take at a point, and what becomes of one that takes more; where that is worth a line.
    budget: str = ""
    #: Seconds that building an index may take at a point, and matching, where not the measuring function's own.
    limit_s: float | None = None
    #: Whether the measuring function takes one point after the other, each with all series.
    is_by_point: bool = True

    def sized(self, subscriptions: int | None, messages: int | None, scale: float) -> Figure:
        """Return the same with other sizes; `scale` multiplies the subscriptions, the window and the warm-up.

        A history becomes shorter with them, and never longer.
        """
        n = max(1, round((subscriptions or self.subscriptions) * scale))
        history = round(self.history * min(scale, 1.0))
        window, warm_up = (
            None if length is None else max(1, round(length * scale)) for length in (self.window, self.warm_up)
        )
        return replace(
            self,
            subscriptions=n,
            messages=messages or self.messages,
            history=history,
            window=window,
            warm_up=warm_up,
        )

    def with_window(self, window: int | None, warm_up: int | None) -> Figure:
        """Return the same with another length of the window, or of the warm-up, where one is given."""
        return replace(
            self,
            window=self.window if window is None else window,
            warm_up=self.warm_up if warm_up is None else warm_up,
        )

    def with_indexes(self, specs: Sequence[str]) -> Figure:
        """Return the same with other series: each index, in all variants."""
        series = [Series(made, made) for spec in specs for made in (with_options(spec, each) for each in self.variants)]
        return replace(self, series=list(dict.fromkeys(series)))


def with_options(spec: str, options: Mapping[str, Any]) -> str:
    """Return a specification with those of the options that its index has, unless it says something of its own."""
    from nearcast.indexes import available

    name, _, given = spec.partition(":")
    known = next((info.options for info in available() if info.name == name), {})
    said = {pair.partition("=")[0] for pair in given.split(",")}
    more = [f"{key}={value}" for key, value in options.items() if key in known and key not in said]
    parts = [*filter(None, [given]), *more]
    return f"{name}:{','.join(parts)}" if parts else name
