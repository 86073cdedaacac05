"""Inputs that pages are read from: decoded once for many pages, and held within bounds."""

import pytest

from nearcast.durable import DurableHub
from nearcast.durable.outbox import kept_messages
from nearcast.durable.outbox.kept_messages import MessageCache

WORDS = ("tea", "milk")


def _message(n):
    return {"id": n, "text": WORDS[n % 2], "lon": 13.4, "lat": 52.5}


@pytest.fixture
def hub(tmp_path):
    with DurableHub(tmp_path / "hub", "earth") as found:
        for word in WORDS:
            found.subscribe({"id": word, "query": word}, subscriber=word)
        yield found


@pytest.fixture
def decoded(monkeypatch):
    """A list that grows by each input that is decoded."""
    calls, decode = [], kept_messages.decoded
    monkeypatch.setattr(kept_messages, "decoded", lambda data, called: (calls.append(called), decode(data, called))[1])
    return calls


def _read(hub, subscriber):
    return [event.message.id for event in hub.events(subscriber)]


def test_an_input_is_decoded_once_for_pages_of_different_messages(hub, decoded):
    """Also when the run that it lay in has become a file in between."""
    for first in (0, 10):
        hub.publish_many([_message(n) for n in range(first, first + 10)])
    assert list(range(0, 20, 2)) == _read(hub, "tea")
    hub._outbox.flush()
    assert list(range(1, 20, 2)) == _read(hub, "milk")
    assert 2 == len(decoded)


@pytest.mark.parametrize(("limit", "value"), [("_MOST_INPUTS", 3), ("_MOST_BYTES", 4_000), ("_LARGEST_BYTES", 10)])
def test_inputs_are_held_within_bounds(hub, decoded, monkeypatch, limit, value):
    """Those that were read longest ago, and large ones, are decoded again; what is read is the same."""
    monkeypatch.setattr(kept_messages, limit, value)
    for n in range(20):
        hub.publish_many([_message(2 * n), _message(2 * n + 1)])
    assert list(range(0, 40, 2)) == _read(hub, "tea")
    assert list(range(1, 40, 2)) == _read(hub, "milk")
    cache = hub._outbox.cache
    held = {"_MOST_INPUTS": len(cache._inputs), "_MOST_BYTES": cache._input_bytes, "_LARGEST_BYTES": cache._input_bytes}
    assert held[limit] <= value
    assert sum(each.nbytes for each in cache._inputs.values()) == cache._input_bytes
    assert len(decoded) > 20


@pytest.mark.parametrize(("together", "read"), [(1, [5, 1, 5]), (8, [5, 4, 2]), (64, [5, 6])])
def test_messages_of_an_input_that_is_read_again_are_read_with_those_around_them(hub, monkeypatch, together, read):
    """So many at a time, but for those that are held; a rejected row between them is nobody's message."""
    sizes, real = [], kept_messages.message_values
    monkeypatch.setattr(kept_messages, "_TOGETHER", together)
    monkeypatch.setattr(kept_messages, "message_values", lambda *given: (sizes.append(len(given[0])), real(*given))[1])
    hub.publish_many([_message(n) if n != 4 else {**_message(n), "lat": 95.0} for n in range(12)])
    assert [0, 2, 6, 8, 10] == _read(hub, "tea")
    assert [1] == [event.message.id for event in hub.events("milk", limit=1)]
    assert [1, 3, 5, 7, 9, 11] == _read(hub, "milk")
    assert read == sizes


def test_messages_that_another_reader_was_quicker_to_read_are_read_all_the_same(hub, monkeypatch):
    """Both look for them in the cache before either has put them there; nobody's events are without their messages."""
    among = MessageCache.among

    def overtaken(cache, arrivals):
        found = among(cache, arrivals)
        monkeypatch.setattr(MessageCache, "among", among)
        assert [1, 3, 5] == _read(hub, "milk")
        return found

    hub.publish_many([_message(n) for n in range(6)])
    assert [0, 2, 4] == _read(hub, "tea")  # their input is decoded from here on
    monkeypatch.setattr(MessageCache, "among", overtaken)

    assert [1, 3, 5] == _read(hub, "milk")
