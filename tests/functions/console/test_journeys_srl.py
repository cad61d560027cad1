"""The lists: what was published, by whom, and whether it is genuine."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow

# Of roots that sign for nobody here.
_OTHER = "e616cada949bfc9e669640b0901490a8a4b7421cf6c58d6f2d8b17879b9d0be7"
_STATUS = "**/v1/revocations/srl/status"
_SIGNED = "**/v1/revocations/srl/signed"
_TRUST = "**/v1/trust?*"
_PIN = "Trusted pin"
_DAY = timedelta(days=1)


def verify(console: Console, pin: str) -> Locator:
    """Paste a pin, verify, and return what is said."""
    card = console.panel("Verify the SRL")
    card.get_by_label(_PIN).fill(pin)
    card.get_by_role("button", name="Verify").click()
    return card


def pin(console: Console) -> str:
    return console.world.trusted().document.roots.pin


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
    strip = console.panel("Validity")
    expect(strip.get_by_role("img", name="no SRL was valid for")).to_be_visible()
    expect(strip.get_by_role("listitem")).to_have_count(1)
    rows = page.get_by_role("region", name="SRL versions", exact=True).locator(".lines .row")
    expect(rows.first).to_contain_text(f"v{newest['version']}")
    expect(rows.first).to_contain_text(f"{newest['count']}")
    expect(page.get_by_text("219 rows")).to_be_visible()
    console.check_looks("lists")
    rows.first.get_by_role("link").click()
    said = f"From version {older['version']} to {newest['version']}: {newest['added_count']} "
    expect(page.get_by_role("status").filter(has_text=said)).to_be_visible()
    expect(page.get_by_role("button", name=f"Added {newest['added_count']}")).to_be_visible()
    assert page.url.endswith(f"#/lists/{older['version']}..{newest['version']}")
    console.check_looks("lists-compared")
    console.expect_failures(404)
    page.get_by_label("From version", exact=True).fill("1")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("The service does not have SRL 1")).to_be_visible()
    page.get_by_role("link", name="All versions").click()
    for number in (3, 1):
        rows.nth(number).get_by_role("checkbox").check()
    page.get_by_role("button", name="Compare").click()
    heading = f"SRL {newest['version'] - 3} and {newest['version'] - 1}"
    expect(page.get_by_role("heading", name=heading)).to_be_visible()


def test_the_browser_checks_the_list_with_the_persons_pin(console: Console) -> None:
    """TRUST-12, F467b: The console calls a list genuine only if the pasted pin leads to its signer.

    It says which of its checks failed, and that those after it were not made.
    """
    page, version = console.page, console.world.get("revocations/srl/status")["version"]
    console.open("#/lists")
    expect(page.get_by_label(_PIN)).to_have_value("")
    card = verify(console, pin(console))
    expect(card.get_by_role("status").first).to_contain_text(f"SRL {version} is genuine")
    expect(card.locator(".rowed .tag.force")).to_have_count(9)
    expect(outcome(card, "The SRL is not older than the last one seen")).to_have_text("unknown")
    console.check_looks("lists-verified", ["dark", "phone"])
    verify(console, _OTHER)
    expect(card.get_by_role("alert")).to_contain_text("Compare the pin with the one")
    expect(outcome(card, "The pin verifies the newest trust document")).to_have_text("failed")
    expect(outcome(card, "A key in the trust document signed the SRL")).to_have_text("not checked")
    expect(card.get_by_text("is genuine")).to_have_count(0)
    console.check_looks("lists-refused", ["light"])
    keys = console.world.get("revocations/srl/keys")["keys"]
    for none in ("G1KYaSFD", pin(console).upper(), keys[0]["public_key"]):
        verify(console, none)
        expect(card.get_by_role("alert")).to_contain_text("A pin is 64 hexadecimal digits")


def test_a_list_that_was_changed_or_is_old_is_refused(console: Console) -> None:
    """F467c: A changed list, and one older than a list that this browser saw, are refused."""
    world, page = console.world, console.page
    console.open("#/lists")
    first = world.get("revocations/srl/signed")
    ids = first["payload"]["RevokedIDs"]
    shown = {**first["payload"], "RevokedIDs": ids[1:]}
    console.answer(_SIGNED, {**first, "payload": shown})
    card = verify(console, pin(console))
    expect(outcome(card, "The readable part matches the signed payload")).to_have_text("failed")
    signed = first["srl"]["Payload"]
    other = signed[:200] + ("A" if signed[200] != "A" else "B") + signed[201:]
    console.answer(_SIGNED, {**first, "srl": {**first["srl"], "Payload": other}})
    verify(console, pin(console))
    expect(outcome(card, "A key in the trust document signed the SRL")).to_have_text("failed")
    page.unroute(_SIGNED)
    world.post("revocations/srl/regenerate")
    page.get_by_label("Remember the pin").check()
    verify(console, pin(console))
    expect(card.get_by_role("status").first).to_contain_text("is genuine")
    console.answer(_SIGNED, first)
    console.open("#/keys")
    console.open("#/lists")
    expect(page.get_by_label(_PIN)).to_have_value(pin(console))
    card.get_by_role("button", name="Verify").click()
    expect(outcome(card, "The SRL is not older than the last one seen")).to_have_text("failed")
    status = world.get("revocations/srl/status")
    console.answer(_STATUS, {**status, "count": 20_001})
    card.get_by_role("button", name="Verify").click()
    expect(card.get_by_role("status").first).to_contain_text("does not load SRLs with more than")


def test_documents_that_are_old_or_expired_are_refused(console: Console) -> None:
    """TRUST-12, F881a: The console refuses the documents that authorizers refuse, and says why.

    A browser that remembers a document accepts no older one, and none of the same version.
    """
    world, card = console.world, console.panel("Verify the SRL")
    console.open("#/lists")
    console.page.get_by_label("Remember the pin").check()
    verify(console, pin(console))
    expect(card.get_by_role("status").first).to_contain_text("is genuine")
    held, now = world.trusted().document, world.clock()
    later = replace(held, version=held.version + 1)
    ended = replace(later, issued_at=now - 9 * _DAY, expires_at=now)
    row, valid = "The pin verifies the newest trust document", "The trust document has not expired"
    for made, at, said in (
        (replace(held, version=held.version - 1), row, "This browser has seen a newer document"),
        (replace(held, expires_at=now + _DAY), row, "signed two documents of one version"),
        (replace(later, tenant_id="svc_tnt_other"), row, "A document belongs to another tenant"),
        (replace(later, expires_at=now + 500 * _DAY), row, "valid for more than 400 days"),
        (ended, valid, "The document has expired"),
    ):
        console.answer(_TRUST, world.signed(made))
        card.get_by_role("button", name="Verify").click()
        expect(card.get_by_text(said)).to_be_visible()
        expect(outcome(card, at)).to_have_text("failed")
        expect(card.get_by_role("alert")).to_contain_text("Do not trust this SRL.")
    console.answer(_TRUST, {"documents": []})
    verify(console, _OTHER)
    expect(card.get_by_role("status").first).to_contain_text("no trust document yet")


def test_a_signer_that_was_just_replaced_is_found(console: Console) -> None:
    """TRUST-13, TRUST-14, F881b: After a wrong signature the console reads the documents again.

    A list of a signer that the document no longer names is not remembered against later ones.
    """
    world, page, card = console.world, console.page, console.panel("Verify the SRL")
    console.open("#/lists")
    newest = world.trusted().document
    (one, *_) = (each for each in newest.signers if "native" in each.uses or "log" in each.uses)
    thief = one._replace(uses=("lists",))
    before = replace(newest, version=newest.version - 1, signers=(thief,))
    answers = [world.signed(before)]

    def fulfill(route: Route) -> None:
        if answers:
            body = json.dumps(answers.pop())
            route.fulfill(status=200, content_type="application/json", body=body)
        else:
            route.continue_()

    page.route(_TRUST, fulfill)
    page.get_by_label("Remember the pin").check()
    verify(console, pin(console))
    expect(card.get_by_role("status").first).to_contain_text("is genuine")
    assert not answers
    key = f"rescind.seen.{world.seed.tenant_id}"
    script = """([key, version]) => {
      const seen = JSON.parse(localStorage.getItem(key));
      localStorage.setItem(key, JSON.stringify({...seen, list: {...seen.list, ...version}}));
    }"""
    ahead = {"version": 999_999}
    page.evaluate(script, [key, ahead])
    card.get_by_role("button", name="Verify").click()
    expect(outcome(card, "The SRL is not older than the last one seen")).to_have_text("failed")
    page.evaluate(script, [key, {**ahead, "signer": "A" * 43 + "="}])
    card.get_by_role("button", name="Verify").click()
    expect(card.get_by_role("status").first).to_contain_text("is genuine")


@pytest.mark.parametrize(
    "missing",
    [
        "crypto.subtle.importKey = async () => { throw new DOMException('', 'NotSupportedError') }",
        "Object.defineProperty(crypto, 'subtle', {value: undefined})",
    ],
)
def test_a_browser_without_ed25519_checks_nothing(console: Console, missing: str) -> None:
    """F2830b: Without Ed25519, as at an address of http, the console calls nothing genuine.

    For a list and for the log it says that nothing was checked, and what the browser needs.
    """
    page = console.page
    page.evaluate(f"() => {{ {missing} }}")
    console.open("#/lists")
    card = verify(console, pin(console))
    expect(card.get_by_role("status").first).to_contain_text("Nothing was checked.")
    expect(card.get_by_role("status").first).to_contain_text("must begin with https")
    expect(card.locator(".rowed .tag.force")).to_have_count(0)
    console.open("#/audit")
    page.get_by_role("button", name="Verify log").click()
    page.get_by_label("Pin or verifier key").fill(pin(console))
    page.get_by_role("button", name="Verify", exact=True).click()
    banner = page.locator("main .banner")
    expect(banner).to_contain_text("Nothing was checked.")
    expect(banner).to_contain_text("it needs a secure address")


@pytest.mark.parametrize("seen", ['{"pin": "AA==", "version": 5, "sha256": "00"}', "?", "{}"])
def test_what_cannot_be_read_is_forgotten(console: Console, seen: str) -> None:
    """F881c: What an earlier page remembered, a list signer's key, is forgotten with a sentence."""
    key = f"rescind.seen.{console.world.seed.tenant_id}"
    console.page.evaluate("([key, seen]) => localStorage.setItem(key, seen)", [key, seen])
    console.open("#/lists")
    card = console.panel("Verify the SRL")
    expect(card.get_by_role("status").first).to_contain_text("which was deleted.")
    expect(card.get_by_label(_PIN)).to_have_value("")
    assert console.page.evaluate("(key) => localStorage.getItem(key)", key) is None


def test_the_signers_of_lists_are_shown_and_changed(console: Console) -> None:
    """F469b: The page says which signers there are; a pending one is activated after a warning."""
    console.open("#/lists")
    page = console.page
    card = page.get_by_role("region", name="SRL signers")
    before = {key["status"]: key for key in console.world.get("revocations/srl/keys")["keys"]}
    expect(card.get_by_role("row").filter(has_text="pending")).to_contain_text(
        "can be activated in"
    )
    console.act(before["pending"]["key_id"], "Activate")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("that have not fetched its key yet reject its SRLs")
    console.check_axe()
    dialog.get_by_role("button", name="Activate early").click()
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
    expect(visitor.page.get_by_text("219 rows")).to_be_visible()
    card = verify(visitor, pin(visitor))
    expect(card.get_by_role("status").last).to_contain_text("This endpoint requires the scope")
    signers = visitor.page.get_by_role("region", name="SRL signers")
    expect(signers.get_by_role("row").filter(has_text="active")).to_be_visible()
    expect(visitor.page.get_by_role("button", name="Rotate signer")).to_have_count(0)
    signers.get_by_role("button", name="Actions for").first.click()
    expect(visitor.page.get_by_role("menuitem")).to_have_text("Copy public key")
