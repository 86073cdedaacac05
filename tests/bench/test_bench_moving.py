"""`nearcast bench moving`: what it measures, and that answers are compared before anything is told."""

import csv
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast import Hub, indexes
from nearcast.bench.answers import AnswersDiffer
from nearcast.bench.figures import plot
from nearcast.bench.figures.figure import Point
from nearcast.bench.moving import aims, life, measurement
from nearcast.bench.moving.aims import AimsRequest, run_aims
from nearcast.bench.moving.figures import INDEX_FIGURES
from nearcast.bench.moving.life import LifeLimits, LifeWorld, live_through
from nearcast.bench.moving.life_answers import LifeDigest
from nearcast.bench.moving.measurement import ComparedLives, MovingData, measured, setting_at
from nearcast.bench.moving.settings import MovingSetting, SettingData
from nearcast.indexes import available
from nearcast.live.cells.store import CellLiveStore

FIGURES = {figure.name: figure for figure in INDEX_FIGURES}
NO_LIMITS = LifeLimits(float("inf"), float("inf"))
#: A third of the map is in a region, so that something is told.
TINY = MovingSetting(40, 200, 2, mobility=0.5, speed=4, region_area=0.3)


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """Few repetitions: these tests look at what is measured, not at how long it takes."""
    monkeypatch.setattr(aims, "BESIDE_S", 0.0)
    monkeypatch.setattr(aims, "_SINGLES", 5)
    monkeypatch.setattr(measurement, "gc", SimpleNamespace(collect=lambda: 0))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with taxis, as the shared data has them, and what makes workloads of it."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(1)
    begin = datetime(2026, 5, 1, tzinfo=UTC)
    seconds = np.arange(0, 120, 10)
    table = {
        "obj": np.tile(np.arange(5, dtype=np.int32), len(seconds)),
        "ts": pa.array(np.repeat([begin + timedelta(seconds=int(each)) for each in seconds], 5), pa.timestamp("ms")),
        "lon_e5": rng.integers(-12_250_000, -12_240_000, 5 * len(seconds), dtype=np.int32),
        "lat_e5": rng.integers(3_770_000, 3_780_000, 5 * len(seconds), dtype=np.int32),
    }
    pq.write_table(pa.table(table), folder / "traj_sf_cabs_week.parquet")
    return SettingData([folder])


@pytest.fixture(scope="module")
def world(files):
    return LifeWorld.of(files.workload(TINY))


def silent(_):
    return None


def not_moving(self, before, after, weights, now, difference=CellLiveStore.difference):
    """Return what a store would say if nobody had moved."""
    return difference(self, before, before, weights, now)


# --- lives --------------------------------------------------------------------------------------------------------


def test_a_life_delivers_what_a_hub_does(world):
    """Part by part: the messages of before, then moves and messages of each timestamp."""
    digest = LifeDigest(world.subscriptions.ids)
    times = live_through(world, "trigger", 2, NO_LIMITS, digest)
    workload, names = world.workload, ["subscription_id", "message_id", "change", "score"]
    with Hub("plane", lifetime="expires") as hub:
        hub.subscribe_many(workload.subscriptions)
        told = [[hub.publish_many(workload.messages_before()).to_table()]]
        for at in range(2):
            moved = hub.move_many(workload.moves_at(at)).to_table()
            told.append([moved, hub.publish_many(workload.messages_at(at)).to_table()])
    expected = [pa.concat_tables(each).select(names).to_pylist() for each in told]
    assert expected == [part.sampled.to_pylist() for part in digest.parts]
    assert {"+", "-"} == {row["change"] for part in expected for row in part}
    assert (2, 40, 40) == (times.timestamps, times.n_moves, times.n_messages)
    assert sum(len(part) for part in expected[1:]) == times.n_deliveries


def test_every_part_of_an_engine_has_its_time(world):
    """Nothing that is told apart stays at zero: the names of the methods that are watched are right."""
    times = live_through(world, "trigger", 2, NO_LIMITS)
    assert all(times.seconds[phase] > 0 for phase in ("match", "append", "relocate", "difference", "drop", "other"))
    assert times.n_bytes > 0


def test_some_subscriptions_have_only_their_own_reports(world):
    """What is asked of `scan` is a part of the same life."""
    rows = np.array([3, 8, 20])
    few = world.of_rows(rows)
    assert world.subscriptions.ids.take(pa.array(rows)).equals(few.subscriptions.ids)
    digest = LifeDigest(few.subscriptions.ids)
    live_through(few, "scan:live=scan", 2, NO_LIMITS, digest)
    every = LifeDigest(few.subscriptions.ids)
    live_through(world, "scan:live=scan", 2, NO_LIMITS, every)
    assert [part.sampled.to_pylist() for part in every.parts] == [part.sampled.to_pylist() for part in digest.parts]


