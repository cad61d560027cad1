"""The console's page of authorizers."""

from typing import Any

import pytest
from playwright.sync_api import expect

from shared.model import times
from tests.functions.console import plans
from tests.functions.console.plans import MARKUP, RTL
from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow


def test_who_is_behind_comes_first(console: Console) -> None:
    """F478e, F591a: An authorizer is shown with what it reported, the furthest behind first."""
    page, world = console.page, console.world
    console.open("#/authorizers")
    newest = world.get("revocations/srl/status")["feed_sequence"]
    expect(page.get_by_text(f"hold entry {newest}, the newest")).to_be_visible()
    rows = page.locator("tbody tr")
    expect(rows.first).to_contain_text(MARKUP)
    expect(rows.first).to_contain_text("not reported yet")
    expect(rows.filter(has_text="checkout-eu-1")).to_contain_text(f"entry {newest}")
    expect(rows.filter(has_text="warehouse-door")).to_contain_text("then lets warrants in")
    expect(page.get_by_text("1 authorizer lets warrants in if")).to_be_visible()
    expect(page.get_by_role("link", name=RTL)).to_be_visible()
    console.check_looks("authorizers")

    page.get_by_role("button", name="Remove checkout-us-2").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(rows.filter(has_text="checkout-us-2")).to_have_count(0)
    page.get_by_role("link", name="checkout-eu-2").click()
    expect(page.get_by_role("heading", name="checkout-eu-2")).to_be_visible()
    expect(page.get_by_text("rescind, version 0.3.0")).to_be_visible()


def test_only_the_service_says_who_refuses(console: Console) -> None:
    """F592a: That an authorizer refuses everything is shown only if the service says so."""
    page, world = console.page, console.world
    made = world.post("revocations", warrant_id="svc_wrt_stolen", reason="stolen")
    for may_be_closed in (False, True):
        console.pass_time(minutes=7)
        world.run_schedule()
        told = world.get(f"revocations/{made['id']}/propagation")
        assert (told["authorizers"]["closed"] > 0) == may_be_closed
        console.open(f"#/revocations/{made['id']}")
        expect(page.get_by_text("everything, as")).to_have_count(int(may_be_closed))
        for where in ("#/authorizers", "#/overview"):
            console.open(where)
            expect(page.get_by_role("main")).not_to_contain_text("refuses everything")
            expect(page.get_by_role("main")).not_to_contain_text("hold an expired list")


def _heartbeat(console: Console, authorizer_id: str, **report: Any) -> None:
    world = console.world
    now = times.text(world.clock())
    world.post(f"authorizers/{authorizer_id}/heartbeat", "edge", verified_at=now, **report)


def test_the_page_follows_what_authorizers_report(console: Console) -> None:
    """F546a, F591b: Reports are shown as they come, and take the focus from no row."""
    page, world = console.page, console.world
    late = world.id("authorizer checkout-us-1")
    console.open("#/authorizers")
    newest = world.get("revocations/srl/status")["feed_sequence"]
    row = page.get_by_role("row", name="checkout-us-1")
    expect(row).to_contain_text("behind")
    row.get_by_role("link").focus()
    _heartbeat(console, late, sequence=newest)
    console.be_away(seconds=20)
    expect(row).to_contain_text(f"entry {newest}")
    expect(row.get_by_role("link")).to_be_focused()
    page.get_by_role("button", name="Remove checkout-eu-1").click()
    world.post("revocations", warrant_id="svc_wrt_news", reason="news")
    world.run_schedule()
    console.be_away(seconds=20)
    expect(row).to_contain_text("1 entry behind")
    expect(page.get_by_role("dialog")).to_be_visible()


@pytest.mark.parametrize("plan", [plans.large_fleet])
def test_each_of_them_has_a_row(console: Console) -> None:
    """F591c: Each authorizer has a row in one table, the furthest behind first."""
    page, world = console.page, console.world
    console.open("#/authorizers")
    rows = page.locator("tbody tr")
    expect(page.get_by_text("271 of 300 authorizers said that they hold entry")).to_be_visible()
    expect(rows).to_have_count(100)
    expect(rows.first).to_contain_text("29 entries behind")
    expect(rows.nth(28)).to_contain_text("1 entry behind")
    expect(rows.nth(29)).not_to_contain_text("behind")
    expect(rows.first.get_by_role("button", name="Remove")).to_be_visible()
    console.check_looks("authorizers-large")
    page.get_by_role("button", name="The next 100").click()
    expect(page.get_by_text("101 to 200 of 300")).to_be_visible()
    page.get_by_label("Name, program").fill("edge kiosk-29")  # 291 and 296
    expect(rows).to_have_count(2)
    world.post("revocations", warrant_id="svc_wrt_news", reason="news")
    world.run_schedule()
    console.be_away(seconds=20)
    expect(rows.first).to_contain_text("1 entry behind")
    expect(page.get_by_label("Name, program")).to_be_focused()


@pytest.mark.parametrize("plan", [plans.huge_fleet])
def test_the_page_stays_usable(console: Console) -> None:
    """F591d: Of 10,000 authorizers each is found, and the page says how old it is."""
    page = console.page
    console.open("#/authorizers")
    rows = page.locator("tbody tr")
    expect(page.get_by_text("9,971 of 10,000 authorizers")).to_be_visible()
    expect(page.get_by_text("As of 12:00 UTC. So many are read anew each 5 min.")).to_be_visible()
    expect(rows).to_have_count(100)
    page.get_by_label("Name, program").fill("erp 9998")
    expect(rows).to_have_count(1)
    assert page.evaluate("document.querySelectorAll('*').length") < 3000


@pytest.mark.parametrize("plan", [plans.nothing], ids=["empty"])
def test_a_tenant_without_authorizers(console: Console) -> None:
    """F533a: Without authorizers the page says what to do, and announces no loading."""
    console.open("#/authorizers")
    expect(console.page.get_by_text("No authorizer is registered.")).to_be_visible()
    expect(console.page.locator("#said")).to_be_empty()


def test_no_authorizer_says_what_to_do(visitor: Console) -> None:
    """F478f: A key that may not see authorizers sees why, in the place of the list."""
    visitor.expect_failures(403)
    visitor.sign_in("desk")
    visitor.open("#/authorizers")
    expect(visitor.page.get_by_text("This key may not do that.")).to_be_visible()


@pytest.mark.parametrize("plan", [plans.lone_authorizer])
def test_each_is_shown_at_1_20_and_21(console: Console) -> None:
    """F591e: Of 1, 20 and 21 authorizers each has a row; the search is there from 21 on."""
    page, world = console.page, console.world
    registered = 1
    for size in (1, 20, 21):
        for number in range(registered, size):
            world.post("authorizers/register", name=f"door-{number}")
        registered = size
        console.open("#/overview")
        console.open("#/authorizers")
        expect(page.locator("tbody tr")).to_have_count(size)
        noun = "authorizer" if size == 1 else "authorizers"
        expect(page.get_by_text(f"{size} of {size} {noun}", exact=True)).to_be_visible()
        expect(page.get_by_role("searchbox")).to_have_count(int(size > 20))
        console.check_axe()
    expect(page.locator("tbody tr").first).to_contain_text("not reported yet")
