"""The console's page of authorizers, and the table in which it shows them."""

import re

import pytest
from playwright.sync_api import expect

from tests.functions.console import fleet, plans
from tests.functions.console.plans import MARKUP, RTL
from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow


def test_who_lets_warrants_in_comes_first(console: Console) -> None:
    """F478e, F1426a: Authorizers stand by what the service can prove, the worst first."""
    page, world = console.page, console.world
    console.open("#/authorizers")
    told = world.get("authorizers/summary")
    expect(page.get_by_text(f"{told['unknown']} of 7")).to_be_visible()
    expect(page.get_by_text(f"enforce entry {told['sequence']}, the newest")).to_be_visible()
    rows = page.locator(".lines > *")
    expect(rows.nth(0)).to_contain_text(f"May accept revoked warrants {told['unknown']}")
    expect(rows.nth(1)).to_contain_text(MARKUP)
    expect(rows.nth(1)).to_contain_text("never reported")
    expect(page.get_by_role("row", name="Failing closed 2")).to_be_visible()
    assert told["fail_closed"] == 2
    expect(rows.filter(has_text="checkout-eu-1")).to_contain_text("up to date")
    expect(page.get_by_role("link", name=RTL)).to_be_visible()
    console.check_looks("authorizers")

    console.act("checkout-us-2", "Remove")
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(rows.filter(has_text="checkout-us-2")).to_have_count(0)
    page.get_by_role("link", name="checkout-eu-2").click()
    expect(page.get_by_role("heading", name="checkout-eu-2")).to_be_visible()
    expect(page.get_by_text("rescind, version 0.3.0")).to_be_visible()
    console.check_looks("authorizer")


def test_only_the_service_says_who_refuses(console: Console) -> None:
    """F592a: That an authorizer refuses everything is shown only if the service says so."""
    page, world = console.page, console.world
    made = world.post("revocations", warrant_id="svc_wrt_stolen", reason="stolen")
    for minutes in (0, 7, 7):
        console.pass_time(minutes=minutes)
        world.run_schedule()
        told = world.get(f"revocations/{made['id']}/propagation")["authorizers"]
        console.open(f"#/changes/{made['id']}")
        console.open("#/authorizers")
        refuse = page.locator(".lines .row").filter(has_text="failing closed")
        expect(refuse).to_have_count(told["fail_closed"])
        console.open("#/overview")
        expect(page.get_by_role("main")).not_to_contain_text("failing closed")


def test_the_page_follows_what_authorizers_report(console: Console) -> None:
    """F546a, F1426b: Reports are shown as they come, and a row that moves keeps the focus."""
    page, world = console.page, console.world
    late = world.id("authorizer checkout-us-2")
    console.open("#/authorizers")
    newest = world.get("revocations/srl/status")["feed_sequence"]
    row = page.get_by_role("row").filter(has_text="checkout-us-2")
    expect(row).to_contain_text("not enforcing")
    row.get_by_role("link").focus()
    fleet.beat(world, late, sequence=newest)
    expect(row).to_contain_text("up to date")
    expect(row.get_by_role("link")).to_be_focused()
    console.act("checkout-eu-1", "Remove")
    world.post("revocations", warrant_id="svc_wrt_news", reason="news")
    world.run_schedule()
    expect(row).to_contain_text("1 entry")
    expect(page.get_by_role("dialog")).to_be_visible()


_COUNTED = """() => { const {animate} = Element.prototype; window.moved = 0;
  Element.prototype.animate = function (...args) {
    window.moved++;
    return animate.apply(this, args);
  } }"""


def test_a_row_that_moves_is_seen_to_move(console: Console) -> None:
    """F1435a: A row goes to its new place before one's eyes, and at once if motion is unwanted.

    Its owner is called as its API key is.
    """
    page, world = console.page, console.world
    console.open("#/authorizers")
    page.evaluate(_COUNTED)
    newest = world.get("authorizers/summary")["sequence"]
    for motion in ("reduce", "no-preference"):
        page.emulate_media(reduced_motion=motion)
        name = {"reduce": "checkout-us-2", "no-preference": "warehouse-door"}[motion]
        row = page.get_by_role("row").filter(has_text=name)
        expect(row).to_contain_text("edge")
        expect(row).to_contain_text("not enforcing")
        fleet.beat(world, world.id(f"authorizer {name}"), sequence=newest)
        expect(row).to_contain_text("up to date")
        assert bool(page.evaluate("window.moved")) == (motion == "no-preference")


