"""Figures at the papers' sizes: what takes too long is skipped, what was stopped goes on; never how long it takes."""

from dataclasses import replace

import pytest

from nearcast.bench import limits
from nearcast.bench.data.distances import MaxDistance
from nearcast.bench.data.workloads import generated
from nearcast.bench.figures import figures_of, topk_trial
from nearcast.bench.figures.figure import Panel, Point, Series
from nearcast.bench.figures.journal import RowJournal, measured
from nearcast.bench.figures.measurement import FigureData
from nearcast.bench.figures.paper_runs import paper_runs
from nearcast.bench.moving.figures import FIGURES

SIMILAR, TOPK = figures_of("similar"), figures_of("topk")
FIGURES_OF = {
    "boolean": figures_of("within"),
    "similar": SIMILAR,
    "topk": TOPK,
    "moving": {figure.name: figure for figure in FIGURES},
}


class CountingData:
    """Counts the points that were measured; stops with an interrupt at one of them."""

    def __init__(self, stop_at=None):
        self.stop_at, self.measured, self.about = stop_at, [], {}


def count(figure, data, _say):
    for point in figure.points:
        data.about = {"last": point.x}
        for series in figure.series:
            if (point.x, series.label) == data.stop_at:
                raise KeyboardInterrupt
            data.measured.append((point.x, series.label))
            yield {"x": point.x, "series": series.label, "value": len(series.label)}


@pytest.fixture
def figure():
    series = [Series("one", "trigger"), Series("three", "scan")]
    return replace(
        SIMILAR["delta"], points=[Point(n) for n in range(4)], series=series, panels=[Panel("value", "")], measure=count
    )


def stopped(figure, journal, at):
    """Measure a figure until it is interrupted at a point and series."""
    data = CountingData(at)
    with pytest.raises(KeyboardInterrupt):
        measured(figure, data, lambda _: None, journal)
    return data


def test_a_stopped_figure_goes_on_after_its_last_whole_point(figure, tmp_path):
    """The point that lacks a series is measured again; the rows are those of a run that was never stopped."""
    journal = RowJournal(tmp_path / "rows.jsonl", "a run")
    stopped(figure, journal, (2, "three"))
    data = CountingData()
    rows = measured(figure, data, lambda _: None, journal)
    assert [(n, label) for n in (2, 3) for label in ("one", "three")] == data.measured
    assert measured(figure, CountingData(), lambda _: None, None) == rows


def test_a_figure_stopped_before_it_was_drawn_has_nothing_left_to_measure(figure, tmp_path):
    """What there is to tell of the data is known from the journal."""
    journal = RowJournal(tmp_path / "rows.jsonl", "a run")
    rows = measured(figure, CountingData(), lambda _: None, journal)
    data = CountingData()
    assert rows == measured(figure, data, lambda _: None, journal)
    assert ([], {"last": 3}) == (data.measured, data.about)


def test_rows_of_another_run_are_not_gone_on_from(figure, tmp_path):
    """Another command or version measures everything."""
    stopped(figure, RowJournal(tmp_path / "rows.jsonl", "a run"), (2, "one"))
    data = CountingData()
    measured(figure, data, lambda _: None, RowJournal(tmp_path / "rows.jsonl", "another run"))
    assert 8 == len(data.measured)


def test_a_torn_line_is_measured_again(figure, tmp_path):
    """A kill in the middle of writing a row."""
    journal = RowJournal(tmp_path / "rows.jsonl", "a run")
    stopped(figure, journal, (2, "one"))
    whole = journal.path.read_text()
    journal.path.write_text(whole[:-9])
    data = CountingData()
    measured(figure, data, lambda _: None, journal)
    assert (1, "one") == data.measured[0]


def test_a_figure_over_steps_of_growth_starts_over(figure, tmp_path):
    """Its later points stand on the earlier ones."""
    journal = RowJournal(tmp_path / "rows.jsonl", "a run")
    growing = replace(figure, is_by_point=False)
    stopped(growing, journal, (3, "one"))
    data = CountingData()
    measured(growing, data, lambda _: None, journal)
    assert 8 == len(data.measured)


def data_of(kind):
    """Return what draws a small workload of a kind, with reach."""
    reach = MaxDistance(None, 0.1, 0.1)
    return FigureData(
        lambda recipe, n, messages: reach.applied(
            generated(kind=kind, subscriptions=n, messages=messages, recipe=recipe)
        )
    )


def first_row(figure, kind, **more):
    """Return the first row of the figure's first point with `trigger` alone."""
    few = replace(figure, points=figure.points[:1], series=[Series("trigger", "trigger")], **more)
    return next(iter(few.measure(few, data_of(kind), lambda _: None)))


