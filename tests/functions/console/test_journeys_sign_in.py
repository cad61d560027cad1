"""Signing in with an identity provider: a certified one (npm's oidc-provider), over TLS."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from shared.model.callers import Scope
from shared.model.identifiers import IDENTITY_PROVIDER
from shared.model.identities.providers import RoleMapping
from shared.model.identities.sessions import SessionRecord
from shared.operations.identities import people, sessions
from shared.operations.operator import onboarding
from shared.ports.store import Expect, Put
from tests.functions.console import plans
from tests.functions.console.served import World
from tests.functions.console.watched import Console
from tests.kit import browsers, identities
from tests.kit.processes import HOST as LOCAL
from tests.kit.providers import CLIENT, ISSUER, SECRET, needs_provider, provider
from tests.kit.receivers import HOST

pytestmark = [
    pytest.mark.slow,
    needs_provider,
    pytest.mark.parametrize("plan", [plans.nothing]),
]


@dataclass
class Visit:
    """A person at the console of a tenant that has bound a provider, in a browser that finds it."""

    console: Console
    provider_id: str

    def fill_in(self, page: Page, person: str = "ann") -> None:
        """Sign in at the provider, and allow what it asks."""
        page.locator("input[name=login]").fill(person)
        page.locator("input[name=password]").fill("any")
        page.get_by_role("button", name="Sign-in").click()

    def sign_in(self) -> None:
        """Continue with the provider; the first time, it asks for consent too."""
        page, world = self.console.page, self.console.world
        page.get_by_role("button", name="Continue with SSO").click()
        self.fill_in(page)
        with page.expect_response("**/v1/sign-in/code") as answered:
            page.get_by_role("button", name="Continue").click()
        world.seed.secrets["session"] = answered.value.json()["access_token"]
        self.console.remembers = True
        self.console.wait("overview")

    def session(self) -> SessionRecord:
        """The session; the one before it has ended."""
        ports = self.console.world.ports
        operator = onboarding.operator(ports, handle="acme")
        (session,), _ = sessions.page(ports, operator, before=None, limit=2)
        return session

    def let_grow_old(self) -> None:
        """Let the provider have asked the person 16 minutes ago."""
        old = self.session()
        since = (old.authenticated_at or old.created_at) - timedelta(minutes=16)
        item = replace(old, authenticated_at=since).to_item()
        self.console.world.ports.store.write(Put(old.address, item, Expect.PRESENT))


@pytest.fixture
def visit(chromium: Browser, world: World, tmp_path: Path) -> Iterator[Visit]:
    # The provider's clock is that of the machine.
    world.clock.moment = datetime.now(UTC)
    provider_id = world.ports.new_id(IDENTITY_PROVIDER)
    redirect = f"{world.url}/console/signed-in/{provider_id}"
    with provider(tmp_path, "first", redirect=redirect) as running:
        outbound = running.outbound()
        world.stop()
        world.ports = replace(world.ports, outbound=lambda: outbound)
        world.start()
        identities.bound(
            replace(world.ports, new_id=lambda *_, **__: provider_id),
            onboarding.operator(world.ports, handle="acme"),
            jwks=None,
            issuer=ISSUER,
            client_id=CLIENT,
            client_secret=SECRET,
            role_mappings=(
                RoleMapping({"sub": "ann"}, Scope.ADMIN),
                RoleMapping({"sub": "bob"}, Scope.READ_ONLY),
            ),
        )
        rules = f"MAP {HOST}:443 {LOCAL}:{running.port},MAP * ~NOTFOUND,EXCLUDE {LOCAL}"
        resolving = f"--host-resolver-rules={rules}"
        path = browsers.executable()
        made = chromium.browser_type.launch(
            executable_path=path, args=[*browsers.flags(), resolving]
        )
        console = Console.visit(made, world, elsewhere=HOST)
        console.load("?tenant=acme")
        yield Visit(console, provider_id)
        console.check()
        made.close()


def test_a_person_signs_in(visit: Visit) -> None:
    """F1240b: A provider signs a person in, without a cookie or a message of the policy.

    A new tab has the session without the provider, and a reload keeps it. Signing out ends it in
    all tabs.
    """
    console, page = visit.console, visit.console.page
    console.check_looks("sign-in-provider")
    visit.sign_in()
    assert page.url == f"{console.world.url}/"
    expect(page.get_by_text("Signed in as Ann")).to_be_visible()
    console.load()
    console.wait("overview")
    other = console.another_tab()
    other.wait("overview")
    other.open("#/settings")
    assert page.context.cookies(console.world.url) == []
    assert len(console.world.get("sessions")["sessions"]) == 1
    # What this tab was reading meanwhile is refused.
    console.expect_failures(401)
    other.page.get_by_role("button", name="Sign out").click()
    other.wait("sign-in")
    console.wait("sign-in")
    expect(page.get_by_role("main")).to_contain_text("You signed out in another tab.")
    assert console.world.get("sessions")["sessions"] == []
    # The tenant is remembered.
    expect(page.get_by_role("button", name="Continue with SSO")).to_be_visible()


def test_a_sign_in_that_another_began(visit: Visit) -> None:
    """F1240c: A code whose state, provider or issuer is another's signs nobody in."""
    console, page = visit.console, visit.console.page
    asked_for: list[str] = []
    page.on("request", lambda request: asked_for.append(request.url))
    for state, who, issuer in (
        ("forged", visit.provider_id, ISSUER),
        ("own", f"svc_idp_{'0' * 26}", ISSUER),
        ("own", visit.provider_id, "https://evil.example.com"),
    ):
        given = state
        if state == "own":
            console.load("?tenant=acme")
            with page.expect_request(f"{ISSUER}/auth?*") as asked:
                page.get_by_role("button", name="Continue with SSO").click()
            (given,) = parse_qs(urlsplit(asked.value.url).query)["state"]
        query = f"code=stolen&state={given}&iss={issuer}"
        page.goto(f"{console.world.url}/console/signed-in/{who}?{query}")
        console.wait("sign-in")
        expect(page.get_by_role("alert")).to_contain_text(
            "This sign-in was not started in this tab."
        )
        # The tenant of a sign-in that this tab began is known.
        again = page.get_by_role("button", name="Continue with SSO")
        expect(again).to_have_count(1 if state == "own" else 0)
        assert page.url == f"{console.world.url}/"
    assert [each for each in asked_for if "/v1/sign-in/code" in each] == []


