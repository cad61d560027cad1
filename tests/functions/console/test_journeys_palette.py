"""The palette: pages, acts and all nouns from the keyboard."""

import re

import pytest
from playwright.sync_api import Locator, Request, Route, expect

from tests.functions.console import fleet, plans
from tests.functions.console.watched import Console

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("plan", [plans.key_tree])]

_SEARCHES = "**/v1/search?*"


def _open(console: Console) -> tuple[Locator, Locator]:
    """Open the palette; its field and its choices."""
    console.page.keyboard.press("Control+K")
    field = console.page.get_by_role("combobox", name="Search")
    expect(field).to_be_focused()
    return field, _choices(console)


def _choices(console: Console) -> Locator:
    return console.page.get_by_role("listbox", name="Results").get_by_role("option")


def test_all_nouns_are_found_in_one_call(console: Console) -> None:
    """F1427a: Each kind of thing is found by one call, and its address shows it."""
    page, world = console.page, console.world
    account = world.post("service-accounts", name="stock-desk")["id"]
    api_key = world.post("api-keys", name="stock api", scopes=["authorizer"])
    world.seed.secrets["stock"] = api_key["key"]
    key = world.post("keys", name="stock root", type="root")["id"]
    gate = fleet.register(world, "stock-gate", "stock")
    revoked = world.post("revocations", warrant_id="svc_wrt_stock-1", reason="found")
    names = ["svc_wrt_stock-2", "svc_wrt_stock-3"]
    batch = world.post("revocations/batch", action="revoke", warrant_ids=names, reason="lot")
    entry = world.get("audit-logs?limit=1")["audit_logs"][0]["id"]
    asked: list[str] = []

    def note(request: Request) -> None:
        if "/v1/search" in request.url:
            asked.append(request.url)

    page.on("request", note)
    found = {
        "stock-desk": account,
        "stock api": api_key["id"],
        "stock root": key,
        "stock-gate": gate,
        "svc_wrt_stock-1": "svc_wrt_stock-1",
    }
    _, choices = _open(console)
    page.keyboard.type("stock")
    for name in found:
        expect(choices.filter(has_text=name)).to_be_visible()
    assert len(asked) == 1
    console.check_axe()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    found |= {revoked["id"]: revoked["id"], batch["batch_id"]: batch["batch_id"]}
    for query, held in found.items():
        _, choices = _open(console)
        page.keyboard.type(query)
        expect(page.get_by_role("group").get_by_role("option").first).to_be_visible()
        expect(choices.first).to_have_attribute("aria-selected", "true")
        with page.expect_event("framenavigated"):
            page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(held))
    _open(console)
    page.keyboard.type(entry)
    expect(choices).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/audit.*action=.*from=2026-11-21"))


def test_an_older_answer_replaces_no_newer(console: Console) -> None:
    """F1427b: What a later query found stays when the answer to an earlier one comes."""
    page = console.page
    held: list[Route] = []

    def answer(route: Route, name: str) -> None:
        hit = {"kind": "signing_key", "id": "svc_key_0", "name": name, "note": None}
        route.fulfill(json={"results": [hit | {"status": "active"}]})

    def hold(route: Route) -> None:
        held.append(route)

    page.route(_SEARCHES, hold)
    box, choices = _open(console)
    # At once: on a busy machine, a pause between two letters would send a search of its own.
    with page.expect_request(_SEARCHES):
        box.fill("desk")
    with page.expect_request(_SEARCHES):
        box.fill("desk cards")
    # So that both have come here.
    page.evaluate("0")
    older, newer = held
    answer(newer, "desk cards, newer")
    expect(choices.filter(has_text="newer")).to_be_visible()
    answer(older, "desk cards, older")
    page.evaluate("new Promise((resolve) => setTimeout(resolve, 300))")
    expect(choices).to_have_text(["desk cards, newer"])
    # What does not fit any more is gone before the next answer.
    box.fill("desk cards x")
    expect(choices).to_have_count(0)


def test_an_older_service_leaves_pages_and_acts(console: Console) -> None:
    """F1427c: Without the search of the service, pages and acts are there, and it is said."""
    page = console.page
    console.expect_failures(404)
    page.route(_SEARCHES, lambda route: route.fulfill(status=404, json={}))
    _, choices = _open(console)
    expect(choices.filter(has_text="Webhooks")).to_be_visible()
    page.keyboard.type("sign")
    expect(page.get_by_text("does not support search. Only pages and actions")).to_be_visible()
    expect(choices).to_have_text(["Signing keys", "New signing key…", "Sign out"])
    page.keyboard.press("ArrowUp")
    expect(choices.last).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("heading")).to_have_text("New signing key")
    # Over a dialog it does not open.
    page.keyboard.press("Control+K")
    expect(page.get_by_role("combobox", name="Search")).to_have_count(0)


def test_the_palette_has_the_roles_of_a_combobox(console: Console) -> None:
    """F1427d: A screen reader hears the field, the groups, the chosen option and their number."""
    page = console.page
    page.get_by_role("button", name="Search").first.click()
    field = page.get_by_role("combobox", name="Search")
    expect(field).to_be_focused()
    page.keyboard.type("audit")
    expect(_choices(console)).to_have_text(["Audit log"])
    expect(page.get_by_role("dialog")).to_match_aria_snapshot("""
      - dialog "Search":
        - combobox "Search": audit
        - listbox "Results":
          - group "Pages":
            - option "Audit log" [selected]
        - status: 1 result
    """)
    chosen = _choices(console).get_attribute("id")
    assert chosen
    expect(field).to_have_attribute("aria-activedescendant", chosen)
    console.check_looks("palette")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Search").first).to_be_focused()
