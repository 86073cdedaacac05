"""Recent messages whose ids are numbers and texts, mixed: an estimate from them counts all."""

import pyarrow as pa
import pytest

from nearcast import Hub

SUBSCRIPTION = {"id": "x", "query": "tea", "lon": 13.4, "lat": 52.5, "radius_m": 800}
SIMILAR = {"id": "x", "kind": "similar", "query": "tea", "lon": 13.4, "lat": 52.5, "max_distance_m": 800}


def message(message_id, text="tea"):
    return {"id": message_id, "text": text, "lon": 13.4, "lat": 52.5, "time": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize("subscription", [SUBSCRIPTION, {**SIMILAR, "threshold": 0.9}], ids=["within", "similar"])
@pytest.mark.parametrize("ids", [[7, "7", 8, "a"], ["a", 7], [1, 2, "3"]])
def test_recent_messages_with_ids_of_both_types_count(ids, subscription):
    """Published one by one, and in tables between them."""
    hub = Hub("earth")
    for each in ids:
        hub.publish(message(each))
    hub.publish_many([message(9), message(10, "milk")])
    hub.publish_many(pa.table({"id": ["p", "q"], "text": ["tea", "tea"], "lon": [13.4, 13.4], "lat": [52.5, 52.5]}))
    for each in ids:
        hub.publish(message(each, "milk"))
    found = hub.estimate(subscription)
    assert (2 * len(ids) + 4, len(ids) + 3, 0) == (found.messages, found.matches, len(found.rejected))
