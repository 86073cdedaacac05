"""`serve --overlay`: a file of streets is served, looked at first, and refused at the start where it cannot be read."""

import json

import httpx2
import pytest

from support.browser import browser, opened
from support.http_server import circle, running
from support.waiting import PATIENCE_S

_STREETS = {
    "type": "Feature",
    "properties": {},
    "geometry": {"type": "LineString", "coordinates": [[7.0, 46.0], [7.1, 46.05]]},
}
#: The request of the page for the streets' part of the world; earlier ones are of what it showed before.
_ASKED = """() => performance.getEntriesByType("resource").map((each) => each.name)
    .find((each) => Math.abs(new URL(each).searchParams.get("bbox")?.split(",")[0] - 7) < 0.5)"""


@pytest.fixture
def streets(tmp_path):
    path = tmp_path / "streets.geojson"
    path.write_text(json.dumps(_STREETS))
    return path


def test_the_overlay_is_served(tmp_path, streets):
    """As it stands in the file."""
    with running(tmp_path / "data", server={"overlay": str(streets)}) as server:
        answer = httpx2.get(f"{server.url}/page/overlay.geojson", trust_env=False, timeout=PATIENCE_S)
    assert (200, _STREETS) == (answer.status_code, answer.json())


@pytest.mark.parametrize(("content", "reason"), [(None, "No such file"), ("{", "cannot be read"), ("[]", "no GeoJSON")])
def test_an_overlay_that_cannot_be_drawn_is_refused_at_the_start(nearcast, tmp_path, content, reason):
    """In one line, by the option of the command."""
    path = tmp_path / "bad.geojson"
    if content is not None:
        path.write_text(content)
    done = nearcast("serve", "--port", 0, "--data", tmp_path / "data", "--overlay", path)
    assert 1 == done.status
    assert f"overlay is {path}" in done.complaint
    assert reason in done.complaint


@pytest.mark.browser
def test_the_page_looks_at_the_streets(tmp_path, streets):
    """The map asks for the part of the world where the overlay is, not for that of a subscription far away."""
    with browser() as chromium, running(tmp_path / "data", server={"overlay": str(streets)}) as server:
        with server.client() as client:
            client.put("/v1/subscriptions/far", json=circle("far", lon=-60.0, lat=-30.0, subscriber="anna"))
        with opened(chromium, server.url) as page:
            seen = page.wait_for_function(_ASKED).json_value()
    west, south, east, north = map(float, seen.split("bbox=")[1].split("&")[0].replace("%2C", ",").split(","))
    assert 6.5 < west <= 7.0 < 7.1 <= east < 7.6
    assert 45.5 < south <= 46.0 < 46.05 <= north < 46.5
