"""An incident at night: from the first alarm to the room of the change, without a mouse."""

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.functions.console import fleet
from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow


def _tab_to(console: Console, wanted: Locator) -> None:
    """Press Tab until this has the focus."""
    expect(wanted).to_be_visible()
    for _ in range(60):
        if wanted.evaluate("(each) => each === document.activeElement"):
            return
        console.page.keyboard.press("Tab")
    pytest.fail(f"Tab does not lead to {wanted}")


def test_an_incident_by_keyboard_alone(console: Console) -> None:
    """F1434a: From the alarm over the fleet to the room of the change, and until all refuse it.

    What a screen reader is told is compared at each step.
    """
    page, world = console.page, console.world
    unknown = world.get("authorizers/summary")["unknown"]
    expect(page).to_have_title(re.compile(rf"^\({unknown}\) Overview"))
    expect(page.get_by_role("navigation")).to_match_aria_snapshot(f"""
      - navigation "Pages":
        - link "Authorizers {unknown} may accept revoked warrants"
    """)
    expect(page.get_by_role("main")).to_match_aria_snapshot(f"""
      - main:
        - heading "Overview" [level=1]
        - link /May accept revoked warrants {unknown} of 7 authorizers/
        - heading "Action required" [level=2]
        - list:
          - listitem:
            - paragraph: warehouse-door
            - text: /fails open, with a lag of \\d+ entries/
            - link "View"
    """)

    # Who lets it in?
    page.keyboard.press("g")
    page.keyboard.press("a")
    console.wait("authorizers")
    expect(page.get_by_role("heading", name="Authorizers")).to_be_focused()
    page.keyboard.press("j")
    first = page.locator(".lines .row").first.get_by_role("link")
    expect(first).to_be_focused()
    name = first.text_content() or ""
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()

    # Revoke what was stolen.
    page.keyboard.press("Control+K")
    expect(page.get_by_role("combobox", name="Search")).to_be_focused()
    page.keyboard.type("revoke a")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Revoke a warrant")
    expect(dialog.get_by_label("Warrant")).to_be_focused()
    page.keyboard.type("svc_wrt_stolen")
    page.keyboard.press("Tab")
    page.keyboard.type("stolen at night")
    _tab_to(console, dialog.get_by_role("button", name="Revoke warrant"))
    page.keyboard.press("Enter")
    console.wait("changes")
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("svc_wrt_stolen"))
    assert world.get("revocations/check?warrant_id=svc_wrt_stolen")["revoked"]

    # How far has it come?
    world.run_schedule()
    expect(page.get_by_role("main")).to_match_aria_snapshot("""
      - main:
        - heading /svc_wrt_stolen revoked/ [level=1]
        - region "Propagation":
          - list:
            - listitem:
              - heading "Recorded" [level=3]
            - listitem:
              - heading /In the feed, entry \\d+/ [level=3]
            - listitem:
              - heading /In SRL \\d+/ [level=3]
            - listitem:
              - heading "Enforced by none of 7" [level=3]
              - paragraph: 7 authorizers may accept it.
        - heading "Time to deny" [level=2]
        - heading "Lagging authorizers" [level=2]
        - region "authorizers"
        - heading "Timeline" [level=2]
    """)
    expect(page.get_by_role("table").get_by_role("link", name="warehouse-door")).to_be_visible()
    console.check_axe()
    newest = world.get("authorizers/summary")["sequence"]
    for each in world.get("authorizers")["authorizers"]:
        fleet.beat(world, each["id"], sequence=newest)
    expect(page.get_by_role("region", name="Propagation")).to_contain_text("Enforced by all 7")
    assert world.get(page.url.partition("#/")[2])["is_complete"]
    expect(page).to_have_title(re.compile(r"^[^(]"))
    expect(page.locator("link[rel=icon]")).to_have_attribute("href", re.compile("mark.svg"))

    # And out, to the list of all changes.
    page.keyboard.press("Control+K")
    page.keyboard.type("svc_wrt_stolen")
    chosen = page.get_by_role("listbox").get_by_role("option", selected=True)
    expect(chosen).to_contain_text("svc_wrt_stolen")
    page.keyboard.press("Escape")
    _tab_to(console, page.get_by_role("button", name="Copy report"))
