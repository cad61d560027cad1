"""Who is signed in, and until when; and what is said if the service does not answer."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Request, Response, Route, expect

from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow

DOOR = "Sign in to Rescind"


def assert_signed_out(console: Console, why: str) -> None:
    expect(console.page.get_by_role("heading", name=DOOR)).to_be_visible()
    expect(console.page.get_by_role("main")).to_contain_text(why)
    assert console.page.evaluate("sessionStorage.length") == 0


def test_the_keyboard_is_enough_to_sign_in_and_out(visitor: Console) -> None:
    """F457a: Signing out forgets the key and the pages, also for the Back button."""
    page = visitor.page
    visitor.wait("sign-in")
    visitor.check_looks("sign-in")
    page.keyboard.type(visitor.world.seed.secrets["admin"])
    page.keyboard.press("Enter")
    visitor.wait("overview")
    visitor.open("#/settings")
    page.get_by_role("button", name="Sign out").focus()
    page.keyboard.press("Enter")
    assert_signed_out(visitor, "You are signed out.")
    page.go_back()
    expect(page.get_by_role("heading", name=DOOR)).to_be_visible()
    expect(page.get_by_text("Acme payments")).to_have_count(0)


def test_a_session_ends_without_input(console: Console) -> None:
    """F457b: After 15 minutes without input the key is forgotten; the page is kept."""
    console.open("#/settings")
    console.be_away(minutes=14)
    expect(console.page.get_by_role("button", name="Sign out")).to_be_visible()
    console.be_away(minutes=2)
    assert_signed_out(console, "Locked after 15 minutes without input.")
    console.type_key(console.world.seed.secrets["admin"])
    console.wait("settings")


def key_of_account(console: Console, name: str) -> str:
    """Make a key of the account `fraud-desk` that may do everything; its identifier."""
    account = console.world.id("fraud-desk")
    made = console.world.post("api-keys", name=name, scopes=["admin"], service_account_id=account)
    console.world.seed.secrets[name] = made["key"]
    return str(made["id"])


def lose_key(console: Console) -> Locator:
    """Sign in with a key, type into a dialog, and lose the key; the door over it all."""
    key = key_of_account(console, "desk 1")
    console.expect_failures(401)
    console.sign_in("desk 1")
    console.open("#/accounts")
    console.page.get_by_role("button", name="New service account").click()
    console.page.get_by_label("Name").fill("new-desk")
    console.world.post(f"api-keys/{key}/revoke")
    console.page.get_by_role("button", name="Create account").click()
    door = console.page.get_by_role("dialog", name="Your API key is no longer valid")
    expect(door).to_be_visible()
    return door


def accounts_named(console: Console, name: str) -> int:
    found = console.world.get("service-accounts?limit=100")["service_accounts"]
    return [each["name"] for each in found].count(name)


def type_key(door: Locator, secret: str) -> None:
    door.get_by_label("API key").fill(secret)
    door.get_by_role("button", name="Sign in").click()


def test_a_refused_key_loses_nothing(visitor: Console) -> None:
    """F457c, F1428a: Over a refused key's page a door opens; the same account goes on, once."""
    page, sent = visitor.page, list[Request]()
    page.on("request", lambda each: sent.append(each) if each.method == "POST" else None)
    door = lose_key(visitor)
    key_of_account(visitor, "desk 1")
    visitor.check_looks("sign-in-over")
    # Nothing behind the door can be reached.
    for _ in range(6):
        page.keyboard.press("Tab")
        assert page.evaluate("!document.activeElement.closest('.shell')")
    page.keyboard.press("Escape")
    expect(door).to_be_visible()
    type_key(door, "svc_wrong")
    expect(door.get_by_role("alert")).to_contain_text("Sign-in failed.")
    type_key(door, visitor.world.seed.secrets["desk 1"])
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("row", name="new-desk")).to_be_visible()
    assert accounts_named(visitor, "new-desk") == 1
    made = [each.headers["idempotency-key"] for each in sent if "service-accounts" in each.url]
    assert len(made) == 2
    assert len(set(made)) == 1


def test_somebody_else_gets_nothing_of_it(visitor: Console) -> None:
    """F1428b: If somebody else signs in at the door over a page, what was typed is dropped."""
    door = lose_key(visitor)
    type_key(door, visitor.world.seed.secrets["admin"])
    visitor.wait("accounts")
    expect(visitor.page.get_by_role("dialog")).to_have_count(0)
    expect(visitor.page.locator(".who")).to_contain_text("admin")
    expect(visitor.page.get_by_role("row", name="build-farm")).to_be_visible()
    assert accounts_named(visitor, "new-desk") == 0


