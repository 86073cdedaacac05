"""The measuring function of figures over top-k subscriptions: at every point a stream, and all series on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from nearcast.bench.figures.figure import SOURCE, WINDOW, with_options
from nearcast.bench.streams import TURNS, Stream, stream_of
from nearcast.bench.topk import measure
from nearcast.window import Window

if TYPE_CHECKING:
    from nearcast.bench.data.workloads import Recipe
    from nearcast.bench.figures.figure import Figure, Point, Row
    from nearcast.bench.figures.measurement import Data
    from nearcast.bench.timing import Say


class _Asked(NamedTuple):
    """What a point asks of the data."""

    recipe: Recipe
    subscriptions: int
    window: int
    warm_up: int
    messages: int


def over_streams(figure: Figure, data: Data, say: Say) -> Iterator[Row]:
    """Measure every series at every point, one after the other on the same stream."""
    last: tuple[_Asked, Stream] | None = None
    for at, point in enumerate(figure.points):
        where = f"point {at + 1} of {len(figure.points)}"
        asked = _asked(figure, point)
        if last is None or last[0] != asked:
            say(f"{where}: preparing the data")
            last = None  # two at a time would need twice the memory
            last = asked, _drawn(data, asked)
        specs = [with_options(series.spec, point.options) for series in figure.series]
        rows, _ = measure(last[1], specs, lambda what, where=where: say(f"{where}: {what}"))  # type: ignore[misc]
        for series, row in zip(figure.series, rows, strict=True):
            yield {"x": _x(point, asked, data.about), "series": series.label, **_sizes(asked), **row}


def _asked(figure: Figure, point: Point) -> _Asked:
    assert figure.window is not None
    assert figure.warm_up is not None
    n = max(1, round(figure.subscriptions * point.share))
    window = max(1, round(figure.window * point.window_share))
    return _Asked(point.recipe, n, window, figure.warm_up, figure.messages)


def _drawn(data: Data, asked: _Asked) -> Stream:
    """Return a stream whose window is full when the subscriptions come; by time it is as long as that takes."""
    n_before = asked.window * (TURNS if asked.recipe.timed else 1)
    workload = data.draw(asked.recipe, asked.subscriptions, n_before + asked.warm_up + asked.messages)
    window = Window.of(asked.window)
    if asked.recipe.timed:
        times = workload.messages["time"].cast(pa.int64())
        window = Window(None, max(1, times[n_before - 1].as_py() - times[n_before - asked.window - 1].as_py()))
    stream = stream_of(workload, window, asked.messages, asked.warm_up, data.space)
    data.about = workload.about | {"space": stream.space.kind}
    return stream


def _x(point: Point, asked: _Asked, about: dict[str, Any]) -> Any:
    if point.x is None:
        return asked.subscriptions
    return {SOURCE: about["source"], WINDOW: asked.window}.get(str(point.x), point.x)


def _sizes(asked: _Asked) -> dict[str, int]:
    return {"subscriptions": asked.subscriptions, "window": asked.window, "warm_up": asked.warm_up}
