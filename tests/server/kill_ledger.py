"""Clients of a server that is killed again and again, and what each knows of it from outside: the ledger.

A client makes one call after the other. One that a kill left without an answer is made again after the restart, so that
at any time at most the last call of a client may or may not have been made; all else is exact.
"""

import contextlib
import copy
import json
import random
import threading
from dataclasses import dataclass, field

import httpx2
import pyarrow as pa
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from support.http_server import circle, feature
from support.waiting import PATIENCE_S

#: Two places, far apart.
PLACES = ((13.4, 52.5), (20.0, 10.0))
LINES, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"


@dataclass
class Call:
    """A request, the statuses that say it was made, and what its client notes then."""

    method: str
    path: str
    note: object
    statuses: tuple = (200, 201, 202, 204)
    json: object = None
    content: bytes | None = None
    headers: dict = field(default_factory=dict)
    #: Statuses that also say so when it is made again.
    again: tuple = ()

    def made_by(self, client, *, is_again):
        options = {"content": self.content} if self.content is not None else {"json": self.json}
        if self.json is None and self.content is None:
            options = {}
        answer = client.request(self.method, self.path, headers=self.headers, **options)
        allowed = self.statuses + (self.again if is_again else ())
        assert answer.status_code in allowed, f"{self.method} {self.path}: {answer.status_code} {answer.text}"
        return answer


class LedgerClient:
    """Makes calls until the server is gone; `done` counts those that were answered."""

    def __init__(self, seed):
        self.chance, self.done, self.pending = random.Random(seed), 0, None
        self._is_again = False
        self._calls = self.calls()

    def calls(self):
        """Yield calls; the next one is asked for when the one before was answered."""
        raise NotImplementedError

    def run(self, url):
        """Go on until the server is gone."""
        try:
            with httpx2.Client(base_url=url, timeout=PATIENCE_S, trust_env=False) as client:
                self._make_calls(client)
        except httpx2.HTTPError:
            self._is_again = True

    def _make_calls(self, client):
        while True:
            if self.pending is None:
                self.pending, self._is_again = next(self._calls), False
            answer = self.pending.made_by(client, is_again=self._is_again)
            note, self.pending = self.pending.note, None
            note(answer)
            self.done += 1


def published(ids, text, place=PLACES[0], form="single", key=None, note=lambda _: None, **more):
    """Return the call that publishes messages."""
    features = [feature(each, f"tea {text}", *place, **more) for each in ids]
    headers = {} if key is None else {"Idempotency-Key": key}
    if form == "single":
        return Call("POST", "/v1/messages", note, json=features[0], headers=headers)
    if form == "lines":
        content, headers = "\n".join(map(json.dumps, features)).encode(), {**headers, "Content-Type": LINES}
        return Call("POST", "/v1/messages", note, content=content, headers=headers)
    lon, lat = ([at] * len(ids) for at in place)
    table, sink = (
        pa.table({"id": ids, "text": [f"tea {text}"] * len(ids), "lon": lon, "lat": lat}),
        pa.BufferOutputStream(),
    )
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content, headers = sink.getvalue().to_pybytes(), {**headers, "Content-Type": ARROW}
    return Call("POST", "/v1/messages", note, content=content, headers=headers)


class Publisher(LedgerClient):
    """Publishes messages that everybody gets, in one form; every other call has no key.

    `sure` were answered. Those of a call without a key that a kill cut off may be there, and are not published again.
    """

    def __init__(self, seed, form):
        self.form, self.sure, self.unsure, self._number = form, [], set(), 0
        super().__init__(seed)

    def calls(self):
        while True:
            n = 1 if self.form == "single" else self.chance.randrange(1, 8)
            ids = [f"{self.form}-{self._number + at}" for at in range(n)]
            self._number += n
            key = f"key-{ids[0]}" if self.chance.randrange(2) else None
            yield published(
                ids, "for all", form=self.form, key=key, note=lambda answer, ids=ids: self._note(answer, ids)
            )

    def _note(self, answer, ids):
        assert len(ids) == answer.json()["accepted"], answer.text
        self.sure += ids

    def run(self, url):
        if self.pending is not None and "Idempotency-Key" not in self.pending.headers:
            self.unsure |= set(self._under_way())
            self.pending = None
        super().run(url)

    def _under_way(self):
        """Return the ids of the call that has no answer."""
        if self.pending is None:
            return []
        last = int(self.sure[-1].rpartition("-")[2]) if self.sure else -1
        known = {f"{self.form}-{at}" for at in range(last + 1, self._number)}
        return sorted(known - self.unsure)

    def check(self, subjects):
        """Check the subjects of what somebody got who gets everything."""
        own = [each for each in subjects if each.startswith(f"{self.form}-")]
        assert len(own) == len(set(own)), "a message came twice"
        maybe = self.unsure | set(self._under_way())
        assert self.sure == [each for each in own if each not in maybe], "a message that was answered is missing"
        assert set(own) <= set(self.sure) | maybe


