"""`nearcast backup`, `restore` and `doctor`: copies of a server that runs and of one that does not."""

from __future__ import annotations

import subprocess
import sys

from support.http_server import circle, feature, make_token, running


def run(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "nearcast", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def fill(client):
    client.post("/v1/subscriptions", json=circle("tea", subscriber="anna", labels={"team": "a"}))
    client.post("/v1/messages", json=feature("m1"))


def check_filled(data):
    """The subscription with its labels, and the event that waits."""
    with running(data) as server, server.client() as client:
        assert client.get("/v1/subscriptions/tea").json()["labels"] == {"team": "a"}
        assert [each["subject"] for each in client.get("/v1/subscribers/anna/events").json()["events"]] == ["m1"]


def test_a_stopped_server(tmp_path):
    """Backup, restore into a new folder, and serve from there; tokens come along."""
    data, copy, again = tmp_path / "data", tmp_path / "copy", tmp_path / "again"
    make_token(data)
    with running(data) as server, server.client() as client:
        fill(client)
    assert run("backup", data, copy).returncode == 0
    assert run("restore", copy, again).returncode == 0
    assert (again / "tokens.db").exists()
    check_filled(again)


def test_a_running_server(tmp_path):
    """By its URL, while it goes on; the name cannot be used twice."""
    data = tmp_path / "data"
    with running(data) as server, server.client() as client:
        fill(client)
        assert run("backup", server.url, "monday").returncode == 0
        client.delete("/v1/subscriptions/tea")
        assert client.post("/v1/backup", json={"name": "monday"}).status_code == 409
        for name in ("..", "a/b", "", 5, None):
            assert client.post("/v1/backup", json={"name": name}).status_code == 422
    assert run("restore", data / "backups/monday", tmp_path / "again").returncode == 0
    check_filled(tmp_path / "again")


def test_doctor(tmp_path):
    """Nothing wrong; then a damaged database, which `restore` refuses, too."""
    data = tmp_path / "data"
    with running(data) as server, server.client() as client:
        fill(client)
    assert run("doctor", data).returncode == 0
    broken = data / "tenants/default/server.db"
    broken.write_bytes(b"not a database" * 1000)
    done = run("doctor", data)
    assert (done.returncode, "server.db" in done.stdout) == (1, True)
    assert run("restore", data, tmp_path / "again").returncode == 1


def test_wrong_use(tmp_path):
    """One line that says what to do, status 2."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    for arguments in (("backup", tmp_path / "nowhere", tmp_path / "new"), ("backup", tmp_path, tmp_path / "full")):
        done = run(*arguments)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
