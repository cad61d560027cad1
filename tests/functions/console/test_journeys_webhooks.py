"""The console's page of webhooks."""

import pytest
from playwright.sync_api import Route, expect

from tests.functions.console.plans import MARKUP
from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow


def test_a_webhook_is_made_disabled_and_deleted(console: Console) -> None:
    """F478g: Its secret is shown once; its events are types that the API knows."""
    page, world = console.page, console.world
    # Its page may ask for it once more before it is left.
    console.expect_failures(400, 404)
    console.open("#/webhooks")
    expect(page.get_by_text("No webhooks yet.")).to_be_visible()
    page.get_by_role("button", name="New webhook").click()
    page.get_by_label("URL").fill("https://192.0.2.1/x")
    page.get_by_role("button", name="Create webhook").click()
    expect(page.get_by_role("alert")).to_contain_text("url")
    page.get_by_label("URL").fill("https://hooks.example.com/rescind")
    page.get_by_label("Description").fill(MARKUP)
    page.get_by_label("All events").uncheck()
    for group in ("Warrants are", "Signing keys", "SRLs are", "API keys", "Authorizers"):
        page.get_by_label(group).check()
    console.check_axe()
    page.get_by_role("button", name="Create webhook").click()
    world.seed.secrets["webhook"] = page.locator("output.secret").inner_text()
    (made,) = world.get("webhooks")["webhooks"]
    assert {"revocation.create", "srl.published", "key.expiring"} <= set(made["events"])
    page.get_by_role("button", name="Done").click()
    console.check_looks("webhooks")

    page.get_by_role("link", name="https://hooks.example.com/rescind").click()
    expect(page.get_by_text("No deliveries yet.")).to_be_visible()
    page.get_by_role("button", name="Rotate secret").click()
    page.get_by_role("button", name="Generate secret").click()
    expect(page.locator("output.secret")).not_to_have_text(world.seed.secrets["webhook"])
    page.get_by_role("button", name="Done").click()
    page.get_by_role("button", name="Disable…").click()
    page.get_by_role("dialog").get_by_role("button", name="Disable").click()
    expect(page.get_by_text("disabled: by a person")).to_be_visible()
    # F1512a: What people did with it stands below.
    expect(console.panel("Timeline").get_by_role("listitem")).to_have_count(3)
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No webhooks yet.")).to_be_visible()
    assert world.get("webhooks")["webhooks"] == []


def test_what_becomes_of_a_test_event(console: Console) -> None:
    """F532a: The outcome of a test event is shown as it comes, without loading the page."""
    page, world = console.page, console.world
    made = world.post("webhooks", url="https://hooks.example.com/rescind", events=["*"])
    world.seed.secrets["webhook"] = made["secret"]
    console.open(f"#/webhooks/{made['id']}")
    expect(page.get_by_text("No deliveries yet.")).to_be_visible()
    page.get_by_role("button", name="Send test event…").click()
    expect(page.get_by_role("dialog")).to_contain_text("rescind.test")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator("#said")).to_contain_text("Test event queued.")
    told = {
        "index": 7,
        "type": "rescind.test",
        "state": "delivered",
        "outcome": "response",
        "status": 204,
        "duration_ms": 12,
        "attempts": 1,
        "attempted_at": "2026-11-21T12:00:00Z",
        "response": None,
    }

    def tell(route: Route) -> None:
        route.fulfill(json={"deliveries": [told], "cursor": None})

    page.route("**/deliveries*", tell)
    expect(page.get_by_role("row", name="rescind.test")).to_contain_text("204 after 12 ms")
