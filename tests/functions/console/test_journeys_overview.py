"""The overview: whether revoked warrants are refused everywhere, and until when."""

import pytest
from playwright.sync_api import Route, expect

from tests.functions.console import plans
from tests.functions.console.plans import WAITING
from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow


def test_what_waits_is_said_and_published(console: Console) -> None:
    """F468a: The overview says what waits for a list and that it is late, and publishes it."""
    page, status = console.page, console.world.get("revocations/srl/status")
    expect(
        page.get_by_role("heading", name=f"List {status['version']} is in force")
    ).to_be_visible()
    dial = page.get_by_role("img", name=f"List {status['version']} is valid for 3 h more.")
    expect(dial).to_be_visible()
    warning = page.get_by_role("status").filter(has_text="recorded but not in the list yet")
    expect(warning).to_contain_text(f"{status['pending']} changes are recorded")
    expect(warning).to_contain_text("so the schedule is late")
    assert status["pending"] >= WAITING
    expect(console.panel("Revoked")).to_contain_text(f"{status['count']}")
    expect(console.panel("What authorizers hold")).to_contain_text("hold every change")
    expect(console.panel("Needs a person")).to_contain_text("auditor")
    console.check_looks("overview")
    page.get_by_role("button", name="Publish now").click()
    following = f"List {status['version'] + 1} is in force"
    expect(page.get_by_role("heading", name=following)).to_be_visible()
    expect(warning).to_have_count(0)
    expect(page.get_by_role("button", name="Publish now")).to_have_count(0)
    assert console.world.get("revocations/srl/status")["pending"] == 0


def test_what_needs_a_person_is_complete(console: Console) -> None:
    """F596a: Authorizers, webhooks and keys that need a person are listed, no replaced ones."""
    page, world = console.page, console.world
    hook = world.post("webhooks", url="https://hooks.example.com/rescind", events=["*"])
    failing = [world.get(f"webhooks/{hook['id']}") | {"failing_since": "2026-11-21T11:00:00Z"}]
    answer = {"webhooks": failing, "total": 1, "cursor": None}
    page.route("**/v1/webhooks*", lambda route: route.fulfill(json=answer))
    world.post(f"api-keys/{world.id('auditor')}/rotate", grace_seconds=3600)
    console.open("#/settings")
    console.open("#/overview")
    tasks = console.panel("Needs a person")
    lines = tasks.locator(".rowed > div")
    expect(lines.nth(0)).to_contain_text("warehouse-door")
    expect(lines.nth(0)).to_contain_text("let warrants in with too old a state")
    expect(lines.nth(1)).to_contain_text("5 authorizers")
    expect(lines.nth(1)).to_contain_text("not heard for 6 min")
    expect(lines.nth(2)).to_contain_text("webhook, accepts nothing since 1 h ago")
    expect(tasks).to_contain_text("API key, expires in 5 days")
    expect(tasks).not_to_contain_text("auditor")
    console.check_axe()


def test_an_expired_list_is_said_until_another_one_is_published(visitor: Console) -> None:
    """F468b: Once the list has expired, the overview says so and shows nothing as in force."""
    page, version = visitor.page, visitor.world.get("revocations/srl/status")["version"]
    visitor.pass_time(hours=3, minutes=35)
    visitor.sign_in()
    expect(page.get_by_role("heading", name=f"List {version} is in force")).to_be_visible()
    visitor.pass_time(minutes=10)
    alarm = page.get_by_role("status").filter(has_text=f"List {version} expired")
    expect(alarm).to_contain_text("refuses every warrant")
    expect(page.get_by_role("heading", name=f"List {version} has expired")).to_be_visible()
    held = visitor.panel("What authorizers hold")
    expect(held).to_contain_text("not heard for 6 min")
    expect(held.locator(".force")).to_have_count(0)
    visitor.check_looks("overview-expired", ["dark", "phone"])
    page.get_by_role("button", name="Publish now").click()
    following = page.get_by_role("heading", name=f"List {version + 1} is in force")
    expect(following).to_be_visible()
    expect(alarm).to_have_count(0)


