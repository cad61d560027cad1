"""A Chromium for the tests of the console, which Playwright drives (docs/adr/25)."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, expect, sync_playwright

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
# How long a page has for what a test expects, in milliseconds: no test waits longer than it must.
PATIENCE: Final = 120_000
# A script that waits for the first text, and says after how many milliseconds it was painted.
PAINTED: Final = """() => new Promise((resolve) => new PerformanceObserver(
  (list) => resolve(list.getEntriesByName("first-contentful-paint")[0].startTime),
).observe({type: "paint", buffered: true}))"""
# It draws without a graphics card, and asks nobody but the test's server for anything.
_FLAGS: Final = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def flags() -> list[str]:
    """How a browser is started."""
    # Chromium's own sandbox refuses to run as root.
    return [*_FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]


def executable() -> str | None:
    """The path of the Chromium of this machine: what `CHROMIUM` names, or one on the path."""
    chosen = os.environ.get("CHROMIUM")
    names = (chosen,) if chosen else _NAMES
    return next(filter(None, map(shutil.which, names)), None)


@contextmanager
def launched(path: str) -> Iterator[Browser]:
    """A running browser without a window.

    While it runs, its thread has a running event loop, so `asyncio.run` fails there.
    """
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags())
        try:
            yield browser
        finally:
            browser.close()
