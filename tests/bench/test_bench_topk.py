"""`nearcast bench topk`: that arrivals in a full window are measured, and that different answers are found."""

import csv
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast import indexes
from nearcast.bench import topk
from nearcast.bench.answers import AnswersDiffer
from nearcast.bench.data.distances import MaxDistance
from nearcast.bench.data.sources import read_source
from nearcast.bench.data.workloads import Recipe, drawn_from, generated, save_workload
from nearcast.bench.figures import figures_of, plot
from nearcast.bench.figures.figure import Series, with_options
from nearcast.bench.figures.measurement import FigureData
from nearcast.bench.request import BenchRequest
from nearcast.bench.stopwatch import PHASES, Stopwatch
from nearcast.bench.streams import stream_of, usual_warm_up, usual_window
from nearcast.bench.topk import run_topk
from nearcast.cli import _console
from nearcast.cli._bench_options import split_indexes
from nearcast.cli._console import UsageMistake
from nearcast.engine import Publish, step
from nearcast.errors import InvalidColumns, InvalidInput
from nearcast.geo import Space
from nearcast.indexes import Matches, available, create, register
from nearcast.indexes.scan import ScanIndex
from nearcast.window import Window

FIGURES = [
    "index",
    "messages",
    "messages_per_s",
    "messages_per_s_by_clock",
    "us_per_message",
    "amp_us",
    "emp_us",
    *(f"{phase}_us" for phase in PHASES),
    "searches_per_1000",
    "affected_per_message",
    "changes_per_message",
    "candidates_per_message",
    "verified_per_message",
    "insert_s",
    "join_s",
    "buffer_length",
    "bytes_per_subscription",
    "index_bytes_per_subscription",
    "buffer_bytes_per_subscription",
    "window_messages",
    "window_bytes",
    "peak_bytes",
]
BUFFERS = ["scan", "scan:buffer=kmax,kmax=40", "scan:buffer=skyband"]
REACH = MaxDistance(usual_share=1.0)
SMALL = ("--subscriptions", 120, "--window", 150, "--warm-up", 60, "--messages", 40)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """No lines of progress, and no collection of all that the tests of this process have left."""
    monkeypatch.setattr(_console, "_EVERY_S", float("inf"))
    monkeypatch.setattr(topk, "gc", SimpleNamespace(collect=lambda: 0))


@pytest.fixture
def enter(monkeypatch):
    """Register an index for one test."""
    available()  # the others first: what is registered later would be forgotten with it
    monkeypatch.setattr(indexes, "_registry", dict(indexes._registry))

    def entered(name, base, *, kinds=("topk",)):
        register(name, kinds=kinds, paper="none")(type(name, (base,), {}))

    return entered


@pytest.fixture(scope="module")
def wishes():
    return generated(kind="topk", subscriptions=150, messages=400)


def silent(_):
    pass


def run(workload, specs, *, window=200, n_measured=100, n_warm_up=100, threads=1):
    request = BenchRequest(
        threads=threads,
        indexes=specs,
        max_distance=REACH,
        window=Window.of(window),
        n_measured=n_measured,
        n_warm_up=n_warm_up,
        command="the command",
    )
    return run_topk(workload, request, silent)


class ForgetfulIndex(ScanIndex):
    """Loses one match of every call, once there are many."""

    def match(self, messages, *, threads=1):
        found = super().match(messages, threads=threads)
        if not len(found.slots):
            return found
        row = int(np.flatnonzero(np.diff(found.start) > 0)[0])
        best = int(found.start[row] + np.argmax(found.score[found.start[row] : found.start[row + 1]]))
        start = found.start.copy()
        start[row + 1 :] -= 1
        return Matches(start, np.delete(found.slots, best), np.delete(found.score, best))


class RoundingIndex(ScanIndex):
    """Finds the right slots with scores that are a little off."""

    def match(self, messages, *, threads=1):
        found = super().match(messages, threads=threads)
        return replace(found, score=found.score + 1e-12)


# --- a run --------------------------------------------------------------------------------------------------------


