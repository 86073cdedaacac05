"""`nearcast bench`: that the right things are measured and wrong answers are found; never how long they take."""

import csv
import io
import json
import math
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from nearcast import indexes
from nearcast.bench import answers, churn, encoding, hubs, report, timing
from nearcast.bench.answers import AnswersDiffer, scan_sample
from nearcast.bench.data.distances import MaxDistance, diameter
from nearcast.bench.data.workloads import Recipe, Workload, drawn_from, generated, save_workload
from nearcast.bench.encoding import encoded
from nearcast.bench.figures import figures_of, measurement, plot
from nearcast.bench.figures.figure import Series, with_options
from nearcast.bench.figures.measurement import FigureData
from nearcast.bench.request import BenchRequest
from nearcast.bench.run import measure, run_boolean, run_similar
from nearcast.cli import _console
from nearcast.cli._bench_options import split_indexes
from nearcast.cli._console import UsageMistake
from nearcast.cli.bench_similar import INDEXES as SIMILAR_INDEXES
from nearcast.errors import InvalidColumns, UnknownIndex
from nearcast.geo import Space
from nearcast.indexes import Matches, available, create, register
from nearcast.indexes.scan import ScanIndex

FIGURES = [
    "index",
    "build_s",
    "bytes_per_subscription",
    "us_per_message",
    "p50_us",
    "p99_us",
    "matches_per_message",
    "slow_matches",
    "candidates_per_message",
    "verified_per_message",
    "inserts_per_s",
    "removes_per_s",
]
SIMILAR_FIGURES = [*FIGURES, "ns_per_answer", "copy_ns_per_answer"]
SCAN_TWICE = [Series("one", "scan"), Series("two", "scan:")]
SMALL = ("--subscriptions", 300, "--messages", 20)


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """Few repetitions: these tests look at what is measured, not at how long it takes."""
    monkeypatch.setattr(timing, "CHANGE_BATCHES", 3)
    monkeypatch.setattr(measurement, "LEAST_S", 0.0)
    monkeypatch.setattr(hubs, "SINGLES", 50)
    monkeypatch.setattr(churn, "TURN_S", 0.05)
    monkeypatch.setattr(churn, "TURNS", 1)
    monkeypatch.setattr(_console, "_EVERY_S", float("inf"))


@pytest.fixture(scope="module")
def workload():
    return generated(subscriptions=3000, messages=120)


@pytest.fixture(scope="module")
def wishes():
    """Similar subscriptions, without a `max_distance`."""
    return generated(kind="similar", subscriptions=2000, messages=60)


def silent(_):
    pass


class ForgetfulIndex(ScanIndex):
    """Loses the last match of every message that has one."""

    def match(self, messages, *, threads=1):
        found = super().match(messages, threads=threads)
        last = np.maximum(found.start[1:][np.diff(found.start) > 0] - 1, 0)
        slots = np.delete(found.slots, last)
        count = np.diff(found.start) - (np.diff(found.start) > 0)
        return Matches(np.concatenate([[0], np.cumsum(count)]), slots, np.delete(found.score, last))


class RoundingIndex(ScanIndex):
    """Finds the right slots with scores that are a little off."""

    def match(self, messages, *, threads=1):
        found = super().match(messages, threads=threads)
        return replace(found, score=found.score + 1e-12)


@pytest.fixture
def enter(monkeypatch):
    """Register an index for one test."""
    available()  # the others first: what is registered later would be forgotten with it
    monkeypatch.setattr(indexes, "_registry", dict(indexes._registry))

    def entered(name, base, *, kinds=("within", "similar"), options=None):
        register(name, kinds=kinds, paper="none", options=options)(type(name, (base,), {}))

    return entered


def test_results_are_the_named_indexes_in_order_with_all_figures(workload):
    """Exactly what was asked for, in the order asked for."""
    for specs in (["scan", "trigger"], ["trigger:few=2,leaf_rows=100", "scan"], ["trigger"]):
        results = run_boolean(workload, BenchRequest(specs), silent)["results"]
        assert specs == [row["index"] for row in results]
        assert all(FIGURES == list(row) for row in results)


