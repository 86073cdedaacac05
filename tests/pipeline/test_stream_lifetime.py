"""Messages that live and subscriptions that move in a stream, without Spark: what a hub tells, step by step."""

from datetime import datetime

import pytest

from nearcast import Hub
from nearcast.columns import microseconds_of
from nearcast.errors import IncompatibleStore
from nearcast.pipeline.batch.router import router_of
from nearcast.pipeline.driver.rebalance import ask
from nearcast.pipeline.worker import tasks
from support.life_streams import KINDS, LivingStream, MovingWorld, check, fed, rows_of, settings_of
from support.streams import moment

#: Every plan on one partition or three, with every kind of window, and expiry told or not: pairs of these.
STREAMS = [
    ("trigger", 1, None, True, False),
    ("trigger", 3, "5s", False, True),
    ("hash", 3, 6, True, False),
    ("location", 3, None, False, True),
    ("prefix", 3, "5s", False, False),
    ("space-first", 4, "5s", True, True),
    ("keyword-first", 4, None, True, False),
]


@pytest.mark.parametrize(("plan", "partitions", "window", "tell_expiry", "earth"), STREAMS)
def test_a_stream_with_a_lifetime_tells_what_a_hub_does(tmp_path, plan, partitions, window, tell_expiry, earth):
    """All kinds, moves, replacements, vocabularies and expiry, with drivers killed between batches and in them."""
    lifetime = "expires" if earth else "5s"
    settings = settings_of(plan, partitions, lifetime, window=window, tell_expiry=tell_expiry, earth=earth)
    check(tmp_path, len(plan) + partitions, settings, batches=5, faults=0.3, reweigh=0.2)


def timed_rows(world, n, ids):
    """Return (name of a file, row) in the order of their times, no two alike."""
    for at in range(n):
        is_message = world.random.random() < 0.5
        row = world.message() if is_message else world.change(ids)
        world.seconds = at
        yield "messages-a" if is_message else "changes-a", row | {"time": moment(world.seconds)}


def test_no_answer_depends_on_where_batches_are_cut(tmp_path):
    """With a lifetime top-k lists, too, are told step by step: nothing is net of a batch."""
    world, ids = MovingWorld(5, kinds=KINDS), list(range(1, 9))
    first = [world.subscription(id_) for id_ in ids]
    rows = list(timed_rows(world, 48, ids))
    oracle = fed(Hub("plane", window="9s", lifetime="9s", tell_expiry=True), first)
    expected = sorted(rows_of(oracle.run(as_files(rows))), key=str)
    assert {"+", "-"} == {row[2] for row in expected if row[4] is None}
    for size in (48, 7):
        folder = tmp_path / str(size)
        folder.mkdir()
        stream = LivingStream(folder, settings_of("trigger", 3, "9s", window="9s", tell_expiry=True), first)
        batches = [as_files(rows[at : at + size]) for at in range(0, len(rows), size)]
        parts = [part for batch, files in enumerate(batches) for part in stream.run(batch, files)[1]]
        assert expected == sorted((row for part in parts for row in part), key=str)


def as_files(rows):
    names = dict.fromkeys(name for name, _ in rows)
    return {name: [row for other, row in rows if other == name] for name in names}


def test_a_beat_of_the_wall_clock_is_a_step_that_tells_what_ends(tmp_path):
    """As `Hub.advance` is; a batch without rows counts it as well."""
    first = [{"id": 1, "query": "tea"}, {"id": 2, "query": "tea", "x": 0.0, "y": 0.0, "radius": 1.0}]
    hub = Hub("plane", lifetime="10s", tell_expiry=True)
    oracle, stream = fed(hub, first), LivingStream(tmp_path, settings_of("trigger", 2, "10s", tell_expiry=True), first)
    row = {"id": 5, "text": "tea", "x": 0.5, "y": 0.0, "time": moment(0)}
    for batch, (files, seconds) in enumerate([({"messages-a": [row]}, 3), ({}, 9), ({}, 10), ({}, 11)]):
        expected = rows_of([*oracle.run(files), *hub.advance(moment(seconds))])
        _, parts = stream.run(batch, files, beat=microseconds_of(datetime.fromisoformat(moment(seconds))))
        assert expected == sorted((row for part in parts for row in part), key=lambda each: each[0])
        assert hub._state.next_step == stream.pipeline.state.manifest.next_step


