"""Files past the retention that cannot be dropped, because the disk is full: nothing is counted that is still there."""

import errno

import pytest

from nearcast.durable import DurableHub, Retention
from nearcast.durable.outbox import dropped_counts

SUBSCRIPTION = {"id": "tea", "query": "tea", "lon": 13.4, "lat": 52.5, "radius_m": 800}


def test_what_could_not_be_dropped_is_not_counted(tmp_path, monkeypatch):
    """Neither as dropped, once for each time that it is tried, nor as a gap before events that are all returned."""
    with DurableHub(tmp_path / "hub", "earth", retention=Retention(age=None, bytes=1)) as hub:
        hub.subscribe(SUBSCRIPTION, subscriber="anna")
        hub.publish_many([{"id": number, "text": "tea", "lon": 13.4, "lat": 52.5} for number in range(3)])
        hub._outbox.flush()

        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(dropped_counts, "replace_file", full)
            for _ in range(3):
                with pytest.raises(OSError, match="No space"):
                    hub._outbox.tidy(0)
            assert (0, 0) == tuple(hub.stats()["outbox"][name] for name in ("dropped", "dropped_unacknowledged"))
            assert (3, 0) == (len(hub.events("anna")), hub.events("anna").gap)
        hub._outbox.tidy(0)
        assert (3, 3) == tuple(hub.stats()["outbox"][name] for name in ("dropped", "dropped_unacknowledged"))
        assert (0, 3) == (len(hub.events("anna")), hub.events("anna").gap)