def test_who_gives_up_at_the_door_is_signed_out(visitor: Console) -> None:
    """F1428c: The door over a page also leads out; another tab that signs out closes it."""
    door = lose_key(visitor)
    door.get_by_role("button", name="Discard and sign out").click()
    assert_signed_out(visitor, "Your API key is no longer valid.")
    expect(visitor.page.get_by_role("dialog")).to_have_count(0)
    visitor.type_key(visitor.world.seed.secrets["admin"])
    visitor.wait("accounts")
    other = visitor.another_tab()
    other.sign_in("reader")
    visitor.page.route("**/v1/**", lambda route: route.fulfill(status=401, json={}))
    visitor.page.get_by_role("link", name="Webhooks").click()
    expect(
        visitor.page.get_by_role("dialog", name="Your API key is no longer valid")
    ).to_be_visible()
    other.page.get_by_role("button", name="Sign out").click()
    assert_signed_out(visitor, "You signed out in another tab.")
    expect(visitor.page.get_by_role("dialog")).to_have_count(0)


def test_another_key_repeats_no_change_that_may_be_done(visitor: Console) -> None:
    """F1428d: If an answer was lost, and then the key, another key does not do it again unasked."""
    page, world = visitor.page, visitor.world
    key = key_of_account(visitor, "desk 1")
    visitor.expect_failures(0, 401, 409)
    visitor.sign_in("desk 1")
    visitor.open("#/accounts")
    page.get_by_role("button", name="New service account").click()
    page.get_by_label("Name").fill("new-desk")

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route("**/v1/service-accounts", lose)
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_text("The result is unknown.")).to_be_visible()
    page.unroute("**/v1/service-accounts")
    world.post(f"api-keys/{key}/revoke")
    key_of_account(visitor, "desk 1")
    page.get_by_role("button", name="Create account").click()
    door = page.get_by_role("dialog", name="Your API key is no longer valid")
    type_key(door, world.seed.secrets["desk 1"])
    expect(page.get_by_role("alert")).to_contain_text("Check whether the change was made")
    assert accounts_named(visitor, "new-desk") == 1


def test_a_session_goes_on_in_all_tabs(visitor: Console) -> None:
    """F1428e: A session that ended goes on in each tab when its person signs in in another one."""
    visitor.sign_in_by_link()
    other = visitor.another_tab()
    other.wait("overview")
    other.open("#/accounts")
    other.page.get_by_role("button", name="New service account").click()
    other.page.get_by_label("Name").fill("new-desk")
    visitor.expect_failures(401)
    for each in sessions(visitor):
        visitor.world.call("DELETE", f"sessions/{each['id']}")
    # The other tab shows what this one is told.
    expect(
        visitor.page.get_by_role("dialog", name="Your session is no longer valid")
    ).to_be_visible()
    third = visitor.another_tab()
    third.page.goto(visitor.world.link())
    third.page.get_by_role("button", name="Continue with the link").click()
    third.wait("overview")
    expect(visitor.page.get_by_role("dialog")).to_have_count(0)
    expect(other.page.get_by_label("Name")).to_have_value("new-desk")
    other.page.get_by_role("button", name="Create account").click()
    expect(other.page.get_by_role("row", name="new-desk")).to_be_visible()
    for tab in (other, third):
        tab.check()


def test_tabs_share_the_end_and_not_the_key(console: Console) -> None:
    """F457d: A second tab needs the key anew; signing out in one signs out in all."""
    other = console.another_tab()
    expect(other.page.get_by_role("heading", name=DOOR)).to_be_visible()
    other.sign_in("reader")
    console.page.get_by_role("button", name="Sign out").click()
    assert_signed_out(console, "You are signed out.")
    assert_signed_out(other, "You signed out in another tab.")
    other.check()


def sessions(console: Console) -> list[Any]:
    """The sessions that are accepted."""
    return list(console.world.get("sessions")["sessions"])