def test_figures_are_plausible(workload):
    """Both indexes match alike, `scan` looks at every subscription, and nothing takes no time."""
    ours, scan = run_boolean(workload, BenchRequest(["trigger", "scan"]), silent)["results"]
    assert ours["matches_per_message"] == scan["matches_per_message"] > 0
    assert 3000 == scan["candidates_per_message"]
    assert ours["verified_per_message"] <= ours["candidates_per_message"] < 3000
    assert all(row[name] > 0 for row in (ours, scan) for name in ("us_per_message", "p50_us", "inserts_per_s"))
    assert all(row["p50_us"] <= row["p99_us"] for row in (ours, scan))


def test_the_matches_of_the_slowest_calls_are_told(monkeypatch):
    """Those of the calls at or above the 99th percentile, not the mean of all."""
    import time
    from types import SimpleNamespace

    slow, now = 7, [0.0]

    class Slow:
        def match(self, single):
            now[0] += 9.0 if single == slow else 1.0
            return SimpleNamespace(slots=range(50 if single == slow else 2))

    class Rows(list):
        def take(self, rows):
            return int(rows[0])

    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: now[0], time=time.time))
    found = timing.single_calls(Slow(), Rows(range(20)), 1.0)
    assert (1e6, 50.0) == (found.p50_us, found.slow_matches)


def test_report_tells_workload_machine_hub_and_passes(workload):
    """A reader can tell what was measured, on what, and repeat it."""
    made = run_boolean(workload, BenchRequest(["trigger"], command="nearcast bench boolean"), silent)
    assert ["workload", "machine", "results", "hub"] == list(made)
    about = made["workload"]
    assert (3000, 120, 1, "plane") == tuple(about[name] for name in ("subscriptions", "messages", "seed", "space"))
    assert min(about["passes_us"]["trigger"]) == made["results"][0]["us_per_message"]
    assert {"trigger": 120} == about["timed_messages"]
    assert {"cpu", "cores", "python", "numba"} <= set(made["machine"])
    assert all(made["hub"][name] > 0 for name in made["hub"] if name != "index")
    json.dumps(made)


def test_churn_reports_both_sides_and_the_rate(workload, monkeypatch):
    """Matching under change is told against quiet matching."""
    monkeypatch.setattr(churn, "CALL_MESSAGES", 60)  # two calls: changes are due at the second, however slow the first
    made = run_boolean(workload, BenchRequest(["trigger"], churn=True), silent)["churn"]
    assert ["index", "quiet_us_per_message", "churn_us_per_message", "ratio", "rate"] == list(made)
    assert made["rate"] > 0


def test_churn_leaves_what_is_held_unchanged(workload):
    """Subscriptions are removed and inserted anew: matching finds as many as before."""
    columns = encoded(workload)
    index = ScanIndex(columns.space)
    slots = index.insert(columns.subscriptions)
    before = index.match(columns.messages)
    changes = churn.ChangeMaker(index, columns.subscriptions, slots)
    for _ in range(35):  # more than all of them once
        changes.make_one_batch()
    after = index.match(columns.messages)
    row_of_slot = np.full(changes.slots.max() + 1, -1)
    row_of_slot[changes.slots] = np.arange(3000)
    assert 3000 == len(index)
    assert 3500 == changes.made
    for message in range(len(after)):
        assert before.slots_of(message).tolist() == sorted(row_of_slot[after.slots_of(message)].tolist())


def test_changes_keep_their_rate(workload, monkeypatch):
    """As many are made as the clock asks for: none at first, a second later ten thousand."""
    columns = encoded(workload)
    index = ScanIndex(columns.space)
    changes = churn.ChangeMaker(index, columns.subscriptions, index.insert(columns.subscriptions))
    for at, expected in ((7.0, 0), (7.005, 100), (8.0, 10_000), (8.0, 10_000)):
        monkeypatch.setattr(churn.time, "perf_counter", lambda at=at: at)
        changes.make_those_due()
        assert expected == changes.made


def test_wrong_answers_are_found_before_any_time_is_told(workload, monkeypatch):
    """An index that loses a match ends the run with an error that shows where."""
    make = encoding.create
    monkeypatch.setattr(
        encoding, "create", lambda spec, space: ForgetfulIndex(space) if spec == "trigger" else make(spec, space)
    )
    with pytest.raises(AnswersDiffer, match=r"message \d+: trigger gives \d+ slots and scan \d+ .*no times"):
        measure(encoded(workload), ["trigger"], silent)


