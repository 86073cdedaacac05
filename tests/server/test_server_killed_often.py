"""`kill -9` of a server at random moments, with clients of every kind at work and a ledger that is not in the server.

`make test` has twenty kills, one of them in test_server_kills.py; `make test-faults` has NEARCAST_KILLS.
"""

import json
import os
import random
import shutil
import time
from functools import partial

import pytest
from kill_ledger import Acker, Changer, Mover, Publisher, SseReader, WsReader, in_threads
from server_nursery import ServerNursery
from test_server_webhooks import Receiver, receiving

from support.waiting import join, wait_until

#: How many kills there are in `make test-faults`.
MANY = int(os.environ.get("NEARCAST_KILLS") or 0)
SETTINGS = {"limits.free_bytes": 0, "webhooks.allow": "127.0.0.0/8", "hub.beat_seconds": 0.1}


class KilledLife:
    """One data folder, its clients, its streams and the receiver of its webhooks, over any number of kills."""

    def __init__(self, data, nursery, receiver, seed):
        self.data, self._nursery, self._receiver, self.chance = data, nursery, receiver, random.Random(seed)
        self.publishers = [Publisher(f"{seed} {form}", form) for form in ("single", "lines", "arrow")]
        self.mover, self.changer, self.acker = Mover(f"{seed} m"), Changer(f"{seed} c"), Acker(f"{seed} a")
        self.clients = [*self.publishers, self.mover, self.changer, self.acker]
        self.streams = [SseReader("watcher"), SseReader("changer"), WsReader("mover"), WsReader("socket")]
        self._seen = {}
        # So small that snapshots are written between and during kills, or so large that there is none.
        self._settings = {**SETTINGS, "hub.snapshot_bytes": self.chance.choice([20_000, 1 << 28])}

    @property
    def done(self):
        return sum(each.done for each in self.clients)

    def begin(self):
        """Let those who get everything subscribe."""
        server = self._start()
        with server.client() as client:
            sink = {"sink": {"url": self._receiver.url}}
            assert 200 == client.put("/v1/subscribers/hooked", json=sink).status_code
            for name in ("watcher", "socket", "hooked"):
                body = {"id": f"all-{name}", "query": "tea", "subscriber": name}
                assert 201 == client.post("/v1/subscriptions", json=body).status_code
        server.kill()

    def _start(self):
        return self._nursery.start(self.data, **self._settings)

    def live(self):
        """Start a server, check it, let the clients work, and kill it at a random moment; now and then as it starts."""
        server = self._start()
        try:
            if self.chance.randrange(6) == 0:
                time.sleep(self.chance.random() * 0.3)  # no wait for anything: a moment
                return
            with server.client() as reader:
                self.check(reader)
            url = server.url()
            threads, raised = in_threads([partial(each.run, url) for each in (*self.clients, *self.streams)])
            goal = self.done + self.chance.randrange(10, 40)
            wait_until(lambda: self.done >= goal or raised, is_alive=server.is_alive, about=server.said)
            time.sleep(self.chance.random() * 0.02)
            server.kill()
            for thread in threads:
                join(thread)
            assert not raised, raised
        finally:
            server.kill()

    def end(self):
        """Start it once more: what streams and webhooks missed they get now, and nothing else."""
        server = self._start()
        try:
            with server.client() as reader:
                everything = self.check(reader)
                threads, raised = in_threads([partial(each.run, server.url()) for each in self.streams])
                for stream in self.streams:
                    wanted = len(everything[stream.name])
                    wait_until(lambda: raised or len(stream.events) >= wanted, is_alive=server.is_alive)  # noqa: B023
                wanted = {each["id"] for each in everything["hooked"]}
                wait_until(lambda: wanted <= {each["id"] for each in self._hooks()}, is_alive=server.is_alive)
                server.kill()
                for thread in threads:
                    join(thread)
            assert not raised, raised
        finally:
            server.kill()
        for stream in self.streams:
            assert everything[stream.name] == stream.events, f"the stream of {stream.name} has a hole or a repeat"
        self._check_hooks(everything["hooked"])

    def check(self, reader):
        """Compare all that the server has with the ledger; return the events by subscriber."""
        everything = {name: all_events(reader, name) for name in ("watcher", "socket", "hooked", "mover", "changer")}
        for name, events in everything.items():
            ids = [each["id"] for each in events]
            assert len(ids) == len(set(ids)), f"{name} has an event twice"
            before = self._seen.get(name, [])
            assert before == events[: len(before)], f"what {name} was handed is no longer there, or is another"
            self._seen[name] = events
        for stream in self.streams:
            assert everything[stream.name][: len(stream.events)] == stream.events, stream.name
        for name in ("watcher", "socket", "hooked"):
            for publisher in self.publishers:
                publisher.check([each["subject"] for each in everything[name]])
        subjects = [[each["subject"] for each in everything[name]] for name in ("watcher", "socket", "hooked")]
        assert subjects[0] == subjects[1] == subjects[2]
        self.mover.check(reader, everything["mover"])
        self.changer.check(reader, everything["changer"])
        self.acker.check(reader, everything["watcher"])
        self._check_hooks(everything["hooked"])
        return everything

    def _hooks(self):
        """Return the events that webhooks brought whole: a kill may cut one off."""
        came = list(self._receiver.requests)
        return [json.loads(body) for headers, body in came if len(body) == int(headers["content-length"])]

    def _check_hooks(self, events):
        known = {each["id"]: each for each in events}
        came = self._hooks()
        assert all(known[each["id"]] == each for each in came), "a webhook tells of an event that is not there"
        first = list(dict.fromkeys(each["id"] for each in came))
        assert [each["id"] for each in events][: len(first)] == first, "webhooks left one out"


