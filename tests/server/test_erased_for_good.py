"""Erasures on a server that has little else to do, and such that fail half way."""

import os
import time
from contextlib import suppress
from pathlib import Path

from nearcast.errors import FileUnavailable
from support.http_server import circle, feature, running
from support.waiting import wait_until

SINK = {"sink": {"url": "https://hooks.invalid/hidden-path"}}


def _files_with(folder, wanted):
    found = set()
    for each in Path(folder).rglob("*") if Path(folder).is_dir() else ():
        with suppress(FileNotFoundError):  # the server removes files meanwhile
            if each.is_file() and wanted in each.read_bytes():
                found.add(each.name)
    return sorted(found)


def test_of_an_erased_subscriber_nothing_is_on_disk_after_the_retention(tmp_path):
    """Also where so little happens that neither a snapshot is due nor a write-ahead log is full."""
    with running(tmp_path, hub={"retention_age": "1s", "beat_seconds": 0.2}) as server, server.client() as client:
        client.put("/v1/subscribers/hidden-name", json=SINK)
        body = circle("hidden-id", subscriber="hidden-name", labels={"a": "hidden-label"})
        client.post("/v1/subscriptions", json=body, headers={"Idempotency-Key": "k"})
        client.post("/v1/messages", json=feature("m1"))
        tenant = server.tenant()
        tenant.hub.snapshot()
        client.post("/v1/messages", json=feature("m2"))
        assert {"log.db-wal", "server.db-wal", "webhooks.db-wal"} <= set(_files_with(tmp_path, b"hidden"))
        assert 204 == client.delete("/v1/subscribers/hidden-name").status_code
        client.put("/v1/subscribers/hidden-name/location", json={"lon": 1.0, "lat": 2.0})  # it does not know yet
        tenant.upkeep.once(time.time() + 1)
        assert [] == [each for each in _files_with(tmp_path, b"hidden") if not each.endswith(".run")]
        wait_until(lambda: not _files_with(tmp_path, b"hidden"))


def test_an_erasure_waits_before_snapshots_are_written_for_it(tmp_path):
    """Many of them share two snapshots, and without one there are none."""
    with running(tmp_path) as server, server.client() as client:
        client.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))
        tenant = server.tenant()
        tenant.upkeep.once(time.time() + 10 * 86_400)
        assert [] == tenant.hub._folder.snapshots()
        client.delete("/v1/subscribers/anna")
        tenant.upkeep.once(time.time())
        assert [] == tenant.hub._folder.snapshots()
        tenant.upkeep.once(time.time() + 2 * 86_400)
        assert 2 == len(tenant.hub._folder.snapshots())
        tenant.upkeep.once(time.time() + 2 * 86_400)
        assert 2 == len(tenant.hub._folder.snapshots()) == tenant.hub._log.last - 1


def test_what_is_made_after_an_erasure_that_failed_is_not_erased_by_the_next_start(tmp_path):
    """The disk was full: whoever comes before it was made again is refused, and whoever comes after it stays."""
    with running(tmp_path) as server, server.client() as client:
        client.put("/v1/subscribers/anna", json=SINK)
        client.post("/v1/subscriptions", json=circle("old", subscriber="anna"))
        client.post("/v1/subscriptions", json=circle("other", subscriber="ben"))
        hub = server.tenant().hub
        erase = hub.erase

        def full(_):
            raise FileUnavailable("the disk is full")

        hub.erase = full
        assert 507 == client.delete("/v1/subscribers/anna").status_code
        hub.erase = erase
        assert "is_erased" not in client.get("/v1/subscribers/anna").json()
        new = circle("new", subscriber="anna")
        refused = [
            client.post("/v1/subscriptions", json=new),
            client.post("/v1/subscriptions", json={**new, "paused": True}),
            client.put("/v1/subscriptions/other", json={**new, "id": "other"}),
            client.post("/v1/subscriptions", json=[new]),
            client.put("/v1/subscribers/anna", json=SINK),
            client.patch("/v1/subscribers/anna", json={"cooldown": "5m"}),
        ]
        assert [409] * 6 == [each.status_code for each in refused]
        assert "ben" == client.get("/v1/subscriptions/other").json()["subscriber"]
        assert 204 == client.delete("/v1/subscribers/anna").status_code
        assert 201 == client.post("/v1/subscriptions", json=new).status_code
        client.put("/v1/subscribers/anna", json=SINK)
    with running(tmp_path) as server, server.client() as client:
        assert ["new"] == [
            each["id"] for each in client.get("/v1/subscriptions", params={"subscriber": "anna"}).json()["items"]
        ]
        assert client.get("/v1/subscribers/anna").json()["sink"] is not None


def test_the_folders_of_a_new_tenant_survive_a_power_cut(tmp_path, monkeypatch):
    """Each is synced in the one that holds it."""
    synced, fsync = set(), os.fsync

    def noted(descriptor):
        synced.add(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    data = tmp_path / "new" / "data"
    with running(data):
        assert {str(each) for each in (tmp_path, data.parent, data, data / "tenants")} <= synced
