"""Moves that tell many changes at once: ids of messages are decoded when deliveries are read, as they were then."""

import numpy as np
import pyarrow as pa
import pytest

from nearcast import Circle, Hub, Within

pytestmark = pytest.mark.modes

NOON, LATER, END = "2026-05-01T12:00:00Z", "2026-05-01T12:05:00Z", "2026-05-01T13:00:00Z"


def hub_with(ids, **options):
    """Return a hub where messages with these ids live at one place for ten minutes, and a subscriber at another."""
    hub = Hub("plane", lifetime="10m", **options)
    hub.subscribe(Within("anna", "tea", Circle(100, 0, 1)))
    for kind in (str, int):
        said = [{"id": id_, "text": "tea", "x": 0, "y": 0, "time": NOON} for id_ in ids if isinstance(id_, kind)]
        hub.publish_many(said)
    return hub


@pytest.mark.parametrize("live", ["cells", "scan"])
@pytest.mark.parametrize(
    ("ids", "type_"),
    [
        ([f"m{i}" for i in range(100)], "string"),
        (list(range(-50, 50)), "int64"),
        ([*(f"m{i}" for i in range(50)), *range(50)], "dense_union"),
    ],
    ids=["texts", "integers", "both"],
)
def test_ids_of_many_changes_stay_what_they_were(ids, type_, live):
    """Values and tables name the messages, also when these have died and others took their place."""
    hub = hub_with(ids, live=live)
    came = hub.move("anna", (0, 0), LATER)
    left = hub.move("anna", (100, 0), LATER)
    hub.advance(END)
    hub.publish_many([{"id": f"n{i}", "text": "tea", "x": 0, "y": 0, "time": END} for i in range(3000)])
    hub.subscribe(Within("ben", "tea", Circle(0, 0, 1)))

    assert [("+", id_) for id_ in ids] == [(each.change, each.message_id) for each in came]
    assert [("-", id_) for id_ in ids] == [(each.change, each.message_id) for each in left]
    table = came.to_table(delivery_ids=True)
    assert ids == table["message_id"].to_pylist()
    assert str(table["message_id"].type).startswith(type_)
    assert [each.delivery_id for each in came] == table["delivery_id"].to_pylist()
    assert 100 == len(pa.table(left))


def test_many_changes_of_many_movers_are_in_order():
    """Rows of a table act in order whatever order they are searched in: by step, `-` before `+`, then by arrival."""
    hub = Hub("plane", lifetime="10m")
    n = 90
    hub.subscribe_many([Within(f"s{i}", "tea", Circle(i, 0, 1.5)) for i in range(n)])
    hub.publish_many([{"id": f"m{i}", "text": "tea", "x": float(i), "y": 0, "time": NOON} for i in range(n)])
    goals = np.random.default_rng(3).permutation(n)
    moves = [{"id": f"s{i}", "x": float(goal), "y": 0} for i, goal in enumerate(goals.tolist())]
    told = [(d.subscription_id, d.change, d.message_id) for d in hub.move_many(moves)]
    expected = []
    for i, goal in enumerate(goals.tolist()):
        was, now = ({m for m in range(at - 1, at + 2) if 0 <= m < n} for at in (i, goal))
        expected += [(f"s{i}", "-", f"m{m}") for m in sorted(was - now)]
        expected += [(f"s{i}", "+", f"m{m}") for m in sorted(now - was)]

    assert expected == told