def test_answers_are_compared_beyond_the_sample(workload, monkeypatch):
    """Two indexes that agree with `scan` on the sample must still agree with each other on every message."""
    make = encoding.create

    class Unlucky(ScanIndex):
        def match(self, messages, *, threads=1):
            found = super().match(messages, threads=threads)
            if len(messages) < 120 or not len(found.slots):
                return found
            row = int(np.flatnonzero(np.diff(found.start) > 0)[-1])
            start = found.start.copy()
            start[row + 1 :] -= 1
            slots = np.delete(found.slots, found.start[row + 1] - 1)
            return Matches(start, slots, np.ones(len(slots)))

    monkeypatch.setattr(answers, "scan_sample", lambda *_: np.arange(3))
    monkeypatch.setattr(
        encoding, "create", lambda spec, space: Unlucky(space) if spec == "trigger:few=2" else make(spec, space)
    )
    with pytest.raises(AnswersDiffer, match=r"trigger:few=2 gives \d+ slots and trigger \d+"):
        measure(encoded(workload), ["trigger", "trigger:few=2"], silent)


@pytest.mark.parametrize(
    ("subscriptions", "messages", "expected"), [(1_000_000, 20_000, 200), (10_000_000, 20_000, 20), (10, 7, 7)]
)
def test_scan_is_asked_as_many_messages_as_take_some_seconds(subscriptions, messages, expected):
    """The sample shrinks as subscriptions grow, spans all messages and repeats none."""
    rows = scan_sample(subscriptions, messages)
    assert expected == len(np.unique(rows)) == len(rows)
    assert (0, messages - 1) == (rows[0], rows[-1])


def test_a_workload_with_a_bad_row_is_refused():
    """A benchmark of fewer rows than it says would mislead."""
    bad = Workload(
        {}, pa.table({"id": ["a"], "query": ["("]}), pa.table({"id": ["m"], "terms": [["a"]], "x": [1.0], "y": [1.0]})
    )
    with pytest.raises(InvalidColumns, match="subscriptions row 0, query"):
        encoded(bad)


def test_an_index_list_may_hold_options():
    """A comma before key=value belongs to the index before it."""
    assert ["trigger:few=4,leaf_rows=2000", "scan"] == split_indexes("trigger:few=4,leaf_rows=2000,scan", "within")
    with pytest.raises(UnknownIndex):
        split_indexes("trigger,rtree", "within")


def test_an_index_must_match_the_kind(enter):
    """The error names those that do."""
    enter("elsewhere", ScanIndex, kinds=("topk",))
    with pytest.raises(UsageMistake, match=r"'elsewhere' does not match similar subscriptions; choose from .*scan"):
        split_indexes("scan,elsewhere", "similar")


def test_tables_in_a_pipe_are_markdown(workload):
    """A report can be pasted into a document."""
    made = run_boolean(workload, BenchRequest(["trigger", "scan"], churn=True, command="the command"), silent)
    console = Console(file=io.StringIO(), width=200)
    report.print_report(made, console)
    lines = console.file.getvalue().splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert 4 + 3 + 3 == len(rows)
    assert all(line.endswith("|") for line in rows)
    assert "Command: the command" in lines


# --- similar subscriptions ----------------------------------------------------------------------------------------


def test_similar_results_have_the_same_figures_and_the_time_per_answer(wishes):
    """The report has the shape of the boolean one; answers are told apart from copying them."""
    made = run_similar(wishes, BenchRequest(["scan"], command="the command"), silent)
    assert ["workload", "machine", "results", "hub"] == list(made)
    (row,) = made["results"]
    assert SIMILAR_FIGURES == list(row)
    assert row["ns_per_answer"] > row["copy_ns_per_answer"] > 0
    per_answer = row["us_per_message"] * 1000 / row["matches_per_message"]
    assert per_answer == pytest.approx(row["ns_per_answer"], rel=1e-3)
    json.dumps(made)


def test_similar_under_change(wishes, monkeypatch):
    """Churn is measured for scored subscriptions as for boolean ones."""
    monkeypatch.setattr(churn, "CALL_MESSAGES", 30)
    made = run_similar(wishes, BenchRequest(["scan"], churn=True), silent)
    assert made["churn"]["rate"] > 0


def test_words_weigh_what_the_messages_say(wishes):
    """Weights are the idf of the workload's messages; a word in none of them weighs most."""
    columns = encoded(MaxDistance().applied(wishes))
    df = {}
    for terms in wishes.messages["terms"].to_pylist():
        for word in set(terms):
            df[word] = df.get(word, 0) + 1
    for term, word in enumerate(columns.words.words().to_pylist()):
        assert columns.weights[term] == pytest.approx(math.log(61 / (1 + df.get(word, 0))) + 1)
    assert [len(terms) for terms in wishes.messages["terms"].to_pylist()] == columns.messages.totals[:, 0].tolist()