def test_a_link_signs_in_once(visitor: Console) -> None:
    """F457e: A one-time link signs in once, is in no address after, and lasts over a reload."""
    page, link = visitor.page, visitor.sign_in_by_link()
    assert page.url == f"{visitor.world.url}/"
    visitor.load()
    visitor.wait("overview")
    visitor.check()
    page.get_by_role("button", name="Sign out").click()
    assert_signed_out(visitor, "You are signed out.")
    assert sessions(visitor) == []
    visitor.expect_failures(400)
    page.goto(link)
    page.get_by_role("button", name="Continue with the link").click()
    expect(page.get_by_role("main")).to_contain_text("The ticket was used")
    assert page.url == f"{visitor.world.url}/"


def test_a_link_signs_nobody_in_without_asking(visitor: Console) -> None:
    """IDENTITY-8, F2230a: The address of a link signs in only after the person confirms it.

    So nobody is brought into the tenant of somebody who sent the link.
    """
    page, asked_for = visitor.page, list[str]()
    page.on("request", lambda request: asked_for.append(request.url))
    page.goto(visitor.world.link())
    visitor.wait("sign-in")
    button = page.get_by_role("button", name="Continue with the link")
    expect(button).to_be_focused()
    expect(page.get_by_role("main")).to_contain_text("Continue only if you created it yourself.")
    assert page.url == f"{visitor.world.url}/"
    assert [each for each in asked_for if "/v1/token" in each] == []
    assert sessions(visitor) == []
    button.click()
    visitor.wait("overview")
    assert len(sessions(visitor)) == 1


def _is_of_the_session(answer: Response) -> bool:
    return answer.url.endswith("/v1/sessions/current")


@pytest.mark.parametrize("ends", ["lock", "another tab"])
def test_each_end_of_a_session_ends_it_at_the_service(visitor: Console, ends: str) -> None:
    """F594b: The session of a link is ended also by the lock, and by another tab's sign-out."""
    visitor.sign_in_by_link()
    other = visitor.another_tab()
    other.wait("overview")
    # Both tabs may be the first to lock, and then one alone ends the session, or both do.
    visitor.expect_failures(401, 404)
    with visitor.page.context.expect_event("response", _is_of_the_session):
        if ends == "lock":
            other.be_away(minutes=16)
        else:
            other.page.get_by_role("button", name="Sign out").click()
    visitor.wait("sign-in")
    assert sessions(visitor) == []


def test_a_wrong_key(visitor: Console) -> None:
    """F458a: A key that does not work opens nothing, and is neither shown nor kept."""
    visitor.expect_failures(401)
    for secret in (visitor.world.seed.secrets["lost"], "no key at all", "svc_" + "é" * 43):
        visitor.type_key(secret)
        expect(visitor.page.get_by_role("main")).to_contain_text("Sign-in failed.")
        expect(visitor.page.locator("input[type=password]")).to_have_value("")
        assert secret not in visitor.page.content()
    visitor.check_axe()
    visitor.sign_in()


def test_a_key_that_only_reads(visitor: Console) -> None:
    """F458b, F478c: With a key that may only read, each page says so, and offers no change.

    One refusal empties no page.
    """
    visitor.expect_failures(403)
    visitor.sign_in("reader")
    pages = ("keys", "revocations", "authorizers", "api-keys", "accounts", "audit")
    for where in (*pages, "settings", "overview"):
        visitor.open(f"#/{where}")
        expect(visitor.page.get_by_text("You have read-only access.")).to_be_visible()
        expect(visitor.page.get_by_text("The page could not be loaded")).to_have_count(0)
        change = re.compile(r"^(New|Revoke|Disable|Delete|Save)\b")
        button = visitor.page.get_by_role("main").get_by_role("button", name=change)
        assert not button.count(), where


def test_a_service_that_does_not_answer(console: Console) -> None:
    """F459a: If the service does not answer, the page says so, and goes on when it does."""
    console.open("#/api-keys")
    console.open("#/accounts")
    console.expect_failures(0)
    console.world.stop()
    console.page.get_by_role("link", name="Webhooks").click()
    expect(console.page.get_by_role("main")).to_contain_text("is not responding")
    console.check_axe()
    console.page.get_by_role("link", name="API keys").click()
    expect(console.page.get_by_role("main")).to_contain_text("is not responding")
    expect(console.page.get_by_role("main")).to_contain_text("desk")
    console.world.start()
    console.be_away(seconds=40)
    expect(console.page.get_by_role("main")).not_to_contain_text("is not responding")


