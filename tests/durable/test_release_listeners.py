"""Listeners that ask for some subscribers: what they hear, whether few or many got something."""

import pytest

from nearcast.durable import DurableHub


def subscription(number):
    return {"id": f"s{number}", "query": "tea", "x": float(number), "y": 0.0, "radius": 0.5, "subscriber": f"u{number}"}


def message(id_, x, x_max=None):
    return {"id": id_, "text": "tea", "x": x, "y": 0.0, "x_max": x if x_max is None else x_max, "y_max": 0.0}


@pytest.fixture
def hub(tmp_path):
    with DurableHub(tmp_path / "hub", "plane") as found:
        found.subscribe_many([subscription(number) for number in range(20)])
        yield found


def told(hub, wanted, messages):
    """Return what a listener is told of messages, of the names that it wants."""
    heard = []
    remove = hub.on_release(lambda names: heard.append(sorted(names)), wanted)
    hub.publish_many(messages)
    hub.snapshot()  # the listeners were called by then
    remove()
    return heard


def test_a_listener_hears_of_those_it_wants_that_got_something(hub):
    """Names that nobody has, that got nothing or were erased are not among them, and without any it is not called."""
    hub.erase("u4")
    everybody = [message(1, 0.0, 30.0)]
    assert [["u2", "u9"]] == told(hub, lambda: ["nobody", "u9", "u4", "u2"], everybody)
    assert [] == told(hub, lambda: ["u3", "nobody"], [message(2, 7.0), message(3, 8.0), message(4, 9.0)])
    assert [] == told(hub, list, everybody)


def test_where_more_are_wanted_than_got_something_all_of_these_are_told(hub):
    """It is less work; a listener picks its own."""
    assert [["u7"]] == told(hub, lambda: ["u1", "u2"], [message(1, 7.0)])
    assert [[f"u{number}" for number in sorted(map(str, range(20)))]] == told(hub, None, [message(2, 0.0, 30.0)])


def test_what_a_listener_wants_may_fail_without_disturbing_others(hub):
    """It is logged, and the next listener hears."""

    def fail():
        raise RuntimeError("wanted")

    hub.on_release(print, fail)
    assert [["u7"]] == told(hub, None, [message(1, 7.0)])