@pytest.mark.parametrize(
    ("base", "fault"),
    [(ForgetfulIndex, r"message \d+: broken gives \d+ slots and scan \d+"), (RoundingIndex, "broken scores slot")],
)
def test_wrong_answers_to_similar_subscriptions_are_found(wishes, enter, base, fault):
    """Slots and scores must be those of `scan`, to the last bit."""
    enter("broken", base)
    with pytest.raises(AnswersDiffer, match=f"{fault}.*no times are reported"):
        run_similar(wishes, BenchRequest(["scan", "broken"]), silent)


def test_without_answers_there_is_no_time_per_answer():
    """Nothing is divided by nothing; the table has an empty cell."""
    far = Recipe(text_weight=(0.0, 0.0), threshold=(1.0, 1.0))
    made = generated(kind="similar", subscriptions=50, messages=5, recipe=far)
    told = run_similar(made, BenchRequest(["scan"], max_distance=MaxDistance(distance=1e-9)), silent)
    assert (0, None, None) == tuple(
        told["results"][0][name] for name in ("matches_per_message", "ns_per_answer", "copy_ns_per_answer")
    )
    console = Console(file=io.StringIO(), width=200)
    report.print_report(told, console)
    (row,) = [line for line in console.file.getvalue().splitlines() if line.startswith("|scan")][:1]
    assert ["", ""] == [cell.strip() for cell in row.strip("|").split("|")[-2:]]


def test_fewer_messages_are_asked_when_answers_would_not_fit(wishes, monkeypatch):
    """What is asked is told; the others are left out evenly."""
    monkeypatch.setattr(answers, "MOST_ANSWERS", 200)
    monkeypatch.setattr(answers, "SCAN_MESSAGES", (5, 10))
    made = run_similar(wishes, BenchRequest(["scan:", "scan"]), silent)
    assert all(10 <= count < 60 for count in made["workload"]["timed_messages"].values())


def test_all_subscriptions_must_be_of_the_kind(workload, wishes):
    """A benchmark of one kind does not time another."""
    with pytest.raises(InvalidColumns, match="scored ones need lon and lat, or x and y"):
        run_similar(workload, BenchRequest(["scan"]), silent)
    with pytest.raises(InvalidColumns, match="row 0 is of kind similar, all must be within"):
        run_boolean(MaxDistance().applied(wishes), BenchRequest(["scan"]), silent)


# --- max_distance -------------------------------------------------------------------------------------------------


def points(**columns):
    return Workload({}, pa.table({"id": list(range(len(next(iter(columns.values()))))), **columns}), pa.table({}))


def test_max_distance_is_a_share_of_the_diameter():
    """Unless something is said, 5 % of the diagonal of the box around all subscriptions; the report tells both."""
    made = points(x=[0.0, 30.0, 10.0], y=[5.0, 5.0, 45.0])
    for reach, expected in ((MaxDistance(), 2.5), (MaxDistance(share=1.0), 50.0), (MaxDistance(distance=7.0), 7.0)):
        applied = reach.applied(made)
        assert [expected] * 3 == applied.subscriptions["max_distance"].to_pylist()
        assert {"diameter": 50.0, "max_distance": expected} == applied.about


def test_subscriptions_keep_their_own_max_distance_unless_told():
    """Only those that have none get the share; an option replaces all."""
    made = points(x=[0.0, 30.0], y=[0.0, 40.0], max_distance=[8.0, None])
    kept = MaxDistance().applied(made)
    assert [8.0, 2.5] == kept.subscriptions["max_distance"].to_pylist()
    assert kept.about["max_distance"] is None
    assert [5.0, 5.0] == MaxDistance(share=0.1).applied(made).subscriptions["max_distance"].to_pylist()


def test_diameter_on_the_earth_is_in_metres():
    """Between the corners; of a box around more than half the longitudes, half the way round."""
    space, across = diameter(pa.table({"lon": [0.0, 90.0], "lat": [0.0, 0.0]}))
    quarter = 6_371_008.8 * math.pi / 2
    assert ("earth", pytest.approx(quarter)) == (space.kind, across)
    assert pytest.approx(2 * quarter) == diameter(pa.table({"lon": [-170.0, 170.0], "lat": [0.0, 1.0]}))[1]
    assert "max_distance_m" in MaxDistance().applied(points(lon=[1.0, 2.0], lat=[3.0, 4.0])).subscriptions.column_names