def test_results_are_the_named_indexes_in_order_with_all_figures(wishes):
    """A row for each, with figures that are plausible; the report tells what was measured, and can be JSON."""
    made = run(wishes, BUFFERS)
    assert ["workload", "machine", "results"] == list(made)
    assert BUFFERS == [row["index"] for row in made["results"]]
    assert all(FIGURES == list(row) for row in made["results"])
    about = made["workload"]
    counts = ("subscriptions", "messages", "filled_by", "warm_up_messages", "measured_messages", "window_messages")
    assert (150, 400, 200, 100, 100, 200) == tuple(about[name] for name in counts)
    assert ("200", "the command", "plane") == tuple(about[name] for name in ("window", "command", "space"))
    assert "all 3 deliver the same changes" in about["checked"]
    assert about["changes_hash"] in about["checked"]
    json.dumps(made)
    check_figures(made["results"])


def check_figures(rows):
    """All buffers tell the same changes; the phases add up; searches are EMP, everything else AMP."""
    assert 1 == len({row["changes_per_message"] for row in rows})
    for row in rows:
        assert row["changes_per_message"] > 0
        assert 0 < row["affected_per_message"] <= row["verified_per_message"] == row["candidates_per_message"] == 150
        assert row["us_per_message"] == pytest.approx(sum(row[f"{phase}_us"] for phase in PHASES), abs=0.01)
        assert row["us_per_message"] == pytest.approx(row["amp_us"] + row["emp_us"], abs=0.01)
        assert row["emp_us"] == row["searches_us"]
        assert row["messages_per_s"] == pytest.approx(1e6 / row["us_per_message"], rel=0.01)
        assert 0 < row["buffer_length"] < 200
        parts = row["index_bytes_per_subscription"] + row["buffer_bytes_per_subscription"]
        assert row["bytes_per_subscription"] == pytest.approx(parts, abs=0.2)
        assert row["window_bytes"] > 0


def test_threads_tell_the_same_changes(wishes):
    """However many share the subscriptions; the report says how many."""
    made = [run(wishes, ["trigger"], threads=threads) for threads in (1, 3)]
    assert [1, 3] == [each["workload"]["threads"] for each in made]
    assert 1 == len({each["workload"]["changes_hash"] for each in made})
    assert all(each["results"][0]["messages_per_s_by_clock"] > 0 for each in made)


def test_searches_are_counted_apart():
    """Buffers that hold hardly more than k run dry: searching takes some of the time."""
    recipe = Recipe(k=5, subscription_words=(1, 1), message_words=(30, 30))
    made = generated(kind="topk", subscriptions=100, messages=900, recipe=recipe)
    (row,) = run(made, ["scan:buffer=skyband,ratio=1.0"], n_measured=600)["results"]
    assert row["searches_per_1000"] > 0
    assert row["emp_us"] > 0


def test_a_window_of_time(wishes):
    """Messages that have times, in order; how many the window holds is told."""
    made = generated(kind="topk", subscriptions=100, messages=600, recipe=Recipe(timed=True))
    about = run(made, BUFFERS[:2], window="200s")["workload"]
    assert ("200s", 400) == (about["window"], about["filled_by"])
    assert 120 < about["window_messages"] < 300
    with pytest.raises(InvalidColumns, match="in order of time"):
        run(wishes, ["scan"], window="200s")


@pytest.mark.parametrize("base", [ForgetfulIndex, RoundingIndex])
def test_an_index_that_tells_other_changes_is_found(wishes, enter, base):
    """A hash of all changes, scores included, is compared."""
    enter("broken", base)
    with pytest.raises(AnswersDiffer, match=r"broken delivers other changes than scan .*no times are reported"):
        run(wishes, ["scan", "broken"])


def test_the_first_part_that_differs_is_told(wishes, enter):
    """Wrong answers to later messages are told as such."""
    seen = []

    class LateIndex(ForgetfulIndex):
        def match(self, messages, *, threads=1):
            seen.append(len(messages))
            late = len(self) == 150 and messages.ids[0].as_py() == "m300"
            return super().match(messages) if late else ScanIndex.match(self, messages)

    enter("late", LateIndex)
    with pytest.raises(AnswersDiffer, match="messages 0 to 99: late delivers other changes than scan"):
        run(wishes, ["scan", "late"])
    assert seen


def test_a_single_wrong_index_is_found_by_a_plain_search(wishes, enter):
    """Even with nothing to compare it with."""
    enter("broken", RoundingIndex)
    with pytest.raises(AnswersDiffer, match=r"not the .* best of the window"):
        run(wishes, ["broken"])


