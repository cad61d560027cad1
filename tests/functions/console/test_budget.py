"""How much the console loads, and what its first text waits for."""

from typing import Final

import pytest
from playwright.sync_api import Browser, Page, Response, Route, expect

from tests.functions.console import plans
from tests.functions.console.served import World
from tests.kit import browsers

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("plan", [plans.nothing])]

_BYTES: Final = 38_000
_REQUESTS: Final = 13


def _loaded(page: Page, address: str) -> list[Response]:
    """All that is loaded for the first page."""
    responses: list[Response] = []

    def take(response: Response) -> None:
        responses.append(response)

    page.on("response", take)
    page.goto(address)
    page.wait_for_selector("body[data-ready=sign-in]", state="attached")
    return responses


def test_the_first_page_is_small(chromium: Browser, world: World) -> None:
    """F462b: The first page takes at most 13 requests and 38 kB, compressed."""
    with chromium.new_context() as context:
        responses = _loaded(context.new_page(), world.url)
        for each in responses:
            each.finished()
        sizes = {each.url: each.request.sizes()["responseBodySize"] for each in responses}
    assert len(sizes) <= _REQUESTS, sizes
    assert sum(sizes.values()) <= _BYTES, sizes


def test_the_first_text_waits_for_no_script(chromium: Browser, world: World) -> None:
    """F462c: The first text is painted from the page and its style sheet, before any script."""
    with chromium.new_context() as context:
        page = context.new_page()
        scripts: list[Route] = []

        def hold(route: Route) -> None:
            scripts.append(route)

        page.route("**/*.js", hold)
        page.goto(world.url, wait_until="commit")
        page.evaluate(browsers.PAINTED)
        expect(page.get_by_role("heading", name="Rescind")).to_be_visible()
        # This context ends before their requests are answered.
        assert len(scripts) > 1
        for each in scripts:
            each.abort()
