"""The console's pages of revocations: search, one, many, take back."""

import csv
import re
from typing import Final

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.functions.console import plans
from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow

# Of the plan: it has a reason with markup.
_SEEDED: Final = "svc_wrt_order-0002"


def _button(page: Page | Locator, name: str) -> Locator:
    return page.get_by_role("button", name=name)


def _revoke(page: Page, warrant: str, reason: str) -> None:
    """Revoke one warrant in the dialog that is open."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Warrant").fill(warrant)
    dialog.get_by_label("Reason").fill(reason)
    _button(dialog, "Revoke warrant").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{warrant} revoked")


def test_a_revocation_is_unrevoked_and_found_again(console: Console) -> None:
    """F473b: After a revocation is taken back, the console shows what the online check says."""
    page, world = console.page, console.world
    console.open("#/revocations")
    search = page.get_by_role("searchbox")
    search.fill("warrant:order-000*")
    expect(page.get_by_text("7 rows")).to_be_visible()
    search.fill(_SEEDED)
    expect(page.get_by_text("Online checks refuse this warrant")).to_be_visible()
    page.get_by_role("link", name=_SEEDED).click()
    expect(_button(page, "Check now")).to_be_visible()
    console.settle()
    _button(page, "Check now").click()
    expect(page.get_by_text("refused", exact=True)).to_be_visible()
    _button(page, "Unrevoke…").click()
    expect(page.get_by_text("Warrants of a revoked signing key stay revoked.")).to_be_visible()
    console.check_axe()
    console.keep_picture("revocation-unrevoke")
    _button(page.get_by_role("dialog"), "Unrevoke").click()
    expect(page.get_by_role("heading", name="Unrevoked")).to_be_visible()
    assert world.get(f"revocations/check?warrant_id={_SEEDED}")["revoked"] is False
    console.open(f"#/revocations?warrant={_SEEDED}")
    expect(page.get_by_text("Online checks accept this warrant")).to_be_visible()
    # A revocation of no batch has actions, too.
    search.fill("warrant:svc_wrt_order-0003")
    expect(page.locator(".lines .row")).to_have_count(1)
    console.act("svc_wrt_order-0003", "Unrevoke…")
    expect(page.get_by_role("menuitem")).to_have_count(0)
    _button(page.get_by_role("dialog"), "Unrevoke").click()
    expect(page.locator("#said")).to_contain_text("Warrant unrevoked.")
    assert world.get("revocations/check?warrant_id=svc_wrt_order-0003")["revoked"] is False
    # A warrant that is refused for its key only has no revocation to be taken back.
    signed = world.get(f"keys/{world.id('Transfers')}/warrants?limit=1")["warrants"][0]
    search.fill(signed["warrant_id"])
    expect(page.get_by_text("its signing key is revoked")).to_be_visible()


def test_many_warrants_are_revoked_from_a_file(console: Console) -> None:
    """F474a, F595a: A file is checked before anything changes; a bad line stops it.

    The result tells what became of each line, and how far the change has come. What was taken back
    is said in its place.
    """
    page, world = console.page, console.world
    lines = [
        "reason;warrant_id",
        '"lost; ""again""";svc_wrt_file-1',
        ";svc_wrt_file-2",
        f";{_SEEDED}",
        ";=cmd|calc!A1",
        "lost;svc_wrt_file-1",
    ]
    total = world.get("revocations?limit=1")["total"]
    console.open("#/revocations/many")
    file = {
        "name": "lost.csv",
        "mimeType": "text/csv",
        "buffer": "\r\n".join(lines).encode("utf16"),
    }
    page.get_by_label("Or select a file").set_input_files(file)  # type: ignore[arg-type]
    page.get_by_role("textbox", name=re.compile("^Reason")).fill("laptops stolen")
    _button(page, "Dry run").click()
    start = _button(page, "Revoke 2 warrants")
    expect(start).to_be_disabled()
    for text in ("1 is already revoked", "1 line repeats", "1 line cannot be revoked"):
        expect(page.get_by_role("main")).to_contain_text(text)
    console.check_looks("revocations-many")
    assert world.get("revocations?limit=1")["total"] == total
    page.get_by_label("Skip the invalid line").check()
    start.click()
    expect(page.get_by_text("2 warrants are revoked.")).to_be_visible()
    console.keep_picture("revocations-many-done")
    with page.expect_download() as download:
        _button(page, "Download result (CSV)").click()
    rows = list(csv.DictReader(download.value.path().read_text("utf-8-sig").splitlines()))
    assert [(row["line"], row["warrant_id"], row["outcome"]) for row in rows] == [
        ("2", "svc_wrt_file-1", "revoked"),
        ("3", "svc_wrt_file-2", "revoked"),
        ("4", _SEEDED, "already_revoked"),
        ("5", "'=cmd|calc!A1", "left_out"),
    ]
    first, second = world.get("revocations?limit=2")["revocations"]
    assert {first["reason"], second["reason"]} == {'lost; "again"', "laptops stolen"}
    page.get_by_role("link", name="Propagation").click()
    expect(page.get_by_text("Authorizers that use only the SRL still accept them")).to_be_visible()
    console.settle()
    _button(page, "Unrevoke batch…").click()
    console.keep_picture("revocations-batch")
    page.get_by_role("dialog").get_by_role("textbox").fill("a mistake")
    _button(page, "Unrevoke 2 warrants").click()
    expect(page.get_by_text("2 warrants unrevoked.")).to_be_visible()
    expect(page.get_by_role("heading", name="No revocations left")).to_be_visible()
    console.check_axe()
    console.keep_picture("revocations-batch-undone")
    assert world.get("revocations?limit=1")["total"] == total
    page.get_by_role("link", name="View audit entries").click()
    expect(page.get_by_text("unrevoked 2 warrants")).to_be_visible()


