"""The page with more than it can draw one by one: numbered squares, ten thousand dots, what a click on them does."""

from __future__ import annotations

import io
import re

import pytest
from PIL import Image
from playwright.sync_api import expect

from support.browser import WAIT_MS, browser, opened
from support.http_server import circle, feature, running

pytestmark = pytest.mark.browser
expect.set_options(timeout=WAIT_MS)
_N_SUBSCRIPTIONS, _N_MESSAGES = 600, 10_000
#: A corner of the town where a subscription is, and not its middle, which a test clicks.
_CORNER = {"lon": 13.3 + 20 / 150, "lat": 52.51}


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A server with 600 subscriptions in a town of 30 by 20 corners, and 10,000 messages between them."""
    limits = {"batch": _N_MESSAGES, "body_bytes": 1 << 24}
    with running(tmp_path_factory.mktemp("crowd") / "data", limits=limits) as server, server.client() as client:
        corners = [(13.3 + n % 30 / 150, 52.45 + n // 30 / 200) for n in range(_N_SUBSCRIPTIONS)]
        wishes = [circle(f"s{n}", lon=lon, lat=lat, radius_m=60) for n, (lon, lat) in enumerate(corners)]
        assert _N_SUBSCRIPTIONS == client.post("/v1/subscriptions", json=wishes).json()["accepted"]
        places = [(13.3 + n % 100 / 500, 52.45 + n // 100 / 1000) for n in range(_N_MESSAGES)]
        posts = [feature(f"m{n}", text=f"milk {n}", lon=lon, lat=lat) for n, (lon, lat) in enumerate(places)]
        body = {"type": "FeatureCollection", "features": posts}
        assert _N_MESSAGES == client.post("/v1/messages", json=body).json()["accepted"]
        yield server


def n_blue(page):
    """Return how many pixels of the map have the colour of messages, as a person sees it."""
    picture = Image.open(io.BytesIO(page.locator("#map").screenshot())).convert("RGB")
    return {colour: n for n, colour in picture.getcolors(1 << 24)}.get((0x00, 0x5F, 0x9E), 0)


def expect_thousands_of_dots(page):
    """Wait until 2,000 messages or more are drawn; functions that wait inside the page are against its CSP."""
    expect(page.locator("canvas.dots")).to_have_attribute("data-drawn", re.compile(r"^([2-9]\d{3}|\d{5,})$"))


def zoom_in(page, times):
    for _ in range(times):
        page.get_by_role("button", name="Zoom in").click()


def test_a_crowd_is_counted_and_nothing_is_missing(chromium, crowd):
    """The page says how many there are, squares have their numbers, and further in each is drawn again."""
    with opened(chromium, crowd.url) as page:
        page.get_by_role("button", name="Zoom out").click()
        expect(page.locator("#note")).to_contain_text("600 subscriptions here, counted in squares")
        expect(page.locator("#note")).to_contain_text("the newest 10,000 are shown")
        expect_thousands_of_dots(page)
        assert n_blue(page) > 2_000
        zoom_in(page, 3)
        expect(page.locator("#note")).not_to_contain_text("squares")
        with crowd.client() as client:
            client.post("/v1/messages", json=feature("new", text="tea for one", **_CORNER))
        expect(page.locator("#matches li").first).to_contain_text("tea for one")


def test_a_dot_is_asked_for_its_text(chromium, crowd):
    """Only its id and place were sent; who clicks it reads its text, and whom it reached."""
    with opened(chromium, crowd.url) as page:
        expect_thousands_of_dots(page)
        box = page.locator("#map").bounding_box()
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        expect(page.locator("#ask")).to_contain_text(re.compile(r"milk \d+"))
        expect(page.locator("#ask")).to_contain_text("Got it (0)")


def test_samples_are_of_messages_that_matched(chromium, crowd):
    """Of a batch the page shows some: those that were delivered come with their text, wherever in it they are."""
    with opened(chromium, crowd.url) as page, crowd.client() as client:
        expect(page.locator("#status")).to_have_text("live")
        others = [feature(f"o{n}", text="milk", **_CORNER) for n in range(40)]
        for text in ("tea among values", "tea in a table"):
            batch = [feature(text, text=text, **_CORNER), *others]
            is_table = "table" in text
            client.post("/v1/messages", json={"type": "FeatureCollection", "features": batch} if is_table else batch)
            expect(page.locator("#matches li", has_text=text).first).to_be_visible()
