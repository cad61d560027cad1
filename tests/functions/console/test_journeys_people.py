"""What an administrator does in the console after an incident: people, sessions and keys."""

from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Locator, expect

from shared.model.callers import Scope
from shared.model.identities.approvals import ProtectedAction
from shared.model.identities.providers import IdentityProvider
from shared.operations.identities import approvals, protected_acts
from shared.operations.operator import onboarding
from tests.functions.console import plans
from tests.functions.console.served import World
from tests.functions.console.watched import Console
from tests.kit import identities

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("plan", [plans.nothing])]


@dataclass
class Desk:
    """Alice, an administrator, at the console of a tenant with other people."""

    console: Console
    provider: IdentityProvider

    @property
    def world(self) -> World:
        return self.console.world

    def sign_in(self, name: str, role: Scope = Scope.ADMIN, session: str = "") -> str:
        """Sign in as a person, whose identifier this is."""
        begun = identities.signed_in(self.world.ports, self.provider, role, sub=name)
        self.world.seed.secrets[session or name] = begun.secret
        return begun.session.owner

    def make_key(self, by: str, name: str, scope: str) -> None:
        """Make a key that ends within the time of its maker."""
        end = "2026-12-01T00:00:00Z"
        made = self.world.post("api-keys", by, name=name, scopes=[scope], expires_at=end)
        self.world.seed.secrets[name] = made["key"]

    def is_refused(self, name: str) -> bool:
        with pytest.raises(AssertionError, match="invalid_api_key"):
            self.world.get("whoami", name)
        return True

    def rows(self, part: str) -> Locator:
        """The rows of a part of the page of people."""
        return self.console.page.get_by_role("region", name=part).locator(".lines .row")


@pytest.fixture
def desk(visitor: Console, world: World) -> Desk:
    provider = identities.bound(world.ports, onboarding.operator(world.ports, handle="acme"))
    made = Desk(visitor, provider)
    made.sign_in("alice")
    visitor.sign_in_as_person("alice")
    return made


def test_a_person_leaves(desk: Desk) -> None:
    """IDENTITY-9, F2701b: The dialog lists the keys of a person, and ends them and all sessions."""
    console, page = desk.console, desk.console.page
    desk.sign_in("carol")
    desk.make_key("carol", "carols", "admin")
    desk.make_key("carols", "grandchild", "revoker")
    desk.make_key("alice", "alices", "revoker")
    console.open("#/people")
    console.act("Carol", "API keys of this person")
    expect(page.locator(".lines .row")).to_have_count(2)
    console.open("#/people")
    console.act("Carol", "Disable…")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("listitem")).to_have_text(
        ["grandchild, revoke and unrevoke warrants", "carols, full access"]
    )
    console.check_looks("person-leaves")
    dialog.get_by_role("button", name="Disable").click()
    expect(page.locator("#said")).to_have_text("Carol is disabled.")
    assert all(map(desk.is_refused, ("carol", "carols", "grandchild")))
    assert desk.world.get("whoami", "alices")["scopes"] == ["revoker"]
    expect(desk.rows("sessions")).to_have_count(1)


def test_a_session_is_stolen(desk: Desk) -> None:
    """IDENTITY-5, F2702b: A session is ended alone, or all of a person; its acts are found."""
    console, page = desk.console, desk.console.page
    dave = desk.sign_in("dave", Scope.REVOKER)
    desk.sign_in("dave", Scope.REVOKER, session="thief")
    stolen = desk.world.get("whoami", "thief")["session_id"]
    theft = desk.world.post("revocations", "thief", warrant_id="svc_wrt_laptop", reason="theft")
    desk.world.post("revocations", "dave", warrant_id="svc_wrt_phone", reason="lost")
    console.open("#/people")
    expect(desk.rows("sessions")).to_have_count(3)
    # The newest is first.
    actions = page.get_by_role("region", name="sessions").get_by_role(
        "button", name="Actions for dave@example.com"
    )
    actions.first.click()
    page.get_by_role("menuitem", name="Audit log for this session").click()
    console.wait("audit")
    main = page.get_by_role("main")
    expect(main).to_contain_text("revoked the warrant svc_wrt_laptop")
    expect(main).not_to_contain_text("svc_wrt_phone")
    console.open("#/people")
    actions.first.click()
    page.get_by_role("menuitem", name="Sign out…").click()
    page.get_by_role("dialog").get_by_role("button", name="Sign out session").click()
    expect(desk.rows("sessions")).to_have_count(2)
    assert desk.is_refused("thief")
    assert desk.world.get("whoami", "dave")["person_id"] == dave
    console.act("Dave", "Audit log for this person")
    console.wait("audit")
    expect(main).to_contain_text("revoked 2 warrants")
    found: Any = desk.world.get(f"audit-logs?actor_id={dave}&q={stolen}&action=revocation.create")
    assert [each["resource_id"] for each in found["audit_logs"]] == [theft["id"]]

    console.open("#/people")
    console.act("Dave", "Sign out…")
    dialog = page.get_by_role("dialog", name="Sign out Dave (dave@example.com)")
    expect(dialog).to_contain_text("This person can sign in again.")
    dialog.get_by_role("button", name="Sign out").click()
    expect(page.locator("#said")).to_have_text("Dave is signed out.")
    assert desk.is_refused("dave")