def test_the_service_dies_while_many_are_revoked(console: Console) -> None:
    """F474b: If the service dies in the middle, the console says what is done, and can continue.

    A call whose answer was lost is repeated under the same batch, and revokes nothing twice.
    """
    page, world = console.page, console.world
    console.expect_failures(0)
    total, calls = world.get("revocations?limit=1")["total"], 0

    def answer(route: Route) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            # The service makes the change, and its answer is lost.
            route.fetch()
        if calls == 1:
            route.continue_()
        else:
            route.abort()

    console.open("#/revocations/many")
    # Each reason is a call of its own.
    lines = [f"svc_wrt_dies-{number},{number // 2}" for number in range(6)]
    page.get_by_role("textbox", name=re.compile("^Warrants")).fill(
        "\n".join(["warrant_id,reason", *lines])
    )
    _button(page, "Dry run").click()
    expect(_button(page, "Revoke 6 warrants")).to_be_enabled()
    page.route("**/v1/revocations/batch", answer)
    _button(page, "Revoke 6 warrants").click()
    expect(page.get_by_role("alert")).to_contain_text("The service is not responding.")
    expect(page.get_by_role("alert")).to_contain_text(
        "2 warrants are revoked. For 2 the response was lost: they may or may not be revoked. "
        "2 remain."
    )
    console.keep_picture("revocations-many-dies")
    assert world.get("revocations?limit=1")["total"] == total + 4
    page.unroute("**/v1/revocations/batch")
    _button(page, "Continue with the other 4").click()
    expect(page.get_by_text("6 warrants are revoked.")).to_be_visible()
    made = world.get("revocations?limit=100")
    assert made["total"] == total + 6
    assert len({each["batch_id"] for each in made["revocations"][:6]}) == 1


@pytest.mark.parametrize("plan", [plans.many_revocations], ids=["10,000"])
def test_ten_thousand_revocations(console: Console) -> None:
    """F475a: Of ten thousand revocations only the rows in view are in the document.

    Loading them can be stopped.
    """
    page = console.page
    console.open("#/revocations")
    _button(page, "Load more").click()
    expect(page.get_by_text("200 of 10,000")).to_be_visible()
    asked: list[Route] = []

    def answer(route: Route) -> None:
        asked.append(route)
        if len(asked) < 3:
            route.continue_()

    page.route("**/v1/revocations?*cursor=*", answer)
    _button(page, "Load all 9,800").click()
    expect(page.get_by_text("400 of 10,000")).to_be_visible()
    while len(asked) < 3:
        page.wait_for_timeout(10)
    _button(page, "Stop").click()
    asked[-1].continue_()
    expect(page.get_by_text("500 of 10,000")).to_be_visible()
    table = page.get_by_role("table", name="revocations")
    expect(table).to_have_attribute("aria-rowcount", "501")
    assert page.locator("[role=row]").count() < 50
    table.evaluate("each => { each.scrollTop = each.scrollHeight }")
    expect(page.locator("[aria-rowindex='501']")).to_be_visible()
    assert page.locator("[role=row]").count() < 50
    console.check_looks("revocations-10000", ["phone"])


def test_the_service_filters_the_rows(console: Console) -> None:
    """F1470a: Words, `column:value` and the form ask the service; the address keeps the filter."""
    page = console.page
    console.open("#/revocations?by=admin")
    rows = page.locator(".lines .row")
    expect(page.get_by_role("searchbox")).to_have_value("by:admin")
    expect(page.get_by_text("24 rows")).to_be_visible()
    page.get_by_role("searchbox").fill('by:fraud-desk reason:"file of the desk"')
    expect(page.get_by_text("14 rows")).to_be_visible()
    expect(rows.first).to_contain_text("see the file of the desk in Lyon")
    where = page.evaluate("location.hash")
    console.open("#/overview")
    console.open(where)
    expect(page.get_by_text("14 rows")).to_be_visible()
    _button(page, "Filter by").click()
    expect(page.get_by_label("Reason contains")).to_have_value("file of the desk")
    page.get_by_label("Reason contains").fill("")
    page.get_by_label("From (UTC)").fill("2026-11-21T11:54")
    page.get_by_label("To (UTC)").fill("2026-11-21T11:55")
    console.check_axe()
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(page.get_by_text("2 rows")).to_be_visible()
    expect(rows.first).to_contain_text("svc_wrt_order-0118")
    page.get_by_role("searchbox").fill("from:yesterday")
    console.expect_failures(400)
    expect(page.get_by_role("alert")).to_contain_text("from: must be")


