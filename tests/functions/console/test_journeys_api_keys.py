"""The console's pages of API keys and accounts, as an administrator uses them."""

import re
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from shared.model import times
from tests.functions.console.plans import MARKUP, RTL
from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow


def test_a_key_is_made_replaced_and_revoked(console: Console) -> None:
    """F478a: A secret is shown once, works, and is not in the page afterwards; ends are told."""
    page, world = console.page, console.world
    console.open("#/api-keys")
    expect(page.get_by_role("link", name=MARKUP)).to_be_visible()
    expect(page.get_by_role("link", name=RTL)).to_be_visible()
    expect(page.get_by_text("you", exact=True)).to_have_count(1)
    expect(page.get_by_role("row", name="auditor")).to_contain_text("1 day left")
    expect(page.get_by_role("row", name="ended")).to_contain_text("expired 2026-11-14")
    expect(page.get_by_role("row", name="Select lost")).to_contain_text("revoked")
    console.check_looks("api-keys")

    page.get_by_role("button", name="New API key").click()
    page.get_by_label("Name").fill("nightly job")
    page.get_by_label("read-only access").check()
    console.check_axe()
    page.get_by_role("button", name="Create key").click()
    secret = page.locator("output.secret").inner_text()
    world.seed.secrets["nightly job"] = secret
    assert world.get("whoami", "nightly job")["scopes"] == ["read-only"]
    page.get_by_role("button", name="Done").click()
    console.check()

    page.get_by_role("link", name="nightly job").click()
    page.get_by_role("button", name="Rotate").click()
    page.get_by_label("Old key expires").select_option("immediately")
    page.get_by_role("button", name="Rotate key").click()
    world.seed.secrets["its successor"] = page.locator("output.secret").inner_text()
    page.get_by_role("button", name="Done").click()
    assert world.get("whoami", "its successor")["scopes"] == ["read-only"]
    with pytest.raises(AssertionError, match="invalid_api_key"):
        world.get("whoami", "nightly job")

    console.open("#/api-keys")
    console.act("edge", "Revoke")
    page.get_by_role("dialog").get_by_role("button", name="Revoke edge").click()
    expect(page.locator("#said")).to_have_text("API key revoked.")
    with pytest.raises(AssertionError, match="invalid_api_key"):
        world.get("whoami", "edge")


def test_a_session_of_a_link_makes_keys_that_last(visitor: Console) -> None:
    """APIKEY-4, F594a: A session by a link can make keys for authorizers that outlive it."""
    page, world = visitor.page, visitor.world
    visitor.sign_in_by_link()
    visitor.open("#/api-keys")
    page.get_by_role("button", name="New API key").click()
    options = page.get_by_label("Expires after").locator("option")
    expect(options).to_have_text(["30 days", "90 days", "1 year", "never"])
    page.get_by_label("Name").fill("gate")
    page.get_by_label("fetch SRLs").check()
    page.get_by_role("button", name="Create key").click()
    world.seed.secrets["gate"] = page.locator("output.secret").inner_text()
    page.get_by_role("button", name="Done").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert world.get("whoami", "gate")["expires_at"] == "2027-02-19T12:00:00Z"


def test_a_key_that_ends_soon_makes_keys_that_end_with_it(visitor: Console) -> None:
    """F530a: With a key that ends soon, the page offers only keys that it may make."""
    page, world = visitor.page, visitor.world
    end = times.format_utc(world.clock() + timedelta(hours=12))
    made = world.post("api-keys", name="spare", scopes=["admin"], expires_at=end)
    world.seed.secrets["spare"] = made["key"]
    visitor.sign_in("spare")
    visitor.open("#/api-keys")
    page.get_by_role("button", name="New API key").click()
    expect(page.get_by_label("Expires after").locator("option")).to_have_text(
        ["12 h, together with your own key"]
    )
    expect(page.get_by_role("dialog")).to_contain_text("sign in with an API key that expires later")
    page.get_by_label("Name").fill("gate")
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("alert")).to_contain_text("Select at least one scope.")
    page.get_by_label("fetch SRLs").check()
    page.get_by_role("button", name="Create key").click()
    world.seed.secrets["gate"] = page.locator("output.secret").inner_text()
    page.get_by_role("button", name="Done").click()
    assert world.get("whoami", "gate")["expires_at"] == end
    page.get_by_role("link", name="admin", exact=True).click()
    expect(
        page.get_by_text("To rotate this key, sign in with an API key that expires later")
    ).to_be_visible()
    expect(page.get_by_role("button", name="Rotate")).to_have_count(0)


