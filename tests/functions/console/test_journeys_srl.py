"""The lists: what was published, by whom, and whether it is genuine."""

import json
from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow

# Of a key that signs no list.
_OTHER = "/5lp4vugTaeGeBxn21sH0Fa+7/XyhWABmbdHrhhvxdE="
_STATUS = "**/v1/revocations/srl/status"
_SIGNED = "**/v1/revocations/srl/signed"


def answer(console: Console, path: str, body: Any) -> None:
    """Let the page get this in place of what the service answers."""

    def fulfill(route: Route) -> None:
        route.fulfill(status=200, content_type="application/json", body=json.dumps(body))

    console.page.unroute(path)
    console.page.route(path, fulfill)


def verify(console: Console, pin: str) -> Locator:
    """Paste a key, verify, and return what is said."""
    card = console.panel("Verify the list here")
    card.get_by_label("Public key that you trust").fill(pin)
    card.get_by_role("button", name="Verify").click()
    return card


def pin(console: Console) -> str:
    keys = console.world.get("revocations/srl/keys")["keys"]
    return next(str(key["public_key"]) for key in keys if key["status"] == "active")


def outcome(card: Locator, check: str) -> Locator:
    """Where the card says whether the list passed this check."""
    return card.locator(".rowed > div").filter(has_text=check).locator(".tag")


def test_what_was_published_and_when_none_was_valid(console: Console) -> None:
    """F469a: The lists show each version, and since when no list was valid; two are compared."""
    console.open("#/lists")
    page, (newest, older) = (
        console.page,
        console.world.get("revocations/srl/versions")["versions"][:2],
    )
    strip = console.panel("When was a list valid?")
    expect(strip.get_by_role("img", name="no list was valid for")).to_be_visible()
    expect(strip.get_by_role("listitem")).to_have_count(1)
    row = console.panel("Published lists").get_by_role("listitem").first
    expect(row).to_contain_text(f"v{newest['version']}")
    expect(row).to_contain_text(f"{newest['count']}")
    console.check_looks("lists")
    row.get_by_role("link").click()
    compared = console.panel("Compare two lists")
    said = f"From list {older['version']} to list {newest['version']}, {newest['added']} "
    expect(compared.get_by_role("status")).to_contain_text(said)
    expect(compared).to_contain_text(f"Added: {newest['added']}")
    assert page.url.endswith(f"#/lists/{older['version']}..{newest['version']}")
    console.expect_failures(404)
    compared.get_by_label("List", exact=True).fill("1")
    compared.get_by_role("button", name="Compare").click()
    expect(compared).to_contain_text("The service no longer has list 1")


def test_the_browser_checks_the_list_with_the_persons_key(console: Console) -> None:
    """F467b: The console calls a list genuine only if the pasted key signed just this list."""
    page, version = console.page, console.world.get("revocations/srl/status")["version"]
    console.open("#/lists")
    field = page.get_by_label("Public key that you trust")
    expect(field).to_have_value("")
    card = verify(console, pin(console))
    expect(card.get_by_role("status").first).to_contain_text(f"List {version} is genuine")
    expect(card.locator(".rowed .tag.force")).to_have_count(7)
    expect(outcome(card, "Not older than one you have seen")).to_have_text("not known")
    console.check_looks("lists-verified", ["dark", "phone"])
    verify(console, _OTHER)
    expect(card.get_by_role("alert")).to_contain_text("Do not trust this list.")
    expect(outcome(card, "Signed by the key you gave")).to_have_text("no")
    expect(outcome(card, "Sorted, nothing twice")).to_have_text("not checked")
    expect(card.get_by_text("is genuine")).to_have_count(0)
    console.check_looks("lists-refused", ["light"])
    verify(console, "G1KYaSFD")
    expect(card.get_by_role("alert")).to_contain_text("A public key is 32 bytes in base64")


def test_a_list_that_was_changed_or_is_old_is_refused(console: Console) -> None:
    """F467c: A changed list, and one older than a list that this browser saw, are refused."""
    world, page = console.world, console.page
    console.open("#/lists")
    first = world.get("revocations/srl/signed")
    ids = first["payload"]["RevokedIDs"]
    shown = {**first["payload"], "RevokedIDs": ids[1:]}
    answer(console, _SIGNED, {**first, "payload": shown})
    card = verify(console, pin(console))
    expect(outcome(card, "The readable part is what was signed")).to_have_text("no")
    signed = first["srl"]["Payload"]
    other = signed[:200] + ("A" if signed[200] != "A" else "B") + signed[201:]
    answer(console, _SIGNED, {**first, "srl": {**first["srl"], "Payload": other}})
    verify(console, pin(console))
    expect(outcome(card, "Signed by the key you gave")).to_have_text("no")
    page.unroute(_SIGNED)
    world.post("revocations/srl/regenerate")
    page.get_by_label("Remember the key and the list").check()
    verify(console, pin(console))
    expect(card.get_by_role("status").first).to_contain_text("is genuine")
    answer(console, _SIGNED, first)
    console.open("#/keys")
    console.open("#/lists")
    expect(page.get_by_label("Public key that you trust")).to_have_value(pin(console))
    card.get_by_role("button", name="Verify").click()
    expect(outcome(card, "Not older than one you have seen")).to_have_text("no")
    status = world.get("revocations/srl/status")
    answer(console, _STATUS, {**status, "count": 20_001})
    card.get_by_role("button", name="Verify").click()
    expect(card.get_by_role("status").first).to_contain_text("does not fetch lists of more than")


def test_the_signers_of_lists_are_shown_and_changed(console: Console) -> None:
    """F469b: The page says which signers there are; a pending one is activated after a warning."""
    console.open("#/lists")
    card, page = console.panel("Who signs lists"), console.page
    before = {key["status"]: key for key in console.world.get("revocations/srl/keys")["keys"]}
    expect(card.get_by_role("row").filter(has_text="pending")).to_contain_text("may sign in")
    card.get_by_role("button", name="Activate").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("that have not learned of it yet refuse its lists")
    console.check_axe()
    dialog.get_by_role("button", name="Activate it early").click()
    expect(card.get_by_role("row").filter(has_text="active")).to_contain_text(
        before["pending"]["key_id"][-6:]
    )
    expect(card.get_by_role("row").filter(has_text="retired")).to_have_count(1)
    head = console.world.get("revocations/srl/status")
    assert head["key_id"] == before["pending"]["key_id"]


def test_a_key_that_only_reads_sees_the_history(visitor: Console) -> None:
    """F469c: With a read-only key the history is shown; what it may not read is said to be so."""
    visitor.expect_failures(403)
    visitor.sign_in("reader")
    visitor.open("#/lists")
    rows = visitor.panel("Published lists").get_by_role("listitem")
    expect(rows).to_have_count(15)
    card = verify(visitor, pin(visitor))
    expect(card.get_by_role("status").last).to_contain_text("Ask an administrator for a key")
    signers = visitor.panel("Who signs lists")
    expect(signers.get_by_role("row").filter(has_text="active")).to_be_visible()
    expect(signers.get_by_role("button")).to_have_count(0)