def test_rows_that_cannot_be_used(wishes):
    """Another kind, a bad row, too few messages."""
    similar = REACH.applied(generated(kind="similar", subscriptions=10, messages=20))
    with pytest.raises(InvalidColumns, match="row 0 is of kind similar, all must be topk"):
        stream_of(similar, Window.of(5), 5, 5)
    bad = replace(wishes, messages=pa.table({"id": ["m"], "terms": [["a"]], "x": [1.0], "y": pa.nulls(1)}))
    with pytest.raises(InvalidColumns, match="messages row 0, y"):
        stream_of(REACH.applied(bad), Window.of(5), 5, 5)
    with pytest.raises(InvalidInput, match=r"there are 400 messages; to fill the window 350 are needed and 100"):
        run(wishes, ["scan"], window=350, n_measured=50, n_warm_up=50)


def test_usual_lengths():
    """A tenth of the window warms up, 512 at least; a window is as long as the messages allow."""
    assert [512, 10_000] == [usual_warm_up(Window.of(n)) for n in (1000, 100_000)]
    assert [100_000, 100_000, 7_000, 1] == [
        usual_window(n, 2000, warm_up).count for n, warm_up in ((None, None), (500_000, None), (10_000, 1000), (5, 5))
    ]


def test_portions_are_what_the_engine_takes_at_once(wishes, monkeypatch):
    """Words of the window are known when a portion is read, whatever was forgotten before."""
    stream = stream_of(REACH.applied(wishes), Window.of(200), 100, 100)
    monkeypatch.setattr("nearcast.topk.keeper.BATCH", 64)
    state = stream.new_state("scan")
    sizes = []
    for portion in stream.portions(state, 0, 200):
        sizes.append(len(portion))
        step(state, Publish(portion))
    assert [64, 64, 64, 8] == sizes
    assert 200 == state.topk.n_messages


def test_a_phase_within_another_is_not_counted_twice(monkeypatch):
    """Each second belongs to the innermost phase."""
    now = iter([10.0, 11.0, 14.0, 16.0])
    monkeypatch.setattr("nearcast.bench.stopwatch.time.process_time", lambda: next(now))
    watch = Stopwatch()
    inner = watch._timed(lambda: "found", "match")
    assert "found" == watch.measured(inner)
    assert (3.0, 3.0, 6.0) == (watch.seconds["match"], watch.seconds["other"], watch.total)


def test_first_answers_are_taken_in_slices(wishes, monkeypatch):
    """The same changes, however many subscriptions come at once. One index is compared with a plain search only."""
    about = run(wishes, ["scan"])["workload"]
    assert "nothing to compare the changes with" in about["checked"]
    monkeypatch.setattr(topk, "SLICE", 40)
    assert about["changes_hash"] == run(wishes, ["scan"])["workload"]["changes_hash"]


# --- workloads ----------------------------------------------------------------------------------------------------


@pytest.fixture
def read(tmp_path):
    """Return a table as a source."""

    def source(table):
        pq.write_table(table, tmp_path / "rows.parquet")
        return read_source(tmp_path / "rows.parquet")

    return source


def test_topk_subscriptions_have_words_and_the_place_of_a_message(read):
    """Drawn from a file, a subscription stands where its row stands; k is that of the recipe."""
    rows = range(300)
    table = pa.table({"text": [f"a{n} b{n} c{n}" for n in rows], "x": [float(n) for n in rows], "y": [0.0] * 300})
    made = drawn_from(read(table), kind="topk", subscriptions=100, messages=100, recipe=Recipe(k=7))
    for row in made.subscriptions.to_pylist():
        assert {int(row["x"])} == {int(word[1:]) for word in row["query"].split()}
        assert 7 == row["k"]
        assert 0 <= row["text_weight"] <= 1


def test_words_by_zipfs_law(read):
    """The most common word of the rows is the most common of the subscriptions."""
    table = pa.table({"text": [f"tea w{n % 50}" for n in range(400)], "x": [0.5] * 400, "y": [0.0] * 400})
    made = drawn_from(read(table), kind="topk", subscriptions=300, messages=50, recipe=Recipe(zipf_words=True))
    said = [word for query in made.subscriptions["query"].to_pylist() for word in query.split()]
    assert max(set(said), key=said.count) == "tea"