def all_events(client, subscriber):
    """Return all events of a subscriber, read page by page; none were dropped."""
    events, cursor = [], "0-0"
    while True:
        answer = client.get(f"/v1/subscribers/{subscriber}/events", params={"cursor": cursor, "limit": 1000})
        assert 200 == answer.status_code, answer.text
        page = answer.json()
        assert 0 == page["gap"]
        if not page["events"]:
            return events
        events += page["events"]
        cursor = page["cursor"]


def live_through(data, nursery, seed, kills):
    """Let a data folder live through kills."""
    data.mkdir()
    with receiving(Receiver()) as receiver:
        life = KilledLife(data, nursery, receiver, seed)
        life.begin()
        for _ in range(kills):
            life.live()
        life.end()
    return life


@pytest.fixture(autouse=True)
def quiet_receivers(monkeypatch):
    """Let receivers of webhooks say nothing about connections that a kill cut off."""
    monkeypatch.setattr("socketserver.BaseServer.handle_error", lambda *_: None)


@pytest.fixture(scope="module")
def nursery():
    with ServerNursery() as found:
        yield found


@pytest.mark.parametrize(("seed", "kills"), [(1, 10), (5, 9)], ids=["snapshots", "log alone"])
def test_nothing_that_was_answered_is_lost_by_kills(tmp_path, nursery, seed, kills):
    """Messages, changes, moves and acknowledgements are there; events are whole, in order, and equal when repeated."""
    life = live_through(tmp_path / "data", nursery, seed, kills)
    assert all(each.done > 3 for each in life.clients)
    assert all(each.events for each in life.streams)


@pytest.mark.skipif(not MANY, reason="make test-faults")
def test_many_kills(tmp_path, nursery):
    """As above, over and over, each life with a seed of its own."""
    n_kills, seed = 0, 1000
    while n_kills < MANY:
        seed += 1
        life = live_through(tmp_path / str(seed), nursery, seed, min(20, MANY - n_kills))
        n_kills += min(20, MANY - n_kills)
        shutil.rmtree(tmp_path / str(seed))
        print(f"server: life {seed}, {n_kills:,} of {MANY:,} kills, {life.done:,} calls answered", flush=True)  # noqa: T201