def test_a_person_without_a_grant_can_try_again(visit: Visit) -> None:
    """F1240d: A refused sign-in names the reason, and the buttons of the providers stay."""
    console, page = visit.console, visit.console.page
    console.expect_failures(403)
    page.get_by_role("button", name="Continue with SSO").click()
    visit.fill_in(page, "carol")
    page.get_by_role("button", name="Continue").click()
    console.wait("sign-in")
    expect(page.get_by_role("alert")).to_contain_text("Sign-in failed.")
    expect(page.get_by_role("button", name="Continue with SSO")).to_be_visible()
    console.load()
    expect(page.get_by_role("button", name="Continue with SSO")).to_be_visible()


def test_a_form_stays_while_a_person_signs_in_again(visit: Visit) -> None:
    """F1241a: If a sign-in is too old or has ended, a window asks again, and the call is repeated.

    What was typed stays.
    """
    console, page = visit.console, visit.console.page
    visit.sign_in()
    console.open("#/accounts")
    console.expect_failures(401)
    visit.let_grow_old()
    page.get_by_role("button", name="New service account").click()
    page.get_by_label("Name").fill("new-desk")
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_role("heading", name="Confirm your identity")).to_be_visible()
    console.check_looks("again")
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Continue with SSO").click()
    # The provider asks although it knows the person.
    visit.fill_in(opened.value)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("main")).to_contain_text("new-desk")
    if not opened.value.is_closed():
        opened.value.wait_for_event("close")

    operator = onboarding.operator(console.world.ports, handle="acme")
    page.get_by_role("button", name="New service account").click()
    page.get_by_label("Name").fill("other-desk")
    people.sign_out(console.world.ports, operator, person_id=visit.session().owner)
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_role("heading", name="Your session is no longer valid")).to_be_visible()
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Continue with SSO").click()
    # Here the provider need not ask.
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("main")).to_contain_text("other-desk")


def test_somebody_else_signs_in_again(visit: Visit) -> None:
    """F1241b: What a person was about to do is not done by somebody else who signs in meanwhile."""
    console, page = visit.console, visit.console.page
    visit.sign_in()
    console.open("#/accounts")
    console.expect_failures(401)
    visit.let_grow_old()
    page.get_by_role("button", name="New service account").click()
    page.get_by_label("Name").fill("new-desk")
    page.get_by_role("button", name="Create account").click()
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Continue with SSO").click()
    visit.fill_in(opened.value, "bob")
    opened.value.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("Signed in as Ann, read-only")).to_be_visible()
    console.wait("accounts")
    names = [each["name"] for each in console.world.get("service-accounts")["service_accounts"]]
    assert "new-desk" not in names