@pytest.mark.parametrize("name", ["delta", "updates"])
def test_a_similar_index_that_takes_too_long_is_skipped_with_the_estimate(name, monkeypatch):
    """Its row has the columns of one that was measured."""
    monkeypatch.setattr(limits, "WARM_UP_SUBSCRIPTIONS", 10)
    figure = SIMILAR[name].sized(200, 4, 1.0)
    skipped, asked = (first_row(figure, "similar", limit_s=limit_s) for limit_s in (1e-9, 60.0))
    assert "are expected here; the limit of a figure is 1e-09 s" in skipped["skipped"]
    assert (None, list(asked)) == (asked["skipped"], list(skipped))


def test_a_top_k_index_that_takes_too_long_is_skipped_with_the_estimate(monkeypatch):
    """By a trial with a tenth of the subscriptions; others at the same point are measured."""
    monkeypatch.setattr(topk_trial, "_FEWEST", 10)
    figure = replace(TOPK["k"].sized(200, 20, 1.0), window=50, warm_up=20)
    skipped, asked = (first_row(figure, "topk", limit_s=limit_s) for limit_s in (1e-9, 600.0))
    assert "are expected, by 20 subscriptions; the limit of a figure is 1e-09 s" in skipped["skipped"]
    assert (None, set(asked)) == (asked["skipped"], set(skipped))


def test_a_top_k_index_is_tried_at_the_first_point_only(monkeypatch):
    """What it took there tells what to expect at the next."""
    monkeypatch.setattr(topk_trial, "_FEWEST", 10)
    figure = replace(TOPK["k"].sized(200, 20, 1.0), window=50, warm_up=20, limit_s=600.0)
    two, said = replace(figure, points=figure.points[:2], series=[Series("trigger", "trigger")]), []
    rows = list(two.measure(two, data_of("topk"), said.append))
    assert [row["skipped"] for row in rows] == [None, None]
    assert {what.partition(":")[0] for what in said if "trial with" in what} == {"point 1 of 2"}


def test_every_run_is_a_figure_that_there_is():
    """At a million subscriptions or more, with other files for each kind of data."""
    runs = paper_runs()
    assert len(runs) == len({run.name for run in runs})
    for run in runs:
        figure = FIGURES_OF[run.bench][run.figure]
        scale = float(run.arguments[run.arguments.index("--scale") + 1])
        assert max(figure.subscriptions, figure.history) * scale >= 1_000_000, run.name


def test_top_k_runs_have_time_for_the_join():
    """Joining a million with a million takes every index longer than the others' limit; few messages warm up."""
    for run in paper_runs(0.5, limit_s=10):
        if run.bench == "moving":
            continue  # these have limits of their own
        limit_s = float(run.arguments[run.arguments.index("--limit-s") + 1])
        assert (50 if run.bench == "topk" else 10) == limit_s
        assert (run.bench == "topk") == (("--warm-up", "2500") in zip(run.arguments, run.arguments[1:], strict=False))


def test_a_finished_run_is_not_done_again(nearcast, tmp_path):
    """Not by the same version with the same arguments; with others it is."""
    given = ("bench", "figures", "--out", tmp_path, "--only", "generated/boolean-rt-scaling")
    asked = (*given, "--times", "0.0001")
    status, out, _ = nearcast(*asked)
    assert 0 == status
    assert {"boolean-rt-scaling.png", "boolean-rt-scaling.csv", "boolean-rt-scaling.txt"} == {
        path.name for path in (tmp_path / "generated").iterdir()
    }
    assert "Rt-tree Fig. 10" in (tmp_path / "generated" / "boolean-rt-scaling.txt").read_text()
    _, out, _ = nearcast(*asked)
    assert "generated/boolean-rt-scaling: done before, in" in out
    assert "done in" in nearcast(*asked, "--list").out
    assert "done in" not in nearcast(*given, "--list").out


def test_a_run_that_fails_is_told_and_not_recorded(nearcast, tmp_path):
    """It leaves the record as it was."""
    missing = tmp_path / "none"
    given = ("--out", tmp_path / "out", "--only", "venues/boolean-rt-scaling", "--data", missing)
    status, _, err = nearcast("bench", "figures", *given)
    assert (1, True) == (status, "1 of 1 runs failed: venues/boolean-rt-scaling" in err)
    assert not (tmp_path / "out" / "figures.json").exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--only", "nothing"), "--only nothing: no run has that in its name"),
        (("--times", "0"), "--times 0.0: give a number above 0"),
        (("--limit-s", "-1"), "--limit-s -1.0: give a number above 0"),
    ],
)
def test_mistakes_with_figures_are_one_line(nearcast, tmp_path, given, told):
    """Before anything is run."""
    status, _, err = nearcast("bench", "figures", "--out", tmp_path, *given)
    assert (2, True) == (status, told in err)
