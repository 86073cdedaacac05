"""`nearcast bench`: that the right things are measured and wrong answers are found; never how long they take."""

import io
import json
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from nearcast.bench import churn, hubs, report, run
from nearcast.bench.run import AnswersDiffer, encoded, measure, run_boolean, scan_sample
from nearcast.bench.workloads import Workload, generated, save_workload
from nearcast.cli import _console, main
from nearcast.cli.bench import split_indexes
from nearcast.errors import InvalidColumns, UnknownIndex
from nearcast.indexes import Matches
from nearcast.indexes.scan import ScanIndex

FIGURES = [
    "index",
    "build_s",
    "bytes_per_subscription",
    "us_per_message",
    "p50_us",
    "p99_us",
    "matches_per_message",
    "candidates_per_message",
    "verified_per_message",
    "inserts_per_s",
    "removes_per_s",
]


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """Few repetitions: these tests look at what is measured, not at how long it takes."""
    monkeypatch.setattr(run, "CHANGE_BATCHES", 3)
    monkeypatch.setattr(hubs, "SINGLES", 50)
    monkeypatch.setattr(churn, "TURN_S", 0.05)
    monkeypatch.setattr(churn, "TURNS", 1)
    monkeypatch.setattr(_console, "_EVERY_S", float("inf"))


@pytest.fixture
def nearcast(capsys):
    before = signal.getsignal(signal.SIGTERM)

    def command(*arguments):
        with pytest.raises(SystemExit) as left:
            main([str(each) for each in arguments])
        return left.value.code, *capsys.readouterr()

    yield command
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def workload():
    return generated(subscriptions=3000, messages=120)


def silent(_):
    pass


class ForgetfulIndex(ScanIndex):
    """Loses the last match of every message that has one."""

    def match(self, messages, *, threads=1):
        found = super().match(messages, threads=threads)
        last = np.maximum(found.start[1:][np.diff(found.start) > 0] - 1, 0)
        slots = np.delete(found.slots, last)
        count = np.diff(found.start) - (np.diff(found.start) > 0)
        return Matches(np.concatenate([[0], np.cumsum(count)]), slots, np.ones(len(slots)))


def test_results_are_the_named_indexes_in_order_with_all_figures(workload):
    """Exactly what was asked for, in the order asked for."""
    for specs in (["scan", "trigger"], ["trigger:few=2,leaf_rows=100", "scan"], ["trigger"]):
        results = run_boolean(workload, specs, say=silent)["results"]
        assert specs == [row["index"] for row in results]
        assert all(FIGURES == list(row) for row in results)


def test_figures_are_plausible(workload):
    """Both indexes match alike, `scan` looks at every subscription, and nothing takes no time."""
    ours, scan = run_boolean(workload, ["trigger", "scan"], say=silent)["results"]
    assert ours["matches_per_message"] == scan["matches_per_message"] > 0
    assert 3000 == scan["candidates_per_message"]
    assert ours["verified_per_message"] <= ours["candidates_per_message"] < 3000
    assert all(row[name] > 0 for row in (ours, scan) for name in ("us_per_message", "p50_us", "inserts_per_s"))
    assert all(row["p50_us"] <= row["p99_us"] for row in (ours, scan))


def test_report_tells_workload_machine_hub_and_passes(workload):
    """A reader can tell what was measured, on what, and repeat it."""
    made = run_boolean(workload, ["trigger"], command="nearcast bench boolean", say=silent)
    assert ["workload", "machine", "results", "hub"] == list(made)
    about = made["workload"]
    assert (3000, 120, 1, "plane") == tuple(about[name] for name in ("subscriptions", "messages", "seed", "space"))
    assert min(about["passes_us"]["trigger"]) == made["results"][0]["us_per_message"]
    assert {"trigger": 120} == about["timed_messages"]
    assert {"cpu", "cores", "python", "numba"} <= set(made["machine"])
    assert all(made["hub"][name] > 0 for name in made["hub"] if name != "index")
    json.dumps(made)


def test_churn_reports_both_sides_and_the_rate(workload):
    """Matching under change is told against quiet matching."""
    made = run_boolean(workload, ["trigger"], churn=True, say=silent)["churn"]
    assert ["index", "quiet_us_per_message", "churn_us_per_message", "ratio", "rate"] == list(made)
    assert made["rate"] > 0


def test_churn_leaves_what_is_held_unchanged(workload):
    """Subscriptions are removed and inserted anew: matching finds as many as before."""
    columns = encoded(workload)
    index = ScanIndex(columns.space)
    slots = index.insert(columns.subscriptions)
    before = index.match(columns.messages)
    changes = churn.Changes(index, columns.subscriptions, slots)
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
    changes = churn.Changes(index, columns.subscriptions, index.insert(columns.subscriptions))
    for at, expected in ((7.0, 0), (7.005, 100), (8.0, 10_000), (8.0, 10_000)):
        monkeypatch.setattr(churn.time, "perf_counter", lambda at=at: at)
        changes.make_those_due()
        assert expected == changes.made


def test_wrong_answers_are_found_before_any_time_is_told(workload, monkeypatch):
    """An index that loses a match ends the run with an error that shows where."""
    make = run.create
    monkeypatch.setattr(
        run, "create", lambda spec, space: ForgetfulIndex(space) if spec == "trigger" else make(spec, space)
    )
    with pytest.raises(AnswersDiffer, match=r"message \d+: trigger gives \d+ slots and scan \d+ .*no times"):
        measure(encoded(workload), ["trigger"], silent)


def test_answers_are_compared_beyond_the_sample(workload, monkeypatch):
    """Two indexes that agree with `scan` on the sample must still agree with each other on every message."""
    make = run.create

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

    monkeypatch.setattr(run, "scan_sample", lambda *_: np.arange(3))
    monkeypatch.setattr(
        run, "create", lambda spec, space: Unlucky(space) if spec == "trigger:few=2" else make(spec, space)
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
    assert ["trigger:few=4,leaf_rows=2000", "scan"] == split_indexes("trigger:few=4,leaf_rows=2000,scan")
    with pytest.raises(UnknownIndex):
        split_indexes("trigger,rtree")


def test_tables_in_a_pipe_are_markdown(workload):
    """A report can be pasted into a document."""
    made = run_boolean(workload, ["trigger", "scan"], churn=True, command="the command", say=silent)
    console = Console(file=io.StringIO(), width=200)
    report.print_report(made, console)
    lines = console.file.getvalue().splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert 4 + 3 + 3 == len(rows)
    assert all(line.endswith("|") for line in rows)
    assert "Command: the command" in lines


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
def test_mistakes_are_one_line(nearcast, tmp_path, monkeypatch, arguments, status, fragment):
    """What cannot be run is said at once."""
    monkeypatch.chdir(tmp_path)
    left, out, err = nearcast("bench", "boolean", *arguments)
    (line,) = err.splitlines()
    assert (status, "") == (left, out)
    assert fragment in line


def test_different_answers_end_the_command_with_status_1(nearcast, monkeypatch):
    """No table is printed, and the line says why."""
    make = run.create
    monkeypatch.setattr(
        run, "create", lambda spec, space: ForgetfulIndex(space) if spec == "trigger" else make(spec, space)
    )
    status, out, err = nearcast("bench", "boolean", "--subscriptions", 3000, "--messages", 120)
    assert (1, "") == (status, out)
    assert "no times are reported" in err
