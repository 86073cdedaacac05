"""Values that cannot be had as they were given: attributes that Python cannot hold, keys that cannot be written."""

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from nearcast.durable import DurableHub
from nearcast.errors import InvalidInput

SUBSCRIPTION = {"id": "tea", "query": "tea", "lon": 13.4, "lat": 52.5, "radius_m": 800}
MESSAGE = {"id": 1, "text": "tea", "lon": 13.4, "lat": 52.5}
#: In UTC it is after the year 9999.
LATE = datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))
FAR = pa.array([2**62], pa.timestamp("us", "UTC"))
COLUMNS = {
    "time": FAR,
    "seconds": pa.array([2**62], pa.timestamp("s")),
    "day": pa.array([2**31 - 1], pa.int32()).view(pa.date32()),
    "duration": pa.array([2**62], pa.duration("s")),
    "zone": pa.array([1], pa.timestamp("us", "No/Where")),
    "struct": pa.StructArray.from_arrays([FAR], ["x"]),
    "list": pa.ListArray.from_arrays([0, 1], FAR),
}


def test_a_hub_with_a_message_of_a_far_year_opens_again(tmp_path):
    """It was taken; then it must not keep the folder from being opened."""
    with DurableHub(tmp_path / "hub", "earth") as hub:
        hub.subscribe(SUBSCRIPTION, subscriber="anna")
        assert 1 == len(hub.publish({**MESSAGE, "until": LATE, "since": datetime(2026, 5, 1, tzinfo=UTC)}))
    with DurableHub.open(tmp_path / "hub") as hub:
        (event,) = hub.events("anna")
        assert {"until", "since"} == event.message.attributes.keys()
        assert datetime(2026, 5, 1, tzinfo=UTC) == event.message.attributes["since"]


@pytest.mark.parametrize("name", COLUMNS)
def test_a_value_that_cannot_be_read_takes_no_other_along(tmp_path, name):
    """It is text then; the message and those after it are handed over, with all else they have."""
    column = pa.chunked_array([COLUMNS[name], COLUMNS[name].slice(0, 0)])
    table = pa.table({**{field: [value] for field, value in MESSAGE.items()}, "odd": column, "price": [3]})
    with DurableHub(tmp_path / "hub", "earth") as hub:
        hub.subscribe(SUBSCRIPTION, subscriber="anna")
        assert 1 == len(hub.publish_many(table))
        hub.publish({**MESSAGE, "id": 2})
        first, second = hub.events("anna")
        assert isinstance(first.message.attributes["odd"], str)
        assert (3, 2) == (first.message.attributes["price"], second.message.id)
        assert first.message == hub.kept_message(1)


@pytest.mark.parametrize("key", ["\ud800", "a\udfff"])
def test_a_key_that_cannot_be_written_is_refused(tmp_path, key):
    """And stops nobody else."""
    with DurableHub(tmp_path / "hub", "earth") as hub:
        for call, given in ((hub.publish, MESSAGE), (hub.publish_many, [MESSAGE])):
            with pytest.raises(InvalidInput, match="key is"):
                call(given, key=key)
        assert not hub.is_stopped
        assert len(hub.publish(MESSAGE, key="k").rejected) == 0