class Mover(LedgerClient):
    """Moves its subscriber between two places and publishes at them: it knows what must come."""

    NAME = "mover"

    def __init__(self, seed):
        self.at, self.aim, self.told, self.living, self._number = 0, 0, {}, {}, 0
        super().__init__(seed)

    def calls(self):
        yield Call("PUT", "/v1/subscriptions/moves", _nothing, json=circle("moves", "coffee", subscriber=self.NAME))
        while True:
            self.aim = self.chance.randrange(2)
            lon, lat = PLACES[self.aim]
            if self.chance.randrange(2):
                path, where = f"/v1/subscribers/{self.NAME}/location", {"lon": lon, "lat": lat}
                yield Call("PUT", path, self._arrived, json=where)
            else:
                where = [{"subscriber": self.NAME, "lon": lon, "lat": lat}]
                yield Call("POST", "/v1/locations", self._arrived, json=where)
            for _ in range(self.chance.randrange(3)):
                id_, place, lives = f"coffee-{self._number}", self.chance.randrange(2), self.chance.randrange(4) == 0
                self._number += 1
                more = {"expires": "2999-01-01T00:00:00Z"} if lives else {}
                note = lambda _, id_=id_, place=place, lives=lives: self._came(id_, place, lives=lives)  # noqa: E731
                yield published([id_], "coffee", PLACES[place], key=id_, note=note, **more)

    def _arrived(self, answer):
        found = answer.json()
        assert [] == found.get("stayed", []) + found.get("rejected", []), answer.text
        if self.aim != self.at:
            for id_, place in self.living.items():
                self.told.setdefault(id_, []).append("exit" if place == self.at else "enter")
        self.at = self.aim

    def _came(self, id_, place, *, lives):
        if place == self.at:
            self.told.setdefault(id_, []).append("match")
        if lives:
            self.living[id_] = place

    def check(self, client, events):
        """Check what came, and where the subscription is; a call without an answer was made or was not."""
        if not self.done:  # its subscription may not be there yet
            return
        got = {}
        for event in events:
            got.setdefault(event["subject"], []).append(event["type"].split(".")[1])
        places, told = [self.at], [copy.deepcopy(self.told)]
        if self.pending is not None:
            before = self.at, copy.deepcopy(self.told), dict(self.living)
            self.pending.note(_Answered())
            places.append(self.at)
            told.append(self.told)
            self.at, self.told, self.living = before
        assert got in told, "a move or a message at its place is missing"
        found = client.get("/v1/subscriptions/moves").json()
        assert (found["lon"], found["lat"]) in [PLACES[at] for at in places]


class _Answered:
    """Stands for the answer that a kill took."""

    text = ""

    def json(self):
        return {}


def _nothing(_):
    pass


