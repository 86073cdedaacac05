"""Runs of the outbox in memory stay few, however small the reads are; what is dropped meanwhile is no gap in a page."""

import pytest

from nearcast.durable import DurableHub, Retention


def message(number):
    return {"id": number, "text": "tea", "x": 0.0, "y": 0.0}


@pytest.fixture
def hub(tmp_path):
    with DurableHub(tmp_path / "hub", "plane") as found:
        found.subscribe({"id": "anna", "query": "tea"}, subscriber="anna")
        yield found


def test_runs_that_readers_leave_are_merged_by_the_tidier(hub):
    """Where like-sized runs together are too much for a reader, the tidier is called, though the newest are small."""
    outbox = hub._outbox
    outbox.merged_rows = 20
    for number in range(60):
        hub.publish(message(number))
        outbox.runs()
        if outbox.is_untidy(0):
            outbox.tidy(0)
        assert len(outbox._memory) <= 24
    assert list(range(60)) == [event.delivery.message_id for event in hub.events("anna", limit=100)]


def test_a_file_dropped_while_a_page_is_read_is_no_gap_before_it(tmp_path, monkeypatch):
    """A page that still has the rows does not tell that they were dropped."""
    with DurableHub(tmp_path / "hub", "plane", retention=Retention(bytes=1)) as hub:
        hub.subscribe({"id": "anna", "query": "tea"}, subscriber="anna")
        hub.publish(message(1))
        outbox, pages_after = hub._outbox, hub._outbox.pages_after
        outbox.flush()

        def dropped_meanwhile(*arguments):
            found = pages_after(*arguments)
            outbox.tidy(0)
            return found

        monkeypatch.setattr(outbox, "pages_after", dropped_meanwhile)
        page = hub.events("anna")
        assert ([1], 0) == ([event.delivery.message_id for event in page], page.gap)
        monkeypatch.undo()
        page = hub.events("anna")
        assert ([], 1) == (list(page), page.gap)


def test_attributes_nested_deeper_than_arrow_writes_are_text(hub):
    """The log takes them, and so does the event."""
    deep = "leaf"
    for _ in range(80):
        deep = [deep]
    hub.publish_many([message(1) | {"deep": deep}])
    (event,) = hub.events("anna")
    assert event.delivery.message.attributes["deep"].startswith("[[[[")
