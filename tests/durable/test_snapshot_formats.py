"""Snapshots that another version wrote: the hub is made anew from a log that was kept, and refused by name without."""

import pytest

from nearcast import Circle, TopK, Within
from nearcast.durable import DurableHub, check
from nearcast.errors import IncompatibleStore, InvalidInput
from nearcast.saved_files.contents import read_signed, signed
from support.hub_calls import contents_of


def of_another_version(folder, **options):
    """Return what a hub held whose snapshots then are those of another version."""
    with DurableHub(folder, "plane", window=2, **options) as hub:
        hub.subscribe(Within("a", "tea", Circle(0, 0, 5)), subscriber="anna")
        hub.subscribe(TopK("k", "tea", (0, 0), k=1, max_distance=3))
        for number in range(4):
            hub.publish({"id": number, "text": "tea", "x": 0.0, "y": 0.0})
            hub.snapshot()
        expected = contents_of(hub), [each.cursor for each in hub.events("anna")]
    for path in folder.glob("snapshots/*/hub.json"):
        path.write_bytes(signed({**read_signed(path.read_bytes(), ""), "format": 1}))
    return expected


def test_a_log_that_was_kept_makes_the_hub_anew(tmp_path):
    """With the same deliveries waiting; the next snapshot is one of this version."""
    expected = of_another_version(tmp_path / "hub", keep_log=True)
    assert check(tmp_path / "hub").is_sound
    with DurableHub.open(tmp_path / "hub") as hub:
        assert expected == (contents_of(hub), [each.cursor for each in hub.events("anna")])
        assert (1, 0) == (hub.stats()["log"]["first_input"], hub.stats()["log"]["snapshot"])
        hub.snapshot()
    assert [6] == check(tmp_path / "hub").snapshots
    with pytest.raises(InvalidInput, match=r"keep_log is False, but .* was made with True"):
        DurableHub(tmp_path / "hub", "plane", window=2)


def test_without_the_log_it_is_refused_with_the_number_of_the_format(tmp_path):
    """And says who can open it; nothing is changed."""
    of_another_version(tmp_path / "hub")
    assert not check(tmp_path / "hub").is_sound
    for _ in range(2):
        with pytest.raises(IncompatibleStore, match=r"with the version that wrote it\. .* has format 1"):
            DurableHub.open(tmp_path / "hub")
