"""The console's page of authorizers."""

import pytest
from playwright.sync_api import expect

from shared.model import times
from tests.functions.console import plans
from tests.functions.console.plans import MARKUP, RTL
from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow


def test_who_is_behind_comes_first(console: Console) -> None:
    """F478e: What was not reported is said to be unknown; the furthest behind comes first."""
    page, world = console.page, console.world
    for number in range(30):
        world.post("authorizers/register", "edge", name=f"kiosk-{number}")
    console.open("#/authorizers")
    newest = world.get("revocations/srl/status")["feed_sequence"]
    expect(page.get_by_text(f"hold entry {newest}, the newest")).to_be_visible()
    rows = page.locator("tbody tr")
    expect(rows.first).to_contain_text(MARKUP)
    expect(rows.first).to_contain_text("not reported yet")
    expect(rows.filter(has_text="checkout-eu-1")).to_contain_text(f"entry {newest}")
    expect(rows.filter(has_text="checkout-us-1")).to_contain_text("refuses everything")
    expect(rows.filter(has_text="warehouse-door")).to_contain_text("lets warrants in when stale")
    expect(page.get_by_text("1 authorizer lets warrants in when")).to_be_visible()
    expect(page.get_by_role("link", name=RTL)).to_be_visible()
    page.get_by_text("kiosk", exact=True).click()
    expect(page.get_by_role("table", name="kiosk, 30 rows")).to_be_visible()
    console.check_looks("authorizers")

    page.get_by_role("button", name="Remove checkout-us-2").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(rows.filter(has_text="checkout-us-2")).to_have_count(0)
    page.get_by_role("link", name="checkout-eu-2").click()
    expect(page.get_by_role("heading", name="checkout-eu-2")).to_be_visible()
    expect(page.get_by_text("rescind, version 0.3.0")).to_be_visible()


def test_the_page_follows_what_authorizers_report(console: Console) -> None:
    """F546a: Reports are shown as they come, but not in the place that a person is at."""
    page, world, asked = console.page, console.world, list[str]()
    page.on("request", lambda request: asked.append(request.url))
    kiosks = [
        world.post("authorizers/register", "edge", name=f"kiosk-{number}")["id"]
        for number in range(30)
    ]
    console.open("#/authorizers")
    group = page.locator("details")
    expect(group).to_contain_text("30 not at the newest")
    group.locator("summary").click()
    newest = world.get("revocations/srl/status")["feed_sequence"]
    world.post(
        f"authorizers/{kiosks[0]}/heartbeat",
        "edge",
        sequence=newest,
        verified_at=times.text(world.clock()),
    )
    asked.clear()
    console.be_away(seconds=20)
    page.get_by_role("heading", name="Authorizers").click()
    console.be_away(seconds=20)
    expect(page.get_by_role("table", name="kiosk, 30 rows")).to_be_visible()
    group.locator("summary").click()
    page.get_by_role("heading", name="Authorizers").click()
    assert [url for url in asked if "/v1/authorizers" in url] == []
    console.be_away(seconds=20)
    expect(group).to_contain_text("29 not at the newest")


@pytest.mark.parametrize("plan", [plans.nothing], ids=["empty"])
def test_a_tenant_without_authorizers(console: Console) -> None:
    """F533a: Without authorizers the page says what to do, and announces no loading."""
    console.open("#/authorizers")
    expect(console.page.get_by_text("No authorizer is registered.")).to_be_visible()
    expect(console.page.locator("#said")).to_be_empty()


def test_no_authorizer_says_what_to_do(visitor: Console) -> None:
    """F478f: A key that may not see authorizers is told so, in the place of the list."""
    visitor.expect_failures(403)
    visitor.sign_in("desk")
    visitor.open("#/authorizers")
    expect(visitor.page.get_by_text("This key may not do that.")).to_be_visible()
