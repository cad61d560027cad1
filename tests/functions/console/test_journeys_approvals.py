"""Acts that need another person: asked for, approved and done in the console."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from shared.model.identifiers import BATCH
from shared.model.identities.approvals import ProtectedAction
from shared.model.identities.providers import IdentityProvider
from shared.operations.operator import onboarding
from tests.functions.console import plans
from tests.functions.console.served import World
from tests.functions.console.watched import Console
from tests.kit import identities

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("plan", [plans.nothing])]

WHY = "wrong list, ticket ö-4711"


@dataclass
class Two:
    """Alice and Bob, administrators of a tenant that protects something, each in a browser."""

    alice: Console
    bob: Console
    provider: IdentityProvider

    def revoked(self, **more: str) -> str:
        """A revocation that an API key made."""
        made = self.alice.world.post("revocations", reason="stolen", **more)
        return str(made["id"])

    def ask(self, dialog: Locator) -> None:
        """Ask for an approval in a dialog of Alice, whose act was refused."""
        expect(dialog).to_contain_text("Approval required.")
        dialog.get_by_label("Reason for approval").fill(WHY)
        dialog.get_by_role("button", name="Request approval").click()
        expect(dialog).to_contain_text("Waiting for approval.")

    def request_unrevoke(self) -> Locator:
        """Revoke a warrant, and request an approval to unrevoke it, as Alice; return the dialog."""
        self.alice.open(f"#/changes/{self.revoked(warrant_id='svc_wrt_laptop')}")
        self.alice.page.get_by_role("button", name="Unrevoke…").click()
        dialog = self.alice.page.get_by_role("dialog")
        dialog.get_by_role("button", name="Unrevoke").click()
        self.ask(dialog)
        return dialog

    def approve(self, members: int = 0) -> None:
        """Approve the one thing that waits, as Bob; list the members of its manifest."""
        self.bob.load()
        self.bob.wait("overview")
        page = self.bob.page
        page.get_by_role("button", name="Approve…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(WHY)
        if members:
            expect(dialog).to_contain_text(f"{members:,} revocation")
            dialog.get_by_role("button", name="Show all members").click()
            expect(dialog.locator("li")).to_have_count(min(members, 100))
            more = dialog.get_by_role("button", name="Show more members")
            expect(more).to_have_count(1 if members > 100 else 0)
        self.bob.keep_picture("approval-decide")
        dialog.get_by_role("button", name="Approve").click()
        expect(page.locator("#said")).to_have_text("Approved.")

    def use(self) -> Locator:
        """Do what was approved from the overview, as Alice; the card that is gone then."""
        self.alice.load()
        self.alice.wait("overview")
        card = self.alice.panel("Action required")
        expect(card).to_contain_text(
            "approved by bob@example.com, valid until 2026-11-21 13:00 UTC"
        )
        card.get_by_role("button", name="Use approval…").click()
        self.alice.page.get_by_role("dialog").get_by_role(
            "button", name="Run approved action"
        ).click()
        return card.get_by_role("button", name="Use approval…")


@pytest.fixture
def two(chromium: Browser, visitor: Console, world: World) -> Iterator[Two]:
    operator = onboarding.operator(world.ports, handle="acme")
    provider = identities.bound(world.ports, operator)
    alice, bob = visitor, Console.visit(chromium, world)
    for name, console in (("alice", alice), ("bob", bob)):
        begun = identities.signed_in(world.ports, provider, sub=name)
        world.seed.secrets[name] = begun.secret
        console.sign_in_as_person(name)
    actions = [ProtectedAction.UNREVOKE_OTHERS, ProtectedAction.CREATE_ADMIN_KEY]
    world.call("PUT", "tenant/protected-actions", "alice", actions=actions, unrevoke_threshold=None)
    alice.expect_failures(403, 404)
    yield Two(alice, bob, provider)
    bob.check()
    bob.page.context.close()


def test_what_another_person_approves_is_done(two: Two) -> None:
    """F1300a: A refused act is asked for in its dialog, approved by another person, and done once.

    The requester cannot approve, and nothing is done before.
    """
    alice, page = two.alice, two.alice.page
    revocation = two.revoked(warrant_id="svc_wrt_laptop")
    alice.open(f"#/changes/{revocation}")
    page.get_by_role("button", name="Unrevoke…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Unrevoke").click()
    two.ask(dialog)
    expect(dialog).to_contain_text("until 2026-11-22 12:00 UTC")
    alice.check_axe()
    alice.keep_picture("approval-asked")
    dialog.get_by_role("button", name="Use approval").click()
    expect(dialog).to_contain_text("The approval is pending.")
    dialog.get_by_role("button", name="Cancel").click()
    alice.open("#/overview")
    waiting = alice.panel("Action required")
    expect(waiting).to_contain_text(f"waiting for approval until 2026-11-22 12:00 UTC: {WHY}")
    expect(waiting.get_by_role("button")).to_have_count(0)
    two.bob.load()
    two.bob.wait("overview")
    card = two.bob.panel("Action required")
    expect(card).to_contain_text("Unrevoke 1 warrant of others svc_wrt_laptop")
    expect(card).to_contain_text(
        f"requested by alice@example.com, valid until 2026-11-22 12:00 UTC: {WHY}"
    )
    two.bob.check_looks("overview-approval")
    two.approve()
    expect(card).not_to_contain_text("alice@example.com")
    assert alice.world.get(f"revocations/{revocation}")["id"] == revocation
    expect(two.use()).to_have_count(0)
    assert alice.world.get("revocations")["revocations"] == []


def test_a_rejected_act_is_not_done(two: Two) -> None:
    """F1300b: What another person rejects is not done, and is on no card."""
    dialog = two.request_unrevoke()
    bob = two.bob.page
    two.bob.load()
    bob.get_by_role("button", name="Reject…").click()
    bob.get_by_role("dialog").get_by_role("button", name="Reject").click()
    expect(bob.locator("#said")).to_have_text("Rejected.")
    expect(two.bob.panel("Action required")).not_to_contain_text(WHY)
    dialog.get_by_role("button", name="Use approval").click()
    expect(dialog).to_contain_text("The approval is rejected.")
    dialog.get_by_role("button", name="Cancel").click()
    two.alice.open("#/overview")
    expect(two.alice.panel("Action required")).to_contain_text("API key")
    expect(two.alice.panel("Action required")).not_to_contain_text("of others")
    assert len(two.alice.world.get("revocations")["revocations"]) == 1


def test_a_request_is_withdrawn(two: Two) -> None:
    """APPROVAL-3, F1300e: The person who asked can withdraw the request, and not approve it."""
    page, dialog = two.alice.page, two.request_unrevoke()
    dialog.get_by_role("button", name="Cancel").click()
    two.alice.open("#/people")
    page.get_by_role("button", name="Actions for Unrevoke 1 warrant of others").click()
    expect(page.get_by_role("menuitem")).to_have_text(["Withdraw…"])
    page.get_by_role("menuitem").click()
    dialog.get_by_role("button", name="Withdraw request").click()
    expect(page.locator("#said")).to_have_text("Withdrawn.")
    (asked,) = two.alice.world.get("approvals", "alice")["approvals"]
    assert asked["status"] == "rejected"


def test_an_approver_reads_why_the_service_refuses(two: Two) -> None:
    """APPROVAL-6, F1301b: A decision that the service refuses shows the service's words."""
    page, world = two.bob.page, two.bob.world
    # Both sessions began before the change, in its second. The request is of later.
    identities.bound(world.ports, onboarding.operator(world.ports, handle="acme"), name="Other")
    two.alice.pass_time(seconds=5)
    two.request_unrevoke()
    two.bob.expect_failures(403)
    two.bob.load()
    two.bob.wait("overview")
    page.get_by_role("button", name="Approve…").click()
    page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    expect(page.get_by_role("dialog")).to_contain_text(
        "The request could not be approved. An identity provider changed less than 24 hours ago"
    )