def test_a_secret_stays_until_it_is_stored(console: Console) -> None:
    """F530b, F544a: Only a person's word takes a secret off the page, and then it is gone."""
    page, world = console.page, console.world
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    console.open("#/api-keys")
    page.get_by_role("button", name="New API key").click()
    page.get_by_label("Name").fill("nightly job")
    page.get_by_label("read-only access").check()
    page.get_by_role("button", name="Create key").click()
    secret = world.seed.secrets["nightly job"] = page.locator("output.secret").inner_text()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    for _ in range(3):
        page.keyboard.press("Escape")
    expect(page.locator("output.secret")).to_have_text(secret)
    page.get_by_role("dialog").get_by_role("button", name="Copy").click()
    expect(page.get_by_role("dialog").get_by_role("status").last).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == secret
    # Within the task of the click: the event `close` of a dialog is a task of its own.
    left = page.evaluate(
        """async () => {
          document.querySelector("dialog button.main").click();
          for (let turn = 0; turn < 100; turn += 1) await null;
          return document.documentElement.outerHTML;
        }"""
    )
    assert secret not in left
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="New API key")).to_be_focused()


def test_revoking_ones_own_key_signs_out(console: Console) -> None:
    """F478b: The dialog says that it is one's own key; the last admin key is refused in words."""
    page = console.page
    console.expect_failures(401, 409)
    console.open("#/api-keys")
    console.act("admin", "Revoke")
    expect(page.get_by_text("You will be signed out")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Revoke admin").click()
    expect(page.get_by_role("alert")).to_contain_text("no active admin key")
    page.get_by_role("button", name="Cancel").click()

    world = console.world
    made = world.post("api-keys", name="spare", scopes=["admin"])
    world.seed.secrets["spare"] = made["key"]
    console.act("admin", "Revoke")
    page.get_by_role("dialog").get_by_role("button", name="Revoke admin").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert {key["name"]: key["status"] for key in world.get("api-keys", "spare")["api_keys"]}[
        "admin"
    ] == "revoked"


def test_an_account_is_made_stopped_and_deleted(console: Console) -> None:
    """F478d: Disabling an account refuses its keys at once; one with keys cannot be deleted."""
    page, world = console.page, console.world
    console.expect_failures(409)
    console.open("#/accounts")
    expect(page.get_by_text(f"{MARKUP} of fraud-desk")).to_be_visible()
    console.check_looks("accounts")
    console.act("fraud-desk", "Disable")
    page.get_by_role("dialog").get_by_role("button", name="Disable fraud-desk").click()
    expect(page.get_by_role("row", name="fraud-desk")).to_contain_text("disabled")
    with pytest.raises(AssertionError, match="invalid_api_key"):
        world.get("whoami", "desk")
    # F1512c: Its page says what happened to it, and does the same.
    page.get_by_role("link", name="fraud-desk", exact=True).click()
    story = console.panel("Timeline").get_by_role("listitem")
    expect(story).to_have_text(
        [re.compile("disabled the serv"), re.compile("created the service account")]
    )
    console.check_looks("account", ["light", "phone"])
    page.get_by_role("button", name="Enable").click()
    page.get_by_role("dialog").get_by_role("button", name="Enable fraud-desk").click()
    expect(story.first).to_contain_text("admin enabled the service account fraud-desk")
    page.get_by_role("link", name="All service accounts").click()
    console.act("fraud-desk", "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete fraud-desk").click()
    expect(page.get_by_role("alert")).to_contain_text("owns API keys; delete them first")
    page.get_by_role("button", name="Cancel").click()

    page.get_by_role("button", name="New service account").click()
    page.get_by_label("Name").fill("new-desk")
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_role("row", name="new-desk")).to_contain_text("active")
    page.get_by_role("row", name="new-desk").get_by_role(
        "link", name="API keys of new-desk"
    ).click()
    expect(page.get_by_text("No API keys yet.")).to_be_visible()