def test_snapshots_hold_the_messages_that_live(tmp_path):
    """A partition that opens its snapshot, and one that goes on from it, have the same store."""
    world, ids = MovingWorld(9, kinds=KINDS[:2]), list(range(1, 9))
    first = [world.subscription(id_) for id_ in ids]
    oracle, stream = fed(Hub("plane", lifetime="20s"), first), None
    stream = LivingStream(tmp_path, settings_of("trigger", 2, "20s"), first)
    for batch in range(4):
        files = world.batch(8, 6, ids)
        expected = rows_of(oracle.run(files))
        stream.pipeline.snapshot_every = 1 if batch == 2 else None
        if batch == 3:
            stream.start_anew()
        _, parts = stream.run(batch, files)
        assert sorted(expected, key=str) == sorted((row for part in parts for row in part), key=str)


def test_a_rebalance_takes_live_messages_report_times_and_extents_along(tmp_path):
    """After it a late report is late, and a box has the size it was registered with, to the last bit."""
    box = {"x_min": 0.1, "y_min": 0.1, "x_max": 0.4, "y_max": 0.4}
    first = [{"id": 1, "query": "tea"} | box, {"id": 2, "query": "tea", "min_move": 5.0} | box]
    oracle = fed(Hub("plane", lifetime="10m"), first)
    stream = LivingStream(tmp_path, settings_of("trigger", 2, "10m"), first)
    batches = [
        {"messages-a": [{"id": 1, "text": "tea", "x": 90.25, "y": 0.1, "time": moment(0)}]},
        {"changes-a": [move(1, x, 0.25, 10 + at) for at, x in enumerate((1e7 / 3, 1e6 / 7, 3.3))]},
        {"changes-a": [move(1, 90.1, 0.25, 20), move(1, 0.0, 0.0, 11), move(2, 3.0, 0.0, 21), move(2, 90.3, 0.1, 22)]},
        {"changes-a": [move(1, 90.1 + 1e-16, 0.25, 30), move(1, 90.4, 0.25, 31)]},
    ]
    for batch, files in enumerate(batches):
        if batch == 2:
            ask(stream.store, stream.pipeline.state.manifest, "hash", 3)
        expected = rows_of(oracle.run(files))
        report, parts = stream.run(batch, files)
        assert sorted(expected, key=str) == sorted((row for part in parts for row in part), key=str)
        assert (1 if batch == 2 else 0) == report.rejected
    assert extents_in(stream, 1) == oracle.hub._state.movers.extent(oracle.hub._state.slot(1))
    assert 3 == stream.pipeline.settings.partitions


def move(id_, x, y, seconds):
    return {"op": "move", "id": id_, "x": x, "y": y, "time": moment(seconds)}


def extents_in(stream, id_):
    """Return the width and height of the box that a subscription carries, from whichever partition owns it."""
    state = stream.pipeline.state
    for number in range(stream.pipeline.settings.partitions):
        known = tasks._state_of(state.partition_ref(number), router_of(state.plan_ref))
        slot = known.partition.state.ids.slot(id_)
        if slot >= 0:
            return known.partition.state.movers.extent(slot)
    return None


def test_what_comes_too_late_is_rejected_with_the_reason(tmp_path):
    """A message that is over on arrival, a report that is older than the last one, one of nobody."""
    first = [{"id": 1, "query": "tea", "x": 0.0, "y": 0.0, "radius": 2.0}]
    stream, found = LivingStream(tmp_path, settings_of("trigger", 2, "5s"), first), []
    stream.pipeline.on_rejected = found.extend
    stream.run(0, {"changes-a": [move(1, 1.0, 1.0, 60)]})
    stream.run(
        1,
        {
            "messages-a": [{"id": 7, "text": "tea", "x": 0.0, "y": 0.0, "time": moment(50)}],
            "changes-a": [move(1, 2.0, 2.0, 59), move(3, 0.0, 0.0, 61)],
        },
    )
    reasons = {(each.id, each.row): each.reason for each in found}
    assert "reported at 2026-01-01 00:01:00" in reasons["1", 0]
    assert reasons["3", 1] == "there is no subscription 3"
    assert "ended at 2026-01-01 00:00:55+00:00, and event time is 2026-01-01 00:01:00" in reasons[None, 0]


def test_other_lifetimes_are_refused_by_name(tmp_path):
    stream = LivingStream(tmp_path, settings_of("trigger", 1, "5s"), [{"id": 1, "query": "tea"}])
    for lifetime, tell_expiry, said in (("6s", False, "lifetime 5s, not 6s"), ("5s", True, "no tell expiry, not True")):
        stream.settings = settings_of("trigger", 1, lifetime, tell_expiry=tell_expiry)
        with pytest.raises(IncompatibleStore, match=said):
            stream.opened().resume()