@pytest.mark.parametrize("plan", [plans.large_fleet])
def test_rows_are_found_sorted_and_kept_in_the_address(console: Console) -> None:
    """F1426c: An address shows the same rows elsewhere; a file has those that are shown."""
    page = console.page
    console.open("#/authorizers")
    rows = page.locator(".lines .row")
    expect(page.get_by_text("29 of 300")).to_be_visible()
    expect(rows.first).to_contain_text("29 entries")
    expect(page.get_by_role("table")).to_have_attribute("aria-rowcount", "303")
    console.check_looks("authorizers-large")
    page.get_by_role("button", name="Up to date 271").click()
    page.get_by_role("searchbox").press("End")
    page.get_by_role("searchbox").type(" edge kiosk-29")
    expect(rows).to_have_count(2)  # 291 and 296
    page.get_by_role("columnheader", name="Name").get_by_role("button").click()
    page.get_by_role("columnheader", name="Name").get_by_role("button").click()
    name = page.get_by_role("columnheader", name="Name")
    expect(name).to_have_attribute("aria-sort", "descending")
    expect(rows.first).to_contain_text("kiosk-296")
    page.get_by_role("button", name="Columns and filters").click()
    page.get_by_role("checkbox", name="Last seen").uncheck()
    page.get_by_label("Save filter as").fill("Kiosks")
    page.get_by_role("button", name="Save", exact=True).click()
    where = page.evaluate("location.hash")
    with page.expect_download() as kept:
        page.get_by_role("button", name="Download CSV").click()
    lines = kept.value.path().read_text().splitlines()
    assert len(lines) == 3
    assert "kiosk-296" in lines[1]

    console.open("#/overview")
    console.open(where)
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("kiosk-296")
    expect(page.get_by_role("columnheader", name="Last seen")).to_have_count(0)
    page.get_by_role("searchbox").fill("")
    page.get_by_role("button", name="Columns and filters").click()
    page.get_by_role("link", name="Kiosks").click()
    expect(rows).to_have_count(2)


@pytest.mark.parametrize("plan", [plans.large_fleet])
def test_the_keyboard_is_enough(console: Console) -> None:
    """F1426d, F1478a: Rows are reached, chosen and opened by keys, which can be switched off.

    Others show exact times, and those of this computer, or go to a page.
    """
    page = console.page
    console.open("#/authorizers")
    expect(page.locator(".lines .row").first).to_be_visible()
    for _ in range(40):
        page.keyboard.press("j")
    row = page.locator(".lines .row:focus-within")
    expect(row).to_be_in_viewport()
    page.keyboard.press("k")
    page.keyboard.press("x")
    expect(row.get_by_role("checkbox")).to_be_checked()
    expect(page.get_by_text("1 selected")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("jx!")
    expect(page.get_by_role("searchbox")).to_have_value("jx!")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Show all 300").click()
    expect(page.locator(".lines time").first).to_have_text("1 min ago")
    page.keyboard.press("t")
    expect(page.locator(".lines time").first).to_have_text("11-21 11:59")
    expect(page.locator(".lines time").first).to_have_attribute("title", "2026-11-21 11:59:00 UTC")
    # F1514a: The bar says how times are told, and changes it, too.
    bar = page.get_by_role("banner")
    expect(bar).to_have_text(re.compile(r"Live\s+Exact\s*UTC"))
    bar.get_by_role("button", name="UTC").click()
    bar.get_by_role("button", name="Local").click()
    page.keyboard.press("u")
    local = "2026-11-21 11:59:00 local time"
    expect(page.locator(".lines time").first).to_have_attribute("title", local)
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.get_by_role("heading", name="Revocations")).to_be_visible()
    expect(page.locator(".lines time").first).to_have_text("11-21 11:49")
    console.open("#/authorizers?q=jx!")
    page.keyboard.press("?")
    console.check_axe()
    page.get_by_role("checkbox", name="single-letter").uncheck()
    page.get_by_role("button", name="Close", exact=True).click()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).not_to_be_focused()
    page.get_by_role("button", name="Show all 300").click()
    page.locator(".lead").first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="All authorizers")).to_be_visible()


@pytest.mark.parametrize("plan", [plans.huge_fleet])
def test_the_page_stays_usable(console: Console) -> None:
    """F591a: Of 10,000 authorizers each is found, and those in view are in the document."""
    page = console.page
    page.set_default_timeout(60_000)
    console.expect_failures(429)  # Its 100 calls use up what may be asked at once.
    page.on("response", lambda answer: console.world.clock.advance(seconds=answer.status == 429))
    console.open("#/authorizers")
    expect(page.get_by_text("29 of 10,000")).to_be_visible()
    assert page.evaluate("document.querySelectorAll('*').length") < 1000
    page.locator(".scroll").evaluate("(each) => { each.scrollTop = each.scrollHeight }")
    expect(page.locator("[aria-rowindex='10003']")).to_be_visible()
    page.get_by_role("searchbox").fill("erp 9998")
    expect(page.locator(".lines .row")).to_have_count(1)
    expect(page.get_by_text("1 of 10,000")).to_be_visible()


@pytest.mark.parametrize("plan", [plans.nothing], ids=["empty"])
def test_a_tenant_without_authorizers(console: Console) -> None:
    """F533a: Without authorizers the page says what to do, and announces no loading."""
    console.open("#/authorizers")
    expect(console.page.get_by_text("No authorizer has registered yet")).to_be_visible()
    expect(console.page.locator("#said")).to_be_empty()
    console.check_looks("authorizers-none")


def test_no_authorizer_says_what_to_do(visitor: Console) -> None:
    """F478f: A key that may not see authorizers sees why, in the place of the list."""
    visitor.expect_failures(403)
    visitor.sign_in("desk")
    visitor.open("#/authorizers")
    expect(visitor.page.get_by_text("This endpoint requires the scope")).to_be_visible()
