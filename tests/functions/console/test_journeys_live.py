"""What pages show stays fresh: one tab asks for all, and nothing is taken from the person."""

from collections import Counter
from typing import Any

import pytest
from playwright.sync_api import Page, Request, expect

from tests.functions.console import fleet, plans
from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plan() -> Any:
    return plans.large_fleet


def _is_poll(request: Request) -> bool:
    return request.url.endswith("/v1/authorizers/summary")


def _polls(page: Page, times_: int) -> None:
    """Wait until the page, or another tab, has asked so often."""
    for _ in range(times_):
        page.context.wait_for_event("requestfinished", predicate=_is_poll)


def test_tabs_ask_as_often_as_one(console: Console) -> None:
    """F1425b: Three tabs ask as often as one; one that is closed is replaced within 10 s."""
    tabs = [console]
    for _ in range(2):
        tabs.append(console.another_tab())
        tabs[-1].sign_in()
    for tab in tabs:
        tab.open("#/authorizers")
        expect(tab.page.get_by_text("may accept a revoked warrant")).to_be_visible()
    asked: list[Page] = []
    console.page.context.on(
        "request", lambda each: asked.append(each.frame.page) if _is_poll(each) else None
    )
    console.page.wait_for_timeout(8000)
    assert len(set(asked)) == 1
    assert 2 <= len(asked) <= 6
    console.world.post("revocations", warrant_id="svc_wrt_news", reason="news")
    console.world.run_schedule()
    for tab in tabs:
        expect(tab.page.get_by_text("None of 300")).to_have_count(0)
        expect(tab.page.get_by_text("300 of 300")).to_be_visible()
    leader = next(tab for tab in tabs if tab.page == asked[0])
    rest = [tab for tab in tabs if tab is not leader]
    leader.check()
    asked.clear()
    leader.page.close()
    rest[0].page.context.wait_for_event("request", predicate=_is_poll, timeout=10_000)
    assert Counter(asked).keys() <= {tab.page for tab in rest}
    rest[0].page.get_by_role("button", name="Sign out").click()
    for tab in rest:
        expect(tab.page.get_by_role("heading", name="Sign in")).to_be_visible()
    asked.clear()
    rest[0].page.wait_for_timeout(3000)
    assert asked == []
    if leader is console:
        console.page = rest[0].page


def test_five_polls_take_nothing_away(console: Console) -> None:
    """F1425c: Focus, caret, choice, menu, scroll and chosen text stay through five polls."""
    page, world = console.page, console.world
    console.open("#/authorizers")

    def change(number: int) -> None:
        fleet.beat(world, fleet.register(world, f"edge-door-{number}"), sequence=number)

    field = page.get_by_role("searchbox")
    field.fill("e")
    page.get_by_role("checkbox", name="Select").nth(3).check()
    page.locator(".scroll").evaluate("(each) => { each.scrollTop = 400 }")
    field.focus()
    field.evaluate("(each) => { each.value = 'edge'; each.setSelectionRange(1, 3); each.mine = 1 }")
    before = page.locator(".scroll").evaluate("(each) => each.scrollTop")
    change(2)
    _polls(page, 5)
    assert page.evaluate(
        """() => { const {activeElement: {mine, value, selectionStart, selectionEnd}} = document;
          return [mine, value, selectionStart, selectionEnd] }"""
    ) == [1, "edge", 1, 3]
    assert page.locator(".scroll").evaluate("(each) => each.scrollTop") == before
    expect(page.get_by_text("1 selected")).to_be_visible()

    row = page.locator(".lines .row").nth(10)
    row.locator(".lead").evaluate("(each) => getSelection().selectAllChildren(each)")
    chosen = page.evaluate("getSelection().toString()")
    row.get_by_role("button").click()
    item = page.get_by_role("menuitem", name="Copy")
    expect(item).to_be_focused()
    change(1)
    _polls(page, 5)
    expect(item).to_be_focused()
    assert page.evaluate("getSelection().toString()") == chosen != ""


def test_old_data_says_how_old_it_is(console: Console) -> None:
    """F1425d: If the service is gone, the rows stay with their time, and go on after."""
    page = console.page
    console.open("#/authorizers")
    expect(page.locator(".lines .row").first).to_be_visible()
    console.expect_failures(0)
    console.world.stop()
    console.be_away(seconds=20)
    expect(page.get_by_text("As of 12:00 UTC. The service is not responding.")).to_be_visible()
    expect(page.get_by_role("banner")).to_contain_text("No response since 12:00 UTC")
    expect(page.locator(".lines .row").first).to_be_visible()
    console.world.start()
    console.be_away(seconds=40)
    expect(page.get_by_text("As of 12:00 UTC.")).to_have_count(0)
    expect(page.get_by_role("banner")).to_contain_text("Live")