def test_a_store_that_tells_less_is_found_out(world, monkeypatch):
    """No time is told of an index whose moves deliver something else than scan's."""
    answers = ComparedLives(world, 2)
    measured(world, "trigger", 2, answers)
    monkeypatch.setattr(CellLiveStore, "difference", not_moving)
    with pytest.raises(AnswersDiffer, match=r"timestamp 0: trigger delivers .* not the .* of scan; no times"):
        measured(world, "trigger", 2, answers)


def test_indexes_are_compared_with_each_other_too(world, monkeypatch):
    """Everything is hashed, not the sample alone."""
    one, two = LifeDigest(), LifeDigest()
    live_through(world, "trigger", 2, NO_LIMITS, one)
    monkeypatch.setattr(CellLiveStore, "difference", not_moving)
    live_through(world, "ap-tree", 1, NO_LIMITS, two)
    with pytest.raises(AnswersDiffer, match=r"timestamp 0: ap-tree delivers .* of trigger; no times"):
        two.must_equal("ap-tree", one, "trigger")


def test_an_index_without_time_has_fewer_timestamps_and_is_compared_on_them(world, monkeypatch):
    """One timestamp is always measured; who comes later is compared with whoever had most."""
    answers = ComparedLives(world, 2)
    monkeypatch.setattr(measurement, "MEASURE_S", -1.0)
    assert 1 == measured(world, "trigger", 2, answers).timestamps
    monkeypatch.setattr(measurement, "MEASURE_S", 1e9)
    assert 2 == measured(world, "trigger", 2, answers).timestamps


def test_an_index_that_takes_too_long_to_fill_is_skipped_with_the_reason(world, monkeypatch):
    """The row says how far it came, and has no times."""
    monkeypatch.setattr(life, "PORTIONS", (50, 50))
    monkeypatch.setattr(measurement, "FILL_S", 0.0)
    times = measured(world, "trigger", 2, ComparedLives(world, 2))
    assert "50 of 200 messages took" in times.skipped
    row = measurement._row(times, TINY)
    assert (None, None, times.skipped) == (row["imm_us"], row["timestamps"], row["skipped"])


# --- figures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_measures_every_series_at_every_point(files, tmp_path, name):
    """There is a row for each pair, with every column that is drawn, and it can be drawn."""
    points = [point if "words" not in point.options else Point(None) for point in FIGURES[name].points]
    figure = FIGURES[name].with_indexes(["trigger"])
    figure = replace(figure, subscriptions=20, messages=30, points=points[:2])
    data = MovingData(TINY, files)
    rows = list(figure.measure(figure, data, silent))
    assert len(figure.points) == len(rows)
    assert all(row["skipped"] is None and row["timestamps"] == 2 for row in rows)
    for panel in figure.panels:
        assert all(row[panel.column] is not None for row in rows)
    assert "synthetic-" in data.about["source"]
    if figure.is_x_log:  # the command draws one with words on its axis
        plot.write_figure(figure, rows, "a note", tmp_path, name)


def test_points_change_the_setting():
    """Each figure varies what its axis says, the others stay."""
    figure = FIGURES["22"]
    found = [setting_at(figure, TINY, point) for point in figure.points]
    assert [(20_000, 20_000, share) for share in (0.1, 0.2, 0.4, 0.6, 0.8)] == [
        (each.subscriptions, each.messages, each.mobility) for each in found
    ]
    larger = [setting_at(FIGURES["25"], TINY, point) for point in FIGURES["25"].points]
    assert [(10_000, 10_000), (50_000, 50_000)] == [(larger[at].subscriptions, larger[at].messages) for at in (0, -1)]
    names = [setting_at(FIGURES["21"], TINY, point).label for point in FIGURES["21"].points]
    assert ["TWEETS-ODB", "TWEETS-SAN", "GN-ODB", "GN-SAN"] == names


def test_other_measuring_functions_get_words_and_places(files):
    """Protocols take columns with the words of both sides, and where all clients are at each timestamp."""
    data = MovingData(TINY, files)
    columns = data.words(7, 11)
    assert (7, 11) == (len(columns.subscriptions), len(columns.messages))
    assert columns.messages.terms.min() >= 0
    times, x, y = data.places(7, 3)
    assert ((3,), (3, 7), (3, 7)) == (times.shape, x.shape, y.shape)
    assert (np.diff(x, axis=0) != 0).any(axis=1).all()


SIZES = ("--subscriptions", 30, "--messages", 40)


