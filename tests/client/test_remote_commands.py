"""`nearcast sub`, `publish` and `tail` against a real server, as a person types them."""

from __future__ import annotations

import io
import json
import sys

import pytest

from support.http_server import circle, feature, running


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with running(tmp_path_factory.mktemp("commands") / "data") as found:
        yield found.url


@pytest.fixture
def run(nearcast, monkeypatch):
    """Run a command; return its status, the lines of stdout, and stderr."""

    def run_given(*arguments, url, given=""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        done = nearcast(*arguments, "--url", url)
        return done.status, done.out.splitlines(), done.err

    return run_given


def test_subscriptions(run, url):
    """Create, list, show, delete; what is unknown is status 1 and one line."""
    status, (created,), _ = run("sub", "create", json.dumps(circle("cli")), "--subscriber", "anna", url=url)
    assert (status, created) == (0, "cli")
    assert [json.loads(line)["id"] for line in run("sub", "list", "--subscriber", "anna", url=url)[1]] == ["cli"]
    assert run("sub", "delete", "cli", url=url)[0] == 0
    status, lines, error = run("sub", "show", "cli", url=url)
    assert (status, lines, error.count("\n")) == (1, [], 1)
    assert "404" in error


def test_publish(run, tmp_path, url):
    """Messages of a file; a bad row is told with its number, and the status is 3."""
    path = tmp_path / "messages.jsonl"
    path.write_text(
        "".join(json.dumps(each) + "\n" for each in (feature("m1"), feature("m2", lat=99.0), feature("m3")))
    )
    status, (told,), error = run("publish", str(path), "--batch", "2", url=url)
    assert (status, json.loads(told)) == (3, {"accepted": 2, "rejected": 1})
    assert "row 1" in error
    status, (told,), _ = run("publish", "-", url=url, given=json.dumps(feature("m4")))
    assert (status, json.loads(told)) == (0, {"accepted": 1, "rejected": 0})


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("publish", "nowhere.jsonl"), "cannot be read"),
        (("sub", "create", "tea"), "not JSON"),
        (("sub", "create", '{"query": "tea"}', "--url", "localhost"), "expected something like"),
    ],
)
def test_wrong_use(run, url, arguments, reason):
    """Status 2, or 1 for the server's answer, and one line that helps."""
    if "--url" in arguments:
        *arguments, url = (each for each in arguments if each != "--url")
    status, lines, error = run(*arguments, url=url)
    assert (status, lines) == (2, [])
    assert reason in error
