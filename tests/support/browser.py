"""A real browser for tests of the page: Chromium driven by Playwright, with every host but the server's blocked."""

import contextlib
import os
import shutil

import pytest

#: Headless, as root in containers, and without the calls that Chromium makes by itself.
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
#: Machines can be slow; where nobody waits for them, NEARCAST_WAIT_S is shorter.
WAIT_MS = 1000 * int(os.environ.get("NEARCAST_WAIT_S", "600"))


def find_chromium():
    """Return where Chromium is; None if there is none."""
    return os.environ.get("NEARCAST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@contextlib.contextmanager
def browser():
    """Run a browser; skip the test, in a line that says what to do, where there is none."""
    path = find_chromium()
    if path is None:
        pytest.skip("NO BROWSER: the page is not tested; install one with: make browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        try:
            yield found
        finally:
            found.close()


@contextlib.contextmanager
def opened(running_browser, url, **options):
    """Open a page in a context of its own; what it logs as errors, or asks of other hosts, fails the test."""
    context = running_browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    context.set_default_timeout(WAIT_MS)
    errors = []
    context.route("**/*", lambda route: route.continue_() if _is_own(route, url, errors) else route.abort())
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url)
    page.wait_for_selector("html[data-ready]")
    try:
        yield page
    finally:
        context.close()
    assert errors == []


def _is_own(route, url, errors):
    is_own = route.request.url.startswith((url, "blob:", "data:"))
    if not is_own:
        errors.append(f"asked of another host: {route.request.url}")
    return is_own
