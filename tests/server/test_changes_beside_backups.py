"""Subscriptions that are changed while their server is copied: those that were there before are in the copy."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nearcast.server.data_folders import restore_data
from support.held_calls import held_up
from support.http_server import circle, feature, running
from support.waiting import PATIENCE_S


def test_a_backup_has_the_subscriptions_that_were_there_when_it_began(tmp_path):
    """Paused, resumed or replaced meanwhile, they are so in the copy; those that came and went meanwhile are not."""
    with running(tmp_path / "data") as server, server.client() as client, ThreadPoolExecutor(1) as pool:
        for name in ("paused", "replaced", "deleted", "same"):
            client.put(f"/v1/subscriptions/{name}", json=circle(name, subscriber="anna"))
        client.put("/v1/subscriptions/resumed", json=circle("resumed", subscriber="anna", paused=True))
        with held_up(server.tenant().hub, "backup") as (began, go_on):
            copied = pool.submit(client.post, "/v1/backup", json={"name": "copy"})
            assert began.wait(PATIENCE_S)
            client.post("/v1/subscriptions/paused:pause")
            client.post("/v1/subscriptions/resumed:resume")
            client.patch("/v1/subscriptions/replaced", json={"query": "coffee", "labels": {"a": "b"}})
            client.delete("/v1/subscriptions/deleted")
            client.put("/v1/subscriptions/new", json=circle("new", subscriber="anna"))
            go_on.set()
            assert 201 == copied.result(PATIENCE_S).status_code
        backup = tmp_path / "data" / "backups" / "copy"
        assert ["hub", "server.db", "webhooks.db"] == sorted(
            each.name for each in (backup / "tenants" / "default").iterdir()
        )
    restore_data(backup, tmp_path / "again")
    with running(tmp_path / "again") as server, server.client() as client:
        found = {each["id"]: each for each in client.get("/v1/subscriptions").json()["items"]}
        assert {"paused", "replaced", "same", "resumed"} == found.keys()
        assert {"paused"} == {name for name, each in found.items() if each["paused"]}
        assert ("coffee", {"a": "b"}) == (found["replaced"]["query"], found["replaced"]["labels"])
        assert {"replaced", "same", "resumed"} == set(server.tenant().hub)
        client.post("/v1/messages", json=feature("m"))
        events = client.get("/v1/subscribers/anna/events").json()["events"]
        assert ["resumed", "same"] == sorted(each["data"]["subscription_id"] for each in events)


def test_a_backup_that_was_answered_is_on_disk(tmp_path, monkeypatch):
    """Its databases are synced, and the folders that hold them."""
    synced, fsync = set(), os.fsync

    def noted(descriptor):
        synced.add(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    with running(tmp_path) as server, server.client() as client:
        monkeypatch.setattr(os, "fsync", noted)
        assert 201 == client.post("/v1/backup", json={"name": "copy"}).status_code
        assert 409 == client.post("/v1/backup", json={"name": "copy"}).status_code
    tenant = tmp_path / "backups" / "copy" / "tenants" / "default"
    wanted = [tenant / "server.db", tenant / "webhooks.db", tenant, *list(tenant.parents)[:4]]
    assert {str(each) for each in wanted} <= synced
