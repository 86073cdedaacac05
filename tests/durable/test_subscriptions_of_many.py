"""The subscriptions of many subscribers in one call are those of each."""

import numpy as np

from nearcast.durable import DurableHub


def subscription(id_):
    return {"id": id_, "query": "tea", "lon": 1.0, "lat": 2.0, "radius_m": 500.0}


def test_the_subscriptions_of_many_are_those_of_each(tmp_path):
    """However they came and went: in large batches or one by one, replaced by another subscriber, erased, forgotten."""
    random = np.random.default_rng(11)
    with DurableHub(tmp_path / "hub") as hub:
        assert ([], [0, 0]) == listed(hub, ["anna", "ben"])
        for first in (0, 1500):
            hub.subscribe_many(
                [{**subscription(f"s{at}"), "subscriber": f"u{at % 7}"} for at in range(first, first + 1500)]
            )
            check(hub)
            for at in random.integers(0, first + 1500, 30).tolist():
                hub.subscribe(subscription(f"s{at}"), subscriber=f"u{at % 11}")
            check(hub)
            hub.subscribe(subscription(first + 7), subscriber="u3")  # an id of the other kind
            hub.unsubscribe(f"s{first + 100}")
            hub.erase("u5")
            check(hub)


def check(hub):
    names = [f"u{number}" for number in (3, 99, 0, 5, 8, 3, 1, 10)]
    each = [hub.subscriptions_of(name) for name in names]
    assert ([id_ for own in each for id_ in own], [len(own) for own in each]) == listed(hub, names)


def listed(hub, names):
    ids, counts = hub.subscriptions_of_many(names)
    return ids.to_pylist(), counts.tolist()
