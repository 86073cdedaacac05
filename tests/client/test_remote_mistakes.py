"""What a newcomer gets wrong with a client, `nearcast publish` and `tail`: one line that says so, no traceback."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys

import pytest

from nearcast import Circle, Client, InvalidInput, Within
from nearcast.client import ServerProblem
from support.http_server import feature, running
from support.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with running(tmp_path_factory.mktemp("mistakes") / "data") as found:
        yield found.url


def test_lines_that_are_no_messages(nearcast, tmp_path, url):
    """A line that is half JSON, no UTF-8 or no object is a rejected row; those around it are published."""
    path = tmp_path / "messages.jsonl"
    lines = [feature("m1"), feature("m2"), feature("m3", lat=99.0), feature("m4")]
    one, two, three, four = (json.dumps(each).encode() for each in lines)
    path.write_bytes(b"\n".join([one, b"{half", b"", b"\xff\xfe", two, b"[1]", three, four]) + b"\n")
    done = nearcast("publish", path, "--batch", 3, "--url", url)
    assert (done.status, json.loads(done.out)) == (3, {"accepted": 3, "rejected": 4})
    told = [line.removeprefix(f"nearcast: {path}, ") for line in done.err.splitlines()]
    assert [line.split(":")[0] for line in told] == ["row 1", "row 2", "row 4", "row 5"]
    assert ["not JSON" in told[0], "not UTF-8" in told[1], "no JSON object" in told[2]] == [True] * 3


def test_a_server_that_is_away_is_told_at_once():
    """`tail` waits for a server, and says so on stderr instead of nothing at all."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        tail = subprocess.Popen(
            [sys.executable, "-m", "nearcast", "tail", "anna", "--url", url], stderr=subprocess.PIPE, text=True
        )
        try:
            told = tail.stderr.readline()
        finally:
            tail.send_signal(signal.SIGINT)
            tail.communicate(timeout=PATIENCE_S)
    assert "cannot be reached" in told
    assert "trying again for 600 s" in told
    assert tail.returncode == 130


@pytest.mark.parametrize("name", [None, ""])
def test_ids_that_are_missing(name):
    """A missing id never becomes the address of another route, or the subscriber "None"."""
    with Client("http://127.0.0.1:9") as client:
        for call in (client.get, client.unsubscribe, client.events, client.erase):
            with pytest.raises(InvalidInput, match=r"the id of a .* is .*; expected text"):
                call(name)


def test_an_integer_as_id(url):
    """The server's ids are text: the error says what was given."""
    with Client(url) as client, pytest.raises(ServerProblem, match=r"id is 7, .* expected '7', as text"):
        client.subscribe(Within(7, "tea", Circle(13.4, 52.5, 800)))