def test_an_answer_that_is_lost(console: Console) -> None:
    """F531a: If the answer to a change is lost, the dialog says so; trying again does it once."""
    page, world = console.page, console.world

    def lose(route: Route) -> None:
        if route.request.method == "GET":
            return route.continue_()
        route.fetch()
        return route.abort()

    console.expect_failures(0, 404)
    console.open("#/keys")
    page.get_by_role("button", name="New signing key").click()
    page.get_by_role("radio", name="Root").check()
    page.get_by_label("Name", exact=True).fill("Second office")
    page.route("**/v1/**", lose)
    page.get_by_role("button", name="Create key").click()
    unknown = page.get_by_role("alert").filter(has_text="The result is unknown.")
    expect(unknown).to_be_visible()
    page.unroute("**/v1/**")
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    names = [key["name"] for key in world.get("keys?limit=100")["keys"]]
    assert names.count("Second office") == 1

    made = world.post("revocations", warrant_id="svc_wrt_lost", reason="a mistake")
    console.open(f"#/changes/{made['id']}")
    page.get_by_role("button", name="Unrevoke…").click()
    page.route("**/v1/**", lose)
    page.get_by_role("dialog").get_by_role("button", name="Unrevoke").click()
    expect(unknown).to_be_visible()
    page.unroute("**/v1/**")
    page.get_by_role("dialog").get_by_role("button", name="Unrevoke").click()
    expect(page.get_by_role("heading", name="Unrevoked")).to_be_visible()


def test_a_dialog_belongs_to_its_page(console: Console) -> None:
    """F531b: Going back closes an open dialog, and nothing is done."""
    page = console.page
    console.open("#/settings")
    console.open("#/accounts")
    page.get_by_role("button", name="New service account").click()
    page.get_by_label("Name").fill("new-desk")
    page.go_back()
    console.wait("settings")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.go_forward()
    console.wait("accounts")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("row", name="new-desk")).to_have_count(0)


def test_who_does_not_wait_for_an_answer(console: Console) -> None:
    """F531d: Closing a dialog before the answer warns that it may still be done."""
    page, held = console.page, list[Route]()

    def hold(route: Route) -> None:
        held.append(route)

    console.open("#/accounts")
    page.get_by_role("button", name="New service account").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#said")).to_be_empty()
    page.get_by_role("button", name="New service account").click()
    page.get_by_label("Name").fill("new-desk")
    page.route("**/v1/service-accounts", hold)
    with page.expect_request("**/v1/service-accounts"):
        page.get_by_role("button", name="Create account").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#said")).to_contain_text("The change may still be made.")
    held.pop().continue_()


def test_a_slow_sign_in(visitor: Console) -> None:
    """F531c: While the service is asked about a key, the page says so; what it says next is new."""
    page = visitor.page
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    visitor.expect_failures(401)
    page.route("**/v1/whoami", hold)
    visitor.type_key("svc_wrong")
    expect(page.get_by_text("Signing in …")).to_be_visible()
    expect(page.get_by_role("button", name="Sign in")).to_be_disabled()
    held.pop().continue_()
    expect(page.get_by_role("alert")).to_contain_text("Sign-in failed.")
    expect(page.get_by_text("Signing in …")).to_have_count(0)
    expect(page.get_by_role("button", name="Sign in")).to_be_enabled()
    page.unroute("**/v1/whoami")
    visitor.sign_in()


def test_a_service_that_is_throttled(console: Console) -> None:
    """F459b: If there are too many requests, the console waits as it is told, says so, goes on."""
    console.expect_failures(429)
    console.world.throttle()
    console.page.get_by_role("link", name="API keys").click()
    expect(console.page.locator("#said")).to_contain_text("Too many requests")
    console.pass_time(seconds=5)
    console.wait("api-keys")
    expect(console.page.get_by_role("main")).to_contain_text("desk")


def test_the_console_works_below_a_base_path(visitor: Console) -> None:
    """F449f: Behind a proxy or a domain with a base path, the page finds its files and the API."""
    seen: list[str] = []

    def strip(route: Route) -> None:
        seen.append(route.request.url)
        route.continue_(url=route.request.url.replace("/auth/", "/"))

    visitor.page.route("**/auth/**", strip)
    visitor.page.goto(f"{visitor.world.url}/auth/")
    visitor.page.on("request", lambda request: seen.append(request.url))
    visitor.sign_in()
    visitor.open("#/settings")
    assert len(seen) > 10
    assert {url for url in seen if "/auth/" not in url} == set()
