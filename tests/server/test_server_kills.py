"""`kill -9` of a server under load: what was answered with 2xx is there, and no event is missing or made twice."""

import contextlib
import subprocess
import sys
import threading

import httpx2

from support.http_server import circle, feature
from support.waiting import PATIENCE_S, join, wait_until


class ServerProcess:
    """`nearcast serve` in a process of its own, on a port that the system chose."""

    def __init__(self, data):
        command = [sys.executable, "-m", "nearcast", "serve", "--port", "0", "--data", str(data)]
        self.process = subprocess.Popen([*command, "--set", "limits.free_bytes=0"], stderr=subprocess.PIPE, text=True)
        self.lines = []
        self._reader = threading.Thread(target=lambda: self.lines.extend(iter(self.process.stderr.readline, "")))
        self._reader.start()
        listens = wait_until(lambda: [line for line in self.lines if "listens on" in line], is_alive=self.is_alive)
        self.url = listens[0].split()[-1]

    def is_alive(self):
        return self.process.poll() is None

    def client(self):
        return httpx2.Client(base_url=self.url, timeout=PATIENCE_S, trust_env=False)

    def end(self, *, kills):
        (self.process.kill if kills else self.process.terminate)()
        status = self.process.wait(PATIENCE_S)
        join(self._reader)
        self.process.stderr.close()
        return status


def publish_until_killed(client, ledger, todo):
    """Publish messages one by one, each under its key; note those that were answered."""
    with contextlib.suppress(httpx2.HTTPError):
        while todo:
            number = todo[0]
            answer = client.post("/v1/messages", json=feature(f"m{number}"), headers={"Idempotency-Key": f"k{number}"})
            assert 202 == answer.status_code, answer.text
            ledger.append(number)
            todo.pop(0)


def change_until_killed(client, ledger):
    """Make subscriptions, patch and delete them; note the last state that was answered for each."""
    with contextlib.suppress(httpx2.HTTPError):
        for number in range(10_000):
            url = f"/v1/subscriptions/s{number}"
            made = client.put(url, json=circle(f"s{number}", "milk", subscriber="ben", labels={"n": str(number)}))
            assert made.status_code in (200, 201), made.text
            if number % 3 == 0:
                ledger[number] = made.json()
            elif number % 3 == 1:  # until a change is answered, it may have been made or not
                ledger[number] = client.patch(url, json={"query": "coffee"}).json()
            else:
                assert 204 == client.delete(url).status_code
                ledger[number] = None


def test_what_was_answered_is_there_after_a_kill(tmp_path):
    """Of the command with its compiled kernels: messages, subscriptions and events are those of the outside ledger."""
    acked, changed, todo = [], {}, list(range(100_000))
    server = ServerProcess(tmp_path)
    try:
        with server.client() as publisher, server.client() as changer:
            assert 201 == publisher.put("/v1/subscriptions/all", json=circle("all", subscriber="anna")).status_code
            threads = [
                threading.Thread(target=publish_until_killed, args=(publisher, acked, todo)),
                threading.Thread(target=change_until_killed, args=(changer, changed)),
            ]
            for thread in threads:
                thread.start()
            wait_until(lambda: len(acked) >= 25 and len(changed) >= 7, is_alive=server.is_alive)
            server.end(kills=True)
            for thread in threads:
                join(thread)
    finally:
        if server.is_alive():
            server.end(kills=True)
    server = ServerProcess(tmp_path)
    try:
        with server.client() as client:
            for number, wanted in changed.items():
                found = client.get(f"/v1/subscriptions/s{number}")
                assert (404 if wanted is None else 200) == found.status_code, found.text
                assert wanted is None or wanted == found.json()
            events = []
            while page := client.get("/v1/subscribers/anna/events", params=_after(events)).json()["events"]:
                events += page
    finally:
        assert server.end(kills=False) in (0, 143, -15)
    subjects = [event["subject"] for event in events]
    assert len(subjects) == len(set(subjects)) == len({event["id"] for event in events})
    assert subjects[: len(acked)] == [f"m{number}" for number in acked]
    assert len(subjects) <= len(acked) + 1  # the last one may have come in and not been answered


def _after(events):
    return {"cursor": events[-1]["sequence"] if events else "0-0", "limit": 7}
