"""Trouble: a full disk, a nearly full one, a hub that stopped, a defect; answers say which, and reading goes on."""

import logging
import subprocess

import pytest

from support.http_server import circle, feature, running
from support.waiting import run


def test_a_full_disk_is_507_and_passes(tmp_path):
    """Nothing is half done, events are read on, and changes go on when there is room again."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", str(folder)])
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        with running(folder) as server, server.client() as client:
            client.put("/v1/subscriptions/kept", json=circle("kept", subscriber="anna"))
            (folder / "ballast").write_bytes(bytes(9 << 20))
            accepted = _publish_until_full(client)
            answer = client.put("/v1/subscriptions/late", json=circle("late", labels={"a": "x" * 150}))
            assert 507 == answer.status_code or _fill(client) == 507
            events = client.get("/v1/subscribers/anna/events", params={"cursor": "0-0"}).json()["events"]
            assert [f"m{number}" for number in range(accepted)] == [each["subject"] for each in events]
            (folder / "ballast").unlink()
            assert 202 == client.post("/v1/messages", json=feature("after")).status_code
            assert client.put("/v1/subscriptions/later", json=circle("later")).status_code == 201
            assert accepted + 1 == server.tenant().hub.stats()["published"]
        with running(folder) as server:
            assert accepted + 1 == server.tenant().hub.stats()["published"]
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _publish_until_full(client):
    for number in range(1000):
        answer = client.post("/v1/messages", json=feature(f"m{number}", padding="x" * 20_000))
        if answer.status_code != 202:
            assert (507, "urn:nearcast:problem:disk-full") == (answer.status_code, answer.json()["type"])
            assert "retry-after" in answer.headers
            return number
    raise AssertionError("the disk was not full")


def _fill(client):
    """Make subscriptions until that is refused; return the status."""
    for number in range(10_000):
        status = client.put(f"/v1/subscriptions/f{number}", json=circle(f"f{number}")).status_code
        if status != 201:
            return status
    return 201


def test_a_nearly_full_disk_refuses_changes_with_a_time_to_try_again(tmp_path):
    """Below the watermark publishers get 429 and Retry-After; reading goes on."""
    with running(tmp_path, limits={"free_bytes": 1 << 60}) as server, server.client() as client:
        answers = [
            client.post("/v1/messages", json=feature(1)),
            client.post("/v1/subscriptions", json=circle("x")),
            client.put("/v1/subscribers/anna/location", json={"lon": 1, "lat": 1}),
        ]
        assert [429] * 3 == [each.status_code for each in answers]
        assert all("retry-after" in each.headers for each in answers)
        assert 200 == client.get("/v1/subscriptions").status_code


def test_a_hub_that_stopped_is_503_and_not_ready(tmp_path):
    """After a failure of the disk the tenant takes no changes, `/readyz` says so, and streams end by that name."""
    with running(tmp_path) as server, server.client() as client:
        client.put("/v1/subscriptions/a", json=circle("a", subscriber="anna"))
        assert 200 == client.get("/readyz").status_code
        with client.stream("GET", "/v1/subscribers/anna/stream") as stream, server.client() as other:
            other.post("/v1/messages", json=feature(0))
            lines = stream.iter_lines()
            assert any(line.startswith("data:") for line in lines)
            server.tenant().hub._writer.stopped = "the hub stopped: IOError"
            server.tenant().feeds._loop.call_soon_threadsafe(server.tenant().feeds.wake, ["anna"])
            assert 'data: {"reason":"HubStopped"}' in list(lines)
        assert 503 == client.post("/v1/messages", json=feature(1)).status_code
        assert 503 == client.get("/readyz").status_code
        assert [200, 200] == [client.get(path).status_code for path in ("/healthz", "/v1/subscriptions")]


PLACE = "13.4 52.5"


def test_a_defect_is_a_problem_and_its_log_holds_no_place(tmp_path, caplog):
    """What the error said is neither answered nor logged; the next call is answered."""
    with running(tmp_path) as server, server.client() as client:

        def broken(*_, **__):
            raise RuntimeError(f"at {PLACE}")

        server.tenant().hub.get = broken
        client.put("/v1/subscriptions/a", json=circle("a"))
        with caplog.at_level(logging.ERROR):
            answer = client.get("/v1/subscriptions/a")
        assert (500, "urn:nearcast:problem:defect") == (answer.status_code, answer.json()["type"])
        assert "13.4" not in answer.text + caplog.text
        assert "RuntimeError" in caplog.text
        assert 200 == client.get("/healthz").status_code


def test_answers_tell_browsers_to_be_careful(tmp_path):
    """Every answer has a strict policy, also problems; none sets a cookie."""
    with running(tmp_path) as server, server.client() as client:
        for path in ("/v1/subscriptions", "/nope", "/healthz", "/openapi.json"):
            headers = client.get(path).headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "nosniff" == headers["x-content-type-options"]
            assert "set-cookie" not in headers