def test_an_approved_key_is_made_and_shown(two: Two) -> None:
    """F1300c: An API key that was approved is made from the overview as it was asked for."""
    page = two.alice.page
    two.alice.open("#/api-keys")
    page.get_by_role("button", name="New API key…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("pipeline ö")
    dialog.get_by_label("Networks").fill("127.0.0.0/8")
    dialog.get_by_role("checkbox", name="full access").check()
    dialog.get_by_role("button", name="Create key").click()
    two.ask(dialog)
    two.approve()
    two.use()
    secret = page.locator("output.secret").inner_text()
    page.get_by_role("button", name="Done").click()
    two.alice.world.seed.secrets["made"] = secret
    made = two.alice.world.get("whoami", as_="made")
    assert (made["api_key_name"], made["scopes"]) == ("pipeline ö", ["admin"])


def test_a_whole_batch_is_unrevoked_with_an_approval(two: Two) -> None:
    """F1300d, F2504b: One approval is for a whole batch: in the dialog, or from the overview.

    The approver sees who revoked how many and why, and can list all members.
    """
    page, world = two.alice.page, two.alice.world
    for size, from_overview in ((3, False), (501, True)):
        # The bucket of the tenant fills up, from which the pages take while a machine is slow.
        two.alice.pass_time(seconds=5)
        names = [f"svc_wrt_{size}-{each}" for each in range(size)]
        batch = world.ports.new_id(BATCH)
        body: dict[str, Any] = {"action": "revoke", "batch_id": batch, "warrant_ids": names}
        world.post("revocations/batch", reason="stolen", **body)
        two.alice.open(f"#/changes/{batch}")
        page.get_by_role("button", name="Unrevoke batch…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Reason").fill("mistake")
        dialog.get_by_role("button", name=f"Unrevoke {size:,} warrants").click()
        two.ask(dialog)
        two.approve(members=size)
        if from_overview:
            expect(two.use()).to_have_count(0)
        else:
            dialog.get_by_role("button", name="Use approval").click()
            expect(page.get_by_text("3 warrants unrevoked.")).to_be_visible()
        assert world.get("revocations")["revocations"] == []


def test_people_and_what_they_ask_for_are_listed(two: Two) -> None:
    """F1473a: People, approvals and sessions are tables, in which an administrator decides."""
    two.request_unrevoke()
    bob = two.bob.page
    two.bob.open("#/people")
    two.bob.check_looks("people")
    what = "Unrevoke 1 warrant of others"
    asked = bob.get_by_role("region", name="approvals").locator(".lines .row")
    expect(asked).to_contain_text("alice@example.com")
    bob.get_by_role("button", name=what, exact=True).click()
    expect(bob.get_by_role("dialog")).to_contain_text(WHY)
    bob.get_by_role("button", name="Close").click()
    two.bob.act(what, "Approve…")
    bob.get_by_role("dialog").get_by_role("button", name="Approve").click()
    expect(asked).to_contain_text("approved")
    bob.get_by_role("region", name="people").get_by_role("searchbox").fill("alice")
    # Her page goes on asking. With a third approver, two are left (APPROVAL-5).
    two.alice.expect_failures(401)
    identities.signed_in(two.bob.world.ports, two.provider, sub="carol")
    two.bob.act("Alice", "Disable…")
    bob.get_by_role("dialog").get_by_role("button", name="Disable").click()
    expect(bob.get_by_role("region", name="people").locator(".lines .row")).to_contain_text(
        "disabled"
    )
    expect(bob.get_by_role("region", name="sessions").locator(".lines .row")).to_have_count(2)
    assert "q=alice" in bob.url


def test_a_key_is_told_what_the_service_says(two: Two, chromium: Browser) -> None:
    """F1301a: A key is offered no approval, asks for none, and is told the service's words."""
    console = Console.visit(chromium, two.alice.world)
    asked_for: list[str] = []
    console.page.on("request", lambda request: asked_for.append(request.url))
    console.expect_failures(403)
    console.sign_in()
    page = console.page
    console.open("#/api-keys")
    page.get_by_role("button", name="New API key…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("pipeline")
    dialog.get_by_role("checkbox", name="full access").check()
    dialog.get_by_role("button", name="Create key").click()
    expect(dialog).to_contain_text("which only a person who is signed in can request")
    expect(dialog.get_by_role("button", name="Request approval")).to_have_count(0)
    assert not [each for each in asked_for if "/v1/approvals" in each]
    console.check()
    console.page.context.close()
