"""The page of the server in a real browser: what a person sees and does, with the network of other hosts blocked."""

from __future__ import annotations

import io
import json
from hashlib import sha256
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

import nearcast.server
from support.browser import WAIT_MS, browser, opened
from support.http_server import circle, feature, make_token, running

pytestmark = pytest.mark.browser
expect.set_options(timeout=WAIT_MS)
PAGE = Path(nearcast.server.__file__).parent / "page"
HOSTILE = [
    "<script>document.title='broken'</script>",
    "<img src=x onerror=\"document.title='broken'\">",
    "\u202eright to left\u202c \u2066isolate",
    "x" * 10_000,
    "\"'`><svg/onload=document.title='broken'>",
    "{{7*7}} ${7*7} <%= 7*7 %>",
    "a\u0300" * 200,
    "👨‍👩‍👧" * 100,
]
HOSTILE += [f"<b id=h{n}>&lt;{n}&#60;javascript:{n}" for n in range(92)]


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    options = {"hub": {"lifetime": "1h", "window": "1000", "max_distance": 5000.0}}
    with running(tmp_path_factory.mktemp("page") / "data", **options) as found:
        yield found


@pytest.fixture
def client(server):
    with server.client() as found:
        yield found


def colours(page):
    """Return how many colours the map has: a blank canvas has one."""
    from PIL import Image

    picture = Image.open(io.BytesIO(page.locator("#map").screenshot())).convert("RGB")
    return len(picture.getcolors(1 << 24))


def draw_box(page, size=150):
    """Draw a box around the middle of the map."""
    box = page.locator("#map").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.click(x - size, y - size)
    page.mouse.click(x + size, y + size)


def test_draw_subscribe_publish_see_the_match_and_why(chromium, tmp_path):
    """The whole way by mouse: a box, a query, a message, its match, who got it and who nearly did."""
    with running(tmp_path) as server, server.client() as client:
        client.put("/v1/subscriptions/near", json=circle("near", query="ramen AND vegan", subscriber="ben"))
        draw_and_publish(chromium, server)


def draw_and_publish(chromium, server):
    with opened(chromium, server.url) as page:
        expect(page.locator("#status")).to_have_text("live")
        assert colours(page) > 5
        page.click("#tab-subscribe")
        page.get_by_role("button", name="Box").click()
        draw_box(page)
        expect(page.locator("#subscribe")).to_contain_text("A box from")
        page.get_by_label("Query").fill("ramen")
        page.get_by_label("Id", exact=True).fill("drawn")
        page.get_by_role("button", name="Subscribe", exact=True).click()
        expect(page.locator("#ask")).to_contain_text("drawn")
        page.click("#tab-publish")
        page.get_by_label("Text").fill("Ramen for everybody")
        page.get_by_role("button", name="Map's centre").click()
        page.get_by_role("button", name="Publish", exact=True).click()
        expect(page.locator("#publish")).to_contain_text("Published.")
        page.click("#tab-watch")
        match = page.locator("#matches li", has_text="for drawn").first
        expect(match).to_contain_text("Ramen for everybody")
        match.get_by_role("button").first.click()
        expect(page.locator("#ask")).to_contain_text("Got it (1)")
        expect(page.locator("#ask")).to_contain_text("the word 'vegan' is missing")


def test_the_error_of_a_query_stands_under_its_caret(chromium, tmp_path):
    """As it is typed, and gone when it is mended, also before anything was published to estimate from."""
    with running(tmp_path / "data") as fresh, opened(chromium, fresh.url) as page:
        page.click("#tab-subscribe")
        page.get_by_label("Query").fill("tea AND (")
        expect(page.locator("#query-error")).to_contain_text("unclosed parenthesis")
        lines = page.locator("#query-error").inner_text().splitlines()
        assert lines[-1].index("^") == lines[-2].index("(")
        page.get_by_label("Query").fill("tea AND (green)")
        expect(page.locator("#query-error")).to_have_text("")
        expect(page.locator("#estimate")).to_have_text("No messages yet to estimate from.")


