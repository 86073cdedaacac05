"""`nearcast backup`, `restore` and `doctor`: copies of a server that runs and of one that does not."""

from __future__ import annotations

from support.http_server import circle, feature, make_token, running


def fill(client):
    client.post("/v1/subscriptions", json=circle("tea", subscriber="anna", labels={"team": "a"}))
    client.post("/v1/messages", json=feature("m1"))


def check_filled(data):
    """The subscription with its labels, and the event that waits."""
    with running(data) as server, server.client() as client:
        assert client.get("/v1/subscriptions/tea").json()["labels"] == {"team": "a"}
        assert [each["subject"] for each in client.get("/v1/subscribers/anna/events").json()["events"]] == ["m1"]


def test_a_stopped_server(nearcast, tmp_path):
    """Backup, restore into a new folder, and serve from there; tokens come along."""
    data, copy, again = tmp_path / "data", tmp_path / "copy", tmp_path / "again"
    make_token(data)
    with running(data) as server, server.client() as client:
        fill(client)
    assert nearcast("backup", data, copy).status == 0
    assert nearcast("restore", copy, again).status == 0
    assert (again / "tokens.db").exists()
    check_filled(again)


def test_a_running_server(nearcast, tmp_path):
    """By its URL, while it goes on; the name cannot be used twice."""
    data = tmp_path / "data"
    with running(data) as server, server.client() as client:
        fill(client)
        assert nearcast("backup", server.url, "monday").status == 0
        client.delete("/v1/subscriptions/tea")
        assert client.post("/v1/backup", json={"name": "monday"}).status_code == 409
        for name in ("..", "a/b", "", 5, None):
            assert client.post("/v1/backup", json={"name": name}).status_code == 422
    assert nearcast("restore", data / "backups/monday", tmp_path / "again").status == 0
    check_filled(tmp_path / "again")


def test_doctor(nearcast, tmp_path):
    """Nothing wrong; then a damaged database, which `restore` refuses, too."""
    data = tmp_path / "data"
    with running(data) as server, server.client() as client:
        fill(client)
    assert nearcast("doctor", data).status == 0
    broken = data / "tenants/default/server.db"
    broken.write_bytes(b"not a database" * 1000)
    done = nearcast("doctor", data)
    assert (done.status, "server.db" in done.out) == (1, True)
    assert nearcast("restore", data, tmp_path / "again").status == 1


def test_wrong_use(nearcast, tmp_path):
    """One line that says what to do, status 2."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    for arguments in (("backup", tmp_path / "nowhere", tmp_path / "new"), ("backup", tmp_path, tmp_path / "full")):
        done = nearcast(*arguments)
        assert (done.status, done.err.count("\n")) == (2, 1)