def test_messages_in_order_of_time(read):
    """Of a file the latest rows; a file without times is refused."""
    times = pa.array([(n * 37) % 200 for n in range(200)], pa.timestamp("s"))
    table = pa.table({"text": [f"w{n}" for n in range(200)], "x": [1.0] * 200, "y": [0.0] * 200, "ts": times})
    asked = {"kind": "topk", "subscriptions": 20, "messages": 30, "recipe": Recipe(timed=True)}
    made = drawn_from(read(table), **asked)
    assert [*range(170, 200)] == [int(time.timestamp()) for time in made.messages["time"].to_pylist()]
    with pytest.raises(InvalidInput, match="time or ts"):
        drawn_from(read(table.drop_columns(["ts"])), **asked)
    with pytest.raises(InvalidInput, match="time or ts"):
        drawn_from(read(table.drop_columns(["ts"]).append_column("ts", pa.array(range(200)))), **asked)


# --- figures ------------------------------------------------------------------------------------------------------


def tiny(name, specs=("scan",)):
    return figures_of("topk")[name].sized(60, 20, 1.0).with_window(50, 30).with_indexes(specs)


def draw_small(recipe, subscriptions, messages):
    return REACH.applied(generated(kind="topk", subscriptions=subscriptions, messages=messages, recipe=recipe))


#: What stands on the axis at its ends: subscriptions, the window, the name of the data.
ON_THE_AXIS = {"subscriptions": [12, 60], "window": [10, 50], "dissemination": ["generated"]}


@pytest.mark.parametrize("name", list(figures_of("topk")))
def test_a_figure_measures_every_series_at_every_point(name, tmp_path):
    """There is a row for each pair of a series and an end of the axis, with every column that is drawn, and drawn."""
    figure = tiny(name)
    figure = replace(figure, points=figure.points[:: max(1, len(figure.points) - 1)])
    data = FigureData(draw_small)
    rows = list(figure.measure(figure, data, silent))
    assert len(figure.points) * len(figure.series) == len(rows)
    assert len(figure.points) == len({row["x"] for row in rows})
    on_the_axis = list(dict.fromkeys(row["x"] for row in rows))
    assert ON_THE_AXIS.get(name, on_the_axis) == on_the_axis
    assert name != "window" or all(row["x"] == row["window_messages"] for row in rows)
    assert name != "tune-kmax" or "scan:buffer=kmax,kmax=120" in {row["index"] for row in rows}
    for panel in figure.panels:
        assert all(panel.column in row for row in rows)
    assert all(row["us_per_message"] > 0 for row in rows)
    assert "generated" == data.about["source"]
    picture, table = plot.write_figure(figure, rows, "a note", tmp_path, name)
    assert picture.stat().st_size > 10_000
    assert len(rows) + 1 == len(table.read_text().splitlines())


def test_a_figure_of_buffers_gives_each_index_all_of_them():
    """Unless the index names its own."""
    assert [Series(spec, spec) for spec in ("scan:buffer=kmax", "scan:buffer=skyband", "scan:buffer=cskyband")] == tiny(
        "re-evaluation"
    ).series
    assert ["scan:buffer=kmax"] == [each.spec for each in tiny("re-evaluation", ["scan:buffer=kmax"]).series]


@pytest.mark.parametrize("name", list(figures_of("topk")))
def test_the_indexes_of_a_figure_that_exist_match_topk(name):
    """With options that they have."""
    there = {info.name for info in available() if "topk" in info.kinds}
    figure = figures_of("topk")[name]
    for series in figure.series:
        if series.spec.partition(":")[0] in there:
            for point in figure.points:
                create(with_options(series.spec, point.options), Space.plane())


def test_a_figure_of_wrong_answers_is_refused(enter):
    """No row is given for an index that differs."""
    enter("broken", RoundingIndex)
    figure = tiny("k", ["scan", "broken"])
    with pytest.raises(AnswersDiffer, match="no times are reported"):
        list(figure.measure(figure, FigureData(draw_small), silent))


def test_scale_multiplies_subscriptions_window_and_warm_up():
    """What is measured stays as long."""
    figure = figures_of("topk")["k"].sized(None, None, 0.5)
    assert (10_000, 10_000, 10_000, 2_000) == (figure.subscriptions, figure.window, figure.warm_up, figure.messages)


# --- the command --------------------------------------------------------------------------------------------------


