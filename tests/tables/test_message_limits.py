"""Messages that are too long, or expire before they happen, are refused in every way they can come in."""

import pyarrow as pa
import pytest

from nearcast import Hub, Message
from nearcast.errors import InvalidInput, InvalidMessage
from nearcast.geo import Space
from nearcast.tables import Rejected, read_messages
from nearcast.text import Analyzer
from nearcast.text.words import WordTable

SHORT = Analyzer(max_words=4, max_bytes=30)
HERE = {"x": 0, "y": 0}


@pytest.fixture
def hub():
    """A hub of short messages that asks for ramen."""
    hub = Hub("plane", analyzer=SHORT)
    hub.subscribe({"id": "s", "query": "ramen"})
    return hub


LONG = [
    ({"text": "ramen a b c d"}, "text", "the message has 5 words, at most 4 are allowed"),
    ({"text": "ramen", "terms": ["a", "b", "c", "d"]}, "text", "the message has 5 words, at most 4 are allowed"),
    ({"terms": ["ramen"] * 5}, "terms", "the message has 5 words, at most 4 are allowed"),
    ({"text": "ramen " + "ä" * 13}, "text", "the message has 32 bytes of text, at most 30 are allowed"),
    ({"text": "ramen" * 3, "terms": ["ä" * 8]}, "text", "the message has 31 bytes of text, at most 30 are allowed"),
]


@pytest.mark.parametrize(("row", "field", "reason"), LONG)
def test_publish_refuses_a_message_that_is_too_long(hub, row, field, reason):
    """It says how long it is, and how long it may be."""
    with pytest.raises(InvalidMessage, match=reason) as caught:
        hub.publish({"id": 1, **row, **HERE})
    assert field == caught.value.field


@pytest.mark.parametrize(("row", "field", "reason"), LONG)
def test_bulk_rejects_the_row_that_is_too_long(hub, row, field, reason):
    """The others are delivered."""
    names = ["text"] if "text" in row else ["terms"]
    fine = {"text": "ramen"} if names == ["text"] else {"terms": ["ramen"]}
    found = hub.publish_many([{"id": i, **each, **HERE} for i, each in enumerate([fine, row, fine])])
    assert [0, 2] == [delivery.message_id for delivery in found]
    (bad,) = found.rejected
    assert (1, reason) == (bad.row, bad.reason.partition(":")[0])


def test_what_is_just_short_enough_is_delivered(hub):
    """Limits are inclusive, in words and in bytes."""
    texts = ["ramen a b c", "ramen " + "ä" * 12]
    assert [1, 1] == [len(hub.publish({"id": 1, "text": text, **HERE})) for text in texts]
    assert 2 == len(hub.publish_many([{"id": 1, "text": text, **HERE} for text in texts]))


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_text_of_any_type_is_measured(kind):
    """Views and dictionaries, too."""
    table = pa.table({"id": [1, 2], "x": [0, 0], "y": [0, 0], "text": pa.array(["ramen", "ramen" * 9]).cast(kind)})
    rejected = Rejected()
    found = read_messages(table, Space.plane(), WordTable(), SHORT, rejected=rejected)
    assert ([1], [1]) == (found.ids.to_pylist(), [row.row for row in rejected])


def test_limits_unless_given():
    """100,000 words and a million bytes."""
    hub = Hub("plane")
    for text in ("a " * 100_001, "a" * 1_000_001):
        with pytest.raises(InvalidMessage, match=r"the message has 1,?00"):
            hub.publish({"id": 1, "text": text, **HERE})
    assert [] == list(hub.publish({"id": 1, "text": "a " * 100_000, **HERE}))


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, None])
def test_a_limit_is_a_whole_number(limit):
    """Anything else is refused when the analyzer is made."""
    with pytest.raises(InvalidInput, match="max_words is"):
        Analyzer(max_words=limit)


def test_limits_are_saved_with_a_hub(hub, tmp_path):
    """A hub that was opened again refuses what the old one did."""
    hub.save(tmp_path / "saved")
    with pytest.raises(InvalidMessage, match="5 words"):
        Hub.open(tmp_path / "saved").publish({"id": 1, "text": "ramen a b c d", **HERE})


@pytest.mark.parametrize("expires", ["2026-05-01T09:00:00Z", "2026-05-01T08:59:59.999999Z"])
def test_a_message_that_expires_before_it_happens_is_refused(hub, expires):
    """`expires` must lie after `time`; publish raises and publish_many rejects the row."""
    row = {"id": 1, "text": "ramen", **HERE, "time": "2026-05-01T09:00:00Z", "expires": expires}
    with pytest.raises(InvalidMessage, match="not after time") as caught:
        hub.publish(row)
    assert "expires" == caught.value.field
    with pytest.raises(InvalidMessage, match="not after time"):
        Message(1, "ramen", (0, 0), time=row["time"], expires=expires)
    (bad,) = hub.publish_many([row]).rejected
    assert ("expires", True) == (bad.field, "not after time" in bad.reason)
    table = pa.Table.from_pylist([{**row, "id": 1}, {**row, "id": 2, "expires": "2026-05-01T09:00:00.000001Z"}])
    found = hub.publish_many(table)
    assert ([2], [0]) == ([delivery.message_id for delivery in found], [row.row for row in found.rejected])


def test_a_message_without_a_time_may_have_any_end(hub):
    """There is nothing to compare it with."""
    assert 1 == len(hub.publish({"id": 1, "text": "ramen", **HERE, "expires": "1970-01-01T00:00:00Z"}))