def test_a_key_leaks(desk: Desk) -> None:
    """APIKEY-14, F2703a, F2703b: The console shows a posted key as ended; a link signs in.

    The last admin key ends, too.
    """
    console, page, world = desk.console, desk.console.page, desk.world
    for name in ("auditor", "admin"):
        if name == "auditor":
            desk.make_key("alice", name, "auditor")
        told = {"secret": world.seed.secrets[name], "url": f"https://example.com/{name}"}
        assert httpx2.post(f"{world.url}/v1/leaked-keys", json=told).json() == []
        assert desk.is_refused(name)
    console.open("#/api-keys?q=state:revoked")
    expect(page.locator(".lines .row")).to_have_count(2)
    console.open("#/audit?action=api_key.leaked")
    expect(page.get_by_role("main")).to_contain_text("revoked 2 leaked API keys")
    page.get_by_role("button", name="Sign out").click()
    console.wait("sign-in")
    # As `rescind console` does.
    console.sign_in_by_link()
    console.open("#/api-keys")
    expect(page.get_by_role("button", name="New API key")).to_be_visible()


def test_an_approver_is_lost(desk: Desk) -> None:
    """APPROVAL-5, F2704b: The console keeps two approvers, and disables one after a third came.

    The operator approves in place of the lost one, and the overview uses it.
    """
    console, page, world = desk.console, desk.console.page, desk.world
    desk.sign_in("bob")
    actions = [ProtectedAction.CREATE_ADMIN_KEY]
    world.call("PUT", "tenant/protected-actions", "alice", actions=actions, unrevoke_threshold=None)
    console.expect_failures(403, 409)
    console.open("#/people")
    console.act("Bob", "Disable…")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Disable").click()
    expect(dialog).to_contain_text("First have another person with the role admin sign in.")
    expect(dialog).to_contain_text("Nothing was changed.")
    expect(dialog.get_by_role("heading")).to_have_text("Disable Bob (bob@example.com)")
    console.check_axe()
    dialog.get_by_role("button", name="Cancel").click()
    assert world.get("whoami", "bob")["scopes"] == ["admin"]

    console.open("#/api-keys")
    page.get_by_role("button", name="New API key…").click()
    dialog.get_by_label("Name").fill("pipeline")
    dialog.get_by_role("checkbox", name="full access").check()
    dialog.get_by_role("button", name="Create key").click()
    dialog.get_by_label("Reason for approval").fill("rollout")
    dialog.get_by_role("button", name="Request approval").click()
    expect(dialog).to_contain_text("Waiting for approval.")
    dialog.get_by_role("button", name="Cancel").click()
    operator = onboarding.operator(world.ports, handle="acme")
    (asked,) = world.get("approvals", "alice")["approvals"]
    approvals.override(world.ports, operator, approval_id=asked["id"], reason="Bob is lost")
    console.open("#/overview")
    card = console.panel("Action required")
    expect(card).to_contain_text("approved by system+operator@acme.svc")
    card.get_by_role("button", name="Use approval…").click()
    page.get_by_role("dialog").get_by_role("button", name="Run approved action").click()
    world.seed.secrets["made"] = page.locator("output.secret").inner_text()
    page.get_by_role("button", name="Done").click()
    assert world.get("whoami", "made")["scopes"] == ["admin"]

    desk.sign_in("carol")
    console.open("#/people")
    console.act("Bob", "Disable…")
    page.get_by_role("dialog").get_by_role("button", name="Disable").click()
    expect(page.locator("#said")).to_have_text("Bob is disabled.")
    assert desk.is_refused("bob")


def test_namesakes_and_disabled_administrators(desk: Desk) -> None:
    """F2704d: The number of administrators leaves out disabled people; e-mails name namesakes."""
    console, page, world = desk.console, desk.console.page, desk.world
    bob = desk.sign_in("bob")
    identities.signed_in(world.ports, desk.provider, sub="bob2", name="Bob")
    world.post(f"people/{bob}/disable", "alice", made_keys="keep")
    console.open("#/people")
    administrators = page.get_by_role("button", name="Administrators")
    expect(administrators).to_have_text("Administrators 2")
    administrators.click()
    expect(administrators).to_have_attribute("aria-pressed", "true")
    expect(desk.rows("people")).to_have_count(2)
    console.act("Bob", "Disable…")
    dialog = page.get_by_role("dialog", name="Disable Bob (bob2@example.com)")
    dialog.get_by_role("button", name="Cancel").click()
    administrators.click()
    expect(administrators).to_have_attribute("aria-pressed", "false")
    expect(desk.rows("people")).to_have_count(3)


def test_the_operator_ends_the_protection(desk: Desk) -> None:
    """APPROVAL-4, F2704e: The audit page says that the operator ended the protection of actions."""
    desk.sign_in("bob")
    actions = [ProtectedAction.CREATE_ADMIN_KEY]
    desk.world.call(
        "PUT", "tenant/protected-actions", "alice", actions=actions, unrevoke_threshold=None
    )
    operator = onboarding.operator(desk.world.ports, handle="acme")
    protected_acts.clear(desk.world.ports, operator, reason="Bob is lost")
    desk.console.open("#/audit")
    main = desk.console.page.get_by_role("main")
    expect(main).to_contain_text("removed the protection of all actions")
    expect(main).to_contain_text("changed the protected actions")
