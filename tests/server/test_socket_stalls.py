"""WebSockets of clients that do not read: they slow nobody, are closed by name, and miss nothing when they resume."""

import contextlib
import json
import socket
from dataclasses import replace

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from support.http_server import circle, feature, running
from support.waiting import PATIENCE_S, wait_until

#: More than sockets and the client take in of what nobody reads.
MANY, PADDING = 300, "x" * 9_000
PATIENT = {"proxy": None, "ping_interval": None, "open_timeout": PATIENCE_S, "close_timeout": PATIENCE_S}


@pytest.fixture
def server(tmp_path):
    limits = {"stall_seconds": 6_000.0, "body_bytes": 20_000_000}
    with running(tmp_path, send_buffer=65_536, limits=limits) as found:
        yield found


@contextlib.contextmanager
def opened(server, name, cursor="0-0"):
    """Open a socket that takes in little more than it is asked for."""
    host, port = server.url.removeprefix("http://").split(":")
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    own.connect((host, int(port)))
    path = f"ws://{host}:{port}/v1/subscribers/{name}/ws?cursor={cursor}"
    with connect(path, sock=own, max_queue=1, compression=None, **PATIENT) as found:
        yield found


def publish(client, *ids):
    answer = client.post("/v1/messages", json=[feature(each, padding=PADDING) for each in ids])
    assert len(ids) == answer.json()["accepted"], answer.text


def read(found, n):
    return [json.loads(found.recv(PATIENCE_S)) for _ in range(n)]


def read_into(got, found):
    """Read until the socket is closed."""
    while True:
        got += read(found, 1)


def subjects(events):
    return [each["subject"] for each in events]


def test_a_client_that_does_not_read_slows_nobody(server):
    """While it stands still messages are published one by one, and others are told of each as it comes."""
    with server.client() as client:
        for name in ("slow", "quick"):
            client.post("/v1/subscriptions", json=circle(name, subscriber=name))
        wanted = [f"m{number}" for number in range(MANY)]
        publish(client, *wanted)
        with opened(server, "slow") as stalled, opened(server, "quick") as quick:
            assert wanted == subjects(read(quick, MANY))
            for number in range(20):
                publish(client, f"later-{number}")
                assert [f"later-{number}"] == subjects(read(quick, 1))
            assert 0 == server.tenant().metrics.closed.labels("ConsumerTooSlow")._value.get()
            assert 2 == server.tenant().n_streams
            assert server.tenant().metrics.events.labels("ws")._value.get() < 2 * MANY  # most of it was never taken
            assert [*wanted, *(f"later-{number}" for number in range(20))] == subjects(read(stalled, MANY + 20))


def test_a_client_that_stays_away_is_closed_by_name_and_resumes(server):
    """The close says ConsumerTooSlow; from the last event it read, nothing is missing and nothing comes twice."""
    tenant = server.tenant()
    tenant.settings = replace(tenant.settings, limits=replace(tenant.settings.limits, stall_seconds=2.0))
    with server.client() as client:
        client.post("/v1/subscriptions", json=circle("slow", subscriber="slow"))
        wanted = [f"m{number}" for number in range(MANY)]
        publish(client, *wanted)
        got = []
        with opened(server, "slow") as stalled:
            wait_until(lambda: tenant.metrics.closed.labels("ConsumerTooSlow")._value.get() == 1)
            with pytest.raises(ConnectionClosed) as closed:
                read_into(got, stalled)
        assert (1008, "ConsumerTooSlow") == (closed.value.rcvd.code, closed.value.rcvd.reason)
        assert 0 < len(got) < MANY
        with opened(server, "slow", got[-1]["sequence"]) as resumed:
            got += read(resumed, MANY - len(got))
        assert wanted == subjects(got)
        assert MANY == len({each["id"] for each in got})
        wait_until(lambda: tenant.n_streams == 0)