def test_what_was_shown_stays_if_the_server_dies(console: Console) -> None:
    """F468c: If the service stops answering, the overview keeps what it showed, with its time."""
    page = console.page
    console.expect_failures(0)
    console.world.stop()
    stale = page.get_by_role("status").filter(has_text="As of 12:00 UTC")
    expect(stale).to_contain_text("The service does not answer.")
    expect(page.get_by_role("img", name="is valid for")).to_be_visible()
    expect(console.panel("What authorizers hold").get_by_role("img")).to_be_visible()
    page.get_by_role("button", name="Publish now").click()
    expect(page.get_by_role("alert")).to_contain_text("The list could not be published.")
    console.check_axe()


def test_a_fault_of_one_panel_leaves_the_others(console: Console) -> None:
    """F468d: A panel that cannot be read says why and can be tried again; the others stay."""
    page, broken = console.page, [True]

    def answer(route: Route) -> None:
        if not broken[0]:
            return route.continue_()
        error = '{"error": {"code": "unavailable", "message": "The store does not answer."}}'
        return route.fulfill(status=503, content_type="application/json", body=error)

    console.expect_failures(503)
    page.route("**/v1/revocations/counts*", answer)
    console.open("#/keys")
    console.open("#/overview")
    fault = console.panel("Revocations per day").get_by_role("alert")
    expect(fault).to_contain_text("The revocations per day could not be shown.")
    expect(fault).to_contain_text("The store does not answer.")
    expect(page.get_by_role("alert")).to_have_count(1)
    expect(page.get_by_role("img", name="is valid for")).to_be_visible()
    broken[0] = False
    fault.get_by_role("button", name="Try again").click()
    expect(fault).to_have_count(0)
    expect(console.panel("Revocations per day").locator(".body")).to_be_visible()


def test_a_fault_in_a_narrow_panel_can_be_read(console: Console) -> None:
    """F533b: A panel's button never squeezes the text of a fault to a word a line."""
    page = console.page
    console.expect_failures(503)
    for path in ("**/v1/authorizers*", "**/v1/keys?*"):
        page.route(path, lambda route: route.fulfill(status=503, json={}))
    console.open("#/settings")
    console.open("#/overview")
    faults = page.get_by_role("alert").locator("p")
    expect(faults).to_have_count(3)
    for width in (1280, 1000, 720, 390, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert faults.evaluate_all("all => Math.min(...all.map((each) => each.clientWidth))") >= 170
        console.check()


def test_a_key_that_only_reads_sees_what_it_may(visitor: Console) -> None:
    """F468e: With a read-only key the overview shows what it may read, and nothing to change."""
    visitor.expect_failures(403)
    visitor.sign_in("reader")
    page = visitor.page
    expect(page.get_by_text("You are looking with a key that may only read.")).to_be_visible()
    expect(page.get_by_role("img", name="is valid for")).to_be_visible()
    refused = visitor.panel("Revocations per day").get_by_role("status")
    expect(refused).to_contain_text("Ask an administrator for a key with the scope admin.")
    expect(page.get_by_role("status").filter(has_text="the schedule is late")).to_be_visible()
    expect(page.get_by_role("main").get_by_role("button")).to_have_count(0)
    visitor.check_axe()


@pytest.mark.parametrize("plan", [plans.nothing])
def test_three_steps_stand_in_place_of_zeros(visitor: Console) -> None:
    """F468f: A new tenant is told three steps, and which of them are done."""
    page, console = visitor.page, visitor
    # The list of two weeks ago has expired.
    console.world.post("revocations/srl/regenerate")
    console.sign_in()
    steps = console.panel("Three steps").get_by_role("listitem")
    expect(steps).to_have_count(3)
    expect(console.panel("What authorizers hold")).to_contain_text("No authorizer has reported")
    expect(console.panel("Revocations per day")).to_be_hidden()
    console.check_looks("overview-new", ["light", "phone"])
    console.world.post("keys", type="root", name="Head office")
    console.open("#/keys")
    console.open("#/overview")
    expect(steps.first).to_contain_text("done")
    console.world.post("revocations", warrant_id="svc_wrt_first", reason="to see it happen")
    warning = page.get_by_role("status").filter(has_text="1 change is recorded")
    expect(warning).to_contain_text("less than a minute")
    expect(steps).to_have_count(0)
    expect(console.panel("Revocations per day")).to_be_visible()