def test_a_figure_is_drawn_by_the_command(nearcast, files, tmp_path):
    """The picture, its numbers and the report are written; what is lacking is left out with a line."""
    report = tmp_path / "report.json"
    where = ("--data", files.folders[0], "--out", tmp_path, "--json", report)
    result = nearcast(
        "bench", "moving", "--figure", "21", *SIZES, "--timestamps", 1, *where, "--indexes", "trigger;scan"
    )
    assert 0 == result.status, result.err
    assert "left out, for want of a data file (--data says where they are): msg_boston311, poi_us_venues" in result.err
    with (tmp_path / "moving-21.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [("synthetic-town", "trigger"), ("synthetic-town", "scan")] == [(row["x"], row["series"]) for row in rows]
    assert (tmp_path / "moving-21.png").stat().st_size > 10_000
    written = json.loads(report.read_text())["workload"]
    assert "nearcast bench moving --subscriptions 30 --messages 40 --timestamps 1" in written["command"]
    assert (30, 40, "21") == (written["subscriptions"], written["messages"], written["figure"])


def test_taxis_are_replayed_by_the_command(nearcast, files, tmp_path, monkeypatch):
    """Of the figure's own indexes those that are not registered are left out, with a line."""
    rivals = [each.spec for each in FIGURES["taxis"].series if each.spec != "trigger"]
    available()  # the others first: what is registered later would be there again
    monkeypatch.setattr(
        indexes, "_registry", {name: each for name, each in indexes._registry.items() if name not in rivals}
    )
    where = ("--data", files.folders[0], "--out", tmp_path, "--timestamps", 1)
    result = nearcast("bench", "moving", "--figure", "taxis", "--scale", 0.0015, *where)
    assert 0 == result.status, result.err
    with (tmp_path / "moving-taxis.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [("synthetic-traj_sf_cabs_week", "trigger", "30")] == [
        (row["x"], row["series"], row["subscriptions"]) for row in rows
    ]
    assert all(name in result.err for name in ("left out", *rivals))


def test_moving_figures_are_listed(nearcast):
    """Each has a line: its name, where it is in the paper, what it shows."""
    lines = nearcast("bench", "moving", "--figure", "list").out.splitlines()
    assert [*FIGURES] == [line.split()[0] for line in lines][: len(FIGURES)]


# --- the table ----------------------------------------------------------------------------------------------------


def test_the_table_has_a_row_for_each_aim(nearcast, tmp_path):
    """It is one run of the command, with the data, what was compared, and all figures in the report."""
    report = tmp_path / "report.json"
    result = nearcast("bench", "moving", *SIZES, "--moves", 12, "--batch", 5, "--json", report, "--data", tmp_path)
    assert 0 == result.status, result.err
    assert (
        "Answers: trigger delivers what scan does over 2 timestamps of 30 subscriptions and 40 messages" in result.out
    )
    rows = json.loads(report.read_text())["results"]
    assert all(row["value"] is not None for row in rows)
    for begin in (
        "move_many without a lifetime",
        "index, after 12 moves",
        "publish_many after 12 moves",
        "one by the other",
        "move_many with a lifetime",
        "a timestamp of 30 s: 6 moves, 4 messages",
        "a live message, less 8 a word",
        "hub.move, p50",
        "hub.move, p99",
        "hub.publish beside",
        "move_many of similar, with a lifetime",
        "move_many of topk, 6 over a window of 8",
        "circles of 5 km over 30 live places",
    ):
        assert 1 == sum(row["measure"].startswith(begin) for row in rows), begin
    for row in rows:
        assert f"nearcast: {row['measure']}: {row['value']:,}" in result.err, "told as soon as it was there"


def test_the_table_compares_before_it_measures(files, monkeypatch):
    """A store that tells something else than scan has no table."""
    monkeypatch.setattr(CellLiveStore, "difference", not_moving)
    with pytest.raises(AnswersDiffer, match="no times are reported"):
        run_aims(AimsRequest(TINY, files, "trigger", 10, 5), silent, silent)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--figure", "none"), "there is no such figure; choose one of 19, 20"),
        (("--figure", "taxis"), "--figure taxis needs the data file traj_sf_cabs_week; --data says where it is"),
        (("--figure", "19", "--scale", "0"), "--scale 0.0: give a number above 0"),
        (("--figure", "19", "--batch", "5"), "--moves and --batch are for the table"),
        (("--figure", "19", "--indexes", "skype"), "does not match within subscriptions"),
        (("--figure", "19", "--indexes", "trigger", "--out", "nowhere"), "there is no such folder"),
        (("--scale", "2"), "--scale, --timestamps, --out and --resume are for a --figure"),
            (("--resume",), "--scale, --timestamps, --out and --resume are for a --figure"),
        (("--mobility", "2"), "--mobility 2.0: give a share above 0 and up to 1"),
        (("--roads", "nowhere"), "--roads nowhere: there is none in"),
        (("--source", "nowhere"), "--source nowhere: there is none in"),
        (("--indexes", "trigger;scan"), "the table has one; name one, or a --figure"),
        (("--json", "nowhere/r.json"), "there is no folder nowhere"),
    ],
)
def test_a_mistake_in_moving_is_told_in_one_line(nearcast, tmp_path, options, complaint):
    """The line says what to do."""
    result = nearcast("bench", "moving", *options, "--data", tmp_path)
    assert 2 == result.status
    assert complaint in result.complaint
