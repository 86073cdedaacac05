"""Tokens that end with the subscriber they are bound to, and such that would have ended before they were made."""

import threading
import time
from pathlib import Path

import pytest

from nearcast.cli import main
from nearcast.server.erasure import begin_erasure
from nearcast.server.tokens import TokenStore
from support.http_server import circle, feature, make_token, running
from support.waiting import PATIENCE_S, join, wait_until


def _status(server, token):
    with server.client(token) as client:
        return client.get("/v1/subscriptions").status_code


def test_tokens_of_an_erased_subscriber_open_nothing(tmp_path):
    """Those of others, and those of a subscriber of that name in another tenant, do."""
    anna, other = (make_token(tmp_path, scopes=("subscribe",), subscriber=name) for name in ("anna", "ben"))
    elsewhere = make_token(tmp_path, tenant="red", scopes=("subscribe",), subscriber="anna")
    with running(tmp_path) as server, server.client() as client:
        client.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))
        assert 204 == client.delete("/v1/subscribers/anna").status_code
        assert [401, 200, 200] == [_status(server, token) for token in (anna, other, elsewhere)]
        again = make_token(tmp_path, scopes=("subscribe",), subscriber="anna")  # a new one is a new one
        assert 200 == _status(server, again)


def test_a_subscriber_may_erase_itself_and_its_token(tmp_path):
    """The answer comes; the next request is refused."""
    token = make_token(tmp_path, scopes=("subscribe",), subscriber="anna")
    with running(tmp_path) as server, server.client(token) as anna:
        assert 204 == anna.delete("/v1/subscribers/anna").status_code
        assert 401 == anna.delete("/v1/subscribers/anna").status_code


def test_a_crash_in_an_erasure_leaves_no_token(tmp_path):
    """The next start ends those that it finds."""
    token = make_token(tmp_path, scopes=("subscribe",), subscriber="anna")
    with running(tmp_path) as server:
        server.tenant().db.write(begin_erasure("anna")).result()  # as far as it came
        assert 200 == _status(server, token)
    with running(tmp_path) as server:
        assert 401 == _status(server, token)


def test_no_file_has_the_name_of_a_token_that_ended_so(tmp_path):
    """Also not the write-ahead log of the tokens."""
    make_token(tmp_path, scopes=("subscribe",), subscriber="hidden-name")
    with running(tmp_path) as server, server.client() as client:
        client.post("/v1/tokens", json={"scopes": ["subscribe"], "subscriber": "hidden-name"})
        client.delete("/v1/subscribers/hidden-name")
        server.tenant().upkeep.once(time.time() + 10 * 86_400)
        files = [each for each in Path(tmp_path).glob("tokens.db*") if b"hidden" in each.read_bytes()]
        assert [] == files


def test_the_command_makes_no_token_that_has_ended(tmp_path, capsys):
    """One line says so, and nothing is made, not even the folder."""
    data = tmp_path / "data"
    with pytest.raises(SystemExit) as left:
        main(["token", "create", "--scopes", "publish", "--expires", "2001-01-01T00:00:00Z", "--data", str(data)])
    told = capsys.readouterr()
    assert (1, "") == (left.value.code, told.out)
    assert 1 == len(told.err.strip().splitlines())
    assert "in the past" in told.err
    assert not data.exists()


def test_neither_does_the_route(client, server):
    """422 with a pointer."""
    refused = client.post("/v1/tokens", json={"scopes": ["publish"], "expires": "2001-01-01T00:00:00Z"})
    assert (422, "/expires") == (refused.status_code, refused.json()["errors"][0]["pointer"])
    store = TokenStore(server.data / "tokens.db")
    assert [] == store.of_tenant(None)
    store.close()


def test_a_long_wait_hands_nothing_over_when_its_token_has_ended(tmp_path):
    """The event that ends the wait is for whoever may read it then."""
    token = make_token(tmp_path, scopes=("subscribe",), subscriber="anna")
    with (
        running(tmp_path, limits={"wait_seconds": PATIENCE_S}) as server,
        server.client() as admin,
        server.client(token) as anna,
    ):
        anna.post("/v1/subscriptions", json=circle("tea"))
        path, answers = "/v1/subscribers/anna/events", []
        waiting = threading.Thread(
            target=lambda: answers.append(anna.get(path, params={"wait": PATIENCE_S})), daemon=True
        )
        waiting.start()
        wait_until(lambda: "anna" in server.tenant().feeds._waiting, is_alive=waiting.is_alive)
        assert [] == admin.get(path).json()["events"]  # pages are read in order: the first one was empty, too
        (kept,) = admin.get("/v1/tokens").json()["items"]
        assert 204 == admin.delete(f"/v1/tokens/{kept['id']}").status_code
        admin.post("/v1/messages", json=feature("m"))
        join(waiting)
        assert [401] == [each.status_code for each in answers]
