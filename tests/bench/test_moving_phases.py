"""What of a move is told apart: changing places whenever it is done, building parts of a tree anew, the search."""

from nearcast.bench.moving import life
from nearcast.bench.moving.figures import INDEX_FIGURES
from nearcast.bench.moving.life import LifeLimits, LifeTimes, LifeWorld, _fill, live_through
from nearcast.bench.moving.life_answers import LifeDigest
from nearcast.bench.moving.measurement import MSP_PHASES, _row
from nearcast.bench.moving.protocol_figures import PROTOCOL_FIGURES
from nearcast.bench.moving.settings import MovingSetting, SettingData
from nearcast.cli._bench_figure import _exceptions

SETTING = MovingSetting(30, 60, 2, mobility=0.5, speed=4, region_area=0.01)
NO_LIMITS = LifeLimits(float("inf"), float("inf"))


def test_an_index_that_changes_places_when_it_is_asked_has_the_time_of_it():
    """The questions of the store bring it up to date: neither they nor the next message are charged for that."""
    world = LifeWorld.of(SettingData().workload(SETTING))
    times = live_through(world, "ap+-tree:leaf=2,fan_out=4,share=0", 2, NO_LIMITS)
    assert all(times.seconds[phase] > 0 for phase in (*MSP_PHASES, "match"))
    plain = live_through(world, "trigger", 1, NO_LIMITS)
    assert 0 == plain.seconds["rebuild"]


def test_a_report_takes_all_of_its_parts():
    """MSP is location update, rebuilds and search."""
    times = LifeTimes(timestamps=2, n_moves=4, n_messages=4)
    times.seconds |= {"relocate": 1e-6, "rebuild": 2e-6, "difference": 5e-6, "match": 7e-6, "append": 1e-6}
    row = _row(times, SETTING)
    assert (0.25, 0.5, 1.25, 2.0, 2.0) == tuple(
        row[name] for name in ("slu_us", "rebuild_us", "difference_us", "msp_us", "imm_us")
    )


def test_what_took_too_long_is_estimated(monkeypatch):
    """The reason says what all messages would have taken, from those that were matched."""
    monkeypatch.setattr(life, "PORTIONS", (40, 40))
    world = LifeWorld.of(SettingData().workload(MovingSetting(20, 90, 1)))
    state = world.new_state("trigger")
    reason = _fill(world, state, LifeLimits(0.0, 0.0), LifeDigest())
    assert reason is not None
    assert "40 of 90 messages took" in reason
    assert "s are expected for all; the limit is 0 s" in reason
    state.index.close()


def test_points_of_fewer_messages_are_not_told_to_lack_time():
    """Figure 25 has a number of messages for each point; only timestamps are left out for want of time."""
    rows = [
        {"series": "a", "index": "a", "x": x, "messages": n, "timestamps": t, "skipped": None}
        for x, n, t in ((0.5, 40, 5), (1, 80, 3))
    ]
    report = {"workload": {"messages": 80, "timestamps": 5}, "results": rows}
    assert ["Fewer timestamps, for want of time: a at 1, 3 of 5."] == _exceptions(report)


def test_every_figure_says_its_budget():
    """What a point may take is part of what is printed."""
    for figure in (*INDEX_FIGURES, *PROTOCOL_FIGURES):
        assert " s " in figure.budget
        assert "skipped with an estimate" in figure.budget
