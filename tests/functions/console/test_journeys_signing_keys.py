"""The console's page of signing keys, as a person uses it."""

import re
from typing import Any, Final

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.functions.console.plans import MARKUP, RTL, WIDE, key_tree, many_keys, nothing
from tests.functions.console.seeds import Plan
from tests.functions.console.served import World
from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow

# What a screen reader is told of the tree while it shows what a revocation of Payments reaches.
_TREE: Final = f"""
- tree "Signing keys":
  - treeitem "root Head office, active" [expanded] [level=1]
  - treeitem "issuer Payments, active, would be revoked" [expanded] [level=2] [selected]
  - treeitem "issuer Cards, active, would be revoked" [expanded] [level=3]
  - treeitem "notary Card desk, active, 4 versions, signed 15 warrants, would be revoked" [level=4]
  - treeitem "notary Card machines, active, signed 8 warrants, would be revoked" [level=4]
  - treeitem "notary Transfers, revoked, signed 5 warrants" [level=3]
  - treeitem "issuer Build farm, active, 2 versions" [expanded] [level=2]
  - treeitem "notary Releases, active, 2 versions, signed 3 warrants" [level=3]
  - treeitem "notary Nightly, suspended, signed 1 warrant" [level=3]
  - treeitem "notary <b>Lost</b> & \\"found\\", active, signed 2 warrants" [level=2]
  - treeitem "notary {RTL}, active" [level=2]
  - treeitem "root Acquired company, active" [expanded] [level=1]
  - treeitem "issuer {WIDE}, suspended" [expanded] [level=2]
  - treeitem "notary Old desk, revoked, signed 4 warrants" [level=3]
"""
_OVERFLOWS: Final = """(tree) => [...tree.querySelectorAll(".node")].flatMap((node) => {
  const box = node.querySelector(".box").getBoundingClientRect();
  return [...node.querySelectorAll("text")]
    .map((text) => text.getBoundingClientRect())
    .filter(({left, right}) => left < box.left || right > box.right)
    .map(() => node.textContent);
})"""
# Scroll down and up again, so far that the tree is drawn anew both times.
_SCROLL: Final = """async () => {
  for (const by of [300, -300]) {
    scrollBy(0, by);
    for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
  }
}"""
_CHANGES: Final = (
    "New signing key…",
    "New child key…",
    "Rotate…",
    "Suspend…",
    "Enable…",
    "Revoke…",
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return key_tree


def _tree(console: Console) -> Locator:
    return console.page.get_by_role("tree", name="Signing keys")


def _item(console: Console, name: str) -> Locator:
    return _tree(console).get_by_role("treeitem", name=f" {name},")


def _button(console: Console, name: str) -> Locator:
    return console.page.get_by_role("button", name=name, exact=True)


def _choose(console: Console, name: str) -> None:
    """Click on the name of a key, and wait for what the service knows of it."""
    _item(console, name).click(position={"x": 60, "y": 20})
    expect(console.page.locator(".chosen-key h2")).to_have_text(name)
    expect(console.page.locator(".effect")).to_be_visible()


def _focused(console: Console) -> Locator:
    """The place where the keyboard is. A screen reader says its label."""
    return console.page.locator(":focus")


def _status(world: World) -> dict[str, str]:
    keys = world.get("keys?limit=100")["keys"]
    return {each["id"]: each["status"] for each in keys}


def _rehearsal(world: World, name: str) -> dict[str, Any]:
    path = f"keys/{world.id(name)}/revoke"
    answer: dict[str, Any] = world.post(path, reason="rehearsal", cascade=True, dry_run=True)
    return answer


def test_the_tree_is_used_by_the_keyboard_alone(console: Console) -> None:
    """F470a: The tree of keys has one tab stop, and arrows, Home, End, letters and Enter go on."""
    console.open("#/keys")
    console.page.get_by_label("Find by name").focus()
    for key, there in (
        ("Tab", "root Head office, active"),
        ("ArrowDown", "issuer Payments, active"),
        ("ArrowRight", "issuer Cards, active"),
        ("End", "notary Old desk, revoked, signed 4 warrants"),
        ("ArrowUp", f"issuer {WIDE}, suspended"),
        ("Home", "root Head office, active"),
        ("b", "issuer Build farm, active, 2 versions"),
        ("ArrowLeft", "issuer Build farm, active, 2 versions"),
        ("ArrowDown", f"notary {MARKUP}, active, signed 2 warrants"),
        ("ArrowLeft", "root Head office, active"),
    ):
        console.page.keyboard.press(key)
        expect(_focused(console)).to_have_attribute("aria-label", there)
    expect(_item(console, "Build farm")).to_have_attribute("aria-expanded", "false")
    expect(_item(console, "Releases")).to_have_count(0)
    console.page.keyboard.press("Enter")
    expect(_item(console, "Head office")).to_have_attribute("aria-selected", "true")
    console.page.wait_for_url(f"**/#/keys/{console.world.id('Head office')}")


def test_what_goes_dark_is_what_a_revocation_reaches(console: Console) -> None:
    """F470b: The tree marks the keys that a revocation revokes, no others, with its numbers."""
    console.open("#/keys")
    _choose(console, "Payments")
    _button(console, "Show impact").click()
    assert _tree(console).aria_snapshot().strip() == _TREE.strip()
    before, reach = _status(console.world), _rehearsal(console.world, "Payments")
    expect(console.page.locator(".tree .cut")).to_have_count(1)
    numbers = f"affects 4 keys, 3 superseded versions and {reach['warrants']} warrants"
    expect(console.page.locator(".effect")).to_contain_text(numbers)
    console.check_looks("keys")
    _button(console, "Revoke…").click()
    dialog = console.page.get_by_role("dialog")
    expect(dialog.get_by_role("radio")).to_have_count(2)
    expect(dialog.get_by_role("radio", checked=True)).to_have_count(0)
    dialog.get_by_label("With descendants").check()
    dialog.get_by_label("Reason").fill(MARKUP)
    console.check_axe()
    console.keep_picture("keys-revoke")
    _button(console, "Revoke with descendants").click()
    expect(
        console.page.get_by_text("Revoked: 4 keys, 3 superseded versions and 23")
    ).to_be_visible()
    after = _status(console.world)
    changed = {each for each, status in after.items() if status != before[each]}
    assert len(changed) == reach["keys"]
    marked = {
        console.world.id(each) for each in ("Payments", "Cards", "Card desk", "Card machines")
    }
    assert marked <= changed
    assert {after[each] for each in changed} == {"revoked"}
    expect(console.page.get_by_role("heading", name="Payments revoked")).to_be_visible()


def test_much_is_not_revoked_by_a_slip(console: Console) -> None:
    """F471a: To revoke more than ten keys, a person says how far, why, and types the name."""
    console.open("#/keys")
    _choose(console, "Head office")
    before = _status(console.world)
    _button(console, "Revoke…").click()
    dialog = console.page.get_by_role("dialog")
    # Neither the reach nor the reason has a default.
    _button(console, "Revoke").click()
    dialog.get_by_label("Reason").fill("company sold")
    _button(console, "Revoke").click()
    dialog.get_by_label("Only this key").check()
    expect(dialog.get_by_label("Key name")).to_have_count(0)
    dialog.get_by_label("With descendants").check()
    name = dialog.get_by_label("Key name")
    name.fill("Head offic")
    _button(console, "Revoke with descendants").click()
    expect(dialog).to_be_visible()
    assert _status(console.world) == before
    name.fill("Head office")
    _button(console, "Revoke with descendants").click()
    expect(dialog).to_have_count(0)
    console.wait("changes")
    console.open("#/keys")
    expect(_item(console, "Releases")).to_have_attribute("aria-label", re.compile("revoked"))
    _choose(console, "Head office")
    expect(console.page.locator(".effect")).to_contain_text("company sold")


def test_keys_are_made_rotated_suspended_and_enabled(console: Console) -> None:
    """F470c: A change of a key is seen in the tree, and a key below a suspended one says why."""
    console.open("#/keys")
    _choose(console, "Payments")
    _button(console, "New child key…").click()
    console.page.get_by_label("Name", exact=True).fill(f"{MARKUP} 2")
    console.check_axe()
    _button(console, "Create key").click()
    expect(_item(console, f"{MARKUP} 2")).to_have_attribute("aria-selected", "true")
    _button(console, "Rotate…").click()
    _button(console, "Rotate key").click()
    expect(_item(console, f"{MARKUP} 2")).to_have_attribute("aria-label", re.compile("2 versions"))
    _choose(console, "Payments")
    _button(console, "Suspend…").click()
    _button(console, "Suspend key").click()
    hindered = f"notary {MARKUP} 2, cannot sign: Payments is suspended, 2 versions"
    expect(_item(console, f"{MARKUP} 2")).to_have_attribute("aria-label", hindered)
    _button(console, "Enable…").click()
    _button(console, "Enable key").click()
    expect(_item(console, f"{MARKUP} 2")).to_have_attribute("aria-label", re.compile("active"))
    key = console.world.get(f"keys/{console.world.id('Payments')}")
    assert key["status"] == "active"
    # F1512b: What happened to the chosen key, whichever it is.
    console.page.get_by_text("Timeline").click()
    story = console.page.locator(".timeline")
    expect(story).to_contain_text("admin enabled the signing key Payments")
    _choose(console, f"{MARKUP} 2")
    expect(story).to_contain_text(f"admin rotated the signing key {MARKUP} 2")
    expect(story).not_to_contain_text("Payments")
    console.check_axe()


def test_a_superseded_version_is_revoked_alone(console: Console) -> None:
    """F470d: The versions of a key are listed, and one superseded version is revoked by itself."""
    console.open("#/keys")
    _choose(console, "Card desk")
    console.page.locator("summary").first.click()
    _button(console, "Revoke v1…").click()
    expect(console.page.get_by_role("dialog")).to_contain_text("affects 14 warrants of version 1")
    console.page.get_by_label("Reason").fill("old laptop")
    _button(console, "Revoke version 1").click()
    expect(console.page.get_by_text("Revoked: version 1 and 14 warrants.")).to_be_visible()
    versions = console.world.get(f"keys/{console.world.id('Card desk')}/versions")["versions"]
    assert [each["status"] for each in versions] == ["active", "rotated", "rotated", "revoked"]


def test_names_of_all_kinds_stay_in_their_boxes(console: Console) -> None:
    """F470e: A name is text, whatever is in it: cut in the tree, and whole beside it."""
    console.open("#/keys")
    for width in (1280, 390):
        console.page.set_viewport_size({"width": width, "height": 844})
        expect(_tree(console)).not_to_have_attribute(
            "width", re.compile("^9" if width < 720 else "^3")
        )
        assert _tree(console).evaluate(_OVERFLOWS) == []
    for name in (MARKUP, RTL, WIDE):
        _choose(console, name)
        _button(console, "Close").click()


def test_a_click_counts_although_the_page_moved(console: Console) -> None:
    """F470i: A click counts, although the page scrolls while the button of the mouse is down."""
    console.page.set_viewport_size({"width": 390, "height": 700})
    console.open("#/keys")
    _item(console, "Payments").hover(position={"x": 60, "y": 20})
    console.page.mouse.down()
    console.page.evaluate(_SCROLL)
    console.page.mouse.up()
    expect(console.page.locator(".chosen-key h2")).to_have_text("Payments")


def test_a_key_that_only_reads_sees_no_button_that_changes(visitor: Console) -> None:
    """F471b: With a read-only API key the page shows the tree, and offers no change."""
    visitor.expect_failures(403)
    visitor.sign_in("reader")
    visitor.open("#/keys")
    _choose(visitor, "Payments")
    for name in _CHANGES:
        expect(_button(visitor, name)).to_have_count(0)
    _button(visitor, "Show impact").click()
    assert _tree(visitor).aria_snapshot().strip() == _TREE.strip()


def test_a_key_is_opened_by_its_address(console: Console) -> None:
    """F470h: An address names a key or a superseded version; an unknown one is said to be so."""
    versions = console.world.get(f"keys/{console.world.id('Card desk')}/versions")["versions"]
    console.open(f"#/keys/{versions[-1]['key_id']}")
    expect(_item(console, "Card desk")).to_have_attribute("aria-selected", "true")
    console.open("#/keys/svc_key_0")
    expect(console.page.get_by_text("Signing key svc_key_0 not found.")).to_be_visible()
    expect(console.page.get_by_role("treeitem", selected=True)).to_have_count(0)


def test_a_fault_is_told_and_tried_again(console: Console) -> None:
    """F470f: If the keys cannot be read, the page says so, shows no empty tree, and asks again."""
    fault = {"error": {"code": "unavailable", "message": "The store does not answer."}}

    def fail(route: Route) -> None:
        route.fulfill(status=503, json=fault)

    console.expect_failures(503)
    console.page.route("**/v1/keys?*", fail)
    console.open("#/keys")
    expect(console.page.get_by_role("alert")).to_contain_text(
        "The signing keys could not be loaded."
    )
    expect(console.page.get_by_text("No signing keys yet")).to_have_count(0)
    console.page.unroute("**/v1/keys?*")
    expect(_item(console, "Payments")).to_be_visible()


def test_the_tree_is_there_before_its_numbers(console: Console) -> None:
    """F534a: While the numbers of warrants are on their way, the tree stays."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    console.page.route("**/v1/keys?*warrant_count*", hold)
    console.page.get_by_role("link", name="Signing keys", exact=True).click()
    expect(_item(console, "Payments")).to_be_visible()
    console.page.wait_for_timeout(600)
    expect(_item(console, "Transfers")).not_to_have_accessible_name(re.compile("signed"))
    held.pop().continue_()
    expect(_item(console, "Transfers")).to_have_accessible_name(re.compile("signed 5 warrants"))


@pytest.mark.parametrize("plan", [nothing])
def test_the_first_key_is_a_root(console: Console) -> None:
    """F470g: A tenant without keys sees how to make a root; the new root is shown."""
    console.open("#/keys")
    expect(
        console.page.get_by_text("No signing keys yet. Create a root key first,")
    ).to_be_visible()
    _button(console, "Create root key…").click()
    expect(console.page.get_by_role("radio")).to_have_count(1)
    console.page.get_by_label("Name", exact=True).fill("Head office")
    _button(console, "Create key").click()
    expect(_item(console, "Head office")).to_have_attribute("aria-selected", "true")
    console.check_axe()


@pytest.mark.parametrize("plan", [many_keys])
def test_a_key_among_5000_is_found(console: Console) -> None:
    """F472a: Of 5,000 keys, few are in the document, and each is found by name or by keys."""
    console.open("#/keys")
    expect(console.page.get_by_text("5,000 keys, of which 4 root keys.")).to_be_visible()
    group = _tree(console).get_by_role("treeitem", name="52 notaries").first
    group.focus()
    console.page.keyboard.press("Enter")
    expect(_focused(console)).to_have_attribute("aria-label", re.compile("^notary Notary "))
    for key, name in (("End", "51 notaries"), ("Home", "Root 0")):
        console.page.keyboard.press(key)
        expect(_tree(console).get_by_role("treeitem", name=name).last).to_be_in_viewport()
        assert _tree(console).locator("*").count() <= 400
    console.page.get_by_label("Find by name").fill("notary 4321")
    expect(_tree(console).get_by_role("treeitem")).to_have_count(3)
    _choose(console, "Notary 4321")
    _button(console, "Revoke…").click()
    expect(console.page.get_by_role("dialog")).to_contain_text("affects 1 key")


def test_keys_are_a_table_as_well(console: Console) -> None:
    """F1474a: All keys stand in a table, with what can be done; each leads into the tree."""
    page = console.page
    console.open("#/keys")
    page.get_by_role("link", name="Table").click()
    rows = page.locator(".lines .row")
    expect(page.get_by_text("14 rows")).to_be_visible()
    console.check_looks("keys-flat")
    expect(rows.filter(has_text="Old desk")).to_contain_text("revoked")
    page.get_by_role("button", name="Suspended 2").click()
    expect(rows).to_have_count(2)
    assert "flat=1" in page.url
    console.act("Nightly", "Enable…")
    page.get_by_role("dialog").get_by_role("button", name="Enable key").click()
    expect(rows).to_have_count(1)
    page.get_by_role("searchbox").fill("card parent:payments")
    rows.get_by_role("link").click()
    expect(page.get_by_role("treeitem", name="issuer Cards")).to_have_attribute(
        "aria-selected", "true"
    )
