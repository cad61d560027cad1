"""The room of a change: how far it has come, since when, and who may still let it in."""

import re
from datetime import timedelta
from typing import Any, Final

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.functions.console import fleet, plans
from tests.functions.console.plans import MARKUP, RTL, WIDE
from tests.functions.console.seeds import Plan
from tests.functions.console.served import World
from tests.functions.console.watched import Console
from tests.kit.feeds import publish_feed

pytestmark = pytest.mark.slow

_CJK: Final = "東京の支払いゲートウェイ" * 7
_WIDTHS: Final = (390, 768, 1000, 1440)
# All numbers that the room shows, but those of the axis of the picture.
_NUMBERS: Final = """() => {
  const texts = document.createTreeWalker(document.querySelector(".room"), NodeFilter.SHOW_TEXT);
  const found = new Set();
  while (texts.nextNode()) {
    if (texts.currentNode.parentElement.closest("figure, button, .sheet-foot")) continue;
    for (const [each] of texts.currentNode.data.matchAll(/[0-9]+/g)) found.add(each);
  }
  return [...found];
}"""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plans.key_tree


def _button(page: Page | Locator, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def _room(console: Console, title: str) -> str:
    """The identifier of the change whose room is shown, under this title."""
    expect(console.page.get_by_role("heading", level=1)).to_have_text(f"{title} revoked")
    console.wait("changes")
    return str(console.page.evaluate("location.hash").removeprefix("#/changes/"))


def _fleet(world: World, *names: str) -> list[str]:
    return [fleet.register(world, name, "admin") for name in names]


def _beat(world: World, *ids: str, **more: Any) -> None:
    """Let these report that they hold the newest entry."""
    sequence = world.get("authorizers/summary")["sequence"]
    for each in ids:
        fleet.beat(world, each, "admin", sequence=sequence, **more)


def _publish(world: World) -> None:
    publish_feed(world.ports, world.seed.tenant_id)


def _completed(console: Console, title: str, ids: list[str]) -> str:
    """Follow the change under this title until these authorizers hold it; its identifier."""
    own, world, main = _room(console, title), console.world, console.page.get_by_role("main")
    assert world.get(f"changes/{own}")["is_complete"] is False
    expect(main).not_to_contain_text("refused everywhere")
    _publish(world)
    _beat(world, *ids, max_staleness=30)
    expect(main).to_contain_text("refused everywhere")
    assert world.get(f"changes/{own}")["is_complete"] is True
    return own


def test_every_dialog_leads_to_the_room_of_what_it_revoked(console: Console) -> None:
    """F1488a: Of each of the five kinds, the dialog that revokes it leads to its room.

    Nothing there says that all refuse it before the service does.
    """
    page, world = console.page, console.world
    ids = _fleet(world, "eu-1", "eu-2")
    world.run_schedule()
    _beat(world, *ids, max_staleness=30)
    seen = list[str]()

    def follow(title: str) -> None:
        seen.append(_completed(console, title, ids))

    console.open("#/revocations")
    _button(page, "Revoke a warrant…").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Warrant").fill("svc_wrt_phone-1")
    dialog.get_by_label("Reason").fill(MARKUP)
    _button(dialog, "Revoke warrant").click()
    follow("svc_wrt_phone-1")

    console.open("#/revocations/many")
    page.get_by_role("textbox", name=re.compile("^Warrants")).fill("svc_wrt_a\nsvc_wrt_b")
    page.get_by_role("textbox", name=re.compile("^Reason")).fill("recalled")
    _button(page, "Dry run").click()
    _button(page, "Revoke 2 warrants").click()
    page.get_by_role("link", name="Propagation").click()
    follow("2 warrants")

    console.open(f"#/keys/{world.id('Cards')}")
    _button(page, "Revoke…").click()
    dialog.get_by_label("With descendants").check()
    dialog.get_by_label("Reason").fill("stolen")
    _button(dialog, "Revoke with descendants").click()
    follow("Cards")

    console.open("#/lists")
    (signer,) = world.get("revocations/srl/keys")["keys"]
    console.act(signer["key_id"], "Revoke")
    _button(dialog, "Revoke signer").click()
    follow(f"SRL signer …{signer['key_id'][-6:]}")

    console.open("#/api-keys")
    console.act("reader", "Revoke")
    _button(dialog, "Revoke reader").click()
    expect(page.get_by_role("main")).to_contain_text("No authorizer is registered with it.")
    seen.append(_room(console, "reader"))

    kinds = [world.get(f"changes/{each}")["kind"] for each in seen]
    assert kinds == ["warrant", "batch", "signing_key", "srl_signer", "api_key"]
    page.get_by_role("link", name="Changes", exact=True).click()
    for each in seen:
        row = page.locator(f".lines a[href='#/changes/{each}']")
        expect(row).to_be_visible()
    console.check_looks("changes")


def _numbers(told: dict[str, Any]) -> str:
    counts = told["authorizers"]
    return f"Enforced by {counts['enforced']} of {counts['total']}"


def test_a_change_is_followed_from_its_record_to_the_last_authorizer(console: Console) -> None:
    """F473a, F1488b, F1489a: The room says what the service says, its report all that it says.

    Its curve and its shares are of all that are registered; whoever may let it in stands there with
    an end, an owner, and how far it is behind.
    """
    page, world = console.page, console.world
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ids = _fleet(world, *(f"gw-eu-{number:02}" for number in range(10)), "warehouse-door")
    world.run_schedule()
    _beat(world, *ids[:10], max_staleness=30)
    path = f"keys/{world.id('Card desk')}"
    world.post(f"{path}/revoke", reason="INC-20431: <b>seed</b> *found* | [in](git)")
    where = f"changes/{world.id('Card desk')}"
    console.open(f"#/{where}")
    expect(page.get_by_text("Authorizers have not received it.")).to_be_visible()
    console.pass_time(seconds=1)
    _publish(world)
    expect(page.get_by_role("heading", name=re.compile("In the feed, entry"))).to_be_visible()
    for seconds, some in ((1, ids[:4]), (20, ids[4:6]), (40, ids[6:9])):
        console.pass_time(seconds=seconds)
        _beat(world, *some, max_staleness=30)
        expect(page.get_by_role("main")).to_contain_text(_numbers(world.get(where)))
    expect(page.locator(".shares")).to_have_text(
        re.compile(r"50 %\s*22 s\s*90 %\s*.\s*99 %\s*.\s*all\s*not yet")
    )
    row = page.get_by_role("row").filter(has_text="warehouse-door")
    expect(row).to_contain_text("never reported: no limit known")
    expect(row).to_contain_text("admin")
    console.pass_time(minutes=2)
    world.run_schedule()
    expect(page.get_by_role("row").filter(has_text="gw-eu-09")).to_contain_text(
        "failing closed since"
    )
    told = world.get(where)
    assert (told["authorizers"]["unknown"], told["is_complete"]) == (1, False)
    expect(page.get_by_role("main")).to_contain_text("in progress: 10 of 11")
    expect(page.locator(".change figure svg")).to_have_attribute(
        "aria-label",
        "10 of 11 authorizers are known to refuse it, after "
        "2 s, 2 s, 2 s, 2 s, 22 s, 22 s, 1 min 2 s, 1 min 2 s, 1 min 2 s, 1 min 31 s",
    )
    expect(page.get_by_role("heading", name=re.compile("In SRL"))).to_be_visible()
    console.check_looks("change")

    _button(page, "Copy report").click()
    expect(page.locator("#said")).to_have_text("Copied.")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert r"INC-20431: \<b\>seed\</b\> \*found\* \| \[in\](git)" in copied
    missing = set(page.evaluate(_NUMBERS)) - set(re.findall("[0-9]+", copied))
    assert not missing, copied
    for each in told["lagging_authorizers"]:
        assert f"| {each['name']} | " in copied
    page.emulate_media(media="print", color_scheme="dark")
    expect(page.get_by_role("navigation")).to_be_hidden()
    expect(page.locator(".printed")).to_be_visible()
    expect(page.locator(".printed tbody tr")).to_have_count(2)
    expect(page.locator(".sheet")).to_be_hidden()
    expect(page.locator("h1")).to_have_css("color", "rgb(22, 32, 43)")
    page.emulate_media(media="screen", color_scheme="light")

    _beat(world, *ids, max_staleness=30)
    expect(page.get_by_role("main")).to_contain_text("refused everywhere")
    expect(page.get_by_text("No registered authorizer is lagging.")).to_be_visible()
    assert world.get(where)["is_complete"] is True


def test_the_room_leads_to_what_webhooks_were_told(console: Console) -> None:
    """F1513a: A link leads to a webhook's messages of this change, if the key may read them."""
    page, world = console.page, console.world
    hook = world.post("webhooks", url="https://hooks.example.com/rescind", events=["*"])["id"]
    made = world.post("revocations", warrant_id="svc_wrt_a", reason="stolen")["id"]
    key = world.post("api-keys", name="desk", scopes=["revoker"])
    world.seed.secrets |= {"desk": key["key"]}
    console.open(f"#/changes/{made}")
    with page.expect_request(f"**/v1/webhooks/{hook}/deliveries?limit=100&change={made}"):
        page.get_by_role("link", name="hooks.example.com").click()
    expect(page.get_by_role("searchbox")).to_have_value(f"change:{made}")
    console.load()
    console.type_key(key["key"])
    console.open(f"#/changes/{made}")
    expect(page.get_by_role("heading", name="svc_wrt_a revoked")).to_be_visible()
    expect(page.get_by_text("Webhook deliveries")).to_have_count(0)


def test_a_service_that_is_slow_gone_or_half_there(console: Console) -> None:
    """F1490a: While the service is slow, grey bars stand; when it fails, the last that it said.

    What fails alone says so in its own panel.
    """
    page, world = console.page, console.world
    made = world.post("revocations", warrant_id="svc_wrt_a", reason="stolen")["id"]
    console.expect_failures(0, 503)
    held: list[Route] = []
    page.route("**/v1/changes/*", lambda route: held.append(route))  # noqa: PLW0108 (it has no signature)
    page.route(
        "**/v1/audit-logs*", lambda route: route.fulfill(status=503, json=_fault("unavailable"))
    )
    page.evaluate("(to) => { location.hash = to }", f"#/changes/{made}")
    expect(page.locator(".skeleton")).to_be_visible()
    page.unroute("**/v1/changes/*")
    for each in held:
        each.continue_()
    console.wait("changes")
    expect(page.get_by_role("heading", name="svc_wrt_a revoked")).to_be_visible()
    expect(console.panel("Timeline")).to_contain_text("The audit log could not be loaded.")
    page.unroute("**/v1/audit-logs*")
    world.stop()
    expect(
        page.get_by_text(re.compile("As of 12:00 UTC. The service is not responding"))
    ).to_be_visible()
    expect(page.get_by_role("main")).not_to_contain_text("refused everywhere")
    expect(page.get_by_role("heading", name="svc_wrt_a revoked")).to_be_visible()
    console.check_axe()
    world.start()
    expect(page.get_by_text("As of 12:00 UTC.")).to_have_count(0)


def _fault(code: str, message: str = "It cannot be told now.") -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def test_a_change_that_is_none(console: Console) -> None:
    """F1490b: The page of an unknown change says so, and links the audit log."""
    page = console.page
    console.expect_failures(404)
    console.open("#/changes/svc_rev_01kbm4xt3rfz8c5w7y2q9n6d1e")
    expect(page.get_by_role("heading", name="Change not found")).to_be_visible()
    expect(page.get_by_role("link", name="Search the audit log")).to_be_visible()
    console.check_axe()


def test_clocks_that_are_hours_apart(console: Console) -> None:
    """F1491a: Ages and the curve are by the clock of the service, whatever the browser's says."""
    page, world = console.page, console.world
    (one,) = _fleet(world, "eu-1")
    made = world.post("revocations", warrant_id="svc_wrt_a", reason="stolen")["id"]
    _publish(world)
    world.clock.advance(seconds=40)
    _beat(world, one)
    world.clock.advance(minutes=3)
    for hours in (-5, 7):
        console.set_browser_clock(world.clock() + timedelta(hours=hours))
        console.open("#/lists")
        console.open(f"#/changes/{made}")
        expect(page.locator("header.head")).to_contain_text("3 min ago")
        expect(page.locator(".shares")).to_contain_text("40 s")
        expect(page.get_by_role("heading", name="Enforced by all 1")).to_be_visible()


def test_names_of_all_kinds_in_every_size(console: Console) -> None:
    """F1492a: No name, however long and in whatever script, breaks the room in any size."""
    page, world = console.page, console.world
    ids = _fleet(world, WIDE, RTL, MARKUP, _CJK, "gw-" + "x" * 60 + "-00042")
    world.run_schedule()
    _beat(world, *ids[1:3], max_staleness=30)
    _beat(world, ids[3], fail_open=True)
    made = world.id(WIDE)
    world.post(f"keys/{made}/revoke", reason=f"{RTL} {MARKUP} {_CJK}")
    console.open(f"#/changes/{made}")
    console.pass_time(minutes=4)
    world.run_schedule()
    expect(page.get_by_role("row").filter(has_text="00042")).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in _WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            console.check()
            console.check_axe()
            console.keep_picture(f"change-names-{width}-{scheme}")
            # The end of a name tells it from others.
            box = page.locator(".left .ended > :last-child").last.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= width
