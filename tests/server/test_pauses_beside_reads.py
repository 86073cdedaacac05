"""A pause beside somebody who reads the subscription: it is not taken for one that has expired."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from support.held_calls import held_up
from support.http_server import circle, running
from support.waiting import PATIENCE_S


@pytest.mark.parametrize("path", ["/v1/subscriptions/tea", "/v1/subscriptions"])
def test_a_subscription_that_is_paused_while_it_is_read_is_kept(tmp_path, path):
    """Whoever reads has its row from before the pause, and finds it in the hub no more."""
    with running(tmp_path) as server, server.client() as client, ThreadPoolExecutor(1) as pool:
        client.post("/v1/subscriptions", json=circle("tea", subscriber="anna", labels={"a": "b"}))
        with held_up(server.tenant().hub, "get") as (began, go_on):
            read = pool.submit(client.get, path)
            assert began.wait(PATIENCE_S)
            assert 200 == client.post("/v1/subscriptions/tea:pause").status_code
            go_on.set()
            read.result(PATIENCE_S)
        found = client.get("/v1/subscriptions/tea")
        assert (200, True) == (found.status_code, found.json()["paused"])
        assert 200 == client.post("/v1/subscriptions/tea:resume").status_code
        assert {"a": "b"} == client.get("/v1/subscriptions/tea").json()["labels"]
