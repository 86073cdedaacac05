"""Deliveries that nobody reads are sorted beside the calls, so that whoever reads at last does not wait for all."""

from nearcast.durable import DurableHub
from support.waiting import wait_until


def test_what_waits_is_sorted_before_somebody_reads(tmp_path):
    """In portions; what is read then is all of it, in order."""
    with DurableHub(tmp_path / "hub", "plane") as hub:
        hub._outbox.sort_rows = 10
        for number in range(5):
            hub.subscribe({"id": number, "query": "tea", "x": 0, "y": 0, "radius": 1}, subscriber="anna")
        for number in range(3):
            hub.publish_many([{"id": f"{number}-{at}", "text": "tea", "x": 0, "y": 0} for at in range(4)])
            wait_until(lambda: hub._outbox._rows_unsorted < 10)
        assert [20, 20, 20] == [len(run) for run in hub._outbox._memory]
        hub.publish({"id": "last", "text": "tea", "x": 0, "y": 0})
        events = hub.events("anna")
        assert 0 == hub._outbox._rows_unsorted
        named = [f"{number}-{at}" for number in range(3) for at in range(4)]
        assert [each for each in [*named, "last"] for _ in range(5)] == [each.message.id for each in events]
        assert sorted(each.cursor for each in events) == [each.cursor for each in events]
