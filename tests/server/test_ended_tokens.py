"""Streams whose token ends while they are open: revoked, or past its time; they end by name, and not by themselves."""

import itertools
import time

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from support.http_server import circle, feature, make_token, running
from support.waiting import PATIENCE_S

SETTINGS = {"server": {"require_tokens": True}, "limits": {"keep_alive_seconds": 0.05}}


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """Run a server that asks for tokens; give it, and a client with one for all."""
    data = tmp_path_factory.mktemp("server")
    token = make_token(data)
    with running(data, **SETTINGS) as server, server.client(token) as admin:
        admin.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))
        yield server, admin


def _token(admin, scopes=("subscribe",)):
    return admin.post("/v1/tokens", json={"scopes": list(scopes)}).json()


def _end(server, admin, token, is_revoked):
    """Revoke a token, or let its time come."""
    if is_revoked:
        assert 204 == admin.delete(f"/v1/tokens/{token['id']}").status_code
        return
    tokens = server.server.app.state.access.tokens
    with tokens._lock:
        tokens._connection.execute("UPDATE tokens SET expires = ? WHERE id = ?", (time.time() - 1, token["id"]))


@pytest.mark.parametrize("is_revoked", [True, False], ids=["revoked", "expired"])
@pytest.mark.parametrize("path", ["/v1/subscribers/anna/stream", "/v1/stream"])
def test_a_stream_ends_with_its_token(secured, path, is_revoked):
    """Whether or not something happens; the same token opens no other."""
    server, admin = secured
    token = _token(admin, ["admin"])
    with server.client(token["token"]) as client, client.stream("GET", path) as answer:
        assert 200 == answer.status_code
        lines = answer.iter_lines()
        next(lines)
        _end(server, admin, token, is_revoked)
        admin.post("/v1/messages", json=feature("m"))
        assert 'data: {"reason":"TokenEnded"}' in list(lines)
    with server.client(token["token"]) as client:
        assert 401 == client.get(path).status_code


def _read_on(admin, socket):
    """Publish messages and read what comes, until the socket is closed."""
    for number in itertools.count():
        admin.post("/v1/messages", json=feature(f"m{number}"))
        socket.recv(PATIENCE_S)


@pytest.mark.parametrize("is_revoked", [True, False], ids=["revoked", "expired"])
def test_a_socket_ends_with_its_token(secured, is_revoked):
    """By the name of the reason, before it hands over anything more."""
    server, admin = secured
    token = _token(admin)
    url = f"ws{server.url.removeprefix('http')}/v1/subscribers/anna/ws"
    headers = {"Authorization": f"Bearer {token['token']}"}
    with connect(url, additional_headers=headers, proxy=None, open_timeout=PATIENCE_S) as socket:
        _end(server, admin, token, is_revoked)
        with pytest.raises(ConnectionClosed) as closed:
            _read_on(admin, socket)
    assert "TokenEnded" == closed.value.rcvd.reason


def test_other_streams_go_on(secured):
    """That of a token that is valid gets what comes after many looks at it."""
    server, admin = secured
    token = _token(admin)
    with server.client(token["token"]) as client, client.stream("GET", "/v1/subscribers/anna/stream") as answer:
        lines = answer.iter_lines()
        for _ in range(5):
            while not next(lines).startswith(": keep-alive"):
                continue
        admin.post("/v1/messages", json=feature("later"))
        while '"subject":"later"' not in next(lines):
            continue