def test_a_diameter_needs_places():
    """Rows without any are said to be so."""
    with pytest.raises(InvalidColumns, match="no x and y in any row"):
        diameter(pa.table({"x": pa.array([None], pa.float64()), "y": [1.0]}))


@pytest.mark.parametrize(
    ("own", "line"), [(False, "max_distance: 5, 0.1 of the data's"), (True, "each subscription's own")]
)
def test_the_report_tells_how_far_near_reaches(own, line):
    """A reader can tell the main setting from the wide one."""
    about = {"space": "plane", "diameter": 50.0, "max_distance": None if own else 5.0}
    assert line in report.distance_lines(about)[0]


# --- recipes ------------------------------------------------------------------------------------------------------


def test_a_recipe_fixes_what_is_drawn():
    """Equal ends fix a value for all rows; words are as many as asked for."""
    recipe = Recipe((30, 30), (4, 4), text_weight=(0.3, 0.3), threshold=(0.8, 0.8), similarity="dice")
    made = generated(kind="similar", subscriptions=200, messages=50, recipe=recipe)
    assert {30} == {len(terms) for terms in made.messages["terms"].to_pylist()}
    rows = made.subscriptions.to_pylist()
    assert {4} == {len(set(row["query"].split())) for row in rows}
    assert {(0.3, 0.8, "dice")} == {(row["text_weight"], row["threshold"], row["similarity"]) for row in rows}


def test_long_messages_take_in_words_of_further_rows(tmp_path):
    """A row with few words is joined by others, none of which serves a subscription; the place is its own."""
    rows = range(200)
    table = pa.table({"text": [f"a{row} b{row}" for row in rows], "x": [float(row) for row in rows], "y": [0.0] * 200})
    pq.write_table(table, tmp_path / "rows.parquet")
    made = drawn_from(
        tmp_path / "rows.parquet", kind="similar", subscriptions=100, messages=10, recipe=Recipe(message_words=(7, 7))
    )
    said = [{int(word[1:]) for word in terms} for terms in made.messages["terms"].to_pylist()]
    assert all(7 == len(terms) for terms in made.messages["terms"].to_pylist())
    assert all(x in rows for x, rows in zip(made.messages["x"].to_pylist(), said, strict=True))
    assert not set().union(*said) & {
        int(word[1:]) for q in made.subscriptions["query"].to_pylist() for word in q.split()
    }


# --- figures ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_data():
    """Draws whatever a figure asks for."""
    return lambda recipe, subscriptions, messages: MaxDistance().applied(
        generated(kind="similar", subscriptions=subscriptions, messages=messages, recipe=recipe)
    )


@pytest.mark.parametrize("name", list(figures_of("similar")))
def test_a_figure_measures_every_series_at_every_point(name, small_data):
    """There is a row for each pair, with every column that is drawn."""
    figure = replace(figures_of("similar")[name].sized(200, 4, 1.0), series=SCAN_TWICE)
    rows = list(figure.measure(figure, FigureData(small_data), silent))
    assert len(figure.points) * 2 == len(rows)
    assert {"one", "two"} == {row["series"] for row in rows}
    assert len(figure.points) == len({row["x"] for row in rows})
    for panel in figure.panels:
        assert all(panel.column in row for row in rows)
    assert all(row["ms_per_message"] > 0 for row in rows)


@pytest.mark.parametrize("name", list(figures_of("similar")))
def test_the_indexes_of_a_figure_exist(name):
    """Every series names an index of the registry that matches the kind, with options that it has."""
    figure = figures_of("similar")[name]
    for series in figure.series:
        for point in figure.points:
            spec = with_options(series.spec, point.options)
            assert "similar" in create(spec, Space.plane()).info.kinds


def test_a_figure_grows_an_index_by_tenths(small_data):
    """Each step adds a tenth of the first subscriptions; the answers are those of an index with all of them."""
    figure = replace(figures_of("similar")["updates"].sized(200, 4, 1.0), series=SCAN_TWICE[:1])
    rows = list(figure.measure(figure, FigureData(small_data), silent))
    assert [220, 240, 260, 280, 300] == [row["subscriptions"] for row in rows]
    assert all(row["update_us"] > 0 for row in rows)


