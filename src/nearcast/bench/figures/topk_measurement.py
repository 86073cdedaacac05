"""The measuring function of figures over top-k subscriptions: at every point a stream, and all series on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from nearcast.bench.figures.figure import SOURCE, WINDOW, with_options
from nearcast.bench.figures.topk_trial import Known, trial_of, why_too_much
from nearcast.bench.streams import TURNS, TopkStream, stream_of
from nearcast.bench.topk import measure
from nearcast.window import Window

if TYPE_CHECKING:
    from nearcast.bench.data.workloads import Recipe
    from nearcast.bench.figures.figure import Figure, Point, Row
    from nearcast.bench.figures.measurement import FigureData
    from nearcast.bench.timing import Say


class _StreamRequest(NamedTuple):
    """The data that a point of a figure needs: a recipe and sizes."""

    recipe: Recipe
    subscriptions: int
    window: int
    warm_up: int
    messages: int


def over_streams(figure: Figure, data: FigureData, say: Say) -> Iterator[Row]:
    """Measure every series at every point, one after the other on the same stream."""
    last: tuple[_StreamRequest, TopkStream] | None = None
    known: dict[str, Known] = {}
    for at, point in enumerate(figure.points):
        where = f"point {at + 1} of {len(figure.points)}"
        request = _request(figure, point)
        if last is None or last[0] != request:
            say(f"{where}: preparing the data")
            last = None  # two at a time would need twice the memory
            last = request, _drawn(data, request)
        series = {each.label: with_options(each.spec, point.options) for each in figure.series}
        rows = _measured(last[1], series, known, figure.limit_s, lambda what, where=where: say(f"{where}: {what}"))  # type: ignore[misc]
        for label, row in rows.items():
            if row["skipped"] is None:
                known[label] = Known(row, request.subscriptions)
            yield {"x": _x(point, request, data.about), "series": label, **_sizes(request), **row}


def _measured(
    stream: TopkStream, series: Mapping[str, str], known: Mapping[str, Known], limit_s: float | None, say: Say
) -> dict[str, Row]:
    """Return a row for each series; for those that would take longer than the limit, the reason and no figures.

    What to expect is known from the point before, where the series was measured there, else from a trial.
    """
    skipped: dict[str, Row] = {}
    if limit_s is not None:
        for label, spec in series.items():
            trial = known.get(label) or trial_of(stream, spec, say)
            if trial is not None and (reason := why_too_much(trial, stream, limit_s)) is not None:
                skipped[label] = dict.fromkeys(trial.row) | {"index": spec, "skipped": reason}
    left = list(dict.fromkeys(spec for label, spec in series.items() if label not in skipped))
    measured = dict(zip(left, measure(stream, left, say)[0], strict=True)) if left else {}
    return {
        label: skipped[label] if label in skipped else measured[spec] | {"skipped": None}
        for label, spec in series.items()
    }


def _request(figure: Figure, point: Point) -> _StreamRequest:
    assert figure.window is not None
    assert figure.warm_up is not None
    n = max(1, round(figure.subscriptions * point.share))
    window = max(1, round(figure.window * point.window_share))
    return _StreamRequest(point.recipe, n, window, figure.warm_up, figure.messages)


def _drawn(data: FigureData, request: _StreamRequest) -> TopkStream:
    """Return a stream whose window is full when the subscriptions come; by time it is as long as that takes."""
    n_before = request.window * (TURNS if request.recipe.timed else 1)
    workload = data.draw(request.recipe, request.subscriptions, n_before + request.warm_up + request.messages)
    window = Window.of(request.window)
    if request.recipe.timed:
        times = workload.messages["time"].cast(pa.int64())
        window = Window(None, max(1, times[n_before - 1].as_py() - times[n_before - request.window - 1].as_py()))
    stream = stream_of(workload, window, request.messages, request.warm_up, data.space)
    data.about = workload.about | {"space": stream.space.kind}
    return stream


def _x(point: Point, request: _StreamRequest, about: dict[str, Any]) -> Any:
    if point.x is None:
        return request.subscriptions
    return {SOURCE: about["source"], WINDOW: request.window}.get(str(point.x), point.x)


def _sizes(request: _StreamRequest) -> dict[str, int]:
    return {"subscriptions": request.subscriptions, "window": request.window, "warm_up": request.warm_up}
