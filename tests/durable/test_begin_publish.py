"""Publishing without waiting: the same as `publish_many`, told when it is done."""

import threading

import pytest

from nearcast.durable import DurableHub
from nearcast.errors import HubStopped, InvalidColumns
from support.held_writer import held_writer
from support.waiting import PATIENCE_S


@pytest.fixture
def hub(tmp_path):
    with DurableHub(tmp_path / "hub", "plane") as found:
        found.subscribe({"id": "s", "query": "tea", "x": 0.0, "y": 0.0, "radius": 5.0}, subscriber="anna")
        yield found


def message(number, **more):
    return {"id": number, "text": "tea", "x": 0.0, "y": 0.0, **more}


def test_messages_handed_over_are_published_when_the_writer_comes_to_them(hub):
    """Calls that wait together keep their order, and each has its own deliveries and rejected rows."""
    told = threading.Event()
    with held_writer(hub):
        first = hub.begin_publish([message(1), message(2, x="there")])
        second = hub.begin_publish([message(3)])
        second.on_done(told.set)
        assert not first.answer.done()
        assert not told.is_set()
    assert told.wait(PATIENCE_S)
    assert [1] == [each.message_id for each in first.result()]
    assert [1] == [row.row for row in first.result().rejected]
    assert [3] == [each.message_id for each in second.result()]
    assert [1, 3] == [each.delivery.message_id for each in hub.events("anna")]


def test_a_key_that_was_used_is_told_by_the_result(hub):
    """As by `publish_many`: nothing is delivered, and a warning says why."""
    under_way = [hub.begin_publish([message(1)], key="k") for _ in range(2)]
    assert [1, 0] == [len(each.result()) for each in under_way]
    assert "was used" in under_way[1].result().rejected.warnings[0]


def test_what_cannot_be_published_is_raised_at_once_or_by_the_result(hub):
    """What can be told without the hub, and what its state decides."""
    with pytest.raises(InvalidColumns):
        hub.begin_publish(7)
    hub.close()
    with pytest.raises(HubStopped):
        hub.begin_publish([message(1)])