def test_the_x_of_a_scaling_figure_is_its_size(small_data):
    """A fifth of the subscriptions more at each point."""
    figure = replace(figures_of("similar")["scaling"].sized(200, 4, 0.5), series=SCAN_TWICE[:1])
    rows = list(figure.measure(figure, FigureData(small_data), silent))
    assert [20, 40, 60, 80, 100] == [row["x"] for row in rows] == [row["subscriptions"] for row in rows]


def test_a_figure_of_wrong_answers_is_refused(small_data, enter):
    """No row is given for an index that differs."""
    enter("broken", ForgetfulIndex)
    figure = figures_of("similar")["tau"].sized(200, 4, 1.0).with_indexes(["broken"])
    with pytest.raises(AnswersDiffer, match="no times are reported"):
        list(figure.measure(figure, FigureData(small_data), silent))


def test_points_give_options_to_the_indexes_that_have_them(enter):
    """An option that the series sets itself stays."""
    enter("tree", ScanIndex, options={"fan_out": 5000, "order": "none"})
    assert "tree:fan_out=7" == with_options("tree", {"fan_out": 7, "depth": 3})
    assert "tree:fan_out=9" == with_options("tree:fan_out=9", {"fan_out": 7})
    assert "tree:order=df,fan_out=7" == with_options("tree:order=df", {"fan_out": 7})
    assert "scan" == with_options("scan", {"fan_out": 7})


def test_short_passes_are_repeated(wishes, monkeypatch):
    """At least three, and as many as last long enough together."""
    columns = encoded(MaxDistance().applied(wishes))
    index = columns.new_index("scan")
    monkeypatch.setattr(timing, "cpu_us", lambda _: 0.25e6)
    assert [3, 4] == [len(timing.passes_us(index, columns.messages, least_s)) for least_s in (0.0, 0.9)]


def test_the_same_data_is_drawn_once(small_data):
    """Points that differ in the options of indexes only share their data."""
    drawn = []
    data = FigureData(lambda *asked: drawn.append(asked) or small_data(*asked))
    first = data.columns(Recipe(), 20, 3)
    assert first is data.columns(Recipe(), 20, 3)
    assert first is not data.columns(Recipe(), 21, 3)
    assert 2 == len(drawn)


def test_the_default_indexes_exist():
    """What is timed when nothing is named can be timed."""
    assert SIMILAR_INDEXES.split(",") == split_indexes(SIMILAR_INDEXES, "similar")


# --- the command --------------------------------------------------------------------------------------------------


def test_bench_of_a_folder(nearcast, tmp_path, workload):
    """A folder with the two files is matched as it is; the JSON has the promised shape."""
    save_workload(workload, tmp_path / "w")
    file = tmp_path / "report.json"
    status, out, err = nearcast("bench", "boolean", "--workload", tmp_path / "w", "--indexes", "scan", "--json", file)
    assert (0, "") == (status, err)
    assert "| scan" in out or "|scan" in out
    written = json.loads(file.read_text())
    assert {"workload", "machine", "results"} <= set(written)
    assert ["scan"] == [row["index"] for row in written["results"]]
    assert 3000 == written["workload"]["subscriptions"]


def test_bench_generates_without_a_folder(nearcast, tmp_path):
    """Sizes and the seed are taken from the command line, and stand in the command that repeats the run."""
    file = tmp_path / "report.json"
    sizes = ("--subscriptions", 300, "--messages", 20, "--seed", 5, "--space", "earth")
    status, _, _ = nearcast("bench", "boolean", *sizes, "--indexes", "trigger", "--json", file)
    about = json.loads(file.read_text())["workload"]
    assert (0, 300, 20, 5, "earth") == (
        status,
        *(about[name] for name in ("subscriptions", "messages", "seed", "space")),
    )
    assert "--subscriptions 300 --messages 20" in about["command"]


def test_bench_draws_from_a_named_data_file(nearcast, tmp_path):
    """A name is looked up in --data."""
    rows = range(60)
    table = pa.table(
        {"text": [f"tea room {row}" for row in rows], "lon": [row / 10 for row in rows], "lat": [1.0] * 60}
    )
    pq.write_table(table, tmp_path / "venues.parquet")
    file = tmp_path / "report.json"
    given = ("--source", "venues", "--data", tmp_path, "--subscriptions", 40, "--messages", 10, "--json", file)
    status, _, err = nearcast("bench", "boolean", *given)
    assert (0, "") == (status, err)
    assert "venues.parquet" == json.loads(file.read_text())["workload"]["source"]


