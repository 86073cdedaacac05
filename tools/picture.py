"""`make picture`: plays the town of the demo and takes the picture of its page that stands first in the README."""

from __future__ import annotations

import io
import os
import shutil
import sys
import threading
from pathlib import Path
from queue import Queue

from rich.console import Console

from nearcast.demo.town import play

PICTURE = Path(__file__).parent.parent / "docs" / "figures" / "page.png"
_SIZE = {"width": 1280, "height": 800}
#: Seconds until messages and matches fill the page.
_LIFE_S = 45.0
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def main() -> None:
    """Let the town live for a while under an open page; keep what the page looks like then."""
    chromium = os.environ.get("NEARCAST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("there is no Chromium; install it with: make browser")
    address: Queue[str] = Queue()
    over = threading.Event()
    town = threading.Thread(target=play, args=(Console(),), kwargs={"on_open": address.put, "is_over": over.is_set})
    town.start()
    try:
        picture = _taken(chromium, address.get(timeout=600))
    finally:
        over.set()
        town.join()
    PICTURE.write_bytes(_small(picture))
    sys.stdout.write(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes\n")


def _taken(chromium: str, url: str) -> bytes:
    """Return the page as a PNG."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_ARGUMENTS)
        page = browser.new_page(viewport=_SIZE)  # type: ignore[arg-type]  # a TypedDict
        page.goto(url)
        page.wait_for_selector("html[data-ready]")
        page.wait_for_timeout(1000 * _LIFE_S)
        found = page.screenshot()
        browser.close()
    return found


def _small(picture: bytes) -> bytes:
    """Return a PNG of 256 colours, which is a fraction of the size; colours of few pixels count as well."""
    from PIL import Image

    out = io.BytesIO()
    full = Image.open(io.BytesIO(picture)).convert("RGB")
    full.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    main()
