"""Several calls that publish, handed over together: one transaction, and to each its own key and answer."""

import threading
from datetime import UTC, datetime

import pytest

from nearcast.durable import DurableHub, MessagesWanted, writer
from nearcast.errors import HubStopped, InvalidColumns, InvalidInput, NearcastError
from support.held_writer import held_writer
from support.waiting import join, wait_until


def message(number, **more):
    return {"id": number, "text": "tea", "x": 0.0, "y": 0.0, **more}


def wanted(number, key):
    return MessagesWanted([message(number)], key)


@pytest.fixture
def hub(tmp_path):
    with DurableHub(tmp_path / "hub", "plane") as found:
        found.subscribe({"id": "s", "query": "tea", "x": 0.0, "y": 0.0, "radius": 5.0}, subscriber="anna")
        yield found


def test_calls_with_keys_are_one_transaction_and_each_is_known_by_its_key_later(hub, tmp_path):
    """Ten calls share one fsync, in their order, and none of them is made again after a restart."""
    before = hub.stats()["log"]["transactions"]
    under_way = hub.begin_publish_together([wanted(number, f"key {number}") for number in range(10)])
    assert [[number] for number in range(10)] == [[row.message_id for row in each.result()] for each in under_way]
    assert 1 == hub.stats()["log"]["transactions"] - before
    assert list(range(10)) == [each.delivery.message_id for each in hub.events("anna")]
    hub.close()
    with DurableHub.open(tmp_path / "hub") as again:
        found = again.begin_publish_together([wanted(number, f"key {number}") for number in range(10)])
        assert [0] * 10 == [len(each.result()) for each in found]
        assert 10 == len(again.events("anna"))


def test_each_call_of_a_group_fares_as_it_would_alone(hub):
    """A repeat, another message under a used key, no messages at all, a bad row: the others are published."""
    given = [wanted(1, "a"), wanted(1, "a"), wanted(2, "a"), MessagesWanted(7), wanted(3, "zero\0byte")]
    given += [MessagesWanted([message(4), message(5, x="there")], None), wanted(6, "b")]
    first, repeat, other, nothing, key, some, last = hub.begin_publish_together(given)
    assert [1, 0, 1, 1] == [len(each.result()) for each in (first, repeat, some, last)]
    assert "was used for the same" in repeat.result().rejected.warnings[0]
    with pytest.raises(InvalidInput, match="used for other messages"):
        other.result()
    assert (InvalidColumns, InvalidInput) == (type(nothing), type(key))
    assert [1] == [row.row for row in some.result().rejected]
    assert [1, 4, 6] == [each.delivery.message_id for each in hub.events("anna")]


def test_nothing_is_handed_over_to_a_hub_that_was_closed(hub):
    """An empty group is none; a closed hub takes no group."""
    assert [] == hub.begin_publish_together([])
    hub.close()
    with pytest.raises(HubStopped):
        hub.begin_publish_together([wanted(1, None)])


def test_a_repeat_beside_the_call_that_it_repeats_raises_what_that_raised(tmp_path):
    """It would be wrong to say that the messages were published; later the key is free again."""
    with DurableHub(tmp_path / "hub", "plane", max_ahead="1h") as hub:
        hub.publish(message(1, time=datetime(2026, 1, 1, tzinfo=UTC)))
        ahead, errors = message(2, time=datetime(2027, 1, 1, tzinfo=UTC)), []

        def publish():
            try:
                hub.publish(ahead, key="k")
            except NearcastError as error:
                errors.append(error)

        threads = [threading.Thread(target=publish) for _ in range(2)]
        with held_writer(hub):
            for thread in threads:
                thread.start()
            wait_until(lambda: hub._writer.n_waiting == 2)
        for thread in threads:
            join(thread)
        assert 2 == len(errors)
        assert not hub.publish(message(3, time=datetime(2026, 1, 1, tzinfo=UTC)), key="k").rejected.warnings


def test_callers_that_were_answered_together_are_waited_for(hub, monkeypatch):
    """Of two that shared a transaction one calls again: the other comes within a moment, and both share the next."""
    for name in ("_MOMENT_S", "_LONGEST_WAIT_S"):
        monkeypatch.setattr(writer, name, 600.0)
    hub._writer._n_under_way = 2
    before = hub.stats()["log"]["transactions"]
    first = hub.begin_publish_together([wanted(5, None)])[0]
    wait_until(lambda: hub._writer.n_waiting == 0)  # it was taken off the queue
    second = hub.begin_publish_together([wanted(6, None)])[0]
    assert [1, 1] == [len(each.result()) for each in (first, second)]
    assert 1 == hub.stats()["log"]["transactions"] - before