@pytest.mark.parametrize(
    ("arguments", "status", "fragment"),
    [
        (["--indexes", "rtree"], 2, "'rtree'"),
        (["--indexes", ","], 2, "names none"),
        (["--indexes", "scan,scan"], 2, "twice"),
        (["--source", "no_such_data"], 2, "no_such_data"),
        (["--workload", "w", "--messages", "5"], 2, "whole workload"),
        (["--workload", "no_such_folder"], 1, "no_such_folder"),
        (["--json", "no/such/folder/r.json"], 2, "make it first"),
        (["--subscriptions", "0"], 2, "--subscriptions"),
    ],
)
@pytest.mark.parametrize("kind", ["boolean", "similar"])
def test_mistakes_are_one_line(nearcast, tmp_path, monkeypatch, kind, arguments, status, fragment):
    """What cannot be run is said at once."""
    check_mistake(nearcast, tmp_path, monkeypatch, kind, arguments, status, fragment)


def check_mistake(nearcast, folder, monkeypatch, kind, arguments, status, fragment):
    monkeypatch.chdir(folder)
    usual = () if "--indexes" in arguments else ("--indexes", "scan")
    left, out, err = nearcast("bench", kind, *arguments, *usual)
    (line,) = err.splitlines()
    assert (status, "") == (left, out)
    assert fragment in line


def test_different_answers_end_the_command_with_status_1(nearcast, monkeypatch):
    """No table is printed, and the line says why."""
    make = encoding.create
    monkeypatch.setattr(
        encoding, "create", lambda spec, space: ForgetfulIndex(space) if spec == "trigger" else make(spec, space)
    )
    status, out, err = nearcast("bench", "boolean", "--subscriptions", 3000, "--messages", 120)
    assert (1, "") == (status, out)
    assert "no times are reported" in err


def test_bench_similar_of_a_folder(nearcast, tmp_path, wishes):
    """The JSON has the shape of the boolean one, and tells how far `near` reaches."""
    save_workload(wishes, tmp_path / "w")
    file = tmp_path / "report.json"
    given = ("--workload", tmp_path / "w", "--indexes", "scan", "--max-distance-share", 1.0, "--json", file)
    status, out, err = nearcast("bench", "similar", *given)
    assert (0, "") == (status, err)
    assert "ns/answer" in out
    written = json.loads(file.read_text())
    assert ["workload", "machine", "results", "hub"] == list(written)
    about = written["workload"]
    assert about["max_distance"] == about["diameter"] > 10_000
    assert "--indexes scan --max-distance-share 1.0" in about["command"]


def test_bench_similar_generates_or_draws(nearcast, tmp_path):
    """`synthetic` and a data file are sources alike; the distance is in metres on the earth."""
    rows = range(60)
    table = pa.table(
        {"text": [f"tea room {row}" for row in rows], "lon": [row / 10 for row in rows], "lat": [1.0] * 60}
    )
    pq.write_table(table, tmp_path / "venues.parquet")
    file = tmp_path / "report.json"
    for source, space in (("synthetic", "plane"), (tmp_path / "venues.parquet", "earth")):
        given = ("--source", source, *SMALL, "--max-distance", 400, "--indexes", "scan", "--json", file)
        status, _, err = nearcast("bench", "similar", *given)
        about = json.loads(file.read_text())["workload"]
        assert (0, "", space, 400.0) == (status, err, about["space"], about["max_distance"])