def test_who_may_not_revoke_sees_no_button_for_it(visitor: Console) -> None:
    """F475b: A key that cannot read revocations sees why; one that only reads has no buttons."""
    page = visitor.page
    visitor.sign_in("reader")
    visitor.open("#/revocations")
    expect(page.get_by_text("This key cannot read revocations.")).to_be_visible()
    visitor.check_looks("revocations-reader", ["light"])
    auditor = visitor.another_tab()
    auditor.sign_in("auditor")
    auditor.open(f"#/revocations?warrant={_SEEDED}")
    auditor.page.get_by_role("link", name=_SEEDED).click()
    expect(auditor.page.get_by_role("heading", name=_SEEDED)).to_be_visible()
    expect(auditor.page.get_by_role("heading", name="Timeline")).to_be_visible()
    expect(auditor.page.get_by_role("heading", name="Details")).to_be_visible()
    expect(_button(auditor.page, "Unrevoke…")).to_have_count(0)
    auditor.open("#/revocations")
    expect(auditor.page.get_by_text("100 of 120")).to_be_visible()
    expect(_button(auditor.page, "Revoke a warrant…")).to_have_count(0)
    expect(auditor.page.get_by_role("link", name="Revoke many…")).to_have_count(0)
    auditor.check()


@pytest.mark.parametrize("plan", [plans.nothing], ids=["empty"])
def test_tokens_of_a_user_and_a_session(console: Console) -> None:
    """F2603a: The console revokes all tokens of a user, or a session, names them, and undoes it."""
    page, issuer = console.page, "https://as.example"
    console.open("#/revocations")
    for choice, value, words, title in (
        (
            "All tokens of a user (sub)",
            "ann",
            f"All tokens of user ann of {issuer} until",
            "All tokens of user ann until",
        ),
        ("One session (sid)", "s-1", f"Session s-1 of {issuer}", "Session s-1"),
    ):
        _button(page, "Revoke a warrant…").first.click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Type").select_option(choice)
        expect(dialog.get_by_label("Warrant", exact=True)).to_be_hidden()
        dialog.get_by_label("Issuer").fill(issuer)
        dialog.get_by_label("Value").fill(value)
        dialog.get_by_label("Reason").fill("left the company")
        _button(dialog, "Revoke warrant").click()
        console.wait("changes")
        expect(page.get_by_text(words)).to_be_visible()
        expect(page.get_by_role("heading", level=1)).to_contain_text(title)
        console.open("#/revocations")
        expect(page.get_by_text(words)).to_be_visible()
    console.check_looks("revocations-tokens", ["light"])
    page.get_by_role("link", name="Session s-1").click()
    _button(page, "Unrevoke…").click()
    expect(page.get_by_role("dialog")).to_contain_text("Session s-1")
    _button(page.get_by_role("dialog"), "Unrevoke").click()
    expect(page.get_by_role("heading", name="Unrevoked")).to_be_visible()
    console.check()


@pytest.mark.parametrize("plan", [plans.nothing], ids=["empty"])
def test_two_tabs_of_a_new_tenant(console: Console) -> None:
    """F475c, F1488c: A page sees that another tab took its revocation back; old links lead on."""
    page = console.page
    console.open("#/revocations")
    expect(page.get_by_text("Revoke a warrant to follow its propagation")).to_be_visible()
    console.check_looks("revocations-empty", ["light"])
    _button(page, "Revoke a warrant…").click()
    _revoke(page, "svc_wrt_first", plans.RTL)
    expect(page.get_by_text("Unknown: no authorizer")).to_be_visible()
    expect(page.get_by_role("main")).not_to_contain_text("refused everywhere")
    other = console.another_tab()
    other.sign_in()
    # As addresses of releases before were.
    old = page.evaluate("location.hash").replace("changes", "revocations")
    other.page.evaluate("(old) => { location.hash = old }", old)
    other.wait("changes")
    console.settle()
    _button(page, "Unrevoke…").click()
    _button(page.get_by_role("dialog"), "Unrevoke").click()
    expect(page.get_by_role("heading", name="Unrevoked")).to_be_visible()
    expect(other.page.get_by_role("heading", name="Unrevoked")).to_be_visible()
    other.check()
