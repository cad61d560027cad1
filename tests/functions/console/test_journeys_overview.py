"""The overview: whether revoked warrants are refused everywhere, and until when."""

import os
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tests.functions.console import plans
from tests.functions.console.plans import WAITING
from tests.functions.console.watched import Console
from tests.infra.following import installed
from tests.kit.processes import ROOT, environment

pytestmark = pytest.mark.slow


def test_what_waits_is_said_and_published(console: Console) -> None:
    """F468a: The overview says what waits for a list and that it is late, and publishes it."""
    page, status = console.page, console.world.get("revocations/srl/status")
    figures = page.locator(".figures a")
    expect(figures.nth(2)).to_contain_text(f"in 3 h SRL {status['version']}")
    warning = page.get_by_role("status").filter(has_text="recorded but not in the SRL yet")
    expect(warning).to_contain_text(f"{status['pending']} changes are recorded")
    expect(warning).to_contain_text("publication is overdue")
    assert status["pending"] >= WAITING
    expect(figures.nth(3)).to_contain_text(f"{status['count']}")
    expect(console.panel("Action required")).to_contain_text("auditor")
    console.check_looks("overview")
    page.get_by_role("button", name="Publish SRL").click()
    expect(figures.nth(2)).to_contain_text(f"SRL {status['version'] + 1}")
    expect(figures.nth(3)).to_contain_text(f"all in SRL {status['version'] + 1}")
    expect(warning).to_have_count(0)
    expect(page.get_by_role("button", name="Publish SRL")).to_have_count(0)
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
    tasks = console.panel("Action required")
    lines = tasks.get_by_role("listitem")
    expect(lines.nth(0)).to_contain_text("warehouse-door")
    expect(lines.nth(0)).to_contain_text("fails open, with a lag of")
    expect(lines.nth(0)).to_contain_text("; edge")
    expect(lines.nth(1)).to_contain_text("5 authorizers missed a heartbeat")
    expect(lines.nth(1)).to_contain_text("for more than 6 min")
    expect(lines.nth(2)).to_contain_text("webhook, failing since 1 h ago")
    expect(lines.nth(3)).to_contain_text("signing key, suspended")
    expect(lines.nth(5)).to_contain_text("API key, expires in 5 days")
    expect(lines.nth(6)).to_contain_text("full access, never expires")
    expect(tasks).not_to_contain_text("auditor")
    console.check_axe()
    # F1510a: A newer key of the account, of any name, takes the place of one that ends.
    account, ends = world.id("fraud-desk"), "2027-11-21T12:00:00Z"
    for scopes in (["signer"], ["revoker", "signer"]):
        expect(tasks).to_contain_text("expires in 5 days")
        named = {"name": "next desk", "service_account_id": account, "expires_at": ends}
        world.post("api-keys", scopes=scopes, **named)
        console.load()
        console.sign_in()
    expect(tasks).not_to_contain_text("expires in 5 days")


def test_each_number_leads_to_its_rows(console: Console) -> None:
    """F1429a: Numbers, days and tasks of the overview lead to the rows that they count."""
    page, world = console.page, console.world
    summary = world.get("authorizers/summary")
    for index, state in ((0, "unknown"), (1, "enforced")):
        figure = page.locator(".figures a").nth(index)
        expect(figure.locator(".big")).to_have_text(str(summary[state]))
        figure.click()
        console.wait("authorizers")
        expect(page.locator(".lines .row")).to_have_count(summary[state])
        console.open("#/overview")
    expect(page).to_have_title(re.compile(rf"^\({summary['unknown']}\) Overview"))
    expect(page.locator("link[rel=icon]")).to_have_attribute("href", re.compile("mark-waits"))
    counts = world.get("revocations/counts?from=2026-11-08&to=2026-11-21")["days"]
    bars = page.locator(".daily a")
    expect(bars).to_have_count(len(counts))
    for bar, day in zip(bars.all(), counts, strict=True):
        expect(bar).to_have_accessible_name(re.compile(f"{day['date']}: {day['created']} "))
    bars.nth(3).click()
    console.wait("revocations")
    expect(page).to_have_url(re.compile(r"revocations\?.*2026-11-11"))
    console.open("#/overview?interval=hour")
    # F1511a: Per hour, and with the warrants whose key was revoked, which lead to these acts.
    hours = world.get("revocations/counts?interval=hour&from=2026-11-21&to=2026-11-21")["hours"]
    expect(bars).to_have_count(12)
    made, by_key = hours[11]["created"], hours[11]["by_key"]
    said = f"2026-11-21 11:00: {made} revocations, and {by_key} warrants by key revocation"
    assert made
    assert by_key
    expect(bars.nth(10)).to_have_accessible_name(said)
    bars.nth(10).click()
    expect(page.locator(".sheet").get_by_text(f"{made} rows")).to_be_visible()
    page.go_back()
    page.get_by_role("link", name="by key revocation", exact=True).click()
    expect(page.locator(".lines .row").first).to_contain_text("revoked 2 signing keys")
    console.open("#/overview")
    page.get_by_role("link", name="View", exact=True).nth(1).click()
    console.wait("authorizers")
    expect(page.locator(".lines .row")).to_have_count(5)


