"""A durable hub: the folder, its options, and what is there after it was opened again."""

import os
import shutil
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearcast import Circle, Hub, Similar, TopK, Vocabulary, Within
from nearcast.durable import DurableHub
from nearcast.durable.input_log import InputLog
from nearcast.errors import (
    HubStopped,
    IncompatibleStore,
    InvalidInput,
    InvalidMessage,
    InvalidQuery,
    InvalidSubscription,
    StoreUnavailable,
    UnknownSubscription,
)
from support.hub_calls import call_lists, contents_of, one_of_each_kind, outcome, prepared
from support.waiting import run

OPTIONS = {"window": 3, "lifetime": "5s", "max_ahead": "6s", "tell_expiry": True}


def message(number, text="tea", **more):
    return {"id": number, "text": text, "x": 0.0, "y": 0.0, **more}


def left_open(hub, to):
    """Return a copy of the folder of a hub that is still open, as a crash would leave it."""
    shutil.copytree(hub._folder.path, to, ignore=shutil.ignore_patterns("lock"))
    return to


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(calls=call_lists(False), cut=st.integers(0, 12))
def test_it_answers_as_a_hub_in_memory_does_also_after_a_crash(tmp_path_factory, calls, cut):
    """Fed the same calls, with a snapshot anywhere, and opened again from what a crash would leave."""
    folder, memory = tmp_path_factory.mktemp("durable"), Hub("plane", **OPTIONS)
    calls = [("subscribe", each) for each in one_of_each_kind(False)] + calls
    with DurableHub(folder / "hub", "plane", **OPTIONS) as hub:
        for at, call in enumerate(calls):
            method, *arguments = prepared(memory, call)
            expected = outcome(memory, lambda m=method, a=arguments: getattr(memory, m)(*a))
            assert expected == outcome(hub, lambda m=method, a=arguments: getattr(hub, m)(*a))
            if at == cut:
                hub.snapshot()
        assert contents_of(memory) == contents_of(hub)
        with DurableHub.open(left_open(hub, folder / "crashed")) as again:
            assert contents_of(memory) == contents_of(again)


def test_a_new_vocabulary_and_other_options_are_found_again(tmp_path):
    """Also that which the hub was made with, which is no step."""
    vocabulary = Vocabulary()
    vocabulary.learn_tokens([["tea"], ["tea", "ramen"]])
    memory = Hub("plane", vocabulary=vocabulary, window="4s", index="scan")
    with DurableHub(tmp_path / "hub", "plane", vocabulary=vocabulary, window="4s", index="scan") as hub:
        for each in (memory, hub):
            each.subscribe(Similar("s", "tea ramen", (0, 0), threshold=0.2, max_distance=3))
            each.publish(message(1, time="2026-01-01T00:00:00Z"))
    with DurableHub.open(tmp_path / "hub") as again:
        assert contents_of(memory) == contents_of(again)
    with DurableHub(tmp_path / "hub", "plane", vocabulary=vocabulary, window="4s", index="scan"):
        pass
    with pytest.raises(InvalidInput, match=r"vocabulary is .* was made with"):
        DurableHub(tmp_path / "hub", "plane", vocabulary=Vocabulary(), window="4s", index="scan")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"window": 4}, "window is 4, but .* was made with 3"),
        ({"lifetime": None, "tell_expiry": False}, "lifetime is None, but .* was made with 5s"),
        ({"max_ahead": "7s"}, "max_ahead is 7s, but .* was made with 6s"),
        ({"index": "scan"}, "index is 'scan', but .* was made with 'trigger'"),
        ({"space": "earth"}, "space is 'earth', but .* was made with 'plane'"),
    ],
)
def test_options_that_do_not_agree_are_refused_by_name(tmp_path, options, said):
    """The folder stays as it is, and free."""
    DurableHub(tmp_path / "hub", "plane", **OPTIONS).close()
    with pytest.raises(InvalidInput, match=said):
        DurableHub(tmp_path / "hub", **{"space": "plane", **OPTIONS, **options})
    DurableHub(tmp_path / "hub", "plane", **OPTIONS).close()


def test_saved_and_durable_hubs_refuse_each_others_folders(tmp_path):
    """By name, and without touching anything."""
    Hub("plane").save(tmp_path / "saved")
    DurableHub(tmp_path / "durable", "plane").close()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    with pytest.raises(IncompatibleStore, match=r"holds a saved hub; open it with Hub\.open"):
        DurableHub(tmp_path / "saved", "plane")
    with pytest.raises(IncompatibleStore, match=r"holds a durable hub; open it with DurableHub\.open"):
        Hub.open(tmp_path / "durable")
    with pytest.raises(FileExistsError, match=r"holds letter\.txt and no durable hub"):
        DurableHub(tmp_path / "other", "plane")
    with pytest.raises(IncompatibleStore, match="there is no folder"):
        DurableHub.open(tmp_path / "none")
    with pytest.raises(FileExistsError):
        Hub("plane").save(tmp_path / "durable")
    assert 0 == len(Hub.open(tmp_path / "saved"))


def test_a_folder_that_was_not_finished_is_made_again(tmp_path):
    """The head comes last."""
    DurableHub(tmp_path / "hub", "plane").close()
    (tmp_path / "hub" / "durable.json").unlink()
    with DurableHub(tmp_path / "hub", "plane", window=3) as hub:
        hub.subscribe(TopK("k", "tea", (0, 0), k=1, max_distance=3))


