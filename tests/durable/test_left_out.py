"""An input that stops a durable hub: what the hub says, what opening says, and the way past it."""

import pytest

from nearcast import Circle, Hub, Within
from nearcast.durable import DurableHub, leave_out
from nearcast.errors import HubStopped, IncompatibleStore, InvalidInput
from support.hub_calls import contents_of


def message(number):
    return {"id": number, "text": "tea", "x": 0.0, "y": 0.0}


@pytest.fixture
def poison(monkeypatch):
    """Let message 13 raise what no input should, as a fault of nearcast would."""
    publish = Hub.publish

    def poisoned(self, given):
        if getattr(given, "id", None) == 13:
            raise ZeroDivisionError("a fault")
        return publish(self, given)

    monkeypatch.setattr(Hub, "publish", poisoned)


def test_an_input_that_stops_the_hub_can_be_left_out(poison, tmp_path):
    """It is named when the folder is opened, and then skipped; all others are there, and its key is free."""
    hub = DurableHub(tmp_path / "hub", "plane")
    hub.subscribe(Within("a", "tea", Circle(0, 0, 5)))
    hub.publish(message(1))
    with pytest.raises(HubStopped, match="ZeroDivisionError: a fault"):
        hub.publish(message(13), key="k")
    with pytest.raises(HubStopped):
        hub.publish(message(2))
    expected = contents_of(hub)
    hub.close()
    for _ in range(2):
        with pytest.raises(IncompatibleStore, match=r"input 3 of .* stops the hub .*leave_out\(folder, 3\) opens"):
            DurableHub.open(tmp_path / "hub")
    for wrong in (0, 4):
        with pytest.raises(InvalidInput, match=f"number is {wrong}; expected 1 to 3"):
            leave_out(tmp_path / "hub", wrong)
    leave_out(tmp_path / "hub", 3)
    for _ in range(2):
        with DurableHub.open(tmp_path / "hub") as again:
            assert expected == contents_of(again)
    with DurableHub.open(tmp_path / "hub") as again:
        assert 1 == len(again.publish(message(2), key="k"))


def test_only_what_is_applied_at_opening_can_be_left_out(tmp_path):
    """What a snapshot holds is part of it, and a folder without a hub is refused by name."""
    with DurableHub(tmp_path / "hub", "plane") as hub:
        hub.publish(message(1))
        hub.snapshot()
        hub.publish(message(2))
    with pytest.raises(InvalidInput, match="number is 1; expected 2 to 2"):
        leave_out(tmp_path / "hub", 1)
    with pytest.raises(IncompatibleStore, match="there is no folder"):
        leave_out(tmp_path / "none", 1)