def test_an_older_service_hides_what_it_does_not_tell(console: Console) -> None:
    """F1432a: Where an older service has no endpoint, that part says so, and all else is there."""
    page = console.page
    console.expect_failures(404)
    for path in ("**/v1/authorizers/summary", "**/v1/changes?*"):
        page.route(path, lambda route: route.fulfill(status=404, json={}))
    console.load()
    console.sign_in()
    said = page.get_by_text("This version of the service does not provide this data.")
    expect(said).to_have_count(3)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(console.panel("Action required")).to_contain_text("Nightly")
    expect(page.locator(".figures a").nth(0)).to_contain_text("SRL expiry")
    console.check_axe()


def test_a_wrong_clock_of_the_browser_changes_no_age(console: Console) -> None:
    """F1433a: With a browser's clock hours ahead or behind, ages are those of the service."""
    page = console.page
    for hours in (-5, 7):
        console.set_browser_clock(console.world.clock() + timedelta(hours=hours))
        console.open("#/settings")
        console.open("#/overview")
        expect(console.panel("Recent changes").get_by_role("listitem").first).to_contain_text(
            "4 min ago"
        )
        expect(page.locator(".figures a").nth(2)).to_contain_text("in 3 h")
        expect(page.get_by_text("clock is")).to_be_visible()


def test_an_expired_list_is_said_until_another_one_is_published(visitor: Console) -> None:
    """F468b: Once the list has expired, the overview says so and shows nothing as in force."""
    page, version = visitor.page, visitor.world.get("revocations/srl/status")["version"]
    visitor.pass_time(hours=3, minutes=35)
    visitor.sign_in()
    ends = page.locator(".figures a").nth(2)
    expect(ends).to_contain_text(f"SRL {version}")
    visitor.pass_time(minutes=10)
    alarm = page.get_by_role("status").filter(has_text=f"SRL {version} expired")
    expect(alarm).to_contain_text("fail closed")
    expect(ends).to_contain_text("expired")
    expect(page.locator(".force")).to_have_count(0)
    visitor.check_looks("overview-expired", ["dark", "phone"])
    page.get_by_role("button", name="Publish SRL").click()
    expect(ends).to_contain_text(f"SRL {version + 1}, signed")
    expect(alarm).to_have_count(0)


def test_what_was_shown_stays_if_the_server_dies(console: Console) -> None:
    """F468c: If the service stops answering, the overview keeps what it showed, with its time."""
    page = console.page
    console.expect_failures(0)
    console.world.stop()
    stale = page.get_by_role("status").filter(has_text="As of 12:00 UTC")
    expect(stale).to_contain_text("The service is not responding")
    expect(page.locator(".figures a")).to_have_count(4)
    page.get_by_role("button", name="Publish SRL").click()
    expect(page.get_by_role("alert")).to_contain_text("The SRL could not be published.")
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
    console.load()
    console.sign_in()
    fault = console.panel("Revocations per day").get_by_role("alert")
    expect(fault).to_contain_text("The revocations per day could not be loaded.")
    expect(fault).to_contain_text("The store does not answer.")
    expect(page.get_by_role("alert")).to_have_count(1)
    expect(page.locator(".figures a")).to_have_count(4)
    broken[0] = False
    fault.get_by_role("button", name="Try again").click()
    expect(fault).to_have_count(0)
    expect(page.locator(".daily a")).to_have_count(14)


