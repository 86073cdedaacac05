"""What the page tells of webhooks, of top-k windows and of a server that it cannot read: on servers of their own."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import expect

from nearcast.server.webhooks.attempts import DeadLetter
from support.browser import WAIT_MS, browser, opened
from support.http_server import circle, feature, make_token, running
from support.waiting import wait_until

pytestmark = pytest.mark.browser
expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


def test_the_delivery_log_and_dead_letters(chromium, tmp_path):
    """Attempts with what came back, events that were given up, and a button that sends each again."""
    with running(tmp_path, webhooks={"allow": ("127.0.0.1",)}) as server, server.client() as client:
        client.put("/v1/subscribers/anna", json={"sink": {"url": "http://127.0.0.1:9/hook"}})
        client.put("/v1/subscriptions/tea", json=circle("tea", subscriber="anna"))
        client.post("/v1/messages", json=feature("m1", text="tea"))
        wait_until(lambda: client.get("/v1/deliveries").json()["items"])
        given_up = {"event_id": "e1", "message_id": "m0", "cursor": "1-0", "body": b"{}", "reason": "HTTP 500, in vain"}
        letter = DeadLetter(number=1, subscriber="anna", at=time.time(), **given_up)
        server.tenant().hooks.store._insert("dead_letters", letter)
        with opened(chromium, server.url) as page:
            page.click("#tab-ask")
            expect(page.locator("#attempts li").first).to_contain_text("m1 to anna")
            expect(page.locator("#dead-letters")).to_contain_text("HTTP 500, in vain")
            page.get_by_role("button", name="Resend m0 to anna").click()
            expect(page.locator("#dead-letters")).to_contain_text("None.")


@pytest.mark.parametrize(("window", "told"), [("1000", "the last 1,000 messages"), (None, "has no window")])
def test_the_window_of_a_top_k_is_told(chromium, tmp_path, window, told):
    """The form says of which messages a list is the best, or what to do where there is no window."""
    with running(tmp_path, hub={"window": window}) as server, opened(chromium, server.url) as page:
        page.click("#tab-subscribe")
        page.get_by_label("Kind").select_option("topk")
        expect(page.locator("#window")).to_contain_text(told)
        expect(page.get_by_role("button", name="Box")).to_be_hidden()
        if window is not None:
            page.get_by_text("Write the place").click()
            page.get_by_role("button", name="Use the map's centre").click()
            page.get_by_label("Query").fill("tea")
            expect(page.locator("#estimate")).to_have_text("It always has the best 10, whatever comes.")
            expect(page.locator("#query-error")).to_have_text("")


def test_a_list_has_texts_that_came_before_the_page(chromium, tmp_path):
    """Of a top-k whose messages the page has never seen it asks for their words; its newest events are shown."""
    with running(tmp_path, hub={"window": "1000", "max_distance": 3000.0}) as server, server.client() as client:
        top = {"id": "best", "kind": "topk", "query": "pizza", "lon": 13.4, "lat": 52.5, "k": 2, "subscriber": "cem"}
        client.put("/v1/subscriptions/best", json=top)
        client.post("/v1/messages", json=[feature(f"p{n}", text=f"pizza number {n}", lon=13.41) for n in range(3)])
        with opened(chromium, server.url) as page:
            client.post("/v1/messages", json=feature("p3", text="pizza number 3"))
            expect(page.locator("#matches li", has_text="topk.removed").first).to_contain_text("pizza number")
            page.locator("#matches li", has_text="for best").first.get_by_role("button").nth(1).click()
            expect(page.locator("#topk-list li")).to_have_count(2)
            expect(page.locator("#topk-list li").last).to_contain_text("pizza number")
            expect(page.locator("#ask")).to_contain_text("Recent deliveries")


def test_health_says_why_there_is_nothing(chromium, tmp_path):
    """Without a token the panel has the server's words, not a number of HTTP."""
    make_token(tmp_path)
    with running(tmp_path, server={"require_tokens": True}) as server, opened(chromium, server.url) as page:
        page.click("#tab-health")
        expect(page.locator("#health .error")).to_contain_text("token")
