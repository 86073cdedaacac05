"""The figures of protocols: rows with times and counts, of protocols that were found to tell the same."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from nearcast.bench.answers import AnswersDiffer
from nearcast.bench.data.workloads import Recipe, generated
from nearcast.bench.figures.figure import Point, Series
from nearcast.bench.limits import Expectation
from nearcast.bench.moving.protocol_figures import (
    PROTOCOL_FIGURES,
    ProtocolData,
    measure_point,
    run,
    scene_of,
    with_all_words,
)
from nearcast.errors import InvalidColumns
from support.protocol_scenes import random_scene

pytestmark = [pytest.mark.modes, pytest.mark.papers]


def words(n, m, space="plane"):
    """Return subscriptions and messages of few words."""
    recipe = Recipe(subscription_words=(1, 2), message_words=(3, 6))
    return with_all_words(generated(subscriptions=n, messages=m, space=space, recipe=recipe))


def movement(n, timestamps):
    """Return clients that wander."""
    rng = np.random.default_rng(n)
    x, y = (rng.uniform(0, 1000, n) + np.cumsum(rng.normal(0, 10, (timestamps, n)), axis=0) for _ in range(2))
    return 30_000_000 * np.arange(timestamps), x, y


@pytest.mark.parametrize(
    ("figure", "column", "values"),
    [(PROTOCOL_FIGURES[0], "subscriptions", [2, 20]), (PROTOCOL_FIGURES[1], "messages", [20, 25])],
    ids=["26", "27"],
)
def test_a_figure_has_a_row_for_each_series_and_point(figure, column, values):
    """All columns that are drawn are numbers; an index that is not there is skipped with a reason."""
    series = [Series("a", "always/trigger"), Series("b", "ap+-tree-safe/scan"), Series("c", "always/no-such-index")]
    small = replace(figure.sized(20, 5, 1.0), history=30, series=series, points=figure.points[-2:])
    rows = list(run(small, ProtocolData(words, movement), lambda _: None))
    measured = [row for row in rows if row["series"] != "c"]

    assert ["a", "b", "c"] * 2 == [row["series"] for row in rows]
    assert values == [row[column] for row in rows[::3]] == [row["x"] for row in rows[::3]]
    for row in rows[2::3]:
        assert "no index 'no-such-index'" in row["skipped"]
        assert [None] * 3 == [row[panel.column] for panel in figure.panels]
    for row in measured:
        parts = [row[name] for name in ("reports", "revocations", "regions", "results")]
        assert sum(parts) == pytest.approx(row["communication"], abs=0.05)
        assert (None, True) == (row["skipped"], row["timestamps"] >= 2)
    assert rows[0]["reports"] == rows[0]["subscriptions"]


def test_the_figures_are_those_of_the_paper():
    """Six sizes from 10 to 1 M, five rates from 10 K to 50 K, 1 M messages."""
    sizes, arrivals = PROTOCOL_FIGURES

    assert ["26", "27"] == [figure.name for figure in PROTOCOL_FIGURES]
    assert [10, 100, 1_000, 10_000, 100_000, 1_000_000] == [
        round(sizes.subscriptions * point.share) for point in sizes.points
    ]
    assert [10_000, 50_000] == [arrivals.messages * arrivals.points[at].options["arrivals"] for at in (0, -1)]
    assert {1_000_000} == {figure.history for figure in PROTOCOL_FIGURES}


def test_as_many_messages_end_as_arrive():
    """The number of live messages stays what it is, and places are scaled onto the map."""
    times, x, y = movement(3, 6)
    scene = scene_of(words(3, 40 + 5 * 10), (times, x, y), 10, 40)
    live = [
        int((scene.messages.expires[: scene.batch_start[t + 1]] > time).sum()) for t, time in enumerate(times.tolist())
    ]

    assert [40] * 6 == live
    assert x.min() <= scene.messages.box[:, 0].min() < scene.messages.box[:, 0].max() <= x.max()
    area = (x.max() - x.min()) * (y.max() - y.min())
    assert scene.radius[0] ** 2 * np.pi == pytest.approx(area * 1e-4)


@pytest.mark.small
def test_places_on_the_earth_are_scaled_onto_the_map():
    """Words of any data go with any map, which is a plane; messages keep words that nobody wants."""
    columns = words(1, 40, "earth")
    scene = scene_of(columns, movement(1, 2), 10, 30)

    assert columns.space.is_earth
    assert not scene.space.is_earth
    assert (scene.messages.terms >= 0).all()
    assert len(scene.words) > len(scene.clients.code)
    assert scene.x.max() >= scene.messages.box[:, 2].max()


@pytest.mark.small
def test_rows_that_cannot_be_used_are_named():
    """A workload with a bad row is not measured."""
    good = generated(subscriptions=1, messages=2)
    bad = good.messages.set_column(good.messages.column_names.index("x"), "x", pa.array([1.0, np.nan]))

    with pytest.raises(InvalidColumns, match="messages row 1, x"):
        with_all_words(replace(good, messages=bad))


@pytest.mark.small
def test_what_would_take_too_long_is_skipped():
    """The point before tells what to expect, and the row says why."""
    slow = Expectation(1.0, "the limit is 1 s")
    slow.note(1, 5.0, 100)
    row = measure_point(random_scene(1), "always/scan", slow, [])

    assert row["ms_per_timestamp"] is None
    assert "the limit is 1 s" in row["skipped"]


def test_protocols_that_tell_something_else_are_not_timed():
    """Results are compared with those of the protocols before, timestamp by timestamp."""
    scene, known = random_scene(1), []
    expected = Expectation(60.0, "")
    measure_point(scene, "always/scan", expected, known)
    measure_point(scene, "elaps/scan", expected, known)
    known[2] ^= 1

    assert len(scene.times) == len(known)
    with pytest.raises(AnswersDiffer, match="timestamp 2: ap\\+-tree-safe/scan"):
        measure_point(scene, "ap+-tree-safe/scan", expected, known)


@pytest.mark.small
def test_points_of_one_size_share_their_data():
    """Encoding a million messages takes longer than measuring."""
    asked = []
    data = ProtocolData(lambda n, m: asked.append((n, m)) or words(n, m), movement)
    first, again = data.scene(2, 3, 4, 3), data.scene(2, 3, 4, 3)

    assert first is again
    assert [(2, 10)] == asked
    assert isinstance(PROTOCOL_FIGURES[0].points[0], Point)