def test_bench_topk_of_a_folder(nearcast, tmp_path, wishes):
    """The first messages fill the window, the last are measured."""
    save_workload(wishes, tmp_path / "w")
    file = tmp_path / "report.json"
    given = ("--workload", tmp_path / "w", "--window", 200, "--warm-up", 50, "--messages", 60, "--json", file)
    status, out, err = nearcast("bench", "topk", *given, "--indexes", "scan;scan:buffer=kmax,kmax=40")
    assert (0, "") == (status, err)
    assert 3 * (2 + 2) == sum(line.startswith("|") for line in out.splitlines())
    written = json.loads(file.read_text())
    assert ["scan", "scan:buffer=kmax,kmax=40"] == [row["index"] for row in written["results"]]
    about = written["workload"]
    counts = ("filled_by", "warm_up_messages", "measured_messages", "window_messages")
    assert (290, 50, 60, 200) == tuple(about[name] for name in counts)
    assert about["max_distance"] == about["diameter"]
    assert "--window 200 --warm-up 50 --indexes scan,scan:buffer=kmax,kmax=40" in about["command"]
    assert "AMP" in out
    assert "deliver the same changes" in out


def test_bench_topk_generates_or_draws(nearcast, tmp_path):
    """From a file three quarters of its rows, at most, become messages; a window of time takes those with times."""
    times = pa.array(range(600), pa.timestamp("s"))
    rows = {"text": [f"tea room {n % 40}" for n in range(600)], "lon": [n / 100 for n in range(600)]}
    pq.write_table(pa.table({**rows, "lat": [1.0] * 600, "ts": times}), tmp_path / "venues.parquet")
    file = tmp_path / "report.json"
    source = ("--source", "venues", "--data", tmp_path)
    for given, window, held in (
        (("--window", 150), "150", 150),
        ((*source, "--window", 150), "150", 150),
        ((*source,), "350", 350),
        ((*source, "--window", "200s"), "200s", 200),
        (("--window", "1m"), "1m", None),
    ):
        sizes = ("--subscriptions", 50, "--messages", 40, "--warm-up", 60, "--indexes", "scan", "--json", file)
        status, _, err = nearcast("bench", "topk", *sizes, *given)
        assert (0, "") == (status, err)
        about = json.loads(file.read_text())["workload"]
        assert window == about["window"]
        assert held in (None, about["window_messages"])


def test_all_indexes_of_the_kind_are_timed_unless_named(nearcast, tmp_path):
    """`scan` comes last."""
    file = tmp_path / "report.json"
    status, _, err = nearcast("bench", "topk", *SMALL, "--json", file)
    assert (0, "") == (status, err)
    named = [row["index"] for row in json.loads(file.read_text())["results"]]
    assert {info.name for info in available() if "topk" in info.kinds} == set(named)
    assert "scan" == named[-1]


def test_different_changes_end_the_command_with_status_1(nearcast, enter):
    """No table is printed, and the line says where."""
    enter("broken", ForgetfulIndex)
    status, out, err = nearcast("bench", "topk", *SMALL, "--indexes", "scan,broken")
    assert (1, "") == (status, out)
    assert "no times are reported" in err


def test_bench_topk_draws_a_figure(nearcast, tmp_path):
    """A picture and a table for it, and a table for each panel on stdout."""
    file = tmp_path / "report.json"
    given = ("--figure", "k", "--scale", 0.003, "--messages", 20, "--indexes", "scan", "--out", tmp_path)
    status, out, err = nearcast("bench", "topk", *given, "--json", file)
    assert (0, "") == (status, err)
    assert ["report.json", "topk-k.csv", "topk-k.png"] == sorted(path.name for path in tmp_path.iterdir())
    with (tmp_path / "topk-k.csv").open(newline="") as written:
        rows = list(csv.DictReader(written))
    assert ["10", "20", "30", "40", "50"] == [row["x"] for row in rows]
    assert {("scan", "60", "60", "60", "20")} == {
        tuple(row[name] for name in ("series", "subscriptions", "window", "warm_up", "messages")) for row in rows
    }
    about = json.loads(file.read_text())["workload"]
    assert ("k", 60, 60, "Fig. 16") == tuple(about[name] for name in ("figure", "subscriptions", "window", "paper"))
    assert 4 * (2 + 5) == sum(line.startswith("|") for line in out.splitlines())