class Changer(LedgerClient):
    """Makes subscriptions, changes, pauses, ends and deletes them, and publishes what only that one is to get."""

    NAME = "changer"

    def __init__(self, seed):
        self.held, self.told, self._number = {}, [], 0
        self._messages = 0
        super().__init__(seed)

    def calls(self):
        while True:
            self._number += 1
            id_, word = f"c{self._number}", f"word{self._number}"
            url = f"/v1/subscriptions/{id_}"
            kind = self.chance.choice(["patch", "delete", "pause", "end"])
            body = {"id": id_, "query": word, "subscriber": self.NAME, "labels": {"n": word}}
            if kind == "end":
                yield from self._ended(url, {**body, "max_events": 2}, word)
                continue
            yield Call("PUT", url, lambda _, id_=id_, word=word: self._set(id_, word), json=body)
            yield self._message(word, came=True)
            yield from getattr(self, f"_{kind}")(url, id_, word)

    def _patch(self, url, id_, word):
        yield Call("PATCH", url, lambda _: self._set(id_, f"{word}b"), json={"query": f"{word}b"})
        yield self._message(word, came=False)
        yield self._message(f"{word}b", came=True)

    def _delete(self, url, id_, word):
        yield Call("DELETE", url, lambda _: self.held.pop(id_), again=(404,))
        yield self._message(word, came=False)

    def _pause(self, url, id_, word):
        yield Call("POST", f"{url}:pause", lambda _: self._set(id_, word, paused=True))
        yield self._message(word, came=False)
        yield Call("POST", f"{url}:resume", lambda _: self._set(id_, word))
        yield self._message(word, came=True)

    def _ended(self, url, body, word):
        """A subscription that ends after two events; when it is gone is up to the server."""
        yield Call("PUT", url, _nothing, json=body)
        yield self._message(word, came=True)
        yield self._message(word, came=True)
        yield self._message(word, came=False)

    def _set(self, id_, query, *, paused=False):
        self.held[id_] = (query, paused)

    def _message(self, word, *, came):
        self._messages += 1
        id_ = f"change-{self._messages}"
        form = self.chance.choice(["single", "lines", "arrow"])
        return published([id_], word, form=form, key=id_, note=lambda _: self.told.append(id_) if came else None)

    def check(self, client, events):
        """Check what is held and what came; a call without an answer was made or was not."""
        page = client.get("/v1/subscriptions", params={"subscriber": self.NAME, "limit": 1000}).json()
        assert page["next"] is None
        found = {each["id"]: (each["query"], each["paused"]) for each in page["items"] if each["max_events"] is None}
        held, told = [dict(self.held)], [list(self.told)]
        if self.pending is not None:
            self.pending.note(_Answered())
            held.append(self.held)
            told.append(self.told)
            self.held, self.told = dict(held[0]), list(told[0])
        assert found in held, "a change that was answered is missing"
        assert [event["subject"] for event in events] in told, "an event is missing, or came unasked"


class Acker(LedgerClient):
    """Reads what waits for a subscriber and acknowledges it."""

    NAME = "watcher"

    def __init__(self, seed):
        self.acked, self.asked, self.read = "0-0", None, []
        super().__init__(seed)

    def calls(self):
        while True:
            limit = self.chance.randrange(1, 9)
            yield Call("GET", f"/v1/subscribers/{self.NAME}/events?limit={limit}", self._read)
            if self.asked is not None:
                yield Call("POST", f"/v1/subscribers/{self.NAME}/ack", self._acked, json={"cursor": self.asked})

    def _read(self, answer):
        page = answer.json()
        self.read += page["events"]
        self.asked = page["cursor"] if page["events"] else None

    def _acked(self, _):
        self.acked, self.asked = self.asked, None

    def check(self, client, events):
        """Check that acknowledgements are there, and that no event was jumped over or read twice."""
        found = client.get(f"/v1/subscribers/{self.NAME}").json()["acked"]
        assert found in (self.acked, self.asked), "an acknowledgement is missing"
        assert self.read == events[: len(self.read)]


class StreamReader:
    """Reads a stream as long as the server lives, and goes on after its last event in the next life."""

    def __init__(self, name):
        self.name, self.events = name, []

    @property
    def last(self):
        return self.events[-1]["sequence"] if self.events else "0-0"

    def read(self, url):
        """Read until the stream breaks."""
        raise NotImplementedError

    def run(self, url):
        with contextlib.suppress(httpx2.HTTPError, WebSocketException, OSError):
            self.read(url)


class SseReader(StreamReader):
    """A stream of server-sent events."""

    def read(self, url):
        with (
            httpx2.Client(timeout=PATIENCE_S, trust_env=False) as client,
            client.stream(
                "GET", f"{url}/v1/subscribers/{self.name}/stream", headers={"Last-Event-ID": self.last}
            ) as got,
        ):
            assert 200 == got.status_code, got.read()
            data = None
            for line in got.iter_lines():
                if line.startswith("data: "):
                    data = line[len("data: ") :]
                elif not line and data is not None:  # an event is whole when its empty line has come
                    self.events.append(json.loads(data))
                    data = None


class WsReader(StreamReader):
    """A WebSocket, which also acknowledges what it gets."""

    def read(self, url):
        patient = {"proxy": None, "ping_interval": None, "open_timeout": PATIENCE_S, "close_timeout": 0}
        path = f"{url.replace('http', 'ws')}/v1/subscribers/{self.name}/ws?cursor={self.last}"
        with connect(path, **patient) as opened:
            for text in opened:
                event = json.loads(text)
                assert "problem" not in event, text
                if "specversion" in event:
                    self.events.append(event)
                    opened.send(json.dumps({"ack": event["sequence"]}))


def in_threads(functions):
    """Start each function in a thread; return the threads and the list of what they raised."""
    raised = []

    def guarded(function):
        try:
            function()
        except BaseException as error:  # noqa: BLE001  told by whoever joins
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(each,), daemon=True) for each in functions]
    for thread in threads:
        thread.start()
    return threads, raised