def test_bench_draws_a_figure(nearcast, tmp_path):
    """A picture and a table for it, a table on stdout, and nothing else in the folder."""
    file = tmp_path / "report.json"
    given = ("--figure", "tau", "--scale", 0.002, "--messages", 4, "--indexes", "scan", "--out", tmp_path)
    status, out, err = nearcast("bench", "similar", *given, "--json", file)
    assert (0, "") == (status, err)
    assert ["report.json", "similar-tau.csv", "similar-tau.png"] == sorted(path.name for path in tmp_path.iterdir())
    assert (tmp_path / "similar-tau.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    with (tmp_path / "similar-tau.csv").open(newline="") as written:
        rows = list(csv.DictReader(written))
    assert ["0.5", "0.6", "0.7", "0.8", "0.9", "1.0"] == [row["x"] for row in rows]
    assert {("scan", "200", "4")} == {(row["series"], row["subscriptions"], row["messages"]) for row in rows}
    told = json.loads(file.read_text())
    assert [float(row["ms_per_message"]) for row in rows] == [row["ms_per_message"] for row in told["results"]]
    assert ("tau", 200, "Fig. 11") == tuple(told["workload"][name] for name in ("figure", "subscriptions", "paper"))
    assert f"--figure tau --scale 0.002 --out {tmp_path}" in told["workload"]["command"]
    assert 2 * (2 + 6) == sum(line.startswith("|") for line in out.splitlines())  # a table for each panel


@pytest.mark.parametrize("name", ["cost-model", "filters-delta", "fan-out", "scaling", "functions"])
def test_a_similar_figure_can_be_drawn(name, tmp_path):
    """Lines and bars, one panel or four, values that are missing or 0."""
    figure = figures_of("similar")[name]
    rows = []
    for at, point in enumerate(figure.points):
        for series in figure.series:
            values = {panel.column: [1000.0 * at, None, 0.5][(at + len(rows)) % 3] for panel in figure.panels}
            rows.append({"x": at if point.x is None else point.x, "series": series.label, **values})
    (picture, table) = plot.write_figure(figure, rows, "a note", tmp_path, name)
    assert picture.stat().st_size > 10_000
    assert len(rows) + 1 == len(table.read_text().splitlines())


def test_figures_are_listed(nearcast):
    """A line each: name, where it stands in the paper, what it shows."""
    status, out, _ = nearcast("bench", "similar", "--figure", "list")
    assert 0 == status
    assert list(figures_of("similar")) == [line.split()[0] for line in out.splitlines()]


def test_a_figure_without_matplotlib_says_what_to_install(nearcast, tmp_path, monkeypatch):
    """Before anything is measured."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    status, _, err = nearcast("bench", "similar", "--figure", "tau", "--indexes", "scan", "--out", tmp_path)
    assert (1, "nearcast: figures are drawn with matplotlib: pip install 'nearcast[bench]'\n") == (status, err)


@pytest.mark.parametrize(("error", "left"), [(KeyboardInterrupt, 130), (OSError("disk full"), 1)])
def test_a_figure_that_is_not_finished_leaves_no_file(nearcast, tmp_path, monkeypatch, error, left):
    """Neither a picture without its table nor a part of one."""

    def fail(*_):
        raise error

    monkeypatch.setattr(plot, "draw", fail)
    given = ("--figure", "tau", "--scale", 0.001, "--messages", 2, "--indexes", "scan", "--out", tmp_path)
    status, _, _ = nearcast("bench", "similar", *given)
    assert (left, []) == (status, list(tmp_path.iterdir()))


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["--max-distance", "5", "--max-distance-share", "0.1"], "give one"),
        (["--max-distance", "0"], "--max-distance 0.0: give a number above 0"),
        (["--max-distance-share", "nan"], "--max-distance-share nan"),
        (["--scale", "2"], "--figure list"),
        (["--out", "."], "--figure list"),
        (["--figure", "taus"], "choose one of cost-model, filters-delta"),
        (["--figure", "tau", "--scale", "0"], "--scale 0.0"),
        (["--figure", "tau", "--workload", "w"], "leave out --workload"),
        (["--figure", "tau", "--churn"], "leave out --workload and --churn"),
        (["--figure", "tau", "--out", "no/such/folder"], "make it first"),
    ],
)
def test_mistakes_with_similar_are_one_line(nearcast, tmp_path, monkeypatch, arguments, fragment):
    """So is what only similar subscriptions and figures have."""
    check_mistake(nearcast, tmp_path, monkeypatch, "similar", arguments, 2, fragment)


def test_different_answers_end_bench_similar_with_status_1(nearcast, enter):
    """A registered index that is wrong is found, and no table is printed."""
    enter("broken", RoundingIndex)
    status, out, err = nearcast(
        "bench", "similar", "--subscriptions", 2000, "--messages", 40, "--indexes", "broken,scan"
    )
    assert (1, "") == (status, out)
    assert "no times are reported" in err


def test_single_calls_are_timed(nearcast, tmp_path):
    """Every kind of call has a figure, and the report names the command that makes it."""
    status, out, *_ = nearcast("bench", "calls", "--subscriptions", 50, "--calls", 3, "--json", tmp_path / "calls.json")
    report = json.loads((tmp_path / "calls.json").read_text())

    assert status == 0
    assert report["command"] == "nearcast bench calls --subscriptions 50 --calls 3 --seed 1"
    assert list(report["us"]) == ["subscribe", "move", "publish", "delivery", "table row"]
    assert all(name in out for name in report["us"])