def test_a_figure_leaves_out_what_is_not_there(nearcast, tmp_path, enter, monkeypatch):
    """With a line; where nothing is left, it says what could be named."""
    enter("trigger", ScanIndex)
    for name in ("skype", "ciq", "ipt"):
        indexes._registry.pop(name, None)
    monkeypatch.setattr(indexes, "_MODULES", ())
    given = ("--scale", 0.003, "--messages", 20, "--out", tmp_path)
    status, out, err = nearcast("bench", "topk", "--figure", "zipf", *given)
    assert 0 == status
    assert "left out" in err
    assert "skype, ciq" in err
    assert "trigger" in out
    status, out, err = nearcast("bench", "topk", "--figure", "groups", *given)
    assert (2, "") == (status, out)
    assert "--figure groups compares skype" in err


def test_figures_are_listed(nearcast):
    """A line each: name, where it stands in the paper, what it shows."""
    status, out, _ = nearcast("bench", "topk", "--figure", "list")
    assert 0 == status
    assert list(figures_of("topk")) == [line.split()[0] for line in out.splitlines()]


def test_an_interrupted_figure_leaves_no_file(nearcast, tmp_path, monkeypatch):
    """Neither a picture nor a table."""

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(topk, "check_sample", interrupt)
    given = ("--figure", "k", "--scale", 0.003, "--messages", 20, "--indexes", "scan", "--out", tmp_path)
    status, _, _ = nearcast("bench", "topk", *given)
    assert (130, []) == (status, list(tmp_path.iterdir()))


@pytest.mark.parametrize(
    ("arguments", "status", "fragment"),
    [
        (["--indexes", "rtree"], 2, "'rtree'"),
        (["--indexes", ";"], 2, "names none"),
        (["--indexes", "scan;scan"], 2, "twice"),
        (["--indexes", "scan:buffer=none"], 2, "no buffer=none"),
        (["--indexes", "stamp"], 2, "does not match topk subscriptions; choose from"),
        (["--window", "0"], 2, "--window 0"),
        (["--window", "soon"], 2, "--window soon"),
        (["--window", "15m", "--figure", "k"], 2, "give a number of messages"),
        (["--warm-up", "-1"], 2, "--warm-up"),
        (["--messages", "0"], 2, "--messages"),
        (["--source", "no_such_data"], 2, "no_such_data"),
        (["--workload", "w", "--subscriptions", "5"], 2, "whole workload"),
        (["--workload", "no_such_folder"], 1, "no_such_folder"),
        (["--json", "no/such/folder/r.json"], 2, "make it first"),
        (["--max-distance", "0"], 2, "--max-distance 0.0"),
        (["--max-distance", "5", "--max-distance-share", "0.1"], 2, "give one"),
        (["--scale", "2"], 2, "--figure list"),
        (["--figure", "kk"], 2, "choose one of tune-kmax"),
        (["--figure", "k", "--scale", "0"], 2, "--scale 0.0"),
        (["--figure", "k", "--workload", "w"], 2, "leave out --workload"),
        (["--figure", "k", "--out", "no/such/folder"], 2, "make it first"),
    ],
)
def test_mistakes_are_one_line(nearcast, tmp_path, monkeypatch, arguments, status, fragment):
    """What cannot be run is said at once."""
    monkeypatch.chdir(tmp_path)
    usual = () if "--indexes" in arguments else ("--indexes", "scan")
    left, out, err = nearcast("bench", "topk", *arguments, *usual)
    (line,) = err.splitlines()
    assert (status, "") == (left, out)
    assert fragment in line


def test_a_workload_without_topk_rows(nearcast, tmp_path):
    """Boolean and similar ones are refused with a line, and so is one that is too short."""
    for kind, fragment in (
        ("within", "lon and lat, or x and y"),
        ("similar", "is of kind similar, all must be topk"),
        ("topk", "there are 20 messages"),
    ):
        save_workload(generated(kind=kind, subscriptions=10, messages=20), tmp_path / kind)
        given = ("--workload", tmp_path / kind, "--window", 50, "--indexes", "scan")
        status, out, err = nearcast("bench", "topk", *given)
        assert (1, "") == (status, out)
        assert fragment in err


def test_an_index_must_match_topk(enter):
    """The error names those that do."""
    enter("elsewhere", ScanIndex, kinds=("within",))
    with pytest.raises(UsageMistake, match=r"'elsewhere' does not match topk subscriptions; choose from .*scan"):
        split_indexes("scan,elsewhere", "topk")
