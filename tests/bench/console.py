"""When a person sees the first text of the console, beside a page that is one heading.

Each load has an empty cache. The figures are those that the browser itself reports.
"""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser

from tests.bench.measure import Side, alternate
from tests.bench.report import Row, compared
from tests.bench.scratch import scratch
from tests.kit import browsers
from tests.kit.processes import HOST, local_server

_NAME: Final = "console, first text"


def run(*, rounds: int = 15) -> Iterator[Row]:
    """The console of the local server, beside a static page."""
    path = browsers.executable()
    if path is None:
        yield Row.missing(_NAME, "no Chromium")
        return
    with (
        scratch() as folder,
        local_server(folder / "data", "--log-level", "warning") as server,
        _heading(folder / "heading") as plain,
        browsers.launched(path) as browser,
    ):
        sides = (_side(browser, server.url), _side(browser, plain))
        for each in sides:
            each()  # the browser and both servers have begun from here on
        ours, theirs = alternate(*sides, rounds=rounds)
    yield compared(_NAME, ours, "a page of one heading", theirs, unit=("ms", 1.0), goal="≤ 300 ms")


def _side(browser: Browser, address: str) -> Side:
    def side() -> float:
        with browser.new_context() as context:
            page = context.new_page()
            page.goto(address)
            return float(page.evaluate(browsers.PAINTED))

    return side


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""


@contextmanager
def _heading(folder: Path) -> Iterator[str]:
    """Serve a page that is one heading; its address."""
    folder.mkdir()
    (folder / "index.html").write_text("<!doctype html><title>Rescind</title><h1>Rescind</h1>")
    handler = partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer((HOST, 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://{HOST}:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