def test_sliders_change_the_estimate(chromium, server, client):
    """Words against distance, and the least score, judged by recent messages."""
    for n in range(30):
        client.post(
            "/v1/messages", json=feature(f"slide{n}", text="soup" if n % 2 else "soup noodles", lon=13.4 + n / 1000)
        )
    with opened(chromium, server.url) as page:
        page.click("#tab-subscribe")
        page.get_by_label("Kind").select_option("similar")
        page.get_by_text("Write the place").click()
        page.get_by_label("Longitude").first.fill("13.4")
        page.get_by_label("Latitude").first.fill("52.5")
        page.get_by_label("Query").fill("soup noodles")
        page.get_by_label("Least score").fill("0.1")
        expect(page.locator("#estimate")).to_contain_text("Estimate")
        low = page.locator("#estimate").inner_text()
        page.get_by_label("Least score").fill("1")
        expect(page.locator("#estimate")).not_to_have_text(low)
        expect(page.locator("#estimate")).to_contain_text("Estimate")


def test_walking_shows_enter_and_exit(chromium, server, client):
    """A subscriber that moves comes to a message and leaves it."""
    client.put("/v1/subscriptions/walk", json=circle("walk", query="statue", lon=10.0, lat=50.0, subscriber="walker"))
    client.post("/v1/messages", json=feature("statue", text="a statue", lon=10.1, lat=50.0))
    with opened(chromium, server.url) as page:
        for lon, kind in ((10.1, "enter"), (10.0, "exit")):
            client.put("/v1/subscribers/walker/location", json={"lon": lon, "lat": 50.0})
            row = page.locator("#matches li", has_text="for walk").filter(has_text=kind)
            expect(row.first).to_be_visible()


def test_a_top_k_list_follows(chromium, server, client):
    """The list re-orders as messages come."""
    top = {"id": "best", "kind": "topk", "query": "pizza", "lon": 13.4, "lat": 52.5, "k": 2, "subscriber": "cem"}
    client.put("/v1/subscriptions/best", json=top)
    client.post("/v1/messages", json=feature("p1", text="pizza far", lon=13.43))
    with opened(chromium, server.url) as page:
        client.post("/v1/messages", json=feature("p2", text="pizza", lon=13.41))
        page.locator("#matches li", has_text="for best").first.get_by_role("button").nth(1).click()
        expect(page.locator("#topk-list li").first).to_contain_text("pizza")
        client.post("/v1/messages", json=feature("p3", text="pizza", lon=13.4))
        expect(page.locator("#topk-list li")).to_have_count(2)
        expect(page.locator("#topk-list")).not_to_contain_text("pizza far")


def test_edit_pause_delete(chromium, server, client):
    """A subscription is changed from its panel."""
    client.put("/v1/subscriptions/mine", json=circle("mine", query="bread", lon=20.0, lat=50.0, subscriber="dora"))
    with opened(chromium, server.url) as page:
        client.post("/v1/messages", json=feature("bread", text="bread", lon=20.0, lat=50.0))
        page.locator("#matches li", has_text="for mine").first.get_by_role("button").nth(1).click()
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("button", name="Resume")).to_be_visible()
        page.get_by_role("button", name="Edit").click()
        page.get_by_label("Query").fill("bread AND butter")
        page.get_by_role("button", name="Subscribe", exact=True).click()
        expect(page.locator("#ask")).to_contain_text("bread AND butter")
        page.get_by_role("button", name="Delete").click()
        expect(page.locator("#ask")).to_contain_text("Click a message")
        assert client.get("/v1/subscriptions/mine").status_code == 404


def test_hostile_texts_are_text(chromium, server, client):
    """A hundred of them, in messages: shown as they are, cut where they are long, and nothing of them runs."""
    client.put(
        "/v1/subscriptions/all", json={"id": "all", "query": "NOT zebra", "west": 0, "south": 0, "east": 1, "north": 1}
    )
    with opened(chromium, server.url) as page:
        for n, text in enumerate(HOSTILE):
            client.post("/v1/messages", json=feature(f"h-{n}", text=text, lon=0.5, lat=0.5))
            if n % 5 == 4:  # five samples a call are shown
                page.wait_for_timeout(10)
        expect(page.locator("#matches li", has_text="javascript:91").first).to_be_visible()
        assert page.title() == "nearcast"
        assert page.locator("#matches script, #matches img, #matches svg, #matches b").count() == 0
        page.locator("#matches li", has_text="javascript:91").first.get_by_role("button").first.click()
        expect(page.locator("#ask")).to_contain_text("<b id=h91>&lt;91&#60;javascript:91")