def test_a_fault_in_a_narrow_panel_can_be_read(console: Console) -> None:
    """F533b: A panel's button never squeezes the text of a fault to a word a line."""
    page = console.page
    console.expect_failures(503)
    for path in ("**/v1/authorizers/summary", "**/v1/keys?*"):
        page.route(path, lambda route: route.fulfill(status=503, json={}))
    console.load()
    console.sign_in()
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
    expect(page.get_by_text("You have read-only access.")).to_be_visible()
    expect(page.locator(".figures a")).to_have_count(4)
    refused = visitor.panel("Revocations per day").get_by_role("status")
    expect(refused).to_contain_text("Ask an administrator for an API key with the scope auditor.")
    expect(page.get_by_role("status").filter(has_text="publication is overdue")).to_be_visible()
    expect(page.get_by_role("main").get_by_role("button")).to_have_count(0)
    visitor.check_axe()


@pytest.mark.parametrize("plan", [plans.nothing])
def test_three_steps_stand_in_place_of_zeros(visitor: Console) -> None:
    """F468f: A new tenant is told three steps, and which of them are done."""
    page, console = visitor.page, visitor
    # The list of two weeks ago has expired.
    console.world.post("revocations/srl/regenerate")
    console.sign_in()
    steps = console.panel("Get started in three steps").get_by_role("listitem")
    expect(steps).to_have_count(3)
    expect(page.get_by_text("No authorizer has registered yet.")).to_be_visible()
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


@pytest.mark.parametrize("plan", [plans.nothing])
def test_the_first_run_leaves_a_gateway_that_works(visitor: Console, tmp_path: Path) -> None:
    """F1430a: The command that the first run shows starts a gateway, with a key of its account.

    The page waits for its first report. The key outlives the session that made it.
    """
    page, world = visitor.page, visitor.world
    python = installed(tmp_path)
    # The gateway has the clock of this machine.
    visitor.pass_time(seconds=(datetime.now(UTC) - world.clock()).total_seconds())
    world.run_schedule()
    visitor.sign_in_by_link()
    visitor.settle()
    page.get_by_role("button", name="Connect an authorizer").click()
    visitor.check_axe()
    page.get_by_role("button", name="Create key").click()
    shown = page.locator("dialog pre")
    waits = page.get_by_role("dialog").get_by_role("status").filter(has_text="Waiting for")
    expect(waits).to_contain_text("the first request with this key")
    visitor.check_looks("gateway", ["light", "phone"])
    install, *commands = str(shown.text_content()).splitlines()
    assert install == "pip install rescind_authorizer-*.whl"
    settings = {line.split("=")[0].removeprefix("export ") for line in commands[:5]}
    assert settings == set(
        re.findall("RESCIND_[A-Z_]+", (ROOT / "docs/authorizers.md").read_text())
    )
    world.seed.secrets["gateway"] = commands[1].partition("=")[2]
    surroundings = environment() | {"PATH": f"{python.parent}:{os.environ['PATH']}"}
    run = ["sh", "-c", "\n".join(commands).replace("python -m", "exec python -m")]
    with subprocess.Popen(run, cwd=tmp_path, env=surroundings) as gateway:
        try:
            expect(page.get_by_role("dialog")).to_contain_text("gateway reported entry 0")
            page.get_by_role("button", name="Done").click()
            expect(page.get_by_role("listitem").filter(has_text="done")).to_have_count(1)
            (found,) = world.get("authorizers?include=enforcement")["authorizers"]
            assert (found["name"], found["owner"]) == ("gateway", "gateway@acme.svc")
            assert found["enforcement"] == "enforced"
            made = world.get("api-keys")["api_keys"][0]
            assert (made["name"], made["scopes"]) == ("gateway", ["authorizer"])
            # What the page was reading when the session ended.
            visitor.expect_failures(401)
            page.get_by_role("button", name="Sign out").click()
            visitor.wait("sign-in")
            assert world.get("whoami", "gateway")["expires_at"] == made["expires_at"] is not None
        finally:
            gateway.terminate()


@pytest.mark.parametrize("plan", [plans.nothing])
def test_a_gateway_whose_account_is_there(console: Console) -> None:
    """F1430b: The account of a gateway that is there gets one more key, and no second account."""
    page, world = console.page, console.world
    account = world.post("service-accounts", name="gateway")["id"]
    console.open("#/authorizers")
    page.get_by_role("button", name="Connect an authorizer").click()
    console.expect_failures(409)
    page.get_by_role("button", name="Create key").click()
    page.get_by_role("button", name="Done").click()
    assert len(world.get(f"service-accounts/{account}/api-keys")["api_keys"]) == 1
    page.get_by_role("button", name="Connect an authorizer").click()
    page.get_by_label("Name").fill("Not a name")
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("dialog", name="Connect an authorizer")).to_be_visible()
