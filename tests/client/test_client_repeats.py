"""Calls whose answer was lost on the way and that are made again, and refusals that are told as what they are."""

import asyncio
import socket
from contextlib import contextmanager

import httpx2
import pytest

from nearcast import AsyncClient, Client
from nearcast.client import ServerProblem, ServerUnavailable
from nearcast.client.problems import unavailable
from nearcast.client.retries import Retrying
from support.http_handler import QuietHandler, served
from support.http_server import circle, feature, make_token, running
from support.waiting import PATIENCE_S


@contextmanager
def losing(url, instead=None):
    """Run a proxy before a server that loses its first answer: after the request was done, the connection breaks.

    With a status `instead`, that is answered.
    """
    seen = []

    class Handler(QuietHandler):
        def do_POST(self):  # noqa: N802  the name is that of the library
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            options = {"content": self.body(), "headers": headers, "timeout": PATIENCE_S, "trust_env": False}
            answer = httpx2.request(self.command, url + self.path, **options)
            seen.append(answer.status_code)
            if len(seen) == 1 and instead is not None:
                self.answer(instead, "text/html", b"<h1>no answer of the server</h1>")
            elif len(seen) == 1:
                self.hang_up()
            else:
                self.answer(answer.status_code, answer.headers.get("content-type", "text/plain"), answer.content)

        do_DELETE = do_POST  # noqa: N815  the name is that of the library

    with served(Handler) as proxy:
        yield proxy, seen


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Run a server that asks for tokens."""
    data = tmp_path_factory.mktemp("repeats") / "data"
    make_token(data)
    with running(data, server={"require_tokens": True}) as found:
        yield found


def test_a_subscriber_that_erases_itself_and_does_not_hear_of_it(server):
    """Its token went with it, so that the repeat is refused; the erasure was made all the same."""
    token = make_token(server.data, scopes=("subscribe",), subscriber="anna")
    with losing(server.url) as (url, seen), Client(url, token) as client:
        assert client.erase("anna") is None
        assert [204, 401] == seen
        with pytest.raises(ServerProblem, match="401"):
            client.erase("anna")


def test_the_same_of_an_async_client(server):
    """Awaited."""
    token = make_token(server.data, scopes=("subscribe",), subscriber="ben")

    async def act(url):
        async with AsyncClient(url, token) as client:
            await client.erase("ben")

    with losing(server.url) as (url, seen):
        asyncio.run(act(url))
        assert [204, 401] == seen


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_deletion_whose_answer_a_proxy_lost(server, status):
    """The repeat finds nothing: what was to be deleted is deleted, or went with the token. It is no error."""
    name = f"eve-{status}"
    token = make_token(server.data, scopes=("subscribe",), subscriber=name)
    with Client(server.url, token) as client:
        client.subscribe(circle(name))
    with losing(server.url, status) as (url, seen), Client(url, token) as client:
        assert client.unsubscribe(name) is None
        assert [204, 404] == seen
    if status == 503:  # a proxy says it where it reached nobody, and a token that is refused then may be a wrong one
        return
    with losing(server.url, status) as (url, seen), Client(url, token) as client:
        assert client.erase(name) is None
        assert [204, 401] == seen


def test_a_token_that_is_refused_after_a_server_that_was_off(server):
    """Nothing says that the subscriber was erased."""
    retrying = Retrying(60.0)
    retrying.pause_s(ServerProblem(503, "", "", [], None))
    assert (True, False) == (retrying.is_unsure, retrying.may_have_ended_token)
    retrying.pause_s(ServerProblem(503, "", "", [], None, "hub-stopped"))
    assert retrying.may_have_ended_token
    token = make_token(server.data, scopes=("subscribe",), subscriber="gil")
    with losing(server.url, 503) as (url, _), Client(url, token) as client, pytest.raises(ServerProblem, match="401"):
        client.erase("gil")


def test_the_same_of_an_async_client_behind_a_proxy(server):
    """Awaited."""
    with Client(server.url, make_token(server.data)) as client:
        client.subscribe(circle("fay"))

    async def act(url):
        async with AsyncClient(url, make_token(server.data)) as client:
            await client.unsubscribe("fay")

    with losing(server.url, 502) as (url, seen):
        asyncio.run(act(url))
        assert [204, 404] == seen


@pytest.mark.parametrize("status", [429, 507])
def test_a_refusal_of_the_server_itself_did_nothing(status):
    """A repeat that finds nothing then found nothing to delete."""
    retrying = Retrying(60.0)
    retrying.pause_s(ServerProblem(status, "", "", [], None))
    assert not retrying.is_unsure


def test_a_call_that_was_never_sent_was_not_made():
    """Where nobody listened nothing was erased, and a token that is refused then is a wrong one."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with Client(url, retry_for=0) as client, pytest.raises(ServerUnavailable) as caught:
            client.erase("anna")
    retrying = Retrying(60.0)
    retrying.pause_s(caught.value)
    assert not retrying.is_unsure
    retrying.pause_s(unavailable(url, httpx2.ReadError("broken")))
    assert retrying.is_unsure


def test_a_backup_whose_answer_was_lost(server):
    """It is there once, and the call succeeds; under its name no other is made."""
    with losing(server.url) as (url, seen), Client(url, make_token(server.data)) as client:
        client.backup("monday")
        assert [201, 201] == seen
        with pytest.raises(ServerProblem, match="409") as caught:
            client.backup("monday")
        assert "backup-exists" == caught.value.slug


def test_a_message_that_is_not_kept_is_none_and_a_wrong_address_is_not(server):
    """Any other 404 says that the client speaks with something else."""
    token = make_token(server.data)
    with Client(server.url, token) as client:
        client.publish(feature("kept"))
        assert client.kept_message("nobody") is None
    with Client(f"{server.url}/elsewhere", token) as client, pytest.raises(ServerProblem, match="404"):
        client.kept_message("kept")


def test_moving_what_is_anothers(server):
    """A token that is bound to a subscriber may not: 403, as of other calls; what is not there is 404."""
    with Client(server.url, make_token(server.data)) as admin:
        admin.subscribe(circle("cleos"), subscriber="cleo")
        with pytest.raises(ServerProblem) as unknown:
            admin.move("nobody", (1, 2))
    token = make_token(server.data, scopes=("subscribe", "location"), subscriber="dora")
    with Client(server.url, token) as client:
        with pytest.raises(ServerProblem, match="bound to another") as caught:
            client.move("cleos", (1, 2))
        (row,) = client.move_many([{"id": "cleos", "lon": 1, "lat": 2}]).rejected
    assert (404, 403, "other-subscriber") == (unknown.value.status, caught.value.status, caught.value.slug)
    assert row["type"].endswith(":other-subscriber")