def test_a_second_process_is_refused_by_name(tmp_path):
    """And told which one has the folder; a second hub in this one, too."""
    with DurableHub(tmp_path / "hub", "plane"):
        code = "import sys; from nearcast.durable import DurableHub; DurableHub.open(sys.argv[1])"
        found = run([sys.executable, "-c", code, str(tmp_path / "hub")])
        with pytest.raises(StoreUnavailable, match=f"in use by process {os.getpid()}"):
            DurableHub.open(tmp_path / "hub")

    assert f"is in use by process {os.getpid()}; close the hub there first" in found.stderr
    DurableHub.open(tmp_path / "hub").close()


def test_a_closed_hub_takes_no_changes(tmp_path):
    """It says what to do; reading goes on."""
    hub = DurableHub(tmp_path / "hub", "plane")
    hub.subscribe(Within("a", "tea"))
    hub.close()
    hub.close()
    with pytest.raises(HubStopped, match=r"was closed; open it again with DurableHub\.open"):
        hub.publish(message(1))
    assert ["a"] == list(hub)


def test_a_key_is_published_once_also_after_a_crash(tmp_path):
    """A repeat does nothing and says so; another message under the key is refused."""
    hub = DurableHub(tmp_path / "hub", "plane")
    hub.subscribe(Within("a", "tea"))
    assert 1 == len(hub.publish(message(1), key="k"))
    assert 2 == len(hub.publish_many([message(2), message(3)], key="many"))
    with DurableHub.open(left_open(hub, tmp_path / "crashed")) as again:
        for each in (hub, again):
            repeat, many = each.publish(message(1), key="k"), each.publish_many([message(2), message(3)], key="many")
            assert ([], []) == (list(repeat), list(many))
            assert "key 'k' was used for the same messages before; nothing was done" in repeat.rejected.warnings
            assert 3 == each.stats()["published"]
            with pytest.raises(InvalidInput, match="key 'k' was used for other messages"):
                each.publish(message(4), key="k")
            with pytest.raises(InvalidInput, match="key is 7; expected text"):
                each.publish(message(4), key=7)
    hub.close()


def test_an_input_that_raises_is_marked_and_skipped_by_replay(tmp_path):
    """Its key may be used again, and what was refused at once is not in the log."""
    hub = DurableHub(tmp_path / "hub", "plane", max_ahead="6s")
    hub.publish(message(1, time="2026-01-01T00:00:00Z"))
    with pytest.raises(InvalidMessage, match="ahead"):
        hub.publish(message(2, time="2026-01-02T00:00:00Z"), key="k")
    hub.publish(message(3, time="2026-01-01T00:00:01Z"), key="k")
    for wrong, error in (
        (lambda: hub.publish({"id": 4}), InvalidMessage),
        (lambda: hub.subscribe(Within("a", "(tea", Circle(0, 0, 1))), InvalidQuery),
        (lambda: hub.subscribe(TopK("k", "tea", (0, 0), k=1, max_distance=1)), InvalidSubscription),
        (lambda: hub.unsubscribe("nobody"), UnknownSubscription),
        (lambda: hub.move("nobody", (0, 0)), UnknownSubscription),
        (lambda: hub.advance(None), ValueError),
    ):
        with pytest.raises(error):
            wrong()
    assert 3 == hub.stats()["log"]["inputs"]
    left_open(hub, tmp_path / "crashed")
    with DurableHub.open(tmp_path / "crashed") as again:
        assert contents_of(hub) == contents_of(again)
    log = InputLog(tmp_path / "crashed" / "log.db")
    assert [False, True, False] == [row.error is not None for row in log.rows(0)]
    log.close()
    hub.close()


def test_old_inputs_are_dropped_and_a_damaged_snapshot_is_passed_over(tmp_path):
    """Two snapshots are kept, and the log from the older one on."""
    hub = DurableHub(tmp_path / "hub", "plane")
    for number in range(5):
        hub.subscribe(Within(f"s{number}", "tea", Circle(0, 0, number + 1)))
        hub.snapshot()
    expected, log = contents_of(hub), hub.stats()["log"]
    assert (5, 5, 5) == (log["inputs"], log["first_input"], log["snapshot"])
    assert [5, 4] == hub._folder.snapshots()
    hub.close()
    newest = hub._folder.snapshot_path(5)
    next(newest.glob("files-*/ids/*.npy")).write_bytes(b"")
    with DurableHub.open(tmp_path / "hub") as again:
        assert expected == contents_of(again)
    shutil.rmtree(hub._folder.snapshot_path(4))
    with pytest.raises(IncompatibleStore, match=r"log\.db has inputs 5 to 5, and the newest sound snapshot is that"):
        DurableHub.open(tmp_path / "hub")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_leaves_the_log_to_its_parent(tmp_path):
    """Its calls are refused by name; the parent goes on, and the folder is free when the parent closes it."""
    code = """
import os, sys
from nearcast import Within
from nearcast.durable import DurableHub
hub = DurableHub(sys.argv[1], "plane")
hub.subscribe(Within("a", "tea"))
child = os.fork()
if not child:
    try:
        hub.subscribe(Within("b", "tea"))
    except Exception as error:
        sys.exit(0 if "forked" in str(error) and "a" in hub else 1)
    sys.exit(2)
assert os.waitpid(child, 0)[1] == 0
hub.subscribe(Within("c", "tea"))
hub.close()
print(sorted(DurableHub.open(sys.argv[1])))
"""
    found = run([sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "hub")])
    assert "['a', 'c']" == found.stdout.strip(), found.stderr