def test_the_server_restarts_under_an_open_page(chromium, tmp_path):
    """The page says that it reconnects, and goes on by itself."""
    with running(tmp_path) as first:
        port = int(first.url.rpartition(":")[2])
        with first.client() as client:
            client.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))
        context = opened(chromium, first.url)
        page = context.__enter__()
        expect(page.locator("#status")).to_have_text("live")
    expect(page.locator("#status")).to_contain_text("reconnecting")
    with running(tmp_path, port=port) as second, second.client() as client:
        expect(page.locator("#status")).to_have_text("live")
        client.post("/v1/messages", json=feature("again", text="tea"))
        expect(page.locator("#matches")).to_contain_text("for tea")
        context.__exit__(None, None, None)


def test_a_phone(chromium, server):
    """390 pixels wide: the map, the tabs and the form fit, and nothing scrolls sideways."""
    with opened(chromium, server.url, viewport={"width": 390, "height": 844}) as page:
        page.click("#tab-subscribe")
        expect(page.get_by_label("Query")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.locator("#map").bounding_box()["height"] > 200
        assert colours(page) > 3


def test_keyboard_alone(chromium, server):
    """A subscription without a mouse: past the map, through the tabs, with a place that is written."""
    with opened(chromium, server.url) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip the map"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "tab-watch"
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.id") == "tab-subscribe"
        for _ in range(3):
            page.keyboard.press("Tab")
        page.keyboard.type("keyboard")
        while page.evaluate("document.activeElement.textContent") != "Write the place":
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        while page.evaluate("document.activeElement.textContent") != "Use the map's centre":
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        while page.evaluate("document.activeElement.textContent") != "Subscribe":
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("#ask")).to_contain_text("keyboard")


def test_a_wrong_token(chromium, tmp_path):
    """Said in plain words; with the right one the page lives. It is in no URL and in no storage."""
    token = make_token(tmp_path)
    with running(tmp_path, server={"require_tokens": True}) as server, opened(chromium, server.url) as page:
        expect(page.locator("#status")).to_contain_text("token")
        page.get_by_label("Token").fill("nc_wrong")
        page.get_by_role("button", name="Use", exact=True).click()
        expect(page.locator("#status")).to_contain_text("token")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Use", exact=True).click()
        expect(page.locator("#status")).to_have_text("live")
        stored = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
        assert token not in stored


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_for_axe(chromium, server, scheme):
    """Contrast, names and roles of every panel, in both colour schemes."""
    with opened(chromium, server.url, color_scheme=scheme) as page:
        for name in ("watch", "subscribe", "publish", "ask", "health"):
            page.click(f"#tab-{name}")
            found = Axe().run(page).response["violations"]
            serious = [each["id"] for each in found if each["impact"] in ("serious", "critical")]
            assert (name, serious) == (name, [])


def test_health_draws_its_charts(chromium, server):
    """Rates and times, from /metrics."""
    with opened(chromium, server.url) as page:
        page.click("#tab-health")
        expect(page.locator("#health")).to_contain_text("Messages a second")
        expect(page.locator("#health canvas").first).to_be_visible()


def test_the_policy_allows_no_other_script(server, client):
    """No inline script or style, no other host; the page itself has none."""
    answer = client.get("/")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert "<script>" not in answer.text
    assert "style=" not in answer.text
    assert client.get("/page/../settings.py").status_code == 404
    assert client.get("/page/vendor/vendor.json").status_code == 200


def test_vendored_files_are_as_listed():
    """What came from elsewhere has its licence, and the hash that it was fetched with."""
    listed = json.loads((PAGE / "vendor/vendor.json").read_text())
    files = {path.name for path in (PAGE / "vendor").iterdir()} - {"vendor.json"}
    assert {each["file"] for each in listed} == files
    for each in listed:
        assert sha256((PAGE / "vendor" / each["file"]).read_bytes()).hexdigest() == each["sha256"]
    assert sum("LICENSE" in name for name in files) == len({each["package"] for each in listed})
