"""Saving a hub beside its calls: what is saved is the hub at one moment, whatever happens while it is written."""

import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearcast import Circle, Hub, Within, _saved
from nearcast._saved import write_all
from nearcast.engine.snapshot import save_state
from support.hub_calls import call_lists, contents_of, one_of_each_kind, outcome, prepared
from support.waiting import join, wait_until

INDEXES = ["trigger", "trigger:delta_rows=2,leaf_rows=2,few=1", "scan"]


def make(hub, calls):
    """Make calls, and return what each led to."""
    found = []
    for call in calls:
        method, *arguments = prepared(hub, call)
        found.append(outcome(hub, lambda m=method, a=arguments: getattr(hub, m)(*a)))
    return found


def saved_before(hub, calls, folder):
    """Save a hub, and make calls after it was taken and before anything is written."""

    def take(data):
        about, writes = hub._take(data)
        make(hub, calls)
        return about, writes

    save_state(folder, take)


@pytest.mark.modes
@pytest.mark.parametrize("index", INDEXES[1:])
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_saved_is_the_hub_when_it_was_taken(index, data):
    """All kinds: calls in between are not in it, and it goes on as the hub would have."""
    options = {"index": index, "window": 3, "lifetime": "5s", "tell_expiry": True}
    begin = [("subscribe", each) for each in one_of_each_kind(False)]
    before, between, after = (data.draw(call_lists(False)) for _ in range(3))
    hub, twin = Hub("plane", **options), Hub("plane", **options)
    for each in (hub, twin):
        make(each, begin + before)
        each.poll()
    with tempfile.TemporaryDirectory() as folder:
        saved_before(hub, between, Path(folder, "saved"))
        opened = Hub.open(Path(folder, "saved"), verify=True)
        assert contents_of(twin) == contents_of(opened)
        assert make(twin, after) == make(opened, after)


@pytest.mark.parametrize("index", INDEXES)
def test_many_rows_of_all_forms_are_laid_out_later(index, tmp_path):
    """Segments, deltas, rows that have moved, and polygons; the hub itself goes on."""
    hub = Hub("plane", index=index)
    triangle = {"type": "Polygon", "coordinates": [[(0, 0), (9, 0), (0, 9), (0, 0)]]}
    for number in range(20):
        region = Circle(number, 0, 2) if number % 3 else triangle
        hub.subscribe(Within(f"s{number}", "tea" if number % 2 else "tea OR soup", region))
    for number in (1, 5, 8, 10, 17):
        hub.move(f"s{number}", (number + 1, 1))
    twin = [[each.subscription_id for each in hub.publish(message(x))] for x in range(9)]
    saved_before(hub, [("move", f"s{number}", (0, 0)) for number in range(1, 20)], tmp_path / "saved")

    opened = Hub.open(tmp_path / "saved")
    assert twin == [[each.subscription_id for each in opened.publish(message(x))] for x in range(9)]


def message(x):
    return {"id": x, "text": "tea", "x": float(x), "y": 0.5}


def test_calls_go_on_while_a_hub_is_written(monkeypatch, tmp_path):
    """Writing is held up until they have been made."""
    may_write, is_writing = threading.Event(), threading.Event()

    def slowly(writes):
        is_writing.set()
        may_write.wait()
        write_all(writes)

    monkeypatch.setattr("nearcast.engine.snapshot.write_all", slowly)
    hub = Hub("plane")
    hub.subscribe(Within("a", "tea"))
    saving = threading.Thread(target=hub.save, args=(tmp_path / "saved",))
    saving.start()
    try:
        wait_until(is_writing.is_set, is_alive=saving.is_alive)
        hub.subscribe(Within("b", "tea"))
        assert 2 == len(hub.publish(message(1)))
    finally:
        may_write.set()
    join(saving)

    assert ["a"] == list(Hub.open(tmp_path / "saved"))


def test_a_save_that_is_refused_makes_no_folder(tmp_path):
    """As long as deliveries wait."""
    hub = Hub("plane", window=3)
    hub.publish(message(1))
    hub.subscribe({"id": "k", "kind": "topk", "query": "tea", "x": 0, "y": 0, "k": 1, "max_distance": 9})
    with pytest.raises(ValueError, match="take them with poll"):
        hub.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_writes_are_put_off_only_for_the_thread_that_asked(tmp_path):
    """And only while it does."""
    import numpy as np

    with _saved.writing_later() as writes:
        other = threading.Thread(target=_saved.save_array, args=(tmp_path / "other.npy", np.arange(3)))
        other.start()
        join(other)
        numbers = np.arange(3)
        _saved.save_array(tmp_path / "later.npy", numbers)
        numbers[:] = 9
    assert ["other.npy"] == [each.name for each in tmp_path.iterdir()]
    write_all(writes)
    assert [0, 1, 2] == np.load(tmp_path / "later.npy").tolist()
